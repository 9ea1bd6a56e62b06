//! The record of the fields that were dropped from an object.

use std::borrow::Cow;

/// The record of the fields that were dropped from one object, stored with the object: for each field a JSON array of
/// its names, concatenated. Empty for most objects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped<'a>(pub(crate) &'a str);

impl<'r> Dropped<'r> {
    /// Whether a top-level field of this name was dropped. The name must not have characters that JSON escapes.
    pub(crate) fn has(self, name: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&format!("[\"{name}\"]"))
    }

    /// The paths of the dropped fields.
    pub(crate) fn paths(self) -> impl Iterator<Item = Box<[Box<str>]>> + use<'r> {
        let arrays = serde_json::Deserializer::from_str(self.0).into_iter::<Vec<Cow<'_, str>>>();
        let names = |names: Vec<Cow<'_, str>>| names.into_iter().map(|name| name.into()).collect();
        arrays.map_while(Result::ok).map(names)
    }

    /// Returns the record with these fields added.
    pub(crate) fn and<'a>(self, fields: impl IntoIterator<Item = &'a [Box<str>]>) -> String {
        let mut record = self.0.to_owned();
        for names in fields {
            let array = serde_json::to_string(names).unwrap_or_default();
            if !record.contains(&array) {
                record.push_str(&array);
            }
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Box<[Box<str>]> {
        names.iter().map(|name| (*name).into()).collect()
    }

    /// The record lists each field once, also fields with names that JSON escapes.
    #[test]
    fn record_lists_each_field_once() {
        let fields = [&["kind"][..], &["data", "a]\"[\n"], &["status"], &["kind"], &["x", "kind"]].map(names);
        let record = Dropped("").and([&*fields[1]]);
        let record = Dropped(&record).and(fields.iter().map(|names| &**names));
        let dropped = Dropped(&record);
        assert!(dropped.paths().eq([1, 0, 2, 4].map(|field: usize| fields[field].clone())));
        assert_eq!(
            ["kind", "status", "apiVersion", "x"].map(|name| dropped.has(name)),
            [true, true, false, false]
        );
        assert!(Dropped("").paths().next().is_none() && !Dropped("").has("kind"));
        let quoted = names(&["[\"kind\"]"]);
        assert!(!Dropped(&Dropped("").and([&*quoted])).has("kind"));
    }
}
