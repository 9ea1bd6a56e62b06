//! The lines of `kinformer watch -o json`, which client-go's program prints as well.

use serde::Deserialize;

/// One line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Line {
    /// An object that was not known.
    Add(Told),
    /// Another state of one that was.
    Update(Told),
    /// It is gone.
    Delete(Told),
    /// The first list has been told.
    Synced {
        /// As in the events.
        resource: String,
        /// How many objects it had.
        count: u64,
    },
    /// The last line of a resource.
    Stopped(Stopped),
}

/// What a handler was told of one object.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// `pods`, or `deployments.apps`.
    pub resource: String,
    /// `namespace/name`, or `name`.
    pub key: String,
    /// Of the state that is told; of a deletion whose final state is not known, of the last known one.
    pub resource_version: Option<String>,
    /// Of the state before.
    pub old_resource_version: Option<String>,
    /// Whether the first list brought it.
    pub initial: bool,
    /// Whether the deletion itself was not seen.
    pub final_state_unknown: bool,
}

/// The counts at the end.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Stopped {
    /// As in the events.
    pub resource: String,
    /// Lines of additions.
    pub adds: u64,
    /// Lines of updates.
    pub updates: u64,
    /// Lines of deletions.
    pub deletes: u64,
    /// Lists after the first.
    pub relists: u64,
}

impl Line {
    /// What it says of an object, if it is of one.
    pub fn told(&self) -> Option<&Told> {
        match self {
            Self::Add(told) | Self::Update(told) | Self::Delete(told) => Some(told),
            Self::Synced { .. } | Self::Stopped(_) => None,
        }
    }

    /// Whether it says that the first list of this resource has been told.
    pub fn is_synced(&self, of: &str) -> bool {
        matches!(self, Self::Synced { resource, .. } if resource == of)
    }
}
