//! The wire format.

/// An invalid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the message is truncated")]
    Short,
    #[error("illegal tag or length")]
    Illegal,
    #[error("a field has another wire type than in its schema")]
    WireType,
    #[error("invalid UTF-8")]
    Utf8,
    #[error("messages are nested too deeply")]
    Depth,
    #[error("raw JSON does not parse")]
    Json,
}

/// One field on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    content: Content<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Content<'a> {
    Varint(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self.content {
            Content::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::WireType),
        }
    }

    pub(super) fn text(self) -> Result<String, Malformed> {
        std::str::from_utf8(self.bytes()?).map(str::to_owned).map_err(|_| Malformed::Utf8)
    }

    pub(super) fn varint(self) -> Result<u64, Malformed> {
        match self.content {
            Content::Varint(number) => Ok(number),
            _ => Err(Malformed::WireType),
        }
    }

    pub(super) fn signed(self) -> Result<i64, Malformed> {
        self.varint().map(u64::cast_signed)
    }

    pub(super) fn double(self) -> Result<f64, Malformed> {
        match self.content {
            Content::Fixed(bits) => Ok(f64::from_bits(bits)),
            _ => Err(Malformed::WireType),
        }
    }
}

/// An iterator over the fields of a message.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Returns the next field and all its bytes.
    pub(super) fn next_with_bytes(&mut self) -> Result<Option<(Field<'a>, &'a [u8])>, Malformed> {
        let before = self.rest;
        let Some(field) = self.next() else { return Ok(None) };
        let bytes =
            before.split_at_checked(before.len() - self.rest.len()).map_or(before, |(bytes, _)| bytes);
        Ok(Some((field?, bytes)))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0u64;
        for shift in (0..70).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(Malformed::Short)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Illegal)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed::Illegal)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn read(&mut self) -> Result<Field<'a>, Malformed> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or(Malformed::Illegal)?;
        let content = match tag & 7 {
            0 => Content::Varint(self.varint()?),
            1 => Content::Fixed(fixed(self.take(8)?)),
            2 => {
                let length = self.varint()?;
                Content::Bytes(self.take(length)?)
            }
            5 => Content::Fixed(fixed(self.take(4)?)),
            _ => return Err(Malformed::Illegal),
        };
        Ok(Field { number, content })
    }
}

fn fixed(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}
