//! `Warning` headers, which clients show to their users: `Warning: 299 - "text"`.

use std::collections::HashSet;

use ::http::{HeaderValue, header};

use crate::registry::Kind;

use super::answer::Answer;

/// How many characters the warnings of a response have in all, before each is shortened. Follows Kubernetes 1.37.
const MAX_ALL: usize = 4 * 1024;
/// How many characters of a warning are left then. Follows Kubernetes 1.37.
const MAX_EACH: usize = 256;

/// The warnings of a response.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    texts: Vec<String>,
}

impl Warnings {
    /// The warnings that each answer about a kind has.
    pub(super) fn about(kind: &Kind) -> Self {
        Self { texts: kind.deprecation.iter().cloned().collect() }
    }

    pub(super) fn extend(&mut self, texts: impl IntoIterator<Item = impl Into<String>>) {
        self.texts.extend(texts.into_iter().map(Into::into));
    }

    /// Adds the headers to a response. Each text is sent once; if the texts are long, each is shortened, and after the limit no
    /// more are sent. Follows Kubernetes 1.37 (`WithWarningRecorder`).
    pub(super) fn on(self, mut answer: Answer) -> Answer {
        let mut seen = HashSet::new();
        let texts: Vec<String> =
            self.texts.into_iter().filter(|text| !text.is_empty() && seen.insert(text.clone())).collect();
        let length = |text: &String| text.chars().count();
        let shortens = texts.iter().map(length).sum::<usize>() > MAX_ALL;
        let mut written = 0;
        for text in texts {
            if written >= MAX_ALL {
                break;
            }
            let text = if shortens { text.chars().take(MAX_EACH).collect() } else { text };
            written += length(&text);
            if let Some(value) = value(&text) {
                answer.headers_mut().append(header::WARNING, value);
            }
        }
        answer
    }
}

/// The value of a header; `None` for a text with control characters, which is not sent, as by Kubernetes.
fn value(text: &str) -> Option<HeaderValue> {
    let mut value = "299 - \"".to_owned();
    for c in text.chars() {
        if c.is_control() {
            return None;
        }
        if matches!(c, '"' | '\\') {
            value.push('\\');
        }
        value.push(c);
    }
    value.push('"');
    HeaderValue::from_bytes(value.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use ::http::StatusCode;
    use serde_json::Value;

    use super::super::answer;
    use super::*;

    fn headers(texts: &[&str]) -> Vec<String> {
        let mut warnings = Warnings::default();
        warnings.extend(texts.iter().copied());
        let answer = warnings.on(answer::json(StatusCode::OK, &Value::Null));
        let values = answer.headers().get_all(header::WARNING).iter();
        values.map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()).collect()
    }

    // contract: E-17a
    #[test]
    fn texts_are_quoted_and_sent_once() {
        assert_eq!(
            headers(&["a \"b\" c\\d", "é", "é", "", "x\ny"]),
            ["299 - \"a \\\"b\\\" c\\\\d\"", "299 - \"é\""]
        );
    }

    // contract: E-17a
    #[test]
    fn long_texts_are_shortened() {
        let long: Vec<String> = (0..30).map(|n| format!("{n:02}{}", "x".repeat(400))).collect();
        let texts: Vec<&str> = long.iter().map(String::as_str).collect();
        assert_eq!(headers(&texts[..10])[9].len(), "299 - \"\"".len() + 402);
        let short = headers(&texts);
        assert_eq!(short.len(), MAX_ALL / MAX_EACH);
        assert!(short.iter().all(|value| value.len() == "299 - \"\"".len() + MAX_EACH));
    }
}
