//! Random histories, in which the consumer works at any time, also while the queue looks up known objects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::common::steps::{self, Weights, name};
use crate::common::{Consumer, Pod};
use kinformer_core::{KeyRef, KnownObjects, ObjectKey};
use kinformer_delta_fifo::{DeltaFifo, OnReplace, Popped, Queue, RealFifo};
use parking_lot::Mutex;
use proptest::prelude::*;

type Step = steps::Step<Work>;

/// A step of the consumer.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Pops up to this many keys and retains them.
    Pop(usize),
    /// Applies the oldest retained pop, and retains it until it is finished.
    Apply,
    /// Marks the oldest applied pop as processed.
    Finish,
    Rest,
}

fn any_work() -> impl Strategy<Value = Work> {
    prop_oneof![3 => (1usize..4).prop_map(Work::Pop), 3 => Just(Work::Apply), 3 => Just(Work::Finish), 2 => Just(Work::Rest)]
}

fn any_step() -> impl Strategy<Value = (Step, Vec<Work>)> {
    let weights = Weights { write: 3, delete_unknown: 1, resync: 2, bookmark: 1, other: 9 };
    (steps::any_step(weights, any_work()), prop::collection::vec(any_work(), 0..12))
}

type Keys = BTreeMap<String, u32>;

/// A consumer that pops, applies and finishes according to a script.
struct Worker {
    queue: Mutex<Option<Arc<dyn Queue<Pod>>>>,
    consumer: Consumer,
    popped: Mutex<VecDeque<Popped<Pod>>>,
    applied: Mutex<VecDeque<Popped<Pod>>>,
    /// The steps to make while the queue looks up known objects.
    meanwhile: Mutex<VecDeque<Work>>,
}

impl Worker {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::new(None),
            consumer: Consumer::default(),
            popped: Mutex::default(),
            applied: Mutex::default(),
            meanwhile: Mutex::default(),
        })
    }

    fn work(&self, work: Work) {
        match work {
            Work::Pop(max) => {
                let queue = self.queue.lock().clone().unwrap();
                let popped = queue.try_pop_batch(max).unwrap();
                self.popped.lock().extend(popped);
            }
            Work::Apply => {
                let popped = self.popped.lock().pop_front();
                if let Some(popped) = popped {
                    popped.deltas().iter().for_each(|delta| self.consumer.apply(delta));
                    self.applied.lock().push_back(popped);
                }
            }
            Work::Finish => drop(self.applied.lock().pop_front()),
            Work::Rest => {}
        }
    }

    fn work_meanwhile(&self) {
        for _ in 0..3 {
            let work = self.meanwhile.lock().pop_front();
            work.into_iter().for_each(|work| self.work(work));
        }
    }

    fn drain(&self) {
        while self.queue.lock().clone().unwrap().depth() > 0 {
            self.work(Work::Pop(1000));
        }
        while !self.popped.lock().is_empty() {
            self.work(Work::Apply);
        }
        self.applied.lock().clear();
    }
}

