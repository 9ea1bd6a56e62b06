//! Warnings of the API server about requests, such as those about deprecated versions.

use std::collections::HashSet;
use std::sync::Arc;

use http::header::WARNING;
use http::{HeaderMap, Method, Uri};
use parking_lot::Mutex;

/// How many texts are remembered. Further ones are logged each time.
const REMEMBERED: usize = 1_000;

/// Logs each warning once for a client.
#[derive(Clone, Default)]
pub(super) struct Warnings(Arc<Mutex<HashSet<Box<str>>>>);

impl Warnings {
    pub(super) fn log(&self, method: &Method, uri: &Uri, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let Some(text) = header.to_str().ok().and_then(text) else { continue };
            if self.is_new(&text) {
                tracing::warn!(%method, path = uri.path(), warning = text, "warning of the API server");
            }
        }
    }

    fn is_new(&self, text: &str) -> bool {
        let mut logged = self.0.lock();
        !logged.contains(text) && (logged.len() >= REMEMBERED || logged.insert(text.into()))
    }
}

/// Returns the text of a warning with the code 299, such as `299 - "v1beta1 is deprecated"`.
///
/// Follows Kubernetes 1.37 (`ParseWarningHeader`).
fn text(header: &str) -> Option<String> {
    let (_agent, quoted) = header.strip_prefix("299 ")?.split_once(' ')?;
    let mut characters = quoted.trim_start().strip_prefix('"')?.chars();
    let mut text = String::new();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_texts_are_read() {
        assert_eq!(text(r#"299 - "a b""#).as_deref(), Some("a b"));
        assert_eq!(
            text(r#"299 kube-apiserver "say \"a\" \\ b" "Mon, 01 Jan 2026""#).as_deref(),
            Some(r#"say "a" \ b"#)
        );
        for other in [r#"199 - "a""#, "299", "299 -", "299 - a", r#"299 - "a"#, r#"299 - "a\"#, ""] {
            assert_eq!(text(other), None, "{other}");
        }
    }

    // contract: L-44
    #[test]
    fn each_text_is_new_once() {
        let warnings = Warnings::default();
        assert!(warnings.is_new("a") && !warnings.is_new("a") && warnings.clone().is_new("b"));
        (0..REMEMBERED).for_each(|number| assert!(warnings.is_new(&number.to_string())));
        assert_eq!(warnings.0.lock().len(), REMEMBERED);
        assert!(warnings.is_new("another") && warnings.is_new("another") && !warnings.is_new("a"));
    }
}
