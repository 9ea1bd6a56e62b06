//! Serialization of metadata. Some of its parts are stored apart.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::apply::is_packed;

use super::texts::Texts;

/// A part of an object that is stored apart.
pub(super) struct Shared {
    /// Its place in the own bytes.
    pub(super) at: usize,
    pub(super) text: Arc<str>,
}

/// Serializes an object.
#[derive(Default)]
pub(super) struct Writer<'a> {
    pub(super) out: Vec<u8>,
    pub(super) shared: Vec<Shared>,
    /// The place of the field `managedFields`, with the comma after or before it.
    pub(super) managed_fields: Range<usize>,
    pub(super) texts: Option<&'a Texts>,
}

impl Writer<'_> {
    pub(super) fn metadata(&mut self, metadata: &Map<String, Value>) {
        self.fields(metadata, |writer, name, value| match value {
            Value::Array(entries) if name == "managedFields" => {
                let start = writer.out.len().saturating_sub("\"managedFields\":".len());
                writer.entries(entries);
                writer.managed_fields = start..writer.out.len();
            }
            value => write_json(&mut writer.out, value),
        });
        let Range { start, end } = self.managed_fields;
        let is_comma = |at: usize| self.out.get(at) == Some(&b',');
        if is_comma(end) {
            self.managed_fields.end += 1;
        } else if start > 0 && is_comma(start - 1) {
            self.managed_fields.start -= 1;
        }
    }

    fn entries(&mut self, entries: &[Value]) {
        self.out.push(b'[');
        for (index, entry) in entries.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            match entry {
                Value::Object(entry) => self.fields(entry, |writer, name, value| {
                    if name == "fieldsV1" { writer.set(value) } else { write_json(&mut writer.out, value) }
                }),
                entry => write_json(&mut self.out, entry),
            }
        }
        self.out.push(b']');
    }

    /// Writes a set, which may be packed.
    fn set(&mut self, set: &Value) {
        let at = self.out.len();
        let shared = match (set, self.texts) {
            (Value::String(text), Some(texts)) => texts.share(text, is_packed),
            (Value::String(text), None) if is_packed(text) => {
                self.out.extend_from_slice(text.as_bytes());
                return;
            }
            (Value::Object(_), Some(texts)) => texts.share(&set.to_string(), |_| true),
            _ => None,
        };
        match shared {
            Some(text) => self.shared.push(Shared { at, text }),
            None => write_json(&mut self.out, set),
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>, write: impl Fn(&mut Self, &str, &Value)) {
        self.out.push(b'{');
        for (index, (name, value)) in fields.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            write_json(&mut self.out, name);
            self.out.push(b':');
            write(self, name, value);
        }
        self.out.push(b'}');
    }
}

/// Writes JSON into memory, which cannot fail for a `Value` or a string.
pub(crate) fn write_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}
