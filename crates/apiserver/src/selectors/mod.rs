//! Label and field selectors: which objects a list or a watch is about.

mod field;
mod label;

pub(crate) use field::FieldSelector;
pub(crate) use label::{LabelSelector, key_fault, value_fault};

use crate::storage::Stored;

/// Everything a request says about which objects it wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Only this namespace; empty for all.
    pub(crate) namespace: String,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        (self.namespace.is_empty() || object.key().namespace() == self.namespace)
            && self.labels.matches(|name| object.label(name))
            && self.fields.matches(object)
    }

    /// Whether it has neither label nor field selector.
    pub(crate) fn has_no_selector(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}
