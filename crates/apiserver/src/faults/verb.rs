//! The verbs of requests.

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads all objects of a kind.
    List,
    /// Watches the changes of a kind.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces one object.
    Update,
    /// Changes part of an object.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes several objects.
    DeleteCollection,
    /// Any request without a resource: discovery, versions, health.
    Other,
}

impl Verb {
    /// Returns the name that Kubernetes uses, such as `deletecollection`; `other` for [`Verb::Other`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        }
    }
}
