//! Both delta queues, delta for delta, against plain models: with pops in flight, a bound, and a close at any
//! time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::common::steps::{self, Weights, name};
use crate::common::{Consumer, Pod, pod, text, texts};
use kinformer_core::{Delta, Error as SinkError, KeyRef, PartId, ResourceVersion, VersionUpdate, Versions};
use kinformer_delta_fifo::{Bound, DeltaFifo, Error, Queue, RealFifo};
use proptest::prelude::*;

type Step = steps::Step<Other>;

#[derive(Clone, Debug)]
enum Other {
    Pop(usize),
    /// Applies the oldest pop and marks it as processed.
    Finish,
    Close,
}

fn any_step() -> impl Strategy<Value = Step> {
    let other = prop_oneof![
        12 => (1usize..5).prop_map(Other::Pop),
        9 => Just(Other::Finish),
        1 => Just(Other::Close),
    ];
    steps::any_step(Weights { write: 6, delete_unknown: 2, resync: 4, bookmark: 2, other: 22 }, other)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Delta,
    Real,
    Atomic,
}

/// A delta about one key (`state` is its value), or about all (`state` is the rest of its text).
#[derive(Clone, Debug)]
struct Plain {
    kind: &'static str,
    key: Option<String>,
    state: Option<String>,
    unknown: bool,
    /// The step that wrote it; of two deletions in one, the earlier one.
    step: u32,
}

impl Plain {
    fn of(kind: &'static str, key: &str, value: u32) -> Self {
        Self { kind, key: Some(key.into()), state: Some(value.to_string()), unknown: false, step: 0 }
    }

    fn missed(key: &str, state: Option<String>) -> Self {
        Self { kind: "Deleted", key: Some(key.into()), state, unknown: true, step: 0 }
    }

    fn all(kind: &'static str, rest: Option<String>) -> Self {
        Self { kind, key: None, state: rest, unknown: false, step: 0 }
    }

    fn is_deletion(&self) -> bool {
        self.kind == "Deleted"
    }

    fn text(&self) -> String {
        let mark = if self.unknown { "?" } else { "" };
        match (&self.key, &self.state) {
            (Some(key), Some(state)) => format!("{} {mark}{key}={state}", self.kind),
            (Some(key), None) => format!("{} {mark}{key}", self.kind),
            (None, Some(rest)) => format!("{} {rest}", self.kind),
            (None, None) => self.kind.into(),
        }
    }
}

/// The unit of a pop: a delta, or all deltas of a key in a DeltaFIFO.
#[derive(Clone, Debug)]
struct Entry {
    deltas: Vec<Plain>,
    initial: bool,
}

impl Entry {
    fn newest(&self) -> &Plain {
        self.deltas.last().unwrap()
    }

    fn key(&self) -> Option<&str> {
        self.newest().key.as_deref()
    }
}

#[derive(Debug, PartialEq)]
enum Refused {
    Closed,
    Full,
}

struct Model {
    kind: Kind,
    limit: usize,
    queue: Vec<Entry>,
    flight: VecDeque<Vec<Entry>>,
    known: BTreeMap<String, u32>,
    populated: bool,
    closed: bool,
    popped: usize,
    refused: u64,
    step: u32,
    /// The steps with a version, which equals the number of the step.
    versions: Vec<u32>,
    /// The last version up to which the consumer knows that everything was popped.
    reached: u32,
}

impl Model {
    /// The last version up to which everything was popped.
    fn complete(&self) -> u32 {
        let oldest = self.queue.iter().flat_map(|entry| &entry.deltas).map(|delta| delta.step).min();
        let complete = self.versions.iter().filter(|version| oldest.is_none_or(|oldest| **version < oldest));
        complete.max().copied().unwrap_or_default()
    }

    fn depth(&self) -> usize {
        self.queue.iter().map(|entry| entry.deltas.len()).sum()
    }

    /// The newest delta of a key that is queued or, failing that, being processed.
    fn newest(&self, key: &str) -> Option<&Plain> {
        let in_flight = self.flight.iter().flatten();
        let entry = in_flight.chain(&self.queue).rfind(|entry| entry.key() == Some(key));
        entry.map(Entry::newest)
    }

    fn in_flight(&self) -> BTreeSet<String> {
        let entries = self.flight.iter().flatten();
        entries.filter_map(|entry| entry.key().map(str::to_owned)).collect()
    }

