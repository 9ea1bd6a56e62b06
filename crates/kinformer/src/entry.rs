//! An informer in the factory's registry, with its holders and its run.

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kinformer_core::Object;
use kinformer_shared_informer::{Error, Phase, SharedIndexInformer};
use kube_core::discovery::{ApiResource, Scope};
use kube_core::gvk::GroupVersionResource;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::any_informer::AnyInformer;
use crate::kube_informer::KubeInformer;
use crate::projection::Projection;

/// The key of the informers of one resource in the registry: at most one of whole objects and one of metadata.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    /// Kubernetes objects: the resource with its version.
    Resource(Arc<str>),
    /// Objects of a custom type.
    Own(TypeId),
}

impl Key {
    pub(crate) fn of_type<T: 'static>() -> Self {
        Self::Own(TypeId::of::<T>())
    }

    pub(crate) fn of_resource(resource: &ApiResource) -> Self {
        Self::resource(&resource.api_version, &resource.plural)
    }

    pub(crate) fn resource(api_version: &str, plural: &str) -> Self {
        Self::Resource(format!("{api_version}/{plural}").into())
    }

    /// Returns the name of a resource; `None` for a custom type.
    pub(crate) fn to_resource(&self) -> Option<GroupVersionResource> {
        self.names().map(|[group, version, plural]| GroupVersionResource::gvr(group, version, plural))
    }

    /// Whether this is a version of a resource.
    pub(crate) fn is_version_of(&self, group: &str, plural: &str) -> bool {
        self.names().is_some_and(|[of_group, _, of_plural]| (of_group, of_plural) == (group, plural))
    }

    /// The group, version and plural name of a resource; `None` for a custom type.
    fn names(&self) -> Option<[&str; 3]> {
        let Self::Resource(name) = self else { return None };
        let (api_version, plural) = name.rsplit_once('/')?;
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Some([group, version, plural])
    }
}

/// An informer of the registry.
#[derive(Clone)]
pub(crate) enum Registered {
    Kubernetes { informer: Arc<KubeInformer>, resource: ApiResource, scope: Scope },
    Own(Arc<dyn AnyInformer>),
}

pub(crate) struct Entry {
    id: u64,
    key: Key,
    registered: Registered,
    informer: Arc<dyn AnyInformer>,
    holders: Mutex<Holders>,
    /// Cancelled when the informer is removed or released. Ends a run that the factory did not start.
    removed: CancellationToken,
    /// Cancelled when the factory's run has ended, or when there will be none.
    done: CancellationToken,
}

/// The holders of an informer.
#[derive(Default)]
struct Holders {
    /// Whether the informer is held for the lifetime of the factory.
    kept: bool,
    leases: usize,
    released: bool,
    /// Set by the start. Reset if the task of the run is dropped before it runs.
    run: Option<Run>,
}

/// A run that has begun or is scheduled.
#[derive(Clone)]
struct Run {
    /// Ends the run.
    cancel: CancellationToken,
    /// Cancelled when the task of the run was dropped before it ran.
    lost: CancellationToken,
}

