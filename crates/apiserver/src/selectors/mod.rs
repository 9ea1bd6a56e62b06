//! Selectors of lists and watches.

mod field;
mod label;
mod shard;

pub(crate) use field::{FieldSelector, is_field_selector};
pub(crate) use label::LabelSelector;
pub(crate) use shard::ShardSelector;

use serde_json::{Map, Value};

use crate::storage::{Key, Stored};

/// All selection criteria of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// The namespace; empty for all.
    pub(crate) namespace: String,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) shards: ShardSelector,
}

impl Selection {
    /// Whether an object matches. `served` is the object as it is served, which is read only if a field needs it.
    pub(crate) fn matches(&self, object: &Stored, served: impl Fn() -> Map<String, Value>) -> bool {
        (self.namespace.is_empty() || object.key().namespace() == self.namespace)
            && self.labels.matches(|name| object.label(name))
            && self.shards.matches(object)
            && self.fields.matches(object, served)
    }

    /// Whether an object with this key may match. Of one namespace, kube-apiserver reads only the object that a field
    /// selector names.
    pub(crate) fn reads(&self, key: &Key) -> bool {
        let is_of_other_namespace = !self.namespace.is_empty() && key.namespace() != self.namespace;
        let names_one = self.namespace == key.namespace();
        let name = self.fields.exact("metadata.name").filter(|_| names_one);
        !is_of_other_namespace && name.is_none_or(|name| key.name() == name)
    }

    /// Whether there is no selector of labels, fields or shards.
    pub(crate) fn has_no_selector(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.shards.is_empty()
    }
}
