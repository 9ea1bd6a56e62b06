//! The lines of `kinformer watch -o json`, which the client-go program also prints.

use serde::Deserialize;

/// One line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Line {
    /// An object was added.
    Add(ObjectEvent),
    /// An object was updated.
    Update(ObjectEvent),
    /// An object was deleted.
    Delete(ObjectEvent),
    /// The initial list has been delivered.
    Synced {
        /// The resource, as in the events.
        resource: String,
        /// The number of objects in the initial list.
        count: u64,
    },
    /// The last line of a resource.
    Stopped(Stopped),
}

/// The event of one object, as delivered to a handler.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectEvent {
    /// `pods`, or `deployments.apps`.
    pub resource: String,
    /// `namespace/name`, or `name`.
    pub key: String,
    /// The version of the state; for a deletion with an unknown final state, that of the last known state.
    pub resource_version: Option<String>,
    /// The version of the previous state.
    pub old_resource_version: Option<String>,
    /// Whether the object is from the initial list.
    pub initial: bool,
    /// Whether the deletion itself was not observed.
    pub final_state_unknown: bool,
    /// The label `content` of the state, which only the client-go program prints.
    pub content: Option<String>,
}

/// The counters at the end.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Stopped {
    /// The resource, as in the events.
    pub resource: String,
    /// The number of additions.
    pub adds: u64,
    /// The number of updates.
    pub updates: u64,
    /// The number of deletions.
    pub deletes: u64,
    /// The number of lists after the first.
    pub relists: u64,
}

impl Line {
    /// Returns the object event of the line, if it has one.
    pub fn object_event(&self) -> Option<&ObjectEvent> {
        match self {
            Self::Add(event) | Self::Update(event) | Self::Delete(event) => Some(event),
            Self::Synced { .. } | Self::Stopped(_) => None,
        }
    }

    /// Whether the line reports that the initial list of this resource has been delivered.
    pub fn is_synced(&self, of: &str) -> bool {
        matches!(self, Self::Synced { resource, .. } if resource == of)
    }
}
