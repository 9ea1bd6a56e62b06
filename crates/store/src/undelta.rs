//! A store that hands out its whole state whenever it is written.

use std::ops::Deref;
use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{
    BoxError, Deltas, Error, KeyRef, KnownObjects, Object, ObjectKey, Report, Sink, Versions,
};

use crate::sync::Mutex;
use crate::write::Written;
use crate::{Indexer, Reader, Snapshot, Store};

type Push<T> = dyn Fn(Snapshot<T>) + Send + Sync;

/// A store that calls a push function with the whole state after every write, and never for a read. It is read by the
/// methods of [`Reader`].
///
/// There is one call for each write (add, update, delete, replace, or several deltas at once), one at a time, while no lock is held; the
/// state that a call gets is never older than that of the call before, and the last one is the newest there
/// is. When several threads write at once, one of them makes the calls for all. The push function may write
/// into the store: that write's call comes after it has returned.
///
/// Follows client-go 1.37 (`UndeltaStore`), where calls can overtake each other. The state is a snapshot, so
/// that a push costs O(1), where upstream copies the list.
pub struct UndeltaStore<T: Object> {
    store: Indexer<T>,
    push: Box<Push<T>>,
    turns: Mutex<Turns>,
}

#[derive(Default)]
struct Turns {
    /// Writes whose call has not been made.
    owed: usize,
    /// Somebody is making calls.
    pushing: bool,
}

impl<T: Object> UndeltaStore<T> {
    /// An empty store that calls this function.
    pub fn new(push: impl Fn(Snapshot<T>) + Send + Sync + 'static) -> Self {
        Self { store: Indexer::new(), push: Box::new(push), turns: Mutex::new(Turns::default()) }
    }

    /// Whether a call is to be made now, by this caller.
    fn take_turn(&self) -> bool {
        let mut turns = self.turns.lock();
        if turns.pushing || turns.owed == 0 {
            return false;
        }
        turns.owed -= 1;
        turns.pushing = true;
        true
    }

    fn call(&self) -> Result<(), BoxError> {
        let result = contain(|| (self.push)(self.store.snapshot()));
        self.turns.lock().pushing = false;
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
    /// Makes the calls that are due, unless another thread is making them. A push function that panics is reported: the
    /// write is applied all the same, and the other calls are made. A bookmark or resync changes no object, so nothing is
    /// pushed.
    fn apply(&self, deltas: Deltas<T>) -> Result<Report, Error> {
        let Written { mut report, published, .. } = self.store.write_all(deltas);
        if !published {
            return Ok(report);
        }
        self.turns.lock().owed += 1;
        while self.take_turn() {
            if let Err(source) = self.call() {
                report.push_applied(0, Error::other(crate::Error::Push { source }));
            }
        }
        Ok(report)
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
