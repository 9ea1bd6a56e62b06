//! An informer in the factory's registry: who holds it, and whether it was started.

use std::any::{Any, TypeId};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kinformer_core::Object;
use kinformer_shared_informer::{Error, SharedIndexInformer};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What tells informers apart: the type of their objects, and the resource where the type does not say it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    of: TypeId,
    resource: Option<Arc<str>>,
}

impl Key {
    pub(crate) fn of_type<T: 'static>() -> Self {
        Self { of: TypeId::of::<T>(), resource: None }
    }

    pub(crate) fn of_resource<T: 'static>(resource: Arc<str>) -> Self {
        Self { of: TypeId::of::<T>(), resource: Some(resource) }
    }
}

type BoxFuture<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

/// An informer, whatever the type of its objects.
pub(crate) trait Managed: Any + Send + Sync {
    fn name(&self) -> &str;
    fn run(&self, cancel: CancellationToken) -> BoxFuture<'_, Result<(), Error>>;
    fn discard(&self);
    fn wait_for_sync(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>>;
}

impl<T: Object> Managed for SharedIndexInformer<T> {
    fn name(&self) -> &str {
        self.name()
    }

    fn run(&self, cancel: CancellationToken) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.run(cancel))
    }

    fn discard(&self) {
        self.discard();
    }

    fn wait_for_sync(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match deadline {
                Some(deadline) => self.wait_for_sync_until(deadline).await,
                None => self.wait_for_sync().await,
            }
        })
    }
}

pub(crate) struct Entry {
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
    /// Ends the run, from the start on.
    cancel: Option<CancellationToken>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Yes,
    No,
}

impl Entry {
    pub(crate) fn new(informer: Arc<dyn Managed>) -> Self {
        Self { informer, holders: Mutex::default(), done: CancellationToken::new() }
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

    /// What is to be run, if it was not before.
    pub(crate) fn begin(&self, parent: &CancellationToken) -> Option<(Arc<dyn Managed>, CancellationToken)> {
        let mut holders = self.holders.lock();
        if holders.cancel.is_some() || holders.released {
            return None;
        }
        let cancel = parent.child_token();
        holders.cancel = Some(cancel.clone());
        Some((self.informer.clone(), cancel))
    }

    pub(crate) fn was_started(&self) -> bool {
        self.holders.lock().cancel.is_some()
    }

    pub(crate) fn stop(&self) {
        let mut holders = self.holders.lock();
        holders.released = true;
        if let Some(cancel) = &holders.cancel {
            return cancel.cancel();
        }
        drop(holders);
        self.informer.discard();
        self.done.cancel();
    }

    pub(crate) fn is_released(&self) -> bool {
        self.holders.lock().released
    }

    pub(crate) fn done(&self) -> CancellationToken {
        self.done.clone()
    }

    /// Waits until it has stopped, or was never started and will not be.
    pub(crate) async fn ended(&self) {
        self.done.cancelled().await;
    }
}
