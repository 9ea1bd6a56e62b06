//! The scope of informers, which may change while they run.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The namespaces whose objects informers hold: all, or a set, which may be empty. See
/// [`Informer::set_scope`](crate::Informer::set_scope).
///
/// ```
/// use kinformer::Scope;
///
/// let scope = Scope::namespaces(["team-a", "team-b"]);
/// assert!(scope.contains("team-a") && !scope.contains("team-c"));
/// assert!(Scope::all().contains("team-c"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// `None` for all.
    names: Option<BTreeSet<Arc<str>>>,
}

impl Scope {
    /// The objects of all namespaces.
    pub const fn all() -> Self {
        Self { names: None }
    }

    /// The objects of these namespaces; none if there are none.
    pub fn namespaces<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { names: Some(names.into_iter().map(Into::into).collect()) }
    }

    /// Returns whether the scope has the objects of a namespace.
    pub fn contains(&self, namespace: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(namespace))
    }

    /// Returns the namespaces in their order; `None` for all.
    pub fn names(&self) -> Option<impl Iterator<Item = &str>> {
        self.names.as_ref().map(|names| names.iter().map(|name| &**name))
    }
}
