//! Waiting until the store has reached a version, or has changed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use kinformer_core::{PartId, ResourceVersion, Versions};

use crate::Error;
use crate::sync::{AtomicUsize, Mutex, atomic};

/// The waits for versions and for changes. Without waits, a write costs one atomic load; with waits, O(log waits) for each
/// wait that it ends, plus one comparison per part.
pub(crate) struct Waiters {
    /// Number of waits, so that a writer without waits returns early.
    count: AtomicUsize,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    stopped: bool,
    next: u64,
    /// By part, then by wanted version, lowest first.
    waiting: BTreeMap<PartId, BTreeMap<Place, Waker>>,
    /// By number: waits for any later state. They are woken in the order in which they began.
    changes: BTreeMap<u64, Waker>,
    /// By wait number: waits that have ended and whose future has not been polled since.
    ended: HashMap<u64, WaitOutcome>,
}

/// The position of a wait in the order of its part: the wanted version, then its number among all waits.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    wanted: ResourceVersion,
    number: u64,
}

impl Ord for Place {
    /// Versions that cannot be compared sort first: the next published version ends their waits.
    fn cmp(&self, other: &Self) -> Ordering {
        let comparable = |place: &Self| place.wanted.compare(&ResourceVersion::number(0)).is_some();
        let (mine, others) = (comparable(self), comparable(other));
        let versions = if mine && others { self.wanted.compare(&other.wanted) } else { None };
        mine.cmp(&others).then(versions.unwrap_or(Ordering::Equal)).then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The outcome of a wait, with the version of the store.
#[derive(Clone)]
enum WaitOutcome {
    Reached,
    Incomparable(ResourceVersion),
    Stopped(ResourceVersion),
    /// The part is gone.
    NoPart,
}

impl WaitOutcome {
    fn of(reached: &ResourceVersion, wanted: &ResourceVersion) -> Option<Self> {
        match reached.compare(wanted) {
            Some(order) if order.is_ge() => Some(Self::Reached),
            Some(_) => None,
            None if wanted.is_unset() => Some(Self::Reached),
            None if reached.is_unset() => None,
            None => Some(Self::Incomparable(reached.clone())),
        }
    }

    fn into_result(self, part: PartId, wanted: ResourceVersion) -> Result<(), Error> {
        match self {
            Self::NoPart => Err(Error::PartRemoved { part }),
            Self::Reached => Ok(()),
            Self::Incomparable(reached) => Err(Error::Incomparable { wanted, reached }),
            Self::Stopped(reached) => Err(Error::Stopped { wanted, reached }),
        }
    }
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), list: Mutex::new(List::default()) }
    }

    /// Returns the versions if there are waits. The lock under which the versions are published is held.
    ///
    /// No wake-up is lost: a waiter increments the count before it reads the version, under the same lock. If it read
    /// before this call, the lock has made the count visible here; if it reads after, it reads the new version.
    pub(crate) fn reached(&self, versions: &Versions) -> Option<Versions> {
        (self.count.load(atomic::Ordering::Relaxed) > 0).then(|| versions.clone())
    }

    /// Ends the waits that were for these versions, and wakes those for a later state. No lock is held.
    pub(crate) fn published(&self, reached: Option<Versions>) {
        if let Some(versions) = reached {
            self.end(|part, wanted| match versions.get(part) {
                Some(version) => WaitOutcome::of(version, wanted),
                None => Some(WaitOutcome::NoPart),
            });
        }
    }

    /// Ends all current and future waits.
    pub(crate) fn stop(&self, versions: &Versions) {
        self.list.lock().stopped = true;
        self.end(|part, wanted| {
            let version = versions.of(part);
            Some(WaitOutcome::of(version, wanted).unwrap_or_else(|| WaitOutcome::Stopped(version.clone())))
        });
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.list.lock().stopped
    }

    /// Ends the waits of each part in version order, up to the first one without an outcome.
    fn end(&self, outcome_of: impl Fn(PartId, &ResourceVersion) -> Option<WaitOutcome>) {
        let mut guard = self.list.lock();
        let list = &mut *guard;
        let mut wakers: Vec<Waker> = std::mem::take(&mut list.changes).into_values().collect();
        for (part, waiting) in &mut list.waiting {
            while let Some(first) = waiting.first_entry()
                && let Some(outcome) = outcome_of(*part, &first.key().wanted)
            {
                let (place, waker) = first.remove_entry();
                list.ended.insert(place.number, outcome);
                wakers.push(waker);
            }
        }
        drop(guard);
        // Wakers are user code, so no lock is held here.
        wakers.into_iter().for_each(Waker::wake);
    }

    fn update_count(&self, list: &List) {
        let waits: usize = list.waiting.values().map(BTreeMap::len).sum();
        self.count.store(waits + list.changes.len(), atomic::Ordering::Relaxed);
    }

    /// Waits for a version; `current` returns the published one, or `None` if the part is gone.
    pub(crate) fn wait<F: Fn() -> Option<ResourceVersion>>(
        &self,
        part: PartId,
        wanted: ResourceVersion,
        current: F,
    ) -> Wait<'_, F> {
        Wait { waiters: self, part, wanted, current, place: None }
    }

    /// Waits until `has_changed`, which is called after each publication. Returns `false` if the waits are stopped.
    pub(crate) fn changed<F: Fn() -> bool>(&self, has_changed: F) -> Changed<'_, F> {
        Changed { waiters: self, has_changed, number: None }
    }
}

