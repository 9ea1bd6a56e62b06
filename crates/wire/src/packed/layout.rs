//! An object's bytes and what is ready of it, in one allocation.

use crate::Error;

/// The bytes of an object; behind them texts that do not stand in it as they are, having escapes; behind those, for
/// each part, where it begins and how long it is.
pub(super) struct Layout {
    all: Box<[u8]>,
    object: u32,
    parts: u32,
}

/// Two numbers of four bytes.
const ENTRY: usize = 8;

impl Layout {
    /// The object with these parts of it.
    ///
    /// # Errors
    /// The object has more than 4 GiB.
    pub(super) fn new<'a>(object: &[u8], parts: &[&'a str]) -> Result<Self, Error> {
        let place = |text: &str| {
            let begin = text.as_ptr().addr().wrapping_sub(object.as_ptr().addr());
            let within = object.get(begin..begin.checked_add(text.len())?)?;
            (within == text.as_bytes()).then_some(begin)
        };
        let places: Vec<(Option<usize>, &'a str)> = parts.iter().map(|text| (place(text), *text)).collect();
        let more: usize =
            places.iter().filter(|(place, _)| place.is_none()).map(|(_, text)| text.len()).sum();
        let mut all = Vec::with_capacity(object.len() + more + ENTRY * parts.len());
        let number = |number: usize| {
            u32::try_from(number).map_err(|_| Error::TooLarge { what: "an object", limit: u32::MAX as usize })
        };
        // What cannot be numbered is refused before it is copied.
        number(all.capacity())?;
        all.extend_from_slice(object);
        let mut table = Vec::with_capacity(ENTRY * parts.len());
        for (place, text) in places {
            let begin = place.unwrap_or(all.len());
            if place.is_none() {
                all.extend_from_slice(text.as_bytes());
            }
            table.extend_from_slice(&number(begin)?.to_le_bytes());
            table.extend_from_slice(&number(text.len())?.to_le_bytes());
        }
        all.extend_from_slice(&table);
        Ok(Self { all: all.into(), object: number(object.len())?, parts: number(parts.len())? })
    }

    pub(super) fn object(&self) -> &[u8] {
        self.all.get(..self.object as usize).unwrap_or_default()
    }

    pub(super) fn parts(&self) -> usize {
        self.parts as usize
    }

    /// The part of that number; empty where there is none.
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

    #[test]
    fn parts_are_where_they_stand_or_behind() {
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