impl Entry {
    pub(crate) fn new(key: Key, registered: Registered) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let informer: Arc<dyn AnyInformer> = match &registered {
            Registered::Kubernetes { informer, .. } => Arc::new(informer.shared().clone()),
            Registered::Own(informer) => informer.clone(),
        };
        let (removed, done) = (CancellationToken::new(), CancellationToken::new());
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Self { id, key, registered, informer, holders: Mutex::default(), removed, done }
    }

    /// A number that no other entry has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the informer of Kubernetes objects; `None` for an informer of a custom type.
    pub(crate) fn kube_informer(&self) -> Option<&Arc<KubeInformer>> {
        match &self.registered {
            Registered::Kubernetes { informer, .. } => Some(informer),
            Registered::Own(_) => None,
        }
    }

    /// The projection of the informer now.
    pub(crate) fn projection(&self) -> Projection {
        self.kube_informer().map_or(Projection::Whole, |informer| informer.projection())
    }

    /// Makes the informer fetch whole objects. Returns `false` if it has started with metadata.
    pub(crate) fn request_whole(&self) -> bool {
        self.kube_informer().is_none_or(|informer| informer.request_whole())
    }

    /// Returns the resource and its scope; `None` for an informer of a custom type.
    pub(crate) fn resource(&self) -> Option<(&ApiResource, &Scope)> {
        match &self.registered {
            Registered::Kubernetes { resource, scope, .. } => Some((resource, scope)),
            Registered::Own(_) => None,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.informer.name()
    }

    /// Ends an informer that was never run.
    pub(crate) fn discard(&self) {
        self.set_ran();
        self.informer.discard();
    }

    fn set_ran(&self) {
        if let Some(informer) = self.kube_informer() {
            informer.set_ran();
        }
    }

    fn set_started(&self, started: bool) {
        if let Some(informer) = self.kube_informer() {
            informer.set_started(started);
        }
    }

    pub(crate) fn informer<T: Object>(&self) -> Option<SharedIndexInformer<T>> {
        let informer: &dyn Any = &*self.informer;
        informer.downcast_ref().cloned()
    }

    /// Holds the informer for the lifetime of the factory. Returns `false` if it was already released.
    pub(crate) fn keep(&self) -> bool {
        let mut holders = self.holders.lock();
        if holders.released {
            return false;
        }
        holders.kept = true;
        true
    }

    /// Adds a lease. Returns `false` if the informer was already released.
    pub(crate) fn lease(&self) -> bool {
        let mut holders = self.holders.lock();
        if holders.released {
            return false;
        }
        holders.leases += 1;
        true
    }

    /// Removes a lease, and releases the informer if that was its last holder. Returns whether the informer is still
    /// held.
    pub(crate) fn give_back(&self) -> bool {
        let mut holders = self.holders.lock();
        holders.leases = holders.leases.saturating_sub(1);
        if holders.leases > 0 || holders.kept {
            return true;
        }
        holders.released = true;
        false
    }

    /// Releases an informer that has neither a holder nor a start. Returns whether it did.
    pub(crate) fn release_unused(&self) -> bool {
        let mut holders = self.holders.lock();
        let is_used = holders.kept || holders.leases > 0 || holders.run.is_some();
        let is_unused = !is_used && !holders.released && self.informer.phase() == Phase::NotStarted;
        holders.released |= is_unused;
        is_unused
    }

    /// Runs the informer for a caller that does not start it through the factory, until the token is cancelled or the
    /// informer is removed or released.
    ///
    /// # Cancel safety
    /// As `Informer::run`.
    pub(crate) async fn run(&self, cancel: CancellationToken) -> Result<(), Error> {
        let cancel = cancel.child_token();
        self.set_ran();
        let mut running = std::pin::pin!(self.informer.run(cancel.clone()));
        tokio::select! {
            biased;
            ended = &mut running => return ended,
            () = self.removed.cancelled() => cancel.cancel(),
        }
        running.await
    }

    /// Returns the start of a run, unless one has begun before. `task` returns the token that makes a shutdown wait for
    /// the run.
    pub(crate) fn begin(
        self: &Arc<Self>,
        parent: &CancellationToken,
        task: impl FnOnce() -> TaskTrackerToken,
    ) -> Option<Start> {
        let mut holders = self.holders.lock();
        // An informer that does not wait for a start is run by its owner, or has stopped.
        if holders.run.is_some() || holders.released || self.informer.phase() != Phase::NotStarted {
            return None;
        }
        let run = Run { cancel: parent.child_token(), lost: CancellationToken::new() };
        holders.run = Some(run.clone());
        self.set_started(true);
        Some(Start { entry: Some(self.clone()), run, _task: task() })
    }

    /// Stops the informer, regardless of its holders. Returns `false` if it was already released.
    pub(crate) fn stop(&self) -> bool {
        let (first, run) = {
            let mut holders = self.holders.lock();
            (!std::mem::replace(&mut holders.released, true), holders.run.clone())
        };
        self.removed.cancel();
        match run {
            Some(run) => run.cancel.cancel(),
            None => self.end(),
        }
        first
    }

    /// Ends an informer that the factory will never run.
    fn end(&self) {
        self.discard();
        self.done.cancel();
    }

    /// Waits until the informer has synced.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer.
    ///
    /// # Errors
    /// [`Error::NotStarted`] at once if the informer is not started, and when the task of its run is dropped before it
    /// ran; else the errors of the informer.
    pub(crate) async fn synced(&self) -> Result<(), Error> {
        loop {
            let lost = self.holders.lock().run.as_ref().map(|run| run.lost.clone());
            let Some(lost) = lost else {
                // The owner may run the informer without the factory, or it may be shut down.
                if self.informer.phase() == Phase::NotStarted {
                    return Err(Error::NotStarted { informer: self.informer.name().into() });
                }
                return self.informer.wait_for_sync().await;
            };
            tokio::select! {
                biased;
                synced = self.informer.wait_for_sync() => return synced,
                () = lost.cancelled() => {}
            }
        }
    }

    /// Returns the outcome of `synced` at a deadline that passes now.
    pub(crate) fn synced_at_deadline(&self) -> Result<(), Error> {
        match self.holders.lock().run.is_none() && self.informer.phase() == Phase::NotStarted {
            true => Err(Error::NotStarted { informer: self.informer.name().into() }),
            false => self.informer.sync_at_deadline(),
        }
    }

    pub(crate) fn is_released(&self) -> bool {
        self.holders.lock().released
    }

    /// Waits until the informer has stopped, or was ended before it was started.
    pub(crate) async fn ended(&self) {
        self.done.cancelled().await;
        // The owner's run ends by itself.
        if let Some(informer) = self.kube_informer() {
            informer.stopped().await;
        }
    }
}

/// The start of an informer. If a runtime that ends drops it before the informer runs, the informer is unstarted again
/// and the next start runs it.
pub(crate) struct Start {
    /// `None` once the run has begun.
    entry: Option<Arc<Entry>>,
    run: Run,
    /// Held until the run is complete.
    _task: TaskTrackerToken,
}

impl Start {
    /// Runs the informer to its end. Returns its name and its error, if there is one.
    pub(crate) async fn run(&mut self) -> Option<(Arc<str>, Error)> {
        let entry = self.entry.take()?;
        let _done = entry.done.clone().drop_guard();
        // Dropped before `_done`, so that the memory is free when waits for the end return.
        entry.set_ran();
        let informer = entry.informer.clone();
        drop(entry);
        let cancel = self.run.cancel.clone();
        match informer.run(cancel).await {
            Ok(()) => None,
            // The informer was shut down before it ran.
            Err(Error::Stopped { .. }) if self.run.cancel.is_cancelled() => None,
            Err(error) => Some((informer.name().into(), error)),
        }
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        let released = {
            let mut holders = entry.holders.lock();
            holders.run = None;
            entry.set_started(holders.released || entry.informer.phase() != Phase::NotStarted);
            holders.released
        };
        self.run.lost.cancel();
        if released {
            entry.end();
        }
    }
}