/// A wait for a later state. Dropping it at any time removes its registration.
pub(crate) struct Changed<'a, F> {
    waiters: &'a Waiters,
    has_changed: F,
    /// Set once the wait is registered.
    number: Option<u64>,
}

impl<F: Fn() -> bool + Unpin> Future for Changed<'_, F> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        // As for a version, the wait is registered before the state is read.
        let waker = context.waker().clone();
        let mut list = self.waiters.list.lock();
        let stopped = list.stopped;
        let number = *self.number.get_or_insert_with(|| {
            list.next += 1;
            list.next - 1
        });
        let old = list.changes.insert(number, waker);
        self.waiters.update_count(&list);
        drop(list);
        drop(old);
        match (self.has_changed)() {
            false if !stopped => Poll::Pending,
            has_changed => Poll::Ready(has_changed),
        }
    }
}

impl<F> Drop for Changed<'_, F> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut list = self.waiters.list.lock();
        let waker = list.changes.remove(&number);
        self.waiters.update_count(&list);
        drop(list);
        drop(waker);
    }
}

/// A wait for a version. Dropping it at any time removes its registration.
pub(crate) struct Wait<'a, F> {
    waiters: &'a Waiters,
    part: PartId,
    wanted: ResourceVersion,
    current: F,
    /// Set once the wait is registered.
    place: Option<Place>,
}

impl<F: Fn() -> Option<ResourceVersion> + Unpin> Future for Wait<'_, F> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.place.is_none()
            && let Some(current) = (self.current)()
            && let Some(end @ WaitOutcome::Reached) = WaitOutcome::of(&current, &self.wanted)
        {
            return Poll::Ready(end.into_result(self.part, self.wanted.clone()));
        }
        // Cloned before the lock is taken, and the old one dropped after it is released: wakers are user code.
        let waker = context.waker().clone();
        let (stopped, end, old) = self.register(waker);
        drop(old);
        let end = end.or_else(|| {
            let Some(current) = (self.current)() else { return Some(WaitOutcome::NoPart) };
            WaitOutcome::of(&current, &self.wanted)
                .or_else(|| stopped.then_some(WaitOutcome::Stopped(current)))
        });
        match end {
            Some(end) => {
                self.leave();
                Poll::Ready(end.into_result(self.part, self.wanted.clone()))
            }
            None => Poll::Pending,
        }
    }
}

impl<F> Wait<'_, F> {
    /// Registers this waker for the next publication. Returns whether waits are stopped, the outcome if the wait has
    /// ended, and a waker to be dropped.
    fn register(&mut self, waker: Waker) -> (bool, Option<WaitOutcome>, Option<Waker>) {
        let mut list = self.waiters.list.lock();
        let stopped = list.stopped;
        let place = self.place.get_or_insert_with(|| {
            let number = list.next;
            list.next += 1;
            Place { wanted: self.wanted.clone(), number }
        });
        if let Some(end) = list.ended.get(&place.number) {
            return (stopped, Some(end.clone()), Some(waker));
        }
        let place = place.clone();
        let old = list.waiting.entry(self.part).or_default().insert(place, waker);
        self.waiters.update_count(&list);
        (stopped, None, old)
    }

    fn leave(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut list = self.waiters.list.lock();
        let waker = list.waiting.get_mut(&self.part).and_then(|waiting| waiting.remove(&place));
        if list.waiting.get(&self.part).is_some_and(BTreeMap::is_empty) {
            list.waiting.remove(&self.part);
        }
        list.ended.remove(&place.number);
        if list.ended.is_empty() {
            // Releases the memory after many waits ended together.
            list.ended = HashMap::new();
        }
        self.waiters.update_count(&list);
        drop(list);
        drop(waker);
    }
}

impl<F> Drop for Wait<'_, F> {
    fn drop(&mut self) {
        self.leave();
    }
}
