//! The state behind the lock: which keys are queued, delayed and in flight.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashTable;

use crate::entries::{Entries, Entry, List, Pending, Slot, Time};
use crate::metrics::{Histogram, QueueMetrics};
use crate::sync::{Instant, now};

/// Decides which keys a queue accepts.
pub(crate) type Admission<K> = dyn Fn(&K) -> bool + Send + Sync;

/// Up to this many priorities without keys are kept, so that a queue that runs empty allocates nothing.
const EMPTY_LEVELS: usize = 8;

pub(crate) struct State<K, C> {
    entries: Entries<K, C>,
    /// The slots by the hashes of their keys.
    table: HashTable<Slot>,
    /// The keys of each priority.
    levels: BTreeMap<i64, Level>,
    /// The ready keys of all priorities, in the order in which they were queued.
    oldest: List<1>,
    /// The keys in flight, in the order in which they were handed out. A key in flight is not ready, so this list uses
    /// the links of the one above.
    running: List<1>,
    in_flight: usize,
    /// By the end of the delay, and a number.
    delays: BTreeMap<(Time, u64), Slot>,
    /// The number of the last delay or run.
    last_number: NonZeroU64,
    /// The beginning of time.
    created: Instant,
    alarm: Option<Alarm>,
    /// Every so many keys, the oldest is handed out.
    fairness: Option<NonZeroU32>,
    /// The number of keys handed out while keys of lower priorities waited.
    passed: u32,
    pub(crate) phase: Phase,
    pub(crate) admission: Option<Arc<Admission<K>>>,
    adds: u64,
    retries: u64,
    pub(crate) rejected: u64,
    durations: Option<Box<Durations>>,
}

/// Whether a queue is in use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Nothing is accepted.
    ShutDown,
    /// Nothing is accepted, and somebody waits until everything has been processed.
    Draining,
}

/// The keys of one priority.
struct Level {
    ready: List<0>,
    /// The number of keys in `ready`, and of those that are queued after their run.
    depth: usize,
}

/// The waiter that wakes at the time of the first delay, so that not all waiters do.
struct Alarm {
    at: Time,
    waiter: u64,
}

#[derive(Default)]
struct Durations {
    queue: Histogram,
    work: Histogram,
}

/// A request to run a key.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) priority: i64,
    pub(crate) marks: u32,
    pub(crate) due: Option<Instant>,
}

/// Pending keys with their slots.
type PendingKeys<K> = Vec<(Slot, Arc<K>)>;

/// A key that was handed out.
pub(crate) struct Taken<K, C> {
    pub(crate) slot: Slot,
    pub(crate) run: NonZeroU64,
    pub(crate) key: Arc<K>,
    pub(crate) priority: i64,
    pub(crate) marks: u32,
    pub(crate) cause: Option<C>,
    /// How long it was queued.
    pub(crate) queued: Duration,
}

/// Values of users that a queue has no more. They are dropped without the lock.
pub(crate) type Removed<K, C> = (Option<Arc<K>>, Option<C>);

impl<K, C> State<K, C> {
    pub(crate) fn new(fairness: Option<NonZeroU32>, records_durations: bool) -> Self {
        Self {
            entries: Entries::new(),
            table: HashTable::new(),
            levels: BTreeMap::new(),
            oldest: List::new(),
            running: List::new(),
            in_flight: 0,
            delays: BTreeMap::new(),
            last_number: NonZeroU64::MIN,
            created: now(),
            alarm: None,
            fairness,
            passed: 0,
            phase: Phase::Open,
            admission: None,
            adds: 0,
            retries: 0,
            rejected: 0,
            durations: records_durations.then(Box::default),
        }
    }

    fn find(&self, key: &K, hash: u64) -> Option<Slot>
    where
        K: Eq,
    {
        let is_it = |slot: &Slot| {
            let entry = self.entries.entry(*slot);
            entry.hash == hash && *entry.key == *key
        };
        self.table.find(hash, is_it).copied()
    }

    /// Removes the pending run of a key, if there is one.
    pub(crate) fn remove_key(&mut self, key: &K, hash: u64) -> Option<Removed<K, C>>
    where
        K: Eq,
    {
        let slot = self.find(key, hash)?;
        let key = self.entries.entry(slot).key.clone();
        self.remove(slot, &key)
    }