    fn has_synced(&self) -> bool {
        self.populated && !self.flight.iter().flatten().chain(&self.queue).any(|entry| entry.initial)
    }

    fn push(&mut self, mut delta: Plain) {
        delta.step = self.step;
        let place = match self.kind {
            Kind::Delta => self.queue.iter_mut().find(|entry| entry.key() == delta.key.as_deref()),
            _ => None,
        };
        let Some(entry) = place else {
            return self.queue.push(Entry { deltas: vec![delta], initial: false });
        };
        let last = entry.deltas.last_mut().unwrap();
        if !last.is_deletion() || !delta.is_deletion() {
            entry.deltas.push(delta);
        } else if !delta.unknown || (last.unknown && last.state.is_none() && delta.state.is_some()) {
            delta.step = last.step;
            *last = delta;
        }
    }

    fn admit(&mut self) -> Result<(), Refused> {
        if self.closed {
            return Err(Refused::Closed);
        }
        if self.depth() >= self.limit {
            self.refused += 1;
            return Err(Refused::Full);
        }
        Ok(())
    }

    fn write(&mut self, step: &Step, value: u32) -> Result<(), Refused> {
        self.step = value;
        self.write_deltas(step, value)?;
        if !matches!(step, Step::DeleteUnknown(_) | Step::Resync | Step::Other(_)) {
            self.versions.push(value);
        }
        Ok(())
    }

    fn write_deltas(&mut self, step: &Step, value: u32) -> Result<(), Refused> {
        match step {
            Step::Add(key) => {
                self.admit()?;
                self.populated = true;
                self.push(Plain::of("Added", &name(*key), value));
            }
            Step::Update(key) => {
                self.admit()?;
                self.populated = true;
                self.push(Plain::of("Updated", &name(*key), value));
            }
            Step::Delete(key) | Step::DeleteUnknown(key) => {
                self.admit()?;
                self.populated = true;
                let key = name(*key);
                if self.kind != Kind::Delta || self.newest(&key).is_some() || self.known.contains_key(&key) {
                    self.push(match step {
                        Step::Delete(_) => Plain::of("Deleted", &key, value),
                        _ => Plain::missed(&key, None),
                    });
                }
            }
            Step::Replace(keys, undelivered, unidentified) => {
                self.admit()?;
                self.replace(keys, undelivered, *unidentified, value);
            }
            Step::Resync if self.kind == Kind::Atomic => {
                self.admit()?;
                self.push(Plain::all("SyncAll", None));
            }
            Step::Resync => {
                self.admit()?;
                for (key, value) in self.known.clone() {
                    if self.newest(&key).is_none() {
                        self.push(Plain::of("Sync", &key, value));
                    }
                }
            }
            // Only a version, which needs no room.
            Step::Bookmark if self.closed => return Err(Refused::Closed),
            Step::Bookmark if self.kind == Kind::Atomic && self.depth() < self.limit => {
                self.push(Plain::all("Bookmark", Some(format!("@{value}"))));
            }
            Step::Bookmark | Step::Other(_) => {}
        }
        Ok(())
    }

    fn replace(&mut self, keys: &[u8], undelivered: &[u8], unidentified: usize, value: u32) {
        let last = |(index, key): &(usize, &u8)| !keys[index + 1..].contains(key);
        let listed: Vec<_> = keys.iter().enumerate().filter(last).map(|(_, key)| name(*key)).collect();
        let before = self.queue.len();
        if self.kind == Kind::Atomic {
            let states: Vec<_> = listed.iter().map(|key| format!("{key}={value}")).collect();
            self.push(Plain::all("ReplacedAll", Some(format!("{} @{value}", states.join(" ")))));
        } else {
            let there: BTreeSet<_> =
                listed.iter().cloned().chain(undelivered.iter().map(|key| name(*key))).collect();
            let mut missing = Vec::new();
            let queued: Vec<_> =
                self.queue.iter().filter_map(|entry| entry.key().map(str::to_owned)).collect();
            let known = self.known.keys().cloned();
            for key in queued.into_iter().chain(self.in_flight()).chain(known) {
                let seen = missing.iter().any(|delta: &Plain| delta.key.as_ref() == Some(&key));
                let state = match self.newest(&key) {
                    Some(newest) if newest.is_deletion() => continue,
                    Some(newest) => newest.state.clone(),
                    None => self.known.get(&key).map(u32::to_string),
                };
                if !seen && unidentified == 0 && !there.contains(&key) {
                    missing.push(Plain::missed(&key, state));
                }
            }
            let replaced = listed.iter().map(|key| Plain::of("Replaced", key, value));
            let deltas: Vec<_> = match self.kind {
                Kind::Delta => replaced.chain(missing).collect(),
                _ => missing.into_iter().chain(replaced).collect(),
            };
            deltas.into_iter().for_each(|delta| self.push(delta));
        }
        if !std::mem::replace(&mut self.populated, true) {
            // In a DeltaFIFO the list merges into the queued deltas.
            let first = if self.kind == Kind::Delta { 0 } else { before };
            self.queue[first..].iter_mut().for_each(|entry| entry.initial = true);
        }
    }

