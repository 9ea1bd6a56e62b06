//! The encoding of protobuf, as far as the benches need it.

/// Encodes a field that has bytes.
pub fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 128 {
        out.push(length as u8 | 128);
        length >>= 7;
    }
    out.push(length as u8);
    [out, bytes.to_vec()].concat()
}