    /// Adds a request for a key. Returns how many waiters to wake, and what the queue does not keep: the given key if it has
    /// it already, and the cause before.
    pub(crate) fn add(
        &mut self,
        key: K,
        hash: u64,
        request: Request,
        cause: Option<C>,
    ) -> (usize, (Option<K>, Option<C>))
    where
        K: Eq,
    {
        let found = self.find(&key, hash);
        let Self { entries, table, .. } = self;
        let (slot, known) = match found {
            Some(slot) => (slot, Some(key)),
            None => {
                let slot = entries.insert(Entry::new(key, hash));
                table.insert_unique(hash, slot, |slot| entries.entry(*slot).hash);
                (slot, None)
            }
        };
        let before = cause.and_then(|cause| entries.entry_mut(slot).cause.replace(cause));
        (self.request(slot, request), (known, before))
    }

    /// Merges a request into the pending run: the highest priority and the earliest time. Returns how many waiters to
    /// wake.
    fn request(&mut self, slot: Slot, request: Request) -> usize {
        self.retries += u64::from(request.due.is_some());
        let due = request.due.map(|due| self.time(due));
        let entry = self.entries.entry_mut(slot);
        entry.marks |= request.marks;
        let raised = request.priority.max(entry.priority);
        match entry.pending {
            Pending::None => {
                entry.priority = request.priority;
                self.schedule(slot, due)
            }
            Pending::Delayed if due.is_some_and(|due| entry.time <= due) => {
                entry.priority = raised;
                0
            }
            Pending::Delayed => {
                self.cancel(slot);
                self.entries.entry_mut(slot).priority = raised;
                self.schedule(slot, due)
            }
            Pending::Ready | Pending::AfterRun if raised > entry.priority => {
                self.cancel(slot);
                self.entries.entry_mut(slot).priority = raised;
                self.enqueue(slot);
                0
            }
            Pending::Ready | Pending::AfterRun => 0,
        }
    }

