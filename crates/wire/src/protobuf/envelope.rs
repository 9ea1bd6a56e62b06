//! The envelope of an object: its API version and kind.

use super::reader::{ProtobufProblem, field, find_bytes};

/// The prefix of an object with an envelope.
pub(crate) const MAGIC: &[u8] = b"k8s\0";

/// The media type of the content.
const MEDIA_TYPE: &[u8] = b"application/vnd.kubernetes.protobuf";

/// The field numbers of an envelope.
pub(super) mod fields {
    pub(in super::super) const TYPES: u32 = 1;
    pub(in super::super) const OBJECT: u32 = 2;
    pub(in super::super) const CONTENT_ENCODING: u32 = 3;
    pub(in super::super) const CONTENT_TYPE: u32 = 4;
}

/// An object with its envelope, not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    /// The message of the object.
    pub(crate) object: &'a [u8],
}

impl<'a> Envelope<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, &'static ProtobufProblem> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(&ProtobufProblem::Magic)?;
        let mut envelope = Self { api_version: "", kind: "", object: &[] };
        while !rest.is_empty() {
            let (number, raw) = field(&mut rest)?;
            match number {
                fields::TYPES => (envelope.api_version, envelope.kind) = types(raw.bytes()?)?,
                fields::OBJECT => envelope.object = raw.bytes()?,
                fields::CONTENT_ENCODING | fields::CONTENT_TYPE => content(number, raw.bytes()?)?,
                _ => {}
            }
        }
        Ok(envelope)
    }
}

/// Returns the API version and the kind.
pub(super) fn types(bytes: &[u8]) -> Result<(&str, &str), &'static ProtobufProblem> {
    let text = |number| std::str::from_utf8(find_bytes(bytes, number)?).map_err(|_| &ProtobufProblem::Text);
    Ok((text(1)?, text(2)?))
}

/// Checks the content type and content encoding of an envelope, which are empty or the media type.
pub(super) fn content(number: u32, value: &[u8]) -> Result<(), &'static ProtobufProblem> {
    let usual = value.is_empty() || number == fields::CONTENT_TYPE && value == MEDIA_TYPE;
    usual.then_some(()).ok_or(&ProtobufProblem::Content)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"k8s\0\n\t\n\x02v1\x12\x03Pod\x12\x02\n\0\x1a\0\"\0";

    #[test]
    fn envelope_is_read() {
        let expected = Envelope { api_version: "v1", kind: "Pod", object: b"\n\0" };
        assert_eq!(Envelope::read(BODY), Ok(expected));
        let newer = [BODY, b"\x2a\x01x".as_slice()].concat();
        assert_eq!(Envelope::read(&newer), Ok(expected));
    }

    #[test]
    fn invalid_envelope_is_an_error() {
        assert_eq!(Envelope::read(b"{}"), Err(&ProtobufProblem::Magic));
        assert_eq!(Envelope::read(b"k8s\0\x0a\x09\x0a"), Err(&ProtobufProblem::Length));
        assert_eq!(Envelope::read(b"k8s\0\x0a\x03\x0a\x01\xff"), Err(&ProtobufProblem::Text));
        let with = |more: &[u8]| Envelope::read(&[BODY, more].concat()).err();
        assert_eq!(with(b"\x1a\x04gzip"), Some(&ProtobufProblem::Content));
        assert_eq!(with(b"\"\x10application/json"), Some(&ProtobufProblem::Content));
        assert_eq!(with(b"\"\x23application/vnd.kubernetes.protobuf"), None);
    }
}
