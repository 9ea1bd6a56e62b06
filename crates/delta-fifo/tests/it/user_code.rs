//! User code runs without the lock: a drop, a transform or a known object may use the queue itself.

use std::io::Write;
use std::sync::Arc;

use crate::common::WriteOne;
use kinformer_core::{KeyRef, KnownObjects, Object, ObjectKey, Replacement};
use kinformer_delta_fifo::{DeltaFifo, Popped, Queue, RealFifo};
use parking_lot::Mutex;

/// The queue, once it exists, and how often user code has used it.
#[derive(Default)]
struct Watched {
    queue: Mutex<Option<Arc<dyn Queue<UsesQueueOnDrop>>>>,
    uses: Mutex<usize>,
}

impl Watched {
    /// Uses the queue, which deadlocks if the caller holds its lock. So another thread uses it, and the process is
    /// aborted after a timeout.
    fn use_queue(&self) {
        let Some(queue) = self.queue.lock().clone() else { return };
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(queue.depth()));
        let result = receiver.recv_timeout(std::time::Duration::from_secs(10));
        if result.is_ok() {
            *self.uses.lock() += 1;
        } else {
            // A panic could not unwind past the lock, and the captured output of a test is lost on an abort.
            _ = writeln!(std::io::stderr(), "the lock of the queue was held while user code ran");
            std::process::abort();
        }
    }
}

/// An object whose drop uses the queue.
struct UsesQueueOnDrop(&'static str, Arc<Watched>);

impl Object for UsesQueueOnDrop {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(self.0)
    }
}

impl Drop for UsesQueueOnDrop {
    fn drop(&mut self) {
        self.1.use_queue();
    }
}

/// Known objects that are created for each look-up. A consumer pops and finishes deltas during the look-ups.
struct Known {
    names: &'static [&'static str],
    watched: Arc<Watched>,
    popped: Mutex<Vec<Popped<UsesQueueOnDrop>>>,
    finishes: Finishes,
}

/// When the consumer finishes its popped deltas.
#[derive(PartialEq)]
enum Finishes {
    /// During the next look-up.
    DuringLookUp,
    Later,
}

impl Known {
    fn new(names: &'static [&'static str], watched: &Arc<Watched>, finishes: Finishes) -> Arc<Self> {
        Arc::new(Self { names, watched: watched.clone(), popped: Mutex::default(), finishes })
    }
}

type Make = fn(Arc<Known>) -> Arc<dyn Queue<UsesQueueOnDrop>>;

/// Both kinds of queues, with these known objects.
const MAKES: [Make; 2] = [
    |known| Arc::new(DeltaFifo::builder().known_objects(known).build()),
    |known| Arc::new(RealFifo::builder().known_objects(known).build()),
];

impl KnownObjects<UsesQueueOnDrop> for Known {
    fn keys(&self) -> Vec<ObjectKey> {
        let queue = self.watched.queue.lock().clone();
        if let Some(queue) = queue {
            self.popped.lock().extend(queue.try_pop_batch(1).unwrap());
        }
        self.names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<UsesQueueOnDrop>> {
        if self.finishes == Finishes::DuringLookUp {
            let popped = std::mem::take(&mut *self.popped.lock());
            drop(popped);
        }
        let name = self.names.iter().find(|name| **name == key.name())?;
        Some(Arc::new(UsesQueueOnDrop(name, self.watched.clone())))
    }
}

/// A key that is popped and processed while the queue looks up known objects is released afterwards.
// contract: Q-10a, Q-10b, Q-16a
#[test]
fn keys_processed_during_look_up_are_released() {
    for make in MAKES {
        let watched = Arc::new(Watched::default());
        let queue = make(Known::new(&["a"], &watched, Finishes::DuringLookUp));
        let object = Arc::new(UsesQueueOnDrop("a", watched.clone()));
        let held = Arc::downgrade(&object);
        queue.update(object).unwrap().into_result().unwrap();
        *watched.queue.lock() = Some(queue.clone());
        // Popped and finished during the look-up, so its known state may be outdated.
        queue.resync().unwrap();
        assert_eq!(queue.depth(), 0);
        *watched.queue.lock() = None;
        assert!(held.upgrade().is_none(), "the queue retains no processed object");
        assert_eq!(queue.metrics().in_flight, 0);
        queue.resync().unwrap();
        assert_eq!(queue.depth(), 1, "a processed object is resynced again");
    }
}

// contract: Q-16a
#[test]
fn known_states_are_dropped_without_the_lock() {
    for make in MAKES {
        let watched = Arc::new(Watched::default());
        let object = |name| Arc::new(UsesQueueOnDrop(name, watched.clone()));
        let known = Known::new(&["popped", "queued", "idle"], &watched, Finishes::Later);
        let queue = make(known.clone());
        for name in ["popped", "queued"] {
            queue.update(object(name)).unwrap().into_result().unwrap();
        }
        *watched.queue.lock() = Some(queue.clone());
        // The known states of popped and queued keys are not needed, and are dropped.
        queue.replace(Replacement::new(vec![object("new")], "1")).unwrap().into_result().unwrap();
        assert_eq!(*watched.uses.lock(), 2, "the known states of `popped` and `queued`");
        queue.resync().unwrap();
        known.popped.lock().clear();
        queue.close();
        while let Ok(Some(popped)) = queue.try_pop_batch(10) {
            drop(popped);
        }
        assert!(*watched.uses.lock() > 2);
        *watched.queue.lock() = None;
    }
}
