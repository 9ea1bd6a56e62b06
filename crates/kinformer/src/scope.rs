//! The scope of informers, which may change while they run.

use std::collections::BTreeSet;
use std::sync::Arc;

use kinformer_core::ResourceVersion;
use kinformer_kube::ShardSelector;

use crate::selection::Watches;

/// Which objects informers hold: those of all namespaces, of a set, which may be empty, of all but a set, or those of a shard; of
/// these, those that selectors match. See [`Informer::set_scope`](crate::Informer::set_scope).
///
/// ```
/// use kinformer::Scope;
///
/// let scope = Scope::namespaces(["team-a", "team-b"]).labels("app=web");
/// assert!(scope.contains("team-a") && !scope.contains("team-c"));
/// assert!(Scope::all().contains("team-c"));
/// assert!(!Scope::all_but(["kube-system"]).contains("kube-system"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    namespaces: Namespaces,
    labels: Option<Arc<str>>,
    fields: Option<Arc<str>>,
    shard: Option<ScopedShard>,
    watches: Watches,
}

/// The objects of all namespaces whose UID or namespace has a hash in some ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScopedShard {
    pub(crate) selector: ShardSelector,
    /// The version at which new ranges are listed, or later; unset for the most recent state.
    pub(crate) at_least: ResourceVersion,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Namespaces {
    Set(BTreeSet<Arc<str>>),
    /// All but these.
    AllBut(BTreeSet<Arc<str>>),
}

impl Scope {
    const fn of(namespaces: Namespaces) -> Self {
        Self { namespaces, labels: None, fields: None, shard: None, watches: Watches::Chosen }
    }

    /// The objects of all namespaces.
    pub const fn all() -> Self {
        Self::of(Namespaces::AllBut(BTreeSet::new()))
    }