    fn time(&self, instant: Instant) -> Time {
        u64::try_from((instant - self.created).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the current time if durations are recorded.
    fn stamp(&self) -> Time {
        if self.durations.is_some() { self.time(now()) } else { 0 }
    }

    fn number(&mut self) -> NonZeroU64 {
        self.last_number = self.last_number.saturating_add(1);
        self.last_number
    }

    fn schedule(&mut self, slot: Slot, due: Option<Time>) -> usize {
        let Some(due) = due else { return self.admit(slot) };
        let number = self.number().get();
        let entry = self.entries.entry_mut(slot);
        (entry.pending, entry.time, entry.delay) = (Pending::Delayed, due, number);
        self.delays.insert((due, number), slot);
        let is_first = self.delays.first_key_value().is_some_and(|(first, _)| first.1 == number);
        usize::from(is_first && self.alarm.as_ref().is_none_or(|alarm| due < alarm.at))
    }

    /// Queues a key that was not queued before.
    fn admit(&mut self, slot: Slot) -> usize {
        self.adds += 1;
        self.entries.entry_mut(slot).time = self.stamp();
        self.enqueue(slot)
    }

    /// Puts a key behind all others of its priority, or has this done after its run.
    fn enqueue(&mut self, slot: Slot) -> usize {
        let entry = self.entries.entry_mut(slot);
        let level = self.levels.entry(entry.priority).or_insert(Level { ready: List::new(), depth: 0 });
        level.depth += 1;
        if entry.run.is_some() {
            entry.pending = Pending::AfterRun;
            return 0;
        }
        entry.pending = Pending::Ready;
        level.ready.push(&mut self.entries, slot);
        self.oldest.push(&mut self.entries, slot);
        1
    }

    /// Removes the pending run of a key.
    fn cancel(&mut self, slot: Slot) {
        let entry = self.entries.entry_mut(slot);
        let pending = std::mem::replace(&mut entry.pending, Pending::None);
        if pending == Pending::Delayed {
            self.delays.remove(&(entry.time, entry.delay));
        }
        if !matches!(pending, Pending::Ready | Pending::AfterRun) {
            return;
        }
        let (priority, levels) = (entry.priority, self.levels.len());
        let Some(level) = self.levels.get_mut(&priority) else { return };
        level.depth -= 1;
        if pending == Pending::Ready {
            level.ready.remove(&mut self.entries, slot);
            self.oldest.remove(&mut self.entries, slot);
        }
        if level.depth == 0 && levels > EMPTY_LEVELS {
            self.levels.remove(&priority);
        }
    }

    /// Queues the keys whose delays are over. Returns how many waiters to wake.
    pub(crate) fn queue_due(&mut self) -> usize {
        if self.delays.is_empty() {
            return 0;
        }
        let now = self.time(now());
        let mut wakes = 0;
        while let Some(first) = self.delays.first_entry().filter(|first| first.key().0 <= now) {
            let slot = first.remove();
            wakes += self.admit(slot);
        }
        wakes
    }

    /// Hands out the next key.
    pub(crate) fn take(&mut self) -> Option<Taken<K, C>> {
        let slot = self.choose()?;
        self.cancel(slot);
        let (run, started) = (self.number(), self.stamp());
        let entry = self.entries.entry_mut(slot);
        (entry.run, entry.started) = (Some(run), started);
        let (key, priority) = (entry.key.clone(), entry.priority);
        let (marks, cause) = (std::mem::take(&mut entry.marks), entry.cause.take());
        let queued = Duration::from_nanos(started.saturating_sub(entry.time));
        self.running.push(&mut self.entries, slot);
        self.in_flight += 1;
        if let Some(durations) = &mut self.durations {
            durations.queue.record(queued);
        }
        Some(Taken { slot, run, key, priority, marks, cause, queued })
    }

    /// Chooses the first key of the highest priority, or the oldest one if enough keys were preferred to others.
    fn choose(&mut self) -> Option<Slot> {
        let mut occupied = self.levels.values().rev().filter_map(|level| level.ready.first());
        let first = occupied.next()?;
        if occupied.next().is_none() {
            self.passed = 0;
            return Some(first);
        }
        self.passed = self.passed.saturating_add(1);
        if self.fairness.is_some_and(|fairness| self.passed >= fairness.get()) {
            self.passed = 0;
            return self.oldest.first();
        }
        Some(first)
    }

    /// Ends the run of a key, unless it has ended already. Returns how many waiters to wake, and the key if the queue
    /// does not have it any more.
    pub(crate) fn finish(&mut self, taken: &Taken<K, C>, again: Option<Request>) -> (usize, Option<Arc<K>>) {
        let slot = taken.slot;
        if !self.is_running(slot, taken.run) {
            return (0, None);
        }
        self.running.remove(&mut self.entries, slot);
        self.in_flight -= 1;
        let now = self.stamp();
        let entry = self.entries.entry_mut(slot);
        entry.run = None;
        if let Some(durations) = &mut self.durations {
            durations.work.record(Duration::from_nanos(now.saturating_sub(entry.started)));
        }
        let mut wakes = 0;
        if entry.pending == Pending::AfterRun {
            self.cancel(slot);
            wakes += self.enqueue(slot);
        }
        if let Some(request) = again {
            wakes += self.request(slot, request);
        }
        (wakes, self.release(slot))
    }

    /// Removes a key that is neither pending nor in flight.
    fn release(&mut self, slot: Slot) -> Option<Arc<K>> {
        let entry = self.entries.entry(slot);
        if entry.run.is_some() || entry.pending != Pending::None {
            return None;
        }
        if let Ok(found) = self.table.find_entry(entry.hash, |other| *other == slot) {
            found.remove();
        }
        Some(self.entries.remove(slot).key)
    }

    /// Removes the pending run of a key, if it still is the key of this entry and there is such a run.
    pub(crate) fn remove(&mut self, slot: Slot, key: &Arc<K>) -> Option<Removed<K, C>> {
        let entry = self.entries.get(slot)?;
        if !Arc::ptr_eq(&entry.key, key) || entry.pending == Pending::None {
            return None;
        }
        self.cancel(slot);
        Some(self.forget(slot))
    }

    /// Removes the marks and the cause of a run that is not pending any more, and the key unless it is in flight.
    fn forget(&mut self, slot: Slot) -> Removed<K, C> {
        let entry = self.entries.entry_mut(slot);
        entry.marks = 0;
        let cause = entry.cause.take();
        (self.release(slot), cause)
    }

    /// Removes all delays.
    pub(crate) fn remove_delays(&mut self) -> Vec<Removed<K, C>> {
        let mut removed = Vec::new();
        for slot in std::mem::take(&mut self.delays).into_values() {
            self.entries.entry_mut(slot).pending = Pending::None;
            removed.push(self.forget(slot));
        }
        removed
    }

    /// Returns the pending keys in the next slots from `start`, and the slot after these; `None` at the end.
    pub(crate) fn pending_from(&self, start: Slot, slots: usize) -> Option<(PendingKeys<K>, Slot)> {
        let end = start.saturating_add(slots).min(self.entries.end());
        let in_range = (start..end).filter_map(|slot| Some((slot, self.entries.get(slot)?)));
        let pending = in_range.filter(|(_, entry)| entry.pending != Pending::None);
        (start < end).then(|| (pending.map(|(slot, entry)| (slot, entry.key.clone())).collect(), end))
    }

    /// Returns the keys in flight, with their slots and runs.
    pub(crate) fn runs(&self) -> Vec<(Slot, NonZeroU64, Arc<K>)> {
        let runs = self.running.iter(&self.entries);
        runs.filter_map(|(slot, entry)| Some((slot, entry.run?, entry.key.clone()))).collect()
    }

    pub(crate) fn is_running(&self, slot: Slot, run: NonZeroU64) -> bool {
        self.entries.get(slot).is_some_and(|entry| entry.run == Some(run))
    }

    /// Returns the time at which this waiter must check again: that of the first delay, unless another waiter does.
    pub(crate) fn set_alarm(&mut self, waiter: u64) -> Option<Instant> {
        let Some((&(at, _), _)) = self.delays.first_key_value() else {
            // An alarm whose key was removed must not hide the next delay.
            self.clear_alarm(waiter);
            return None;
        };
        if self.alarm.as_ref().is_some_and(|alarm| alarm.waiter != waiter && alarm.at <= at) {
            return None;
        }
        self.alarm = Some(Alarm { at, waiter });
        Some(self.created + Duration::from_nanos(at))
    }

    /// Whether there is no alarm for the first delay.
    pub(crate) fn needs_alarm(&self) -> bool {
        let is_set = |at| self.alarm.as_ref().is_some_and(|alarm| alarm.at <= at);
        self.delays.first_key_value().is_some_and(|(&(at, _), _)| !is_set(at))
    }

    /// Removes the alarm of a waiter that ends. Returns how many waiters to wake so that one of them replaces it.
    pub(crate) fn clear_alarm(&mut self, waiter: u64) -> usize {
        let is_set = self.alarm.take_if(|alarm| alarm.waiter == waiter).is_some();
        usize::from(is_set && !self.delays.is_empty())
    }

    /// The number of queued keys, including those that are queued after their run.
    pub(crate) fn depth(&self) -> usize {
        self.levels.values().map(|level| level.depth).sum()
    }

    /// The number of queued keys of each priority, lowest first.
    pub(crate) fn depths(&self) -> Vec<(i64, usize)> {
        let depths = self.levels.iter().map(|(priority, level)| (*priority, level.depth));
        depths.filter(|(_, depth)| *depth > 0).collect()
    }

    /// Whether no key is queued, delayed or in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn metrics(&self) -> QueueMetrics {
        let mut metrics = QueueMetrics {
            depth: self.depth(),
            adds: self.adds,
            retries: self.retries,
            in_flight: self.in_flight,
            delayed: self.delays.len(),
            rejected: self.rejected,
            ..QueueMetrics::default()
        };
        if let Some(durations) = &self.durations {
            let now = self.stamp();
            metrics.queue_duration = durations.queue;
            metrics.work_duration = durations.work;
            let oldest = self.oldest.first().map(|slot| self.entries.entry(slot).time);
            metrics.oldest =
                oldest.map_or(Duration::ZERO, |time| Duration::from_nanos(now.saturating_sub(time)));
            for (_, entry) in self.running.iter(&self.entries) {
                let age = Duration::from_nanos(now.saturating_sub(entry.started));
                metrics.unfinished_work += age;
                metrics.longest_running = metrics.longest_running.max(age);
            }
        }
        metrics
    }
}
