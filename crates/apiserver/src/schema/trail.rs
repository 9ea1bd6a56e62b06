//! The path of a value while an object is walked: `spec.items[0].name`.

use std::fmt::Write;

/// A path that grows and shrinks in one buffer.
#[derive(Debug, Default)]
pub(super) struct Trail {
    text: String,
}

impl Trail {
    /// Appends a field. Returns the length before, for [`Self::truncate`].
    pub(super) fn push_name(&mut self, name: &str) -> usize {
        let length = self.text.len();
        if length > 0 {
            self.text.push('.');
        }
        self.text.push_str(name);
        length
    }

    /// As [`Self::push_name`], with a dot at the root too: the paths of map values in OpenAPI validation.
    pub(super) fn push_dotted(&mut self, name: &str) -> usize {
        let length = self.text.len();
        self.text.push('.');
        self.text.push_str(name);
        length
    }

    pub(super) fn push_index(&mut self, index: usize) -> usize {
        let length = self.text.len();
        let _ = write!(self.text, "[{index}]");
        length
    }

    /// Appends the key of a map, in brackets.
    pub(super) fn push_key(&mut self, key: &str) -> usize {
        let length = self.text.len();
        let _ = write!(self.text, "[{key}]");
        length
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.text.truncate(length);
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn with_name(&self, name: &str) -> String {
        if self.text.is_empty() { name.to_owned() } else { format!("{}.{name}", self.text) }
    }

    pub(super) fn with_index(&self, index: usize) -> String {
        format!("{}[{index}]", self.text)
    }
}
