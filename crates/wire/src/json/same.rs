//! Equal content by the bytes.

/// Whether two objects are the same bytes behind their kind and version: an item of a list leaves these out, which an
/// event of a watch has.
pub(super) fn has_same_bytes(a: &[u8], b: &[u8]) -> bool {
    without_types(a) == without_types(b)
}

/// The JSON of an object behind its kind and version, if it begins with these as Go writes them.
fn without_types(json: &[u8]) -> &[u8] {
    let mut rest = json.strip_prefix(b"{").unwrap_or(json);
    while let Some(value) =
        rest.strip_prefix(br#""kind":""#).or_else(|| rest.strip_prefix(br#""apiVersion":""#))
        && let Some(end) = value.iter().position(|byte| matches!(byte, b'"' | b'\\'))
        && let Some(next) = value.get(end..).and_then(|value| value.strip_prefix(br#"","#))
    {
        rest = next;
    }
    rest
}
