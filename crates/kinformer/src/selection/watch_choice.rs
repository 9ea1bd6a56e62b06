//! The choice between one watch for each namespace of a scope and one for all of them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::future::BoxFuture;
use kinformer_core::ResourceVersion;
use kinformer_kube::{KubeListerWatcher, PackedObject};
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, ProbeBudget, SourceError, WatchListSupport, WatchOptions, WatchStream,
};
use parking_lot::Mutex;

/// From how many namespaces on one watch of all is considered. Below half of it, each has its own again.
const FEW: usize = 32;

/// How many objects the server may have for each namespace in scope so that one list and one watch of all cost less.
const OBJECTS: u64 = 100;

/// Which lists and watches the namespaces of a [`Scope`](crate::Scope) have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watches {
    #[default]
    Chosen,
    Each,
    One,
}

/// How an informer watches the namespaces of its scope, and why. From
/// [`InformerStatus::namespace_watches`](crate::InformerStatus::namespace_watches).
///
/// ```
/// use kinformer::{NamespaceWatches, WatchReason};
///
/// let watches = NamespaceWatches::Each(WatchReason::Refused);
/// assert_eq!(watches.to_string(), "a watch for each namespace: all namespaces may not be read (403)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceWatches {
    /// A list and a watch for each namespace.
    Each(WatchReason),
    /// One list and one watch of all namespaces. Objects of others are dropped before they are decoded. Namespaces that came into
    /// the scope since its list have their own.
    One(WatchReason),
}

/// Why an informer watches namespaces as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchReason {
    /// [`Scope::one_watch`](crate::Scope::one_watch) or [`Scope::watch_each`](crate::Scope::watch_each) was called.
    Requested,
    /// There are fewer than 32 namespaces; or fewer than 16, if one watch had them.
    FewNamespaces,
    /// The options give the namespaces different selectors.
    DifferentSelectors,
    /// The server does not allow to list or watch all namespaces (403).
    Refused,
    /// The server does not say how many objects it has, as with selectors.
    UnknownCost,
    /// The server has this many objects of the resource: one watch if there are at most 100 for each namespace in scope.
    Objects(u64),
    /// The server has not said yet how many objects it has.
    NotKnownYet,
}

impl fmt::Display for NamespaceWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (watches, reason) = match self {
            Self::Each(reason) => ("a watch for each namespace", reason),
            Self::One(reason) => ("one watch for all namespaces", reason),
        };
        write!(f, "{watches}: {reason}")
    }
}

impl fmt::Display for WatchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requested => "as requested",
            Self::FewNamespaces => "there are few namespaces",
            Self::DifferentSelectors => "their selectors differ",
            Self::Refused => "all namespaces may not be read (403)",
            Self::UnknownCost => "the number of objects on the server is unknown",
            Self::Objects(objects) => return write!(f, "the server has {objects} objects"),
            Self::NotKnownYet => "the number of objects on the server is not known yet",
        })
    }
}

/// The choice of one informer. Clones are the same choice.
#[derive(Clone, Default)]
pub(crate) struct WatchChoice(Arc<Shared>);

#[derive(Default)]
struct Shared {
    chosen: Mutex<Chosen>,
    replace_parts: OnceLock<Box<ReplaceParts>>,
}

/// Makes the parts of the present scope again. Returns `false` if there are none.
type ReplaceParts = dyn Fn() -> BoxFuture<'static, bool> + Send + Sync;

#[derive(Default)]
struct Chosen {
    /// `None` while the scope is no set of namespaces.
    watches: Option<NamespaceWatches>,
    /// The number of namespaces in scope, and how many there were when the server was asked last.
    names: usize,
    asked: usize,
}

impl WatchChoice {
    /// Sets how the parts of the informer are made again.
    pub(crate) fn set_replace_parts(
        &self,
        replace: impl Fn() -> BoxFuture<'static, bool> + Send + Sync + 'static,
    ) {
        _ = self.0.replace_parts.set(Box::new(replace));
    }

    pub(crate) fn get(&self) -> Option<NamespaceWatches> {
        self.0.chosen.lock().watches
    }

    /// The scope is no set of namespaces.
    pub(crate) fn clear(&self) {
        self.0.chosen.lock().watches = None;
    }