    fn pop(&mut self, max: usize) -> Vec<Entry> {
        let mut batch: Vec<Entry> = Vec::new();
        while batch.len() < max && !self.queue.is_empty() {
            let next = &self.queue[0];
            let alone = next.key().is_none();
            if batch.first().is_some_and(|first| {
                alone
                    || first.key().is_none()
                    || first.initial != next.initial
                    || batch.iter().any(|entry| entry.key() == next.key())
            }) {
                break;
            }
            batch.push(self.queue.remove(0));
        }
        if !batch.is_empty() {
            self.popped += batch.iter().map(|entry| entry.deltas.len()).sum::<usize>();
            self.flight.push_back(batch.clone());
        }
        batch
    }

    fn finish(&mut self) {
        for entry in self.flight.pop_front().into_iter().flatten() {
            for delta in &entry.deltas {
                let Some(key) = delta.key.clone() else { continue };
                match delta.is_deletion() {
                    true => drop(self.known.remove(&key)),
                    false => drop(self.known.insert(key, delta.state.as_ref().unwrap().parse().unwrap())),
                }
            }
        }
    }
}

fn play(kind: Kind, steps: &[Step], limit: Option<usize>, stored: u8) -> Result<(), TestCaseError> {
    let consumer = Arc::new(Consumer::default());
    for key in 0..stored {
        consumer.apply(&Delta::Added(pod(&name(key), 0)));
    }
    let bound = limit.map_or(Bound::Unbounded, Bound::Deltas);
    let delta = DeltaFifo::builder().known_objects(consumer.clone()).bound(bound).build();
    let queue: Arc<dyn Queue<Pod>> = match kind {
        Kind::Delta => Arc::new(delta.clone()),
        Kind::Real => Arc::new(RealFifo::builder().known_objects(consumer.clone()).bound(bound).build()),
        Kind::Atomic => Arc::new(RealFifo::builder().bound(bound).build()),
    };
    let mut model = Model {
        kind,
        limit: limit.unwrap_or(usize::MAX),
        queue: Vec::new(),
        flight: VecDeque::new(),
        known: consumer.state(),
        populated: false,
        closed: false,
        popped: 0,
        refused: 0,
        step: 0,
        versions: Vec::new(),
        reached: 0,
    };
    let mut version = Versions::unset(1);
    let set = VersionUpdate::Set { version: ResourceVersion::number(0), is_complete: true };
    version.update(PartId::ONLY, &set);
    let mut guards = VecDeque::new();
    let mut has_incomplete = false;
    // At the end everything is popped and processed.
    let rest = steps.len() * 10;
    let rest = std::iter::repeat_n([Other::Pop(2), Other::Finish].map(Step::Other), rest).flatten();
    for (value, step) in steps.iter().cloned().chain(rest).enumerate() {
        let value = value as u32 + 1;
        let written = steps::write(&*queue, &step, value).map(drop).map_err(|error| match error {
            SinkError::Closed => Refused::Closed,
            SinkError::Full { .. } => Refused::Full,
            other => panic!("{other}"),
        });
        prop_assert_eq!(written, model.write(&step, value), "{:?}", step);
        match step {
            Step::Other(Other::Pop(max)) => {
                let expected = model.pop(max);
                match queue.try_pop_batch(max) {
                    Ok(Some(popped)) => {
                        let deltas: Vec<_> =
                            expected.iter().flat_map(|entry| entry.deltas.iter().map(Plain::text)).collect();
                        prop_assert_eq!(texts(&popped), deltas);
                        prop_assert!(!expected.is_empty() || model.complete() > model.reached);
                        let initial = expected.first().is_some_and(|entry| entry.initial);
                        prop_assert_eq!(popped.in_initial_list(), initial);
                        if let Some(VersionUpdate::Set { is_complete, .. }) =
                            popped.versions().get(PartId::ONLY)
                        {
                            has_incomplete = !is_complete;
                        }
                        popped.versions().apply_to(&mut version);
                        if !expected.is_empty() {
                            guards.push_back(popped);
                        }
                    }
                    Ok(None) => prop_assert!(expected.is_empty() && !model.closed),
                    Err(error) => {
                        prop_assert_eq!(error, Error::Closed);
                        prop_assert!(expected.is_empty() && model.closed);
                    }
                }
                model.reached = model.complete();
                // After an incomplete list the version may be lower, until the end of a complete one (S-17c).
                let (reached, complete) = (version.lowest(), ResourceVersion::number(model.reached.into()));
                prop_assert!(complete.reaches(&reached) && (has_incomplete || reached == complete));
            }
            Step::Other(Other::Finish) => {
                guards.pop_front().into_iter().for_each(|popped| consumer.process(popped));
                model.finish();
            }
            Step::Other(Other::Close) => {
                prop_assert_eq!(queue.close(), !model.closed);
                model.closed = true;
            }
            _ => {}
        }
        let metrics = queue.metrics();
        prop_assert_eq!(metrics.depth, model.depth());
        prop_assert_eq!(metrics.entries, model.queue.len());
        prop_assert_eq!(metrics.popped, model.popped as u64);
        prop_assert_eq!(metrics.refused, model.refused);
        prop_assert!(metrics.peak_depth >= metrics.depth);
        let tracked = if kind == Kind::Atomic { 0 } else { model.in_flight().len() };
        prop_assert_eq!(metrics.in_flight, tracked);
        prop_assert_eq!(queue.has_synced(), model.has_synced(), "after {:?}", step);
        prop_assert_eq!(queue.is_ready(), model.closed || model.depth() < model.limit);
        if kind == Kind::Delta {
            let keys: Vec<_> = delta.keys().iter().map(ToString::to_string).collect();
            let expected: Vec<_> = model.queue.iter().map(|entry| entry.key().unwrap().to_owned()).collect();
            prop_assert_eq!(keys, expected);
            for entry in &model.queue {
                let deltas: Vec<_> =
                    delta.get_by_key(KeyRef::parse(entry.key().unwrap()).unwrap()).iter().map(text).collect();
                prop_assert_eq!(deltas, entry.deltas.iter().map(Plain::text).collect::<Vec<_>>());
            }
        }
    }
    prop_assert!(guards.is_empty());
    prop_assert_eq!(queue.depth(), 0);
    if kind != Kind::Atomic {
        prop_assert_eq!(consumer.state(), model.known);
    }
    Ok(())
}