    /// The objects of these namespaces; none if there are none.
    ///
    /// Each namespace has a list and a watch of its own, or one watch of all namespaces has them, and the objects of others are
    /// dropped before they are decoded. One is chosen from 32 namespaces on, if all namespaces may be read and the server has at
    /// most 100 objects of the resource for each namespace in scope. A request with `limit=1` asks for both. Below 16 namespaces
    /// each has its own again. After an answer for separate watches the server is asked again when the number of namespaces has
    /// doubled. [`InformerStatus::namespace_watches`](crate::InformerStatus::namespace_watches) has the choice and its reason;
    /// [`Self::one_watch`] and [`Self::watch_each`] take it away.
    ///
    /// ```
    /// use kinformer::Scope;
    ///
    /// let teams = Scope::namespaces(["team-b", "team-a", "team-b"]);
    /// assert!(teams.names().is_some_and(|names| names.eq(["team-a", "team-b"])));
    /// assert!(!Scope::namespaces([""; 0]).contains("team-a"), "no namespaces: nothing is in scope");
    /// ```
    pub fn namespaces<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Self::of(Namespaces::Set(names.into_iter().map(Into::into).collect()))
    }

    /// The objects of all namespaces but these. They have one list and one watch. The server leaves out the objects of
    /// these namespaces, so a change of the set lists all again.
    ///
    /// ```
    /// # async fn example(factory: &kinformer::SharedInformerFactory) -> Result<(), kinformer::Error> {
    /// use kinformer::Scope;
    ///
    /// // Everything but what belongs to the cluster itself.
    /// factory.set_scope(&Scope::all_but(["kube-system", "kube-public", "kube-node-lease"])).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn all_but<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Self::of(Namespaces::AllBut(names.into_iter().map(Into::into).collect()))
    }

    /// The objects of a shard: of all namespaces those whose UID or namespace has a hash in the ranges of the selector. A range
    /// that is new is listed at its most recent state: see [`Self::at_least`].
    ///
    /// ```
    /// # async fn example(pods: &kinformer::Informer<()>) -> Result<(), kinformer::Error> {
    /// use kinformer::{Scope, ShardField, ShardSelector};
    ///
    /// // The first of two processes has the lower half of the hashes; the server selects them.
    /// let half = ShardSelector::one(ShardField::Uid, 0..1 << 63);
    /// pods.set_scope(&Scope::shard(half)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn shard(selector: ShardSelector) -> Self {
        let shard = ScopedShard { selector, at_least: ResourceVersion::UNSET };
        Self { shard: Some(shard), ..Self::all() }
    }

    /// Lists ranges of a shard that are new at this version or a later one: the version up to which another process has
    /// processed them. Of other scopes it has no effect.
    #[must_use]
    pub fn at_least(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.shard = self.shard.map(|shard| ScopedShard { at_least: version.into(), ..shard });
        self
    }

    /// Makes one watch of all namespaces serve the namespaces of the scope, whatever it costs; without the right to read all of
    /// them, that is an error of its part. A namespace that comes into the scope is listed and watched by itself until there
    /// are more than 16, and more than a quarter of the others; then all are listed again by one. One that leaves costs no
    /// request. The parts of different selectors in the options have their own watches.
    #[must_use]
    pub fn one_watch(mut self) -> Self {
        self.watches = Watches::One;
        self
    }

    /// Makes each namespace of the scope have a list and a watch of its own, however many there are.
    #[must_use]
    pub fn watch_each(mut self) -> Self {
        self.watches = Watches::Each;
        self
    }

    pub(crate) fn watches(&self) -> Watches {
        self.watches
    }

    pub(crate) fn scoped_shard(&self) -> Option<&ScopedShard> {
        self.shard.as_ref()
    }

    /// Restricts the objects to those that this label selector matches, in addition to the selectors of the options.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<Arc<str>>) -> Self {
        self.labels = Some(selector.into()).filter(|selector| !selector.is_empty());
        self
    }

    /// Restricts the objects to those that this field selector matches, in addition to the selectors of the options.
    ///
    /// ```
    /// # async fn example(pods: &kinformer::Informer<()>) -> Result<(), Box<dyn std::error::Error>> {
    /// use kinformer::Scope;
    ///
    /// // An agent of each node needs only the pods of its own node.
    /// let node = std::env::var("NODE_NAME")?;
    /// pods.set_scope(&Scope::all().fields(format!("spec.nodeName={node}"))).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fields(mut self, selector: impl Into<Arc<str>>) -> Self {
        self.fields = Some(selector.into()).filter(|selector| !selector.is_empty());
        self
    }

    /// Returns whether the scope has the objects of a namespace, if the selectors match them.
    pub fn contains(&self, namespace: &str) -> bool {
        match &self.namespaces {
            Namespaces::Set(names) => names.contains(namespace),
            Namespaces::AllBut(names) => !names.contains(namespace),
        }
    }

    /// Returns the namespaces in their order; `None` for all, or all but some.
    pub fn names(&self) -> Option<impl Iterator<Item = &str>> {
        match &self.namespaces {
            Namespaces::Set(names) => Some(names.iter().map(|name| &**name)),
            Namespaces::AllBut(_) => None,
        }
    }

    /// Returns the namespaces without which the scope has all, in their order.
    pub(crate) fn excluded(&self) -> Vec<Arc<str>> {
        match &self.namespaces {
            Namespaces::Set(_) => Vec::new(),
            Namespaces::AllBut(names) => names.iter().cloned().collect(),
        }
    }

    /// Returns the label selector and the field selector.
    pub(crate) fn selectors(&self) -> [Option<&Arc<str>>; 2] {
        [self.labels.as_ref(), self.fields.as_ref()]
    }

    /// Returns this scope with those of these namespaces that it has.
    pub(crate) fn within(&self, names: impl IntoIterator<Item = Arc<str>>) -> Self {
        let names = names.into_iter().filter(|name| self.contains(name)).collect();
        Self { namespaces: Namespaces::Set(names), ..self.clone() }
    }
}
