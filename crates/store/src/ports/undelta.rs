//! A store that passes its whole state to a callback after every write.

use std::ops::Deref;
use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{
    BoxError, Deltas, Error, KeyRef, KnownObjects, Object, ObjectKey, PartialErrors, Sink, Versions,
};

use crate::sync::Mutex;
use crate::write::Written;
use crate::{Indexer, Reader, Snapshot, Store};

type Push<T> = dyn Fn(Snapshot<T>) + Send + Sync;

/// A store that calls a push function with the whole state after every write, and never for a read. [`Reader`] has the
/// methods for reading.
///
/// There is one call per write (add, update, delete, replace, or several deltas at once). Calls are made one at a time,
/// while no lock is held. The state passed to a call is never older than that of the previous call, and the last call
/// gets the newest state. When several threads write at once, one of them makes the calls for all. The push function
/// may write to the store: the call for that write follows after it has returned.
///
/// Follows client-go 0.37 (`UndeltaStore`), where calls can overtake each other. The state is a snapshot, so a push
/// costs O(1), where upstream copies the list.
pub struct UndeltaStore<T: Object> {
    store: Indexer<T>,
    push: Box<Push<T>>,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    /// Number of writes whose call has not been made.
    pending: usize,
    /// Whether a thread is making calls.
    pushing: bool,
}

impl<T: Object> UndeltaStore<T> {
    /// Creates an empty store with this push function.
    ///
    /// ```
    /// # use kinformer_core::Keyed;
    /// # use kinformer_store::*;
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    ///
    /// let pushed = Arc::new(AtomicUsize::new(0));
    /// let seen = pushed.clone();
    /// let pods = UndeltaStore::new(move |all: Snapshot<_>| seen.store(all.len(), Relaxed));
    /// pods.add(pod("default/web-0", 1).into())?;
    /// pods.add(pod("default/web-1", 1).into())?;
    /// assert_eq!(pushed.load(Relaxed), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "NewUndeltaStore")]
    pub fn new(push: impl Fn(Snapshot<T>) + Send + Sync + 'static) -> Self {
        Self { store: Indexer::new(), push: Box::new(push), calls: Mutex::new(Calls::default()) }
    }

    /// Claims the next call for this thread. Returns whether there is one.
    fn claim_call(&self) -> bool {
        let mut calls = self.calls.lock();
        if calls.pushing || calls.pending == 0 {
            return false;
        }
        calls.pending -= 1;
        calls.pushing = true;
        true
    }

    fn call(&self) -> Result<(), BoxError> {
        let result = contain(|| (self.push)(self.store.snapshot()));
        self.calls.lock().pushing = false;
        result
    }
}

impl<T: Object> Deref for UndeltaStore<T> {
    type Target = Reader<T>;

    fn deref(&self) -> &Reader<T> {
        &self.store
    }
}

impl<T: Object> Sink<T> for UndeltaStore<T> {
    /// Makes all pending calls, unless another thread is making them. A panic of the push function is returned;
    /// the write is applied anyway, and the remaining calls are made. A bookmark or resync changes no object, so
    /// nothing is pushed.
    fn apply(&self, deltas: Deltas<T>) -> Result<PartialErrors, Error> {
        let Written { mut errors, published, .. } = self.store.write_all(deltas);
        if !published {
            return Ok(errors);
        }
        self.calls.lock().pending += 1;
        while self.claim_call() {
            if let Err(source) = self.call() {
                errors.push_applied(Error::other(crate::Error::Push { source }));
            }
        }
        Ok(errors)
    }
}

impl<T: Object> KnownObjects<T> for UndeltaStore<T> {
    fn keys(&self) -> Vec<ObjectKey> {
        self.store.keys()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>> {
        self.store.get(key)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        KnownObjects::for_each(&self.store, visit);
    }
}

impl<T: Object> Store<T> for UndeltaStore<T> {
    fn list(&self) -> Vec<Arc<T>> {
        self.store.list()
    }

    fn resource_versions(&self) -> Versions {
        self.store.resource_versions()
    }

    fn len(&self) -> usize {
        self.store.len()
    }
}

impl<T: Object> std::fmt::Debug for UndeltaStore<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UndeltaStore").field("len", &self.store.len()).finish()
    }
}
