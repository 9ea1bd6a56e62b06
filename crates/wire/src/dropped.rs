//! Which fields were dropped from an object.

use std::borrow::Cow;

use crate::FieldPath;

/// The fields that were dropped from one object, as it is kept with the object: for each field its names in an array of
/// JSON, one array behind the other. Empty for most objects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped<'a>(pub(crate) &'a str);

impl Dropped<'_> {
    /// Whether it is the field of that name of the object itself, which has no characters that JSON escapes.
    pub(crate) fn has(self, name: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&format!("[\"{name}\"]"))
    }

    pub(crate) fn paths(self) -> Vec<FieldPath> {
        let arrays = serde_json::Deserializer::from_str(self.0).into_iter::<Vec<Cow<'_, str>>>();
        let names = |names: Vec<Cow<'_, str>>| names.into_iter().map(|name| name.into()).collect();
        arrays.map_while(Result::ok).map(|array| FieldPath::of(names(array))).collect()
    }

    /// As it is kept, with these fields as well.
    pub(crate) fn and(self, fields: &[&FieldPath]) -> String {
        let mut record = self.0.to_owned();
        for field in fields {
            let names: Vec<&str> = field.names().collect();
            let array = serde_json::to_string(&names).unwrap_or_default();
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

    #[test]
    fn a_record_has_each_field_once_whatever_its_name() {
        let fields =
            [&["kind"][..], &["data", "a]\"[\n"], &["status"], &["kind"], &["x", "kind"]].map(FieldPath::new);
        let record = Dropped("").and(&[&fields[1]]);
        let record = Dropped(&record).and(&fields.each_ref());
        let dropped = Dropped(&record);
        assert_eq!(dropped.paths(), [&fields[1], &fields[0], &fields[2], &fields[4]].map(FieldPath::clone));
        assert_eq!(
            ["kind", "status", "apiVersion", "x"].map(|name| dropped.has(name)),
            [true, true, false, false]
        );
        assert!(Dropped("").paths().is_empty() && !Dropped("").has("kind"));
        let quoted = FieldPath::new(&["[\"kind\"]"]);
        assert!(!Dropped(&Dropped("").and(&[&quoted])).has("kind"));
    }
}