    /// Returns whether this number of namespaces have one watch. `can_be_one` is whether their selectors are the same.
    pub(crate) fn is_one(&self, requested: Watches, names: usize, can_be_one: bool) -> bool {
        use NamespaceWatches::{Each, One};
        let mut chosen = self.0.chosen.lock();
        chosen.names = names;
        let few = match chosen.watches {
            Some(One(_)) => FEW / 2,
            _ => FEW,
        };
        let watches = match requested {
            Watches::Each => Each(WatchReason::Requested),
            Watches::Chosen if names < few => Each(WatchReason::FewNamespaces),
            _ if !can_be_one => Each(WatchReason::DifferentSelectors),
            Watches::One => One(WatchReason::Requested),
            Watches::Chosen => match chosen.watches {
                Some(one @ One(WatchReason::Objects(_) | WatchReason::NotKnownYet)) => one,
                Some(
                    each @ Each(WatchReason::Refused | WatchReason::UnknownCost | WatchReason::Objects(_)),
                ) if names < chosen.asked.saturating_mul(2) => each,
                _ => One(WatchReason::NotKnownYet),
            },
        };
        chosen.watches = Some(watches);
        matches!(watches, One(_))
    }

    /// Takes the number of objects on the server, if it is known.
    fn answered(&self, objects: Option<u64>) {
        let mut chosen = self.0.chosen.lock();
        let most = OBJECTS.saturating_mul(u64::try_from(chosen.names).unwrap_or(u64::MAX));
        let watches = match objects {
            None => NamespaceWatches::Each(WatchReason::UnknownCost),
            Some(objects) if objects <= most => NamespaceWatches::One(WatchReason::Objects(objects)),
            Some(objects) => NamespaceWatches::Each(WatchReason::Objects(objects)),
        };
        chosen.set(watches);
    }
}

impl Chosen {
    /// Sets the choice, unless the scope has changed since the question.
    fn set(&mut self, watches: NamespaceWatches) {
        if let Some(NamespaceWatches::One(WatchReason::NotKnownYet | WatchReason::Objects(_))) = self.watches
        {
            (self.watches, self.asked) = (Some(watches), self.names);
        }
    }
}

/// The source of the one watch of several namespaces, which asks first whether it may be and what it costs.
pub(crate) struct ChosenSource<S> {
    pub(crate) source: S,
    /// The question; `None` for sources of one namespace.
    pub(crate) question: Option<(WatchChoice, KubeListerWatcher<PackedObject>)>,
}

impl<S: ListerWatcher<PackedObject>> ChosenSource<S> {
    /// Asks for the cost, unless it is known. If each namespace is to have a watch, replaces this part by theirs and does not
    /// return.
    async fn decided(&self) -> Result<(), SourceError> {
        let Some((choice, source)) = &self.question else { return Ok(()) };
        if choice.get() == Some(NamespaceWatches::One(WatchReason::NotKnownYet)) {
            match source.count().await {
                Ok(objects) => choice.answered(objects),
                Err(error) => return Err(self.refused(error).await),
            }
        }
        self.replaced_if_each().await;
        Ok(())
    }

    /// If all namespaces may not be read, replaces this part by those of each namespace and does not return. Returns any other
    /// error, and this one if one watch was requested.
    async fn refused(&self, error: SourceError) -> SourceError {
        if let Some((choice, _)) = &self.question
            && error.status().is_some_and(|status| status.code == 403)
        {
            choice.0.chosen.lock().set(NamespaceWatches::Each(WatchReason::Refused));
            self.replaced_if_each().await;
        }
        error
    }

    async fn replaced_if_each(&self) {
        let Some((choice, _)) = &self.question else { return };
        if !matches!(choice.get(), Some(NamespaceWatches::Each(_))) {
            return;
        }
        let Some(replace_parts) = choice.0.replace_parts.get() else { return };
        if replace_parts().await {
            // The informer ends the reflector of this part, which drops this future.
            std::future::pending().await
        }
    }
}

#[async_trait]
impl<S: ListerWatcher<PackedObject>> ListerWatcher<PackedObject> for ChosenSource<S> {
    async fn list(&self, options: ListOptions<PackedObject>) -> Result<List<PackedObject>, SourceError> {
        self.decided().await?;
        match self.source.list(options).await {
            Err(error) => Err(self.refused(error).await),
            listed => listed,
        }
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, SourceError> {
        self.decided().await?;
        match self.source.watch(options).await {
            Err(error) => Err(self.refused(error).await),
            watched => watched,
        }
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        self.source.newest_version().await
    }

    fn probe_budget(&self) -> Option<&ProbeBudget> {
        self.source.probe_budget()
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        self.source.watch_list_support()
    }
}
