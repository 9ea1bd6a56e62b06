//! Random histories, with the consumer at work at any moment, also while the queue asks the known objects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::common::steps::{self, Weights, name};
use crate::common::{Consumer, Pod};
use kinformer_core::{KeyRef, KnownObjects, ObjectKey};
use kinformer_delta_fifo::{DeltaFifo, OnReplace, Popped, Queue, RealFifo};
use parking_lot::Mutex;
use proptest::prelude::*;

type Step = steps::Step<Work>;

/// What the consumer does.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Pops up to so many keys and keeps them.
    Pop(usize),
    /// Applies what it popped first, and keeps it a little longer.
    Apply,
    /// Says that what it applied first has been processed.
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

/// A consumer that pops, applies and finishes at the moments that a script says.
struct Worker {
    queue: Mutex<Option<Arc<dyn Queue<Pod>>>>,
    consumer: Consumer,
    popped: Mutex<VecDeque<Popped<Pod>>>,
    applied: Mutex<VecDeque<Popped<Pod>>>,
    /// What it does while the queue asks it for its keys.
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

    fn some_of_meanwhile(&self) {
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
        self.some_of_meanwhile();
        let keys = self.consumer.keys();
        self.some_of_meanwhile();
        keys
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<Pod>> {
        self.some_of_meanwhile();
        let object = self.consumer.get_by_key(key);
        self.some_of_meanwhile();
        object
    }
}

/// Writes one step, and into `truth` what the consumer is to end up with.
fn write(queue: &dyn Queue<Pod>, truth: &mut Keys, step: &Step, value: u32) {
    let errors = steps::write(queue, step, value).unwrap();
    let mut repeated = 0;
    match step {
        Step::Add(key) | Step::Update(key) => drop(truth.insert(name(*key), value)),
        Step::Delete(key) | Step::DeleteUnknown(key) => drop(truth.remove(&name(*key))),
        Step::Replace(keys, undelivered, unreadable) => {
            if *unreadable == 0 {
                truth.retain(|known, _| undelivered.iter().any(|key| name(*key) == *known));
            }
            truth.extend(keys.iter().map(|key| (name(*key), value)));
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
    let mut truth = Keys::new();
    for (value, (step, meanwhile)) in steps.iter().enumerate() {
        *worker.meanwhile.lock() = meanwhile.iter().copied().collect();
        write(&*queue, &mut truth, step, value as u32);
        if let Step::Other(work) = step {
            worker.work(*work);
        }
    }
    worker.meanwhile.lock().clear();
    worker.drain();
    assert_eq!(queue.depth(), 0);
    *worker.queue.lock() = None;
    (truth, worker)
}

fn ends_equal(steps: &[(Step, Vec<Work>)], make: impl FnOnce(Arc<Worker>) -> Arc<dyn Queue<Pod>>) {
    let (truth, worker) = run(steps, make);
    assert_eq!(worker.consumer.state(), truth);
}

fn histories() -> impl Strategy<Value = Vec<(Step, Vec<Work>)>> {
    prop::collection::vec(any_step(), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..Default::default() })]

    // contract
    #[test]
    fn delta_fifo_brings_the_consumer_to_the_truth(steps in histories(), sync: bool) {
        let on_replace = if sync { OnReplace::Sync } else { OnReplace::Replaced };
        // A replace that queues Sync cannot be told from a resync, so its copies need not be the stored ones.
        let steps: Vec<_> = steps.into_iter().filter(|(s, _)| !sync || !matches!(s, Step::Replace(..))).collect();
        ends_equal(&steps, |known| Arc::new(DeltaFifo::builder().known_objects(known).on_replace(on_replace).build()));
    }

    // contract
    #[test]
    fn real_fifo_with_known_objects_brings_the_consumer_to_the_truth(steps in histories()) {
        ends_equal(&steps, |known| Arc::new(RealFifo::builder().known_objects(known).build()));
    }

    // contract
    #[test]
    fn atomic_real_fifo_brings_the_consumer_to_the_truth(steps in histories()) {
        ends_equal(&steps, |_| Arc::new(RealFifo::new()));
    }

    // contract: Q-18
    #[test]
    fn atomic_or_not_the_consumer_ends_alike_and_its_handlers_see_the_same(steps in histories()) {
        // A resync of a queue that is not empty leaves out what is queued, where one of all does not; and what is
        // popped at which moment is for each queue to say. So both consume everything now and then.
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
            let mut truth = Keys::new();
            for (value, step) in script.iter().enumerate() {
                match step {
                    Some(step) => write(&*queue, &mut truth, step, value as u32),
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
