//! The form of DNS labels.

/// Whether a text is lowercase letters, digits and hyphens, with neither end a hyphen. A label has at most 63 of them.
pub(crate) fn has_label_form(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}
