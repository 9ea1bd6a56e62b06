//! Comparison of objects by their bytes.

/// Whether two objects have the same bytes after their kind and version, which items of a list omit and events of a
/// watch have.
pub(super) fn has_same_bytes(a: &[u8], b: &[u8]) -> bool {
    without_types(a) == without_types(b)
}

/// Returns the JSON of an object after its kind and version, if it begins with these in the form that Go writes.
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
