//! The wire format of protobuf: numbers, lengths, fields, independent of schemas.

use std::borrow::Cow;

/// The problem of malformed protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtobufProblem {
    /// A number does not end, or is larger than 64 bits.
    #[error("a number is truncated, or larger than 64 bits")]
    Number,
    /// A length, or a value of fixed size, exceeds the end of its message.
    #[error("a length exceeds the end of the data")]
    Length,
    /// A field number is not valid in protobuf.
    #[error("a field has an invalid number")]
    FieldNumber,
    /// A wire type is not valid in protobuf, or is a group, which Kubernetes does not use.
    #[error("a field has the unsupported wire type {0}")]
    WireType(u8),
    /// A known field has another wire type than in its schema.
    #[error("a field has the wrong wire type: a number instead of bytes, or bytes instead of a number")]
    Mismatch,
    /// The fields of a message are not in ascending order, or one is duplicated. Every Kubernetes server writes them in
    /// order and once.
    #[error("the fields of a message are not in order, or one is duplicated")]
    Disordered,
    /// A name, such as a map key or a kind, is not UTF-8.
    #[error("a name is not UTF-8")]
    Text,
    /// A time is outside of the years 0 to 9999, which JSON cannot express.
    #[error("a time is outside of the years 0 to 9999")]
    Time,
    /// The bytes do not begin with the prefix of a Kubernetes object.
    #[error("it does not begin with \"k8s\\0\"")]
    Magic,
    /// The content is compressed, or in another encoding.
    #[error("its content has an unknown encoding")]
    Content,
}

/// The error is a reference, so that the result consists of whole words. A result with the problem itself was split
/// into bytes at every return, which took more time than the reading.
type Result<T> = std::result::Result<T, &'static ProtobufProblem>;

/// The most common wire types.
const NUMBER: u8 = 0;
pub(crate) const LENGTH: u8 = 2;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raw<'de> {
    /// A varint.
    Number(u64),
    /// A number of four or eight bytes.
    Fixed(u64),
    /// Any other value.
    Bytes(&'de [u8]),
}

impl<'de> Raw<'de> {
    #[inline]
    pub(crate) fn bytes(self) -> Result<&'de [u8]> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(&ProtobufProblem::Mismatch) }
    }

    #[inline]
    pub(crate) fn number(self) -> Result<u64> {
        if let Self::Number(number) = self { Ok(number) } else { Err(&ProtobufProblem::Mismatch) }
    }

    /// Whether this is the zero value of its type.
    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Self::Number(0) | Self::Fixed(0) | Self::Bytes([]))
    }

    /// Returns a signed number, which has the same 64 bits.
    #[inline]
    pub(crate) fn signed(self) -> Result<i64> {
        self.number().map(u64::cast_signed)
    }

    #[inline]
    pub(crate) fn double(self) -> Result<f64> {
        if let Self::Fixed(bits) = self { Ok(f64::from_bits(bits)) } else { Err(&ProtobufProblem::Mismatch) }
    }
}

/// Reads a varint from the front.
#[inline]
pub(crate) fn number(bytes: &mut &[u8]) -> Result<u64> {
    match **bytes {
        [one @ 0..128, ref rest @ ..] => {
            *bytes = rest;
            Ok(u64::from(one))
        }
        [one, two @ 0..128, ref rest @ ..] => {
            *bytes = rest;
            Ok(u64::from(one & 127) | u64::from(two) << 7)
        }
        _ => long_number(bytes),
    }
}

#[inline(never)]
fn long_number(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    let mut rest = *bytes;
    for shift in (0..64).step_by(7) {
        let Some((&byte, after)) = rest.split_first() else { break };
        if shift == 63 && byte > 1 {
            break;
        }
        rest = after;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            *bytes = rest;
            return Ok(value);
        }
    }
    Err(&ProtobufProblem::Number)
}

#[inline]
fn take<'de>(bytes: &mut &'de [u8], length: u64) -> Result<&'de [u8]> {
    let split = usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length));
    let (taken, rest) = split.ok_or(&ProtobufProblem::Length)?;
    *bytes = rest;
    Ok(taken)
}

