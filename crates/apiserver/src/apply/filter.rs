//! The fields that a request can change.

use super::compare::Comparison;
use super::fields::FieldSet;

/// Which fields a request can change. The others are not recorded, since the server resets them.
///
/// Follows Kubernetes 1.37 (`GetResetFields` of the strategies).
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    only: Option<&'static str>,
    without: FieldSet,
}

impl Filter {
    /// All fields but these.
    pub(crate) fn without(fields: &[&'static str]) -> Self {
        let paths: Vec<&[&str]> = fields.iter().map(std::slice::from_ref).collect();
        Self { only: None, without: FieldSet::of_names(&paths) }
    }

    /// The fields below one.
    pub(crate) fn only(field: &'static str) -> Self {
        Self { only: Some(field), without: FieldSet::default() }
    }

    pub(super) fn of_set(&self, set: FieldSet) -> FieldSet {
        match self.only {
            Some(field) => set.below_name(field),
            None if self.without.is_empty() => set,
            None => set.recursive_difference(&self.without),
        }
    }

    pub(super) fn of_comparison(&self, compared: Comparison) -> Comparison {
        Comparison {
            removed: self.of_set(compared.removed),
            modified: self.of_set(compared.modified),
            added: self.of_set(compared.added),
        }
    }
}
