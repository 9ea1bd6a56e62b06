//! The record of the fields that were dropped from an object.

use std::borrow::Cow;

/// The record of the fields that were dropped from one object, stored with the object: for each field a JSON array of
/// its names, concatenated. Empty for most objects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped<'a>(pub(crate) &'a str);

impl<'r> Dropped<'r> {
    /// Whether the field with this entry was dropped.
    pub(crate) fn has(self, entry: &str) -> bool {
        self.0.contains(entry)
    }

    /// The paths of the dropped fields.
    pub(crate) fn paths(self) -> impl Iterator<Item = Box<[Box<str>]>> + use<'r> {
        let arrays = serde_json::Deserializer::from_str(self.0).into_iter::<Vec<Cow<'_, str>>>();
        let names = |names: Vec<Cow<'_, str>>| names.into_iter().map(|name| name.into()).collect();
        arrays.map_while(Result::ok).map(names)
    }

    /// Returns the record with these entries added.
    pub(crate) fn and(self, entries: &[&str]) -> String {
        let length: usize = entries.iter().map(|entry| entry.len()).sum();
        let mut record = String::with_capacity(self.0.len() + length);
        record.push_str(self.0);
        for (number, entry) in entries.iter().enumerate() {
            // A search in the new record would read all of it for each entry.
            let is_added = entries.iter().take(number).any(|added| added == entry);
            if !is_added && !self.0.contains(*entry) {
                record.push_str(entry);
            }
        }
        record
    }
}

/// Returns the entry of a field in a record.
pub(crate) fn entry(names: &[Box<str>]) -> Box<str> {
    serde_json::to_string(names).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Box<[Box<str>]> {
        names.iter().map(|name| (*name).into()).collect()
    }

    fn record(before: &str, fields: &[Box<[Box<str>]>]) -> String {
        let entries: Vec<_> = fields.iter().map(|names| entry(names)).collect();
        Dropped(before).and(&entries.iter().map(|entry| &**entry).collect::<Vec<_>>())
    }

    /// The record lists each field once, also fields with names that JSON escapes.
    #[test]
    fn record_lists_each_field_once() {
        let fields = [&["kind"][..], &["data", "a]\"[\n"], &["status"], &["kind"], &["x", "kind"]].map(names);
        let record = record(&record("", &fields[1..2]), &fields);
        let dropped = Dropped(&record);
        assert!(dropped.paths().eq([1, 0, 2, 4].map(|field: usize| fields[field].clone())));
        assert_eq!(
            ["kind", "status", "apiVersion", "x"].map(|name| dropped.has(&entry(&names(&[name])))),
            [true, true, false, false]
        );
        assert!(Dropped("").paths().next().is_none() && !Dropped("").has(r#"["kind"]"#));
        assert!(!Dropped(&self::record("", &[names(&["[\"kind\"]"])])).has(r#"["kind"]"#));
    }
}
