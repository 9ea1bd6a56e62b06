//! The API version and the kind of an object.

use serde::Deserialize;

use crate::TypeMeta;

/// The name of an object in errors.
pub(super) const OBJECT: &str = "an object";

/// Returns the kind of an object, unless it is missing or empty.
pub(super) fn kind(object: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Kind {
        kind: Option<String>,
    }
    serde_json::from_slice::<Kind>(object).ok()?.kind.filter(|kind| !kind.is_empty())
}

/// Returns the object with its API version and kind as the first members; `None` if it is not an object.
pub(super) fn with_types(object: &[u8], types: TypeMeta<'_>) -> Option<Vec<u8>> {
    let members = object.trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start();
    let TypeMeta { api_version, kind } = types;
    let mut out = Vec::with_capacity(object.len() + api_version.len() + kind.len() + 32);
    for (before, value) in [(br#"{"apiVersion":"#.as_slice(), api_version), (br#","kind":"#, kind)] {
        out.extend_from_slice(before);
        serde_json::to_writer(&mut out, value).ok()?;
    }
    if !members.starts_with(b"}") {
        out.push(b',');
    }
    out.extend_from_slice(members);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_precede_the_other_members() {
        let types = TypeMeta { api_version: "v1", kind: "A\"B" };
        let with =
            |object: &str| with_types(object.as_bytes(), types).map(|out| String::from_utf8(out).unwrap());
        let start = r#"{"apiVersion":"v1","kind":"A\"B""#;
        assert_eq!(with(r#" { "a": 1 }"#), Some(format!(r#"{start},"a": 1 }}"#)));
        assert_eq!(with("{ }"), Some(format!("{start}}}")));
        assert_eq!((with("[]"), with("")), (None, None));
        assert_eq!(kind(with("{}").unwrap().as_bytes()).as_deref(), Some("A\"B"));
        assert_eq!((kind(br#"{"kind":""}"#), kind(b"{}"), kind(b"{")), (None, None, None));
    }
}