impl KnownObjects<Pod> for Worker {
    fn keys(&self) -> Vec<ObjectKey> {
        self.work_meanwhile();
        let keys = self.consumer.keys();
        self.work_meanwhile();
        keys
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<Pod>> {
        self.work_meanwhile();
        let object = self.consumer.get_by_key(key);
        self.work_meanwhile();
        object
    }
}

/// Writes one step, and updates `expected`, the final state of the consumer.
fn write(queue: &dyn Queue<Pod>, expected: &mut Keys, step: &Step, value: u32) {
    let errors = steps::write(queue, step, value).unwrap();
    let mut repeated = 0;
    match step {
        Step::Add(key) | Step::Update(key) => drop(expected.insert(name(*key), value)),
        Step::Delete(key) | Step::DeleteUnknown(key) => drop(expected.remove(&name(*key))),
        Step::Replace(keys, undelivered, unidentified) => {
            if *unidentified == 0 {
                expected.retain(|known, _| undelivered.iter().any(|key| name(*key) == *known));
            }
            expected.extend(keys.iter().map(|key| (name(*key), value)));
            repeated = keys.len() - keys.iter().collect::<BTreeSet<_>>().len();
        }
        Step::Resync | Step::Bookmark | Step::Other(_) => {}
    }
    assert_eq!(errors.errors().len(), repeated);
}

fn run(
    steps: &[(Step, Vec<Work>)],
    make: impl FnOnce(Arc<Worker>) -> Arc<dyn Queue<Pod>>,
) -> (Keys, Arc<Worker>) {
    let worker = Worker::new();
    let queue = make(worker.clone());
    *worker.queue.lock() = Some(queue.clone());
    let mut expected = Keys::new();
    for (value, (step, meanwhile)) in steps.iter().enumerate() {
        *worker.meanwhile.lock() = meanwhile.iter().copied().collect();
        write(&*queue, &mut expected, step, value as u32);
        if let Step::Other(work) = step {
            worker.work(*work);
        }
    }
    worker.meanwhile.lock().clear();
    worker.drain();
    assert_eq!(queue.depth(), 0);
    *worker.queue.lock() = None;
    (expected, worker)
}

fn check_final_state(steps: &[(Step, Vec<Work>)], make: impl FnOnce(Arc<Worker>) -> Arc<dyn Queue<Pod>>) {
    let (expected, worker) = run(steps, make);
    assert_eq!(worker.consumer.state(), expected);
}

fn histories() -> impl Strategy<Value = Vec<(Step, Vec<Work>)>> {
    prop::collection::vec(any_step(), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..Default::default() })]

    // contract: Q-02a, Q-08a, Q-08b, Q-10b, Q-16a
    #[test]
    fn delta_fifo_consumer_reaches_final_state(steps in histories(), sync: bool) {
        let on_replace = if sync { OnReplace::Sync } else { OnReplace::Replaced };
        // A replace that queues Sync cannot be distinguished from a resync, so its copies need not be the stored ones.
        let steps: Vec<_> = steps.into_iter().filter(|(s, _)| !sync || !matches!(s, Step::Replace(..))).collect();
        check_final_state(&steps, |known| {
            Arc::new(DeltaFifo::builder().known_objects(known).on_replace(on_replace).build())
        });
    }

    /// The same for a [`RealFifo`] with known objects.
    // contract: Q-08a, Q-08b, Q-10b, Q-13, Q-16a
    #[test]
    fn known_real_fifo_consumer_reaches_final_state(steps in histories()) {
        check_final_state(&steps, |known| Arc::new(RealFifo::builder().known_objects(known).build()));
    }

    // contract: Q-13, Q-14a, Q-14d
    #[test]
    fn atomic_real_fifo_consumer_reaches_final_state(steps in histories()) {
        check_final_state(&steps, |_| Arc::new(RealFifo::new()));
    }

    /// With and without known objects, the consumer reaches the same state, and its handlers receive the same events.
    // contract: Q-18a, Q-18b
    #[test]
    fn both_real_fifo_modes_deliver_the_same_events(steps in histories()) {
        // A resync of single objects skips queued ones, and a resync of all objects does not. The two queues also
        // split their pops differently. So both are drained at the same steps.
        let mut script = Vec::new();
        for (step, _) in steps {
            match step {
                Step::Other(_) => script.push(None),
                Step::Resync => script.extend([None, Some(Step::Resync), None]),
                other => script.push(Some(other)),
            }
        }
        let play = |queue: Arc<dyn Queue<Pod>>, worker: &Worker| {
            *worker.queue.lock() = Some(queue.clone());
            let mut expected = Keys::new();
            for (value, step) in script.iter().enumerate() {
                match step {
                    Some(step) => write(&*queue, &mut expected, step, value as u32),
                    None => worker.drain(),
                }
            }
            worker.drain();
            *worker.queue.lock() = None;
            let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (key, event) in worker.consumer.events.lock().iter() {
                by_key.entry(key.clone()).or_default().push(event.clone());
            }
            (worker.consumer.state(), by_key)
        };
        let (one, each) = (Worker::new(), Worker::new());
        let atomic = play(Arc::new(RealFifo::new()), &one);
        let single = play(Arc::new(RealFifo::builder().known_objects(each.clone()).build()), &each);
        prop_assert_eq!(atomic, single);
    }
}
