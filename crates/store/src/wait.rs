//! Waiting until the store has reached a version.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use kinformer_core::{PartId, ResourceVersion, Versions};

use crate::Error;
use crate::sync::{AtomicUsize, Mutex, atomic};

/// The waits for versions. A writer without waits pays one atomic load; with waits, a write costs O(log waits) for each
/// wait that it ends and one comparison beside them.
pub(crate) struct Waiters {
    /// How many waits there are, for the writers' short way out.
    count: AtomicUsize,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    stopped: bool,
    next: u64,
    /// By part, then by the version that is waited for, lowest first.
    waiting: BTreeMap<PartId, BTreeMap<Place, Waker>>,
    /// By number: waits that are over and whose future has not been polled since.
    ended: HashMap<u64, End>,
}

/// The place of a wait among those for its part: its version, and its number among all waits.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    wanted: ResourceVersion,
    number: u64,
}

impl Ord for Place {
    /// Versions that cannot be compared are before all others: the next version ends their waits.
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

/// How a wait ended, and where the store stood.
#[derive(Clone)]
enum End {
    Reached,
    Incomparable(ResourceVersion),
    Stopped(ResourceVersion),
}

impl End {
    fn at(reached: &ResourceVersion, wanted: &ResourceVersion) -> Option<Self> {
        match reached.compare(wanted) {
            Some(order) if order.is_ge() => Some(Self::Reached),
            Some(_) => None,
            None if wanted.is_unset() => Some(Self::Reached),
            None if reached.is_unset() => None,
            None => Some(Self::Incomparable(reached.clone())),
        }
    }

    fn into_result(self, wanted: ResourceVersion) -> Result<(), Error> {
        match self {
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

    /// To be called after versions were published and its lock released.
    ///
    /// No wake-up is lost: a waiter is counted before it looks at the version under the same lock. If it
    /// looked before the writer published, the lock has carried the count to the writer; if it looked after,
    /// it has seen the version.
    pub(crate) fn published(&self, versions: &Versions) {
        if self.count.load(atomic::Ordering::Relaxed) > 0 {
            self.end(|part, wanted| End::at(versions.of(part), wanted));
        }
    }

    /// Ends all waits, now and from now on.
    pub(crate) fn stop(&self, versions: &Versions) {
        self.list.lock().stopped = true;
        self.end(|part, wanted| {
            let version = versions.of(part);
            Some(End::at(version, wanted).unwrap_or_else(|| End::Stopped(version.clone())))
        });
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.list.lock().stopped
    }

    /// Ends the waits of each part in the order of their versions, up to the first for which there is no end yet.
    fn end(&self, end_of: impl Fn(PartId, &ResourceVersion) -> Option<End>) {
        let mut wakers = Vec::new();
        let mut guard = self.list.lock();
        let list = &mut *guard;
        for (part, waiting) in &mut list.waiting {
            while let Some(first) = waiting.first_entry()
                && let Some(end) = end_of(*part, &first.key().wanted)
            {
                let (place, waker) = first.remove_entry();
                list.ended.insert(place.number, end);
                wakers.push(waker);
            }
        }
        drop(guard);
        // A waker is foreign code: no lock is held any more.
        wakers.into_iter().for_each(Waker::wake);
    }

    fn update_count(&self, list: &List) {
        let waits = list.waiting.values().map(BTreeMap::len).sum();
        self.count.store(waits, atomic::Ordering::Relaxed);
    }

    /// Waits for a version; `current` gives the one that is published now.
    pub(crate) fn wait<F: Fn() -> ResourceVersion>(
        &self,
        part: PartId,
        wanted: ResourceVersion,
        current: F,
    ) -> Wait<'_, F> {
        Wait { waiters: self, part, wanted, current, place: None }
    }
}

/// A wait. Dropping it at any time leaves nothing behind.
pub(crate) struct Wait<'a, F> {
    waiters: &'a Waiters,
    part: PartId,
    wanted: ResourceVersion,
    current: F,
    /// Once it is registered.
    place: Option<Place>,
}

impl<F: Fn() -> ResourceVersion + Unpin> Future for Wait<'_, F> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.place.is_none()
            && let Some(end @ End::Reached) = End::at(&(self.current)(), &self.wanted)
        {
            return Poll::Ready(end.into_result(self.wanted.clone()));
        }
        // Cloned before the lock is taken, and the old one dropped after: a waker is foreign code.
        let waker = context.waker().clone();
        let (stopped, end, old) = self.register(waker);
        drop(old);
        let end = end.or_else(|| {
            let current = (self.current)();
            End::at(&current, &self.wanted).or_else(|| stopped.then_some(End::Stopped(current)))
        });
        match end {
            Some(end) => {
                self.leave();
                Poll::Ready(end.into_result(self.wanted.clone()))
            }
            None => Poll::Pending,
        }
    }
}

impl<F> Wait<'_, F> {
    /// Makes sure that the next publication finds this waker. Returns whether waits are stopped, how this wait has ended,
    /// and a waker to be dropped.
    fn register(&mut self, waker: Waker) -> (bool, Option<End>, Option<Waker>) {
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
            // What many waits that ended together have taken.
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
