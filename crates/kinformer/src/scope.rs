//! The scope of informers, which may change while they run.

use std::collections::BTreeSet;
use std::sync::Arc;

use kinformer_core::ResourceVersion;
use kinformer_kube::ShardSelector;

/// Which objects informers hold: those of all namespaces, of a set, which may be empty, or those of a shard. See
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
    shard: Option<ScopedShard>,
}

/// The objects of all namespaces whose UID or namespace has a hash in some ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScopedShard {
    pub(crate) selector: ShardSelector,
    /// The version at which new ranges are listed, or later; unset for the most recent state.
    pub(crate) at_least: ResourceVersion,
}

impl Scope {
    /// The objects of all namespaces.
    pub const fn all() -> Self {
        Self { names: None, shard: None }
    }

    /// The objects of these namespaces; none if there are none.
    pub fn namespaces<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { names: Some(names.into_iter().map(Into::into).collect()), shard: None }
    }

    /// The objects of a shard: of all namespaces those whose UID or namespace has a hash in the ranges of the selector. A range
    /// that is new is listed at its most recent state: see [`Self::at_least`].
    pub const fn shard(selector: ShardSelector) -> Self {
        Self { names: None, shard: Some(ScopedShard { selector, at_least: ResourceVersion::UNSET }) }
    }

    /// Lists ranges of a shard that are new at this version or a later one: the version up to which another process has
    /// processed them. Of other scopes it has no effect.
    #[must_use]
    pub fn at_least(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.shard = self.shard.map(|shard| ScopedShard { at_least: version.into(), ..shard });
        self
    }

    pub(crate) fn scoped_shard(&self) -> Option<&ScopedShard> {
        self.shard.as_ref()
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