fn take_fixed<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(&ProtobufProblem::Length)?;
    *bytes = rest;
    Ok(*taken)
}

/// Reads a field number and its wire type from the front.
#[inline]
pub(crate) fn tag(bytes: &mut &[u8]) -> Result<(u32, u8)> {
    // The common case: one of the first fifteen fields.
    if let [tag @ 8..128, ref rest @ ..] = **bytes {
        *bytes = rest;
        return Ok((u32::from(tag >> 3), tag & 7));
    }
    let tag = number(bytes)?;
    // At most 29 bits, and never 0.
    match u32::try_from(tag >> 3) {
        Ok(field @ 1..=0x1fff_ffff) => Ok((field, (tag & 7) as u8)),
        _ => Err(&ProtobufProblem::FieldNumber),
    }
}

/// Reads a value of this wire type from the front.
#[inline(always)]
pub(crate) fn value<'de>(bytes: &mut &'de [u8], wire_type: u8) -> Result<Raw<'de>> {
    match wire_type {
        LENGTH => {
            let length = number(bytes)?;
            Ok(Raw::Bytes(take(bytes, length)?))
        }
        NUMBER => Ok(Raw::Number(number(bytes)?)),
        _ => fixed(bytes, wire_type),
    }
}

/// Skips a value of this wire type at the front.
#[inline]
pub(crate) fn skip(bytes: &mut &[u8], wire_type: u8) -> Result<()> {
    match wire_type {
        LENGTH => {
            let length = number(bytes)?;
            *bytes = usize::try_from(length)
                .ok()
                .and_then(|length| bytes.get(length..))
                .ok_or(&ProtobufProblem::Length)?;
        }
        NUMBER => _ = number(bytes)?,
        _ => _ = fixed(bytes, wire_type)?,
    }
    Ok(())
}

#[inline(never)]
fn fixed<'de>(bytes: &mut &'de [u8], wire_type: u8) -> Result<Raw<'de>> {
    match wire_type {
        1 => Ok(Raw::Fixed(u64::from_le_bytes(take_fixed(bytes)?))),
        5 => Ok(Raw::Fixed(u64::from(u32::from_le_bytes(take_fixed(bytes)?)))),
        3 => Err(&ProtobufProblem::WireType(3)),
        4 => Err(&ProtobufProblem::WireType(4)),
        6 => Err(&ProtobufProblem::WireType(6)),
        _ => Err(&ProtobufProblem::WireType(7)),
    }
}

/// Whether the value at the front is the zero value of its type.
#[inline]
pub(crate) fn is_zero(bytes: &[u8], wire_type: u8) -> bool {
    match wire_type {
        NUMBER | LENGTH => bytes.first() == Some(&0),
        _ => matches!(value(&mut &*bytes, wire_type), Ok(Raw::Fixed(0))),
    }
}

/// Reads a field from the front.
#[inline]
pub(crate) fn field<'de>(bytes: &mut &'de [u8]) -> Result<(u32, Raw<'de>)> {
    let (field, wire_type) = tag(bytes)?;
    Ok((field, value(bytes, wire_type)?))
}

/// Reads the next field from the front if it has this number.
#[inline]
pub(crate) fn field_if<'de>(bytes: &mut &'de [u8], wanted: u32) -> Result<Option<Raw<'de>>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut rest = *bytes;
    let (number, raw) = field(&mut rest)?;
    if number != wanted {
        return Ok(None);
    }
    *bytes = rest;
    Ok(Some(raw))
}

/// Returns the last field with this number. The content of other fields is not read.
pub(crate) fn find(mut bytes: &[u8], wanted: u32) -> Result<Option<Raw<'_>>> {
    let mut found = None;
    while !bytes.is_empty() {
        let (number, raw) = field(&mut bytes)?;
        if number == wanted {
            found = Some(raw);
        }
    }
    Ok(found)
}

/// Returns the bytes of the only field with this number, as far as the message can be read.
pub(crate) fn find_only(mut bytes: &[u8], wanted: u32) -> Option<&[u8]> {
    let mut found = None;
    while let Ok((number, raw)) = field(&mut bytes) {
        if number == wanted && found.replace(raw.bytes().ok()?).is_some() {
            return None;
        }
    }
    found
}

