//! Names of fields as identifiers in expressions.
//!
//! Follows Kubernetes 1.37 (`cel.Escape`, `cel.Unescape`).

use super::super::identifiers::RESERVED;

const ESCAPES: [(&str, &str); 4] = [("underscores", "__"), ("dot", "."), ("dash", "-"), ("slash", "/")];

/// Returns the identifier for a field; `None` for a field that cannot be read.
pub(super) fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        match ESCAPES.iter().find(|(_, text)| rest.starts_with(text)) {
            Some((word, text)) => {
                out.push_str(&format!("__{word}__"));
                rest = rest.strip_prefix(text).unwrap_or("");
            }
            None if first.is_ascii_alphanumeric() || first == '_' => {
                out.push(first);
                rest = rest.strip_prefix(first).unwrap_or("");
            }
            None => return None,
        }
    }
    Some(out)
}

/// Returns the field of an identifier; `None` if no field has it.
pub(super) fn unescape(name: &str) -> Option<String> {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("__") {
        let (before, after) = (rest.get(..at)?, rest.get(at + 2..)?);
        let end = after.find('_').unwrap_or(after.len());
        let is_escape = end > 0 && after.get(end..).is_some_and(|tail| tail.starts_with("__"));
        if !is_escape {
            out.push_str(rest.get(..at + 1)?);
            rest = rest.get(at + 1..)?;
            continue;
        }
        let word = after.get(..end)?;
        out.push_str(before);
        match ESCAPES.iter().find(|(known, _)| *known == word) {
            Some((_, text)) => out.push_str(text),
            None if RESERVED.contains(&word) && name.len() == word.len() + 4 => out.push_str(word),
            None => return None,
        }
        rest = after.get(end + 2..)?;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_back() {
        for (name, escaped) in [
            ("a", Some("a")),
            ("namespace", Some("__namespace__")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("a__b", Some("a__underscores__b")),
            ("a_b", Some("a_b")),
            ("a___b", Some("a__underscores___b")),
            ("1a", None),
            ("a b", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
            if let Some(escaped) = escaped {
                assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
            }
        }
        assert_eq!(unescape("a__x__b"), None);
    }
}
