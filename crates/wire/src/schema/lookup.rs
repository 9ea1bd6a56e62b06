//! Look-ups in the tables.

use super::types::{Field, Name, Schema};
use crate::generated::tables::{FIELDS, KINDS, MESSAGES, NAMES};

impl Name {
    #[inline]
    pub(crate) fn text(self) -> &'static str {
        let from = usize::from(self.0);
        NAMES.get(from..from + usize::from(self.1)).unwrap_or_default()
    }
}

/// Returns the fields of a message, in ascending order of their numbers.
#[inline]
pub(crate) fn message(index: u16) -> &'static [Field] {
    let index = usize::from(index);
    let (Some(from), Some(to)) = (MESSAGES.get(index), MESSAGES.get(index + 1)) else { return &[] };
    FIELDS.get(usize::from(*from)..usize::from(*to)).unwrap_or_default()
}

impl Schema {
    /// Returns the schema of a kind; `None` if it is not built in.
    pub(crate) fn of(api_version: &str, kind: &str) -> Option<Self> {
        Self::find(api_version, kind).copied()
    }

    pub(crate) fn find(api_version: &str, kind: &str) -> Option<&'static Self> {
        let index = KINDS.binary_search_by(|known| (known.api_version, known.kind).cmp(&(api_version, kind)));
        KINDS.get(index.ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::types::{Card, Kind, Rule, Shape};
    use super::*;

    #[test]
    fn kinds_are_found() {
        assert!(KINDS.is_sorted_by_key(|known| (known.api_version, known.kind)));
        for known in &KINDS {
            let found = Schema::of(known.api_version, known.kind).unwrap();
            assert_eq!(
                (found.api_version, found.kind, found.message),
                (known.api_version, known.kind, known.message)
            );
            assert!(!message(found.message).is_empty(), "{known:?}");
        }
        assert!(Schema::of("v1", "PodList").is_none());
        assert!(Schema::of("example.com/v1", "Pod").is_none());
    }

    #[test]
    fn tables_are_consistent() {
        let mut fields = 0;
        for index in 0..MESSAGES.len() - 1 {
            let message = message(u16::try_from(index).unwrap());
            assert!(message.is_sorted_by_key(|field| field.number));
            fields += message.len();
            for field in message {
                let Shape { kind, card, message } = field.shape;
                assert!(usize::from(message) < MESSAGES.len() - 1);
                assert_eq!(field.rule == Rule::Inline, field.name.text().is_empty(), "{field:?}");
                assert!(field.number > 0 && (field.rule == Rule::Plain || card == Card::One), "{field:?}");
                assert!(field.rule != Rule::Inline || kind == Kind::Message, "{field:?}");
            }
        }
        assert_eq!(fields, FIELDS.len());
        assert!(message(u16::MAX).is_empty());
        assert_eq!(size_of::<Field>(), 10, "4,000 of them");
    }

    /// The key is read, and managed fields are dropped, with fixed field numbers. They agree with the tables.
    #[test]
    fn metadata_has_the_expected_numbers() {
        let is = |field: &Field, number, name| (field.number, field.name.text()) == (number, name);
        let mut objects = 0;
        for known in &KINDS {
            let fields = message(known.message);
            let Some(metadata) = fields.iter().find(|field| field.name.text() == "metadata") else {
                continue;
            };
            assert_eq!(metadata.number, 1, "{known:?}");
            let metadata = message(metadata.shape.message);
            if metadata.iter().any(|field| is(field, 17, "managedFields")) {
                objects += 1;
                for (number, name) in [(1, "name"), (3, "namespace"), (5, "uid"), (6, "resourceVersion")] {
                    assert!(metadata.iter().any(|field| is(field, number, name)), "{known:?} {name}");
                }
            }
        }
        assert!(objects > 150, "{objects}");
    }
}
