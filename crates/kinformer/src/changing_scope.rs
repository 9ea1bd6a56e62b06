//! The scope of one informer.

use std::sync::Arc;

use futures::FutureExt as _;
use kinformer_kube::PackedObject;
use kinformer_shared_informer::{SharedIndexInformer, Sources};
use parking_lot::Mutex;

use crate::Error;
use crate::error::FixedScope;
use crate::scope::Scope;
use crate::selection::{NamespaceWatches, Selected, WatchChoice};

/// Makes the parts of a scope, with their sources.
pub(crate) type MakeParts =
    Box<dyn Fn(&Scope, &[Selected], &mut u32) -> (Vec<Selected>, Sources<PackedObject>) + Send + Sync>;

/// The parts of an informer, as they were requested last.
pub(crate) struct ChangingScope {
    selected: Mutex<Arc<[Selected]>>,
    make_parts: Result<MakeParts, FixedScope>,
    choice: WatchChoice,
    /// Locked while a change is requested and takes effect.
    changing: tokio::sync::Mutex<Changing>,
}

struct Changing {
    /// The number of the next new part without a name of its own: two parts never have one name.
    next: u32,
    /// The scope that was requested last.
    scope: Option<Scope>,
}

impl ChangingScope {
    pub(crate) fn new(
        parts: Vec<Selected>,
        make_parts: Result<MakeParts, FixedScope>,
        scope: Option<Scope>,
        choice: WatchChoice,
    ) -> Self {
        let next = u32::try_from(parts.len()).unwrap_or(u32::MAX).saturating_add(1);
        let changing = tokio::sync::Mutex::new(Changing { next, scope });
        Self { selected: Mutex::new(parts.into()), make_parts, choice, changing }
    }

    pub(crate) fn selected(&self) -> Arc<[Selected]> {
        self.selected.lock().clone()
    }

    /// Whether the scope can change.
    pub(crate) fn is_fixed(&self) -> bool {
        self.make_parts.is_err()
    }

    /// How the namespaces of the scope are watched; `None` if it is no set of namespaces.
    pub(crate) fn watches(&self) -> Option<NamespaceWatches> {
        self.choice.get()
    }

    /// Changes the scope.
    ///
    /// # Cancel safety
    /// Before the end of an earlier change, a dropped future changes nothing. From then on the change takes effect.
    pub(crate) async fn set(
        &self,
        informer: &SharedIndexInformer<PackedObject>,
        resource: &Arc<str>,
        scope: &Scope,
    ) -> Result<(), Error> {
        let make_parts = match &self.make_parts {
            Ok(make_parts) => make_parts,
            Err(reason) => return Err(Error::FixedScope { resource: resource.clone(), reason: *reason }),
        };
        let mut changing = self.changing.lock().await;
        changing.scope = Some(scope.clone());
        let (parts, sources) = make_parts(scope, &self.selected(), &mut changing.next);
        // Requested with its first poll, so that both are the same scope if this future is dropped.
        let changed = informer.set_sources(sources);
        *self.selected.lock() = parts.into();
        Ok(changed.await?)
    }

    /// Makes the parts of the present scope again, because its namespaces are to be watched in another way. Returns when they are
    /// requested, and `false` if there are none.
    ///
    /// # Cancel safety
    /// As [`Self::set`].
    pub(crate) async fn replace(&self, informer: &SharedIndexInformer<PackedObject>) -> bool {
        let Ok(make_parts) = &self.make_parts else { return false };
        let mut changing = self.changing.lock().await;
        let Changing { next, scope: Some(scope) } = &mut *changing else { return false };
        let (parts, sources) = make_parts(scope, &self.selected(), next);
        // Requested by the first poll.
        _ = informer.set_sources(sources).now_or_never();
        *self.selected.lock() = parts.into();
        true
    }
}
