//! User code runs without the lock: a drop, a transform or a known object may use the queue itself.

use std::io::Write;
use std::sync::Arc;

use crate::common::WriteOne;
use kinformer_core::{KeyRef, KnownObjects, Object, ObjectKey, Replacement};
use kinformer_delta_fifo::{DeltaFifo, Popped, Queue, RealFifo};
use parking_lot::Mutex;

/// Set once the queue exists; what was seen when it was used.
#[derive(Default)]
struct Watched {
    queue: Mutex<Option<Arc<dyn Queue<Nosy>>>>,
    looks: Mutex<usize>,
}

impl Watched {
    /// Uses the queue, as only somebody can who does not hold its lock. A lock that is held would never be
    /// got by its own holder, so another thread tries, and says so instead of waiting for ever.
    fn look(&self) {
        let Some(queue) = self.queue.lock().clone() else { return };
        let (answer, answered) = std::sync::mpsc::channel();
        std::thread::spawn(move || answer.send(queue.depth()));
        let looked = answered.recv_timeout(std::time::Duration::from_secs(10));
        if looked.is_ok() {
            *self.looks.lock() += 1;
        } else {
            // Nothing could unwind past the lock, and a test's own output would not be shown after an abort.
            _ = writeln!(std::io::stderr(), "the lock of the queue was held while user code ran");
            std::process::abort();
        }
    }
}

/// An object whose drop looks into the queue.
struct Nosy(&'static str, Arc<Watched>);

impl Object for Nosy {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(self.0)
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        self.1.look();
    }
}

/// Known objects that nobody else holds, and during whose questions a consumer pops and finishes what is queued.
struct Loose {
    names: &'static [&'static str],
    watched: Arc<Watched>,
    popped: Mutex<Vec<Popped<Nosy>>>,
    finishes: Finishes,
}

/// When the consumer has processed what it popped.
#[derive(PartialEq)]
enum Finishes {
    /// While the queue still asks.
    WhileAsked,
    Later,
}

impl Loose {
    fn new(names: &'static [&'static str], watched: &Arc<Watched>, finishes: Finishes) -> Arc<Self> {
        Arc::new(Self { names, watched: watched.clone(), popped: Mutex::default(), finishes })
    }
}

type Make = fn(Arc<Loose>) -> Arc<dyn Queue<Nosy>>;

/// Both queues, asking these known objects.
const MAKES: [Make; 2] = [
    |known| Arc::new(DeltaFifo::builder().known_objects(known).build()),
    |known| Arc::new(RealFifo::builder().known_objects(known).build()),
];

impl KnownObjects<Nosy> for Loose {
    fn keys(&self) -> Vec<ObjectKey> {
        let queue = self.watched.queue.lock().clone();
        if let Some(queue) = queue {
            self.popped.lock().extend(queue.try_pop_batch(1).unwrap());
        }
        self.names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<Nosy>> {
        if self.finishes == Finishes::WhileAsked {
            let popped = std::mem::take(&mut *self.popped.lock());
            drop(popped);
        }
        let name = self.names.iter().find(|name| **name == key.name())?;
        Some(Arc::new(Nosy(name, self.watched.clone())))
    }
}

// contract
#[test]
fn what_was_processed_while_the_queue_asked_is_forgotten_afterwards() {
    for make in MAKES {
        let watched = Arc::new(Watched::default());
        let queue = make(Loose::new(&["a"], &watched, Finishes::WhileAsked));
        let object = Arc::new(Nosy("a", watched.clone()));
        let held = Arc::downgrade(&object);
        queue.update(object).unwrap().into_result().unwrap();
        *watched.queue.lock() = Some(queue.clone());
        // Popped and finished while the queue asks: what was said of it may be out of date.
        queue.resync().unwrap();
        assert_eq!(queue.depth(), 0);
        *watched.queue.lock() = None;
        assert!(held.upgrade().is_none(), "the queue keeps nothing of what was processed");
        assert_eq!(queue.metrics().in_flight, 0);
        queue.resync().unwrap();
        assert_eq!(queue.depth(), 1, "what is processed is resynced again");
    }
}

// contract: Q-16
#[test]
fn what_the_known_objects_gave_is_dropped_without_the_lock() {
    for make in MAKES {
        let watched = Arc::new(Watched::default());
        let nosy = |name| Arc::new(Nosy(name, watched.clone()));
        let known = Loose::new(&["popped", "queued", "idle"], &watched, Finishes::Later);
        let queue = make(known.clone());
        for name in ["popped", "queued"] {
            queue.update(nosy(name)).unwrap().into_result().unwrap();
        }
        *watched.queue.lock() = Some(queue.clone());
        // The known states of what is popped or queued are of no use, and are dropped.
        queue.replace(Replacement::new(vec![nosy("new")], "1")).unwrap().into_result().unwrap();
        assert_eq!(*watched.looks.lock(), 2, "the known states of `popped` and `queued`");
        queue.resync().unwrap();
        known.popped.lock().clear();
        queue.close();
        while let Ok(Some(popped)) = queue.try_pop_batch(10) {
            drop(popped);
        }
        assert!(*watched.looks.lock() > 2);
        *watched.queue.lock() = None;
    }
}