fn histories() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any_step(), 1..40)
}

fn limits() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![2 => Just(None), 1 => (1usize..8).prop_map(Some)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..Default::default() })]

    // contract: Q-01, Q-02a, Q-02b, Q-03a, Q-03d, Q-04a, Q-05c, Q-05d, Q-06a, Q-06b, Q-06c, Q-06d, Q-07, Q-08a, Q-08b, Q-08c, Q-08d, Q-09, Q-10a, Q-10b, Q-11, Q-19a, Q-19b, Q-19d, Q-19e, Q-23d
    #[test]
    fn delta_fifo_matches_its_model(steps in histories(), limit in limits(), stored in 0u8..4) {
        play(Kind::Delta, &steps, limit, stored)?;
    }

    // contract: Q-01, Q-04b, Q-05c, Q-05d, Q-06a, Q-06b, Q-06c, Q-06d, Q-07, Q-08a, Q-08b, Q-08c, Q-08d, Q-09, Q-10a, Q-10b, Q-11, Q-13, Q-15a, Q-15d, Q-19a, Q-19b, Q-19d, Q-19e
    #[test]
    fn known_real_fifo_matches_its_model(steps in histories(), limit in limits(), stored in 0u8..4) {
        play(Kind::Real, &steps, limit, stored)?;
    }

    // contract: Q-01, Q-04b, Q-05c, Q-05d, Q-06a, Q-06b, Q-06d, Q-07, Q-13, Q-14a, Q-14b, Q-14d, Q-15a, Q-15c, Q-15d, Q-19a, Q-19e
    #[test]
    fn atomic_real_fifo_matches_its_model(steps in histories(), limit in limits()) {
        play(Kind::Atomic, &steps, limit, 0)?;
    }
}
