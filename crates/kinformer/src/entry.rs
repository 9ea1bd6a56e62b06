//! An informer in the factory's registry: who holds it, and whether it was started.

use std::any::{Any, TypeId};
use std::sync::Arc;

use kinformer_core::Object;
use kinformer_shared_informer::{Error, Phase, SharedIndexInformer};
use kube_core::discovery::ApiResource;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::engine::{Engine, Managed};

/// What tells informers apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// Objects of Kubernetes: the resource with its version.
    Resource(Arc<str>),
    /// Objects of a type of the user's own.
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
}

/// An informer of the registry.
#[derive(Clone)]
pub(crate) enum Registered {
    Kubernetes(Arc<dyn Engine>),
    Own(Arc<dyn Managed>),
}

impl Registered {
    fn managed(&self) -> Arc<dyn Managed> {
        match self {
            Self::Kubernetes(engine) => engine.clone(),
            Self::Own(informer) => informer.clone(),
        }
    }
}

pub(crate) struct Entry {
    key: Key,
    registered: Registered,
    informer: Arc<dyn Managed>,
    holders: Mutex<Holders>,
    /// Cancelled when the run has ended.
    done: CancellationToken,
}

/// Who holds an informer.
#[derive(Default)]
struct Holders {
    /// For as long as the factory lives.
    kept: bool,
    leases: usize,
    released: bool,
    /// From the start on, unless that came to nothing.
    run: Option<Run>,
}

/// A run that has begun, or will when its task does.
#[derive(Clone)]
struct Run {
    /// Ends it.
    cancel: CancellationToken,
    /// Cancelled when its task was dropped before it did anything.
    lost: CancellationToken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Yes,
    No,
}

impl Entry {
    pub(crate) fn new(key: Key, registered: Registered) -> Self {
        let informer = registered.managed();
        Self { key, registered, informer, holders: Mutex::default(), done: CancellationToken::new() }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// None of an informer of the user's own.
    pub(crate) fn engine(&self) -> Option<Arc<dyn Engine>> {
        match &self.registered {
            Registered::Kubernetes(engine) => Some(engine.clone()),
            Registered::Own(_) => None,
        }
    }

    pub(crate) fn managed(&self) -> Arc<dyn Managed> {
        self.informer.clone()
    }

    pub(crate) fn informer<T: Object>(&self) -> Option<SharedIndexInformer<T>> {
        let informer: &dyn Any = &*self.informer;
        informer.downcast_ref().cloned()
    }

    /// It is held for as long as the factory lives. No if it was released before.
    pub(crate) fn keep(&self) -> Held {
        let mut holders = self.holders.lock();
        if holders.released {
            return Held::No;
        }
        holders.kept = true;
        Held::Yes
    }

    /// It is held once more. No if it was released before.
    pub(crate) fn lease(&self) -> Held {
        let mut holders = self.holders.lock();
        if holders.released {
            return Held::No;
        }
        holders.leases += 1;
        Held::Yes
    }

    /// It is held once less; released if that was the last.
    pub(crate) fn give_back(&self) -> Held {
        let mut holders = self.holders.lock();
        holders.leases = holders.leases.saturating_sub(1);
        if holders.leases > 0 || holders.kept {
            return Held::Yes;
        }
        holders.released = true;
        Held::No
    }

    /// The start of a run, if none has begun before. `task` says that it is still to be waited for.
    pub(crate) fn begin(
        self: &Arc<Self>,
        parent: &CancellationToken,
        task: impl FnOnce() -> TaskTrackerToken,
    ) -> Option<Start> {
        let mut holders = self.holders.lock();
        if holders.run.is_some() || holders.released {
            return None;
        }
        let run = Run { cancel: parent.child_token(), lost: CancellationToken::new() };
        holders.run = Some(run.clone());
        Some(Start { entry: Some(self.clone()), run, _task: task() })
    }

    /// Stops it, whoever holds it. Returns whether it had not been released before.
    pub(crate) fn stop(&self) -> bool {
        let (first, run) = {
            let mut holders = self.holders.lock();
            (!std::mem::replace(&mut holders.released, true), holders.run.clone())
        };
        match run {
            Some(run) => run.cancel.cancel(),
            None => self.end(),
        }
        first
    }

    /// Ends what has not run and never will.
    fn end(&self) {
        self.informer.discard();
        self.done.cancel();
    }

    /// Waits until the informer has synced. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::NotStarted`] at once when nothing runs it, and when its task is dropped before it has run; else those
    /// of the informer.
    pub(crate) async fn synced(&self, deadline: Option<Instant>) -> Result<(), Error> {
        loop {
            let lost = self.holders.lock().run.as_ref().map(|run| run.lost.clone());
            let Some(lost) = lost else {
                // Its owner may run it without the factory, or it is shut down.
                if self.informer.phase() == Phase::NotStarted {
                    return Err(Error::NotStarted { informer: self.informer.name().into() });
                }
                return self.informer.wait_for_all(deadline).await;
            };
            tokio::select! {
                biased;
                synced = self.informer.wait_for_all(deadline) => return synced,
                () = lost.cancelled() => {}
            }
        }
    }

    pub(crate) fn is_released(&self) -> bool {
        self.holders.lock().released
    }

    /// Waits until it has stopped, or was never started and will not be.
    pub(crate) async fn ended(&self) {
        self.done.cancelled().await;
    }
}

/// An informer that is about to run. Dropped before it has, by a runtime that ends, it leaves the informer as it was
/// before: the next start runs it.
pub(crate) struct Start {
    /// `None` from the run on.
    entry: Option<Arc<Entry>>,
    run: Run,
    /// Kept until all the rest is done.
    _task: TaskTrackerToken,
}

impl Start {
    /// Runs the informer to its end. Gives its name, and what went wrong.
    pub(crate) async fn run(&mut self) -> Option<(Arc<str>, Error)> {
        let entry = self.entry.take()?;
        let _done = entry.done.clone().drop_guard();
        // Dropped before that: who waits for the end finds the memory free.
        let informer = entry.informer.clone();
        drop(entry);
        let cancel = self.run.cancel.clone();
        match informer.run(cancel).await {
            Ok(()) => None,
            // It was shut down before it ran.
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
            holders.released
        };
        self.run.lost.cancel();
        if released {
            entry.end();
        }
    }
}
