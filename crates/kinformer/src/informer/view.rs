//! A view of an informer without the type of its objects.

use std::sync::{Arc, OnceLock};

use crate::entry::Entry;
use crate::factory::{SharedInformerFactory, WeakFactory};
use crate::kube_informer::KubeInformer;
use crate::projection::Projection;
use crate::target::{Bound, Target};

/// An [`Informer`](crate::Informer) without the type of its objects.
pub(crate) struct View {
    /// Weak, so that informers do not keep the factory alive.
    pub(super) factory: WeakFactory,
    pub(super) target: Target,
    pub(super) bound: OnceLock<Bound>,
}

impl View {
    pub(super) fn new(factory: &SharedInformerFactory, target: Target) -> Arc<Self> {
        factory.request(&target);
        Arc::new(Self { factory: factory.downgrade(), target, bound: OnceLock::new() })
    }

    /// Returns the view of an entry without holding it; `None` for an informer of a custom type.
    pub(super) fn of_entry(factory: &SharedInformerFactory, entry: Arc<Entry>) -> Option<Arc<Self>> {
        let (resource, scope) = entry.resource()?;
        let target =
            Target { resource: resource.clone(), scope: scope.clone(), projection: entry.projection() };
        let bound = Bound { informer: entry.kube_informer()?.clone(), entry };
        Some(Arc::new(Self { factory: factory.downgrade(), target, bound: OnceLock::from(bound) }))
    }

    /// Returns the informer. Binds this view: from now on the factory keeps the informer.
    pub(super) fn informer(&self) -> &KubeInformer {
        &self.bound().informer
    }

    pub(super) fn bound(&self) -> &Bound {
        self.bound.get_or_init(|| self.factory.bind(&self.target, Entry::keep))
    }

    /// The projection of the informer, also of an unbound view.
    pub(super) fn projection(&self) -> Projection {
        if let Some(bound) = self.bound.get() {
            return bound.informer.projection();
        }
        let has_whole =
            |factory: SharedInformerFactory| factory.has_informer(&self.target.resource, Projection::Whole);
        if self.factory.upgrade().is_some_and(has_whole) { Projection::Whole } else { self.target.projection }
    }

    pub(super) async fn remove(&self) -> bool {
        let Some(factory) = self.factory.upgrade() else { return false };
        match self.bound.get() {
            Some(bound) => factory.remove_entry(&bound.entry).await,
            None => factory.remove_target(&self.target).await,
        }
    }
}
