//! Protobuf written by tests.

/// A length-delimited field of a protobuf message.
pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |mut number: usize| {
        while number >= 128 {
            out.push(number as u8 | 128);
            number >>= 7;
        }
        out.push(number as u8);
    };
    put(usize::from(number) << 3 | 2);
    put(bytes.len());
    out.extend_from_slice(bytes);
    out
}
