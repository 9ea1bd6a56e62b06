//! The bytes of an object and its parsed parts, in one allocation.

use crate::Error;

/// The bytes of an object, followed by the unescaped copies of strings that contain escapes, followed by the start and
/// the length of each part.
pub(super) struct Layout {
    all: Box<[u8]>,
    object: u32,
    parts: u32,
}

/// The size of a start and a length of four bytes each.
const ENTRY: usize = 8;

impl Layout {
    /// Creates the layout of an object with these parts.
    ///
    /// # Errors
    /// The object has more than 4 GiB.
    pub(super) fn new(object: &[u8], parts: &[&str]) -> Result<Self, Error> {
        // A string borrowed from the object is within its memory.
        let place = |text: &str| {
            let begin = text.as_ptr().addr().wrapping_sub(object.as_ptr().addr());
            let is_within = begin.checked_add(text.len()).is_some_and(|end| end <= object.len());
            is_within.then_some(begin)
        };
        let copied = || parts.iter().filter(|text| place(text).is_none());
        let more: usize = copied().map(|text| text.len()).sum();
        let mut all = Vec::with_capacity(object.len() + more + ENTRY * parts.len());
        let number = |number: usize| {
            u32::try_from(number).map_err(|_| Error::TooLarge { what: "an object", limit: u32::MAX as usize })
        };
        // Checked before anything is copied.
        number(all.capacity())?;
        all.extend_from_slice(object);
        if more > 0 {
            copied().for_each(|text| all.extend_from_slice(text.as_bytes()));
        }
        let mut next_copied = object.len();
        for text in parts {
            let begin = place(text).unwrap_or_else(|| {
                let begin = next_copied;
                next_copied += text.len();
                begin
            });
            all.extend_from_slice(&number(begin)?.to_le_bytes());
            all.extend_from_slice(&number(text.len())?.to_le_bytes());
        }
        Ok(Self { all: all.into(), object: number(object.len())?, parts: number(parts.len())? })
    }

    pub(super) fn object(&self) -> &[u8] {
        self.all.get(..self.object as usize).unwrap_or_default()
    }

    /// The number of bytes of the allocation.
    pub(super) fn size(&self) -> usize {
        self.all.len()
    }

    pub(super) fn parts(&self) -> usize {
        self.parts as usize
    }

    /// Returns the part with this number; empty if there is none.
    #[inline]
    pub(super) fn part(&self, number: usize) -> &str {
        self.find(number).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    #[inline]
    fn find(&self, number: usize) -> Option<&[u8]> {
        let entry = self.all.len().checked_sub(ENTRY * self.parts().checked_sub(number)?)?;
        let (begin, rest) = self.all.get(entry..)?.split_first_chunk()?;
        let (length, _) = rest.split_first_chunk()?;
        let (begin, length) = (u32::from_le_bytes(*begin) as usize, u32::from_le_bytes(*length) as usize);
        self.all.get(begin..begin.checked_add(length)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part that is in the object is stored as its position; any other part is copied after the object.
    #[test]
    fn parts_are_in_the_object_or_copied() {
        let object = b"an object with a name".to_vec();
        let name = std::str::from_utf8(&object[17..]).unwrap();
        let layout = Layout::new(&object, &["", name, "an object", "with \"escapes\""]).unwrap();
        assert_eq!(layout.object(), object);
        assert_eq!(layout.all.len(), object.len() + "an object".len() + "with \"escapes\"".len() + 4 * ENTRY);
        let parts: Vec<&str> = (0..5).map(|number| layout.part(number)).collect();
        assert_eq!((layout.parts(), parts), (4, vec!["", "name", "an object", "with \"escapes\"", ""]));
        let empty = Layout::new(b"", &[]).unwrap();
        assert_eq!((empty.object(), empty.part(0), empty.parts()), (b"".as_slice(), "", 0));
    }
}