/// Converts bytes to a string as Go does for JSON: each invalid byte becomes U+FFFD.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(replaced(bytes)),
    }
}

#[cold]
fn replaced(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Returns the bytes of the field with this number; empty if there is none.
pub(crate) fn find_bytes(bytes: &[u8], wanted: u32) -> Result<&[u8]> {
    find(bytes, wanted)?.map_or(Ok(&[]), Raw::bytes)
}

/// Returns the value of the integer field with this number; 0 if there is none.
pub(crate) fn find_signed(bytes: &[u8], wanted: u32) -> Result<i64> {
    find(bytes, wanted)?.map_or(Ok(0), Raw::signed)
}

/// Writes a varint.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_written(value: u64, rest in prop::collection::vec(any::<u8>(), 0..3)) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, value);
            for end in 0..bytes.len() {
                prop_assert_eq!(number(&mut &bytes[..end]), Err(&ProtobufProblem::Number));
            }
            bytes.extend_from_slice(&rest);
            let mut left = bytes.as_slice();
            prop_assert_eq!((number(&mut left), left), (Ok(value), rest.as_slice()));
        }

        #[test]
        fn fields_end_within_the_input(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut rest = bytes.as_slice();
            while let Ok((_, raw)) = field(&mut rest) {
                prop_assert!(raw.bytes().is_ok_and(|inner| inner.len() < bytes.len()) || raw.bytes().is_err());
            }
        }
    }

    #[test]
    fn malformed_numbers_and_fields_are_errors() {
        let problem = |bytes: &[u8]| *field(&mut &*bytes).unwrap_err();
        assert_eq!(problem(b""), ProtobufProblem::Number);
        assert_eq!(problem(&[0x80; 11]), ProtobufProblem::Number);
        let beyond = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(problem(&beyond), ProtobufProblem::Number, "65 bits");
        assert_eq!(problem(&[0x0a, 3, 1, 2]), ProtobufProblem::Length);
        let endless = [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(problem(&endless), ProtobufProblem::Length);
        assert_eq!(problem(&[9, 1, 2, 3]), ProtobufProblem::Length);
        assert_eq!(problem(&[13, 1, 2, 3]), ProtobufProblem::Length);
        assert_eq!(problem(&[2, 0]), ProtobufProblem::FieldNumber);
        assert_eq!(problem(&[0x80, 0x80, 0x80, 0x80, 0x10, 0]), ProtobufProblem::FieldNumber);
        for group in [3, 4, 6, 7] {
            assert_eq!(problem(&[8 | group, 0]), ProtobufProblem::WireType(group));
        }
        assert_eq!(Raw::Number(1).bytes(), Err(&ProtobufProblem::Mismatch));
        assert_eq!(Raw::Bytes(b"").number(), Err(&ProtobufProblem::Mismatch));
        assert_eq!(Raw::Number(1).double(), Err(&ProtobufProblem::Mismatch));
    }

    #[test]
    fn fields_are_found_by_number() {
        let bytes = [8, 7, 0x12, 2, b'h', b'i', 0x19, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x25, 9, 0, 0, 0];
        assert_eq!(find_signed(&bytes, 1), Ok(7));
        assert_eq!(find_bytes(&bytes, 2), Ok(b"hi".as_slice()));
        assert_eq!(find(&bytes, 3).unwrap().unwrap().double(), Ok(1.5));
        assert_eq!(find(&bytes, 4), Ok(Some(Raw::Fixed(9))));
        assert_eq!(
            (find(&bytes, 5), find_bytes(&bytes, 5), find_signed(&bytes, 5)),
            (Ok(None), Ok(&[][..]), Ok(0))
        );
        let mut rest = bytes.as_slice();
        assert_eq!((field_if(&mut rest, 2), rest.len()), (Ok(None), bytes.len()));
        assert_eq!((field_if(&mut rest, 1), rest.len()), (Ok(Some(Raw::Number(7))), bytes.len() - 2));
    }
}
