//! The names of a ring's Leases.

use std::sync::Arc;

use crate::view::Target;

/// The label of all Leases of a ring. Its value is the name of the ring.
pub const LABEL: &str = "ring.kinformer.io/name";

/// The names of the Leases: `NAME` is the table, and `NAME.IDENTITY` a process.
#[derive(Clone)]
pub(crate) struct Names {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl Names {
    pub(crate) fn of(&self, target: &Target) -> String {
        match target {
            Target::Table => self.name.to_string(),
            Target::Member(identity) => format!("{}.{identity}", self.name),
        }
    }

    /// What a Lease of this name is; `None` for one that only has the label.
    pub(crate) fn target(&self, lease: &str) -> Option<Target> {
        match lease.strip_prefix(&*self.name)? {
            "" => Some(Target::Table),
            rest => rest.strip_prefix('.').map(|identity| Target::Member(identity.into())),
        }
    }

    /// Namespace and name, for people.
    pub(crate) fn text(&self, target: &Target) -> String {
        format!("{}/{}", self.namespace, self.of(target))
    }
}
