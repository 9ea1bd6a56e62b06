//! The queue against a simple model: a list of ready keys, in the order in which they were queued.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use kinformer_workqueue::{Add, Fairness, Item, WorkQueue};
use proptest::prelude::*;

use crate::common::MS;

#[derive(Clone, Debug)]
enum Step {
    Add { key: u8, priority: i64, delay: u64 },
    Take,
    Drop(usize),
    RetryAfter(usize, u64),
    Advance(u64),
    Retain(u8),
    Admit(u8),
    ShutDown,
}

fn step() -> impl Strategy<Value = Step> {
    let delay = || prop_oneof![Just(0), 1..20_u64];
    prop_oneof![
        12 => (0..8_u8, -1..2_i64, delay()).prop_map(|(key, priority, delay)| Step::Add { key, priority, delay }),
        12 => Just(Step::Take),
        6 => any::<usize>().prop_map(Step::Drop),
        6 => (any::<usize>(), delay()).prop_map(|(index, delay)| Step::RetryAfter(index, delay)),
        6 => (1..15_u64).prop_map(Step::Advance),
        1 => (0..8_u8).prop_map(Step::Retain),
        1 => (0..12_u8).prop_map(Step::Admit),
        1 => Just(Step::ShutDown),
    ]
}

#[derive(Default)]
struct Model {
    now: u64,
    every: u32,
    passed: u32,
    /// Ready keys with their priorities, in the order in which they were queued.
    ready: Vec<(u8, i64)>,
    /// Keys in flight, with the priority of their next run.
    in_flight: BTreeMap<u8, Option<i64>>,
    /// Delayed keys: time, number, priority.
    delayed: BTreeMap<u8, (u64, u64, i64)>,
    number: u64,
    least_admitted: u8,
    is_shut_down: bool,
    adds: u64,
}

impl Model {
    fn queue_due(&mut self) {
        let mut due: Vec<_> =
            self.delayed.iter().map(|(key, (at, number, _))| (*at, *number, *key)).collect();
        due.sort_unstable();
        for (at, _, key) in due {
            if at <= self.now
                && let Some((_, _, priority)) = self.delayed.remove(&key)
            {
                self.queue(key, priority);
            }
        }
    }

    fn queue(&mut self, key: u8, priority: i64) {
        self.adds += 1;
        match self.in_flight.get_mut(&key) {
            Some(again) => *again = Some(priority),
            None => self.ready.push((key, priority)),
        }
    }

    fn add(&mut self, key: u8, priority: i64, delay: u64) -> bool {
        if self.is_shut_down || key < self.least_admitted {
            return false;
        }
        if let Some(index) = self.ready.iter().position(|(ready, _)| *ready == key) {
            if priority > self.ready[index].1 {
                self.ready.remove(index);
                self.ready.push((key, priority));
            }
            return true;
        }
        if let Some(Some(again)) = self.in_flight.get_mut(&key) {
            *again = priority.max(*again);
            return true;
        }
        let earlier = self.delayed.remove(&key);
        let priority = earlier.map_or(priority, |(_, _, earlier)| earlier.max(priority));
        self.number += 1;
        match earlier {
            Some((at, number, _)) if at <= self.now + delay && delay > 0 => {
                self.delayed.insert(key, (at, number, priority));
            }
            _ if delay > 0 => drop(self.delayed.insert(key, (self.now + delay, self.number, priority))),
            _ => self.queue(key, priority),
        }
        true
    }

    fn take(&mut self) -> Option<(u8, i64)> {
        self.queue_due();
        let highest = self.ready.iter().map(|(_, priority)| *priority).max()?;
        let mut index = self.ready.iter().position(|(_, priority)| *priority == highest)?;
        self.passed = if self.ready.iter().all(|(_, p)| *p == highest) { 0 } else { self.passed + 1 };
        if self.passed == self.every {
            (self.passed, index) = (0, 0);
        }
        let taken = self.ready.remove(index);
        self.in_flight.insert(taken.0, None);
        Some(taken)
    }

    fn finish(&mut self, key: u8) {
        if let Some(Some(priority)) = self.in_flight.remove(&key) {
            self.ready.push((key, priority));
        }
    }

    fn retain(&mut self, least: u8) -> usize {
        let before = self.ready.len() + self.delayed.len();
        self.ready.retain(|(key, _)| *key >= least);
        self.delayed.retain(|key, _| *key >= least);
        let again = self.in_flight.range_mut(..least).filter_map(|(_, again)| again.take());
        before - self.ready.len() - self.delayed.len() + again.count()
    }

    fn depth(&self) -> usize {
        self.ready.len() + self.in_flight.values().flatten().count()
    }
}

async fn run(every: u32, steps: Vec<Step>) {
    let fairness = Fairness::OldestEvery(NonZeroU32::new(every).unwrap());
    let queue = WorkQueue::builder().fairness(fairness).build();
    let mut model = Model { every, ..Model::default() };
    let mut items: Vec<Item<u8>> = Vec::new();
    for step in steps {
        match step {
            Step::Add { key, priority, delay } => {
                let add = Add::new().priority(priority).after(MS * u32::try_from(delay).unwrap());
                assert_eq!(queue.add_with(key, add), model.add(key, priority, delay));
            }
            Step::Take => {
                let item = queue.try_next();
                assert_eq!(item.as_ref().map(|item| (*item.key(), item.priority())), model.take());
                items.extend(item);
            }
            Step::Drop(_) | Step::RetryAfter(..) if items.is_empty() => {}
            Step::Drop(index) => {
                let item = items.swap_remove(index % items.len());
                model.finish(*item.key());
                drop(item);
            }
            Step::RetryAfter(index, delay) => {
                let item = items.swap_remove(index % items.len());
                model.finish(*item.key());
                model.add(*item.key(), item.priority(), delay);
                item.retry_after(MS * u32::try_from(delay).unwrap());
            }
            Step::Advance(time) => {
                tokio::time::advance(MS * u32::try_from(time).unwrap()).await;
                model.now += time;
            }
            Step::Retain(least) => assert_eq!(queue.retain(|key| *key >= least), model.retain(least)),
            Step::Admit(least) => {
                model.least_admitted = if least < 8 { least } else { 0 };
                let least = model.least_admitted;
                queue.admit(move |key| *key >= least);
            }
            Step::ShutDown => {
                queue.shut_down();
                model.is_shut_down = true;
                model.delayed.clear();
            }
        }
        let metrics = queue.metrics();
        model.queue_due();
        assert_eq!(
            (metrics.depth, metrics.in_flight, metrics.delayed, metrics.adds),
            (model.depth(), model.in_flight.len(), model.delayed.len(), model.adds)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1000 } else { 20_000 }))]

    // contract: W-01a, W-01b, W-01c, W-01d, W-01e, W-02a, W-02b, W-02c, W-02d, W-03a, W-03b, W-03c, W-03d, W-07c
    #[test]
    fn queue_matches_the_model(every in 1..5_u32, steps in prop::collection::vec(step(), 0..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(run(every, steps));
    }
}
