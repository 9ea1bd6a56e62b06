//! Waiting until the store has reached a version.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use kinformer_core::ResourceVersion;

use crate::Error;
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// Who waits. A writer that nobody waits for pays one atomic load; one that somebody waits for compares one
/// version for each of them and wakes only those whose wait is over.
pub(crate) struct Waiters {
    /// How many there are, for the writers' short way out.
    count: AtomicUsize,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    stopped: bool,
    next: u64,
    /// In the order of their numbers.
    waiting: Vec<Waiting>,
}

struct Waiting {
    number: u64,
    wanted: ResourceVersion,
    waker: Waker,
    end: Option<End>,
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

    /// To be called after a version was published and its lock released.
    ///
    /// No wake-up is lost: a waiter is counted before it looks at the version under the same lock. If it
    /// looked before the writer published, the lock has carried the count to the writer; if it looked after,
    /// it has seen the version.
    pub(crate) fn published(&self, version: &ResourceVersion) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.end(|wanted| End::at(version, wanted));
        }
    }

    /// Ends all waits, now and from now on.
    pub(crate) fn stop(&self, version: &ResourceVersion) {
        self.list.lock().stopped = true;
        self.end(|wanted| Some(End::at(version, wanted).unwrap_or_else(|| End::Stopped(version.clone()))));
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.list.lock().stopped
    }

    fn end(&self, end_of: impl Fn(&ResourceVersion) -> Option<End>) {
        let mut wakers = Vec::new();
        for waiting in &mut self.list.lock().waiting {
            if waiting.end.is_none() {
                waiting.end = end_of(&waiting.wanted);
                if waiting.end.is_some() {
                    wakers.push(std::mem::replace(&mut waiting.waker, Waker::noop().clone()));
                }
            }
        }
        // A waker is foreign code: no lock is held any more.
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for a version; `current` gives the one that is published now.
    pub(crate) fn wait<F: Fn() -> ResourceVersion>(
        &self,
        wanted: ResourceVersion,
        current: F,
    ) -> Wait<'_, F> {
        Wait { waiters: self, wanted, current, number: None }
    }
}

/// A wait. Dropping it at any time leaves nothing behind.
pub(crate) struct Wait<'a, F> {
    waiters: &'a Waiters,
    wanted: ResourceVersion,
    current: F,
    number: Option<u64>,
}

impl<F: Fn() -> ResourceVersion + Unpin> Future for Wait<'_, F> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.number.is_none()
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
    /// Makes sure that whoever publishes next finds this waker.
    fn register(&mut self, waker: Waker) -> (bool, Option<End>, Option<Waker>) {
        let mut list = self.waiters.list.lock();
        let stopped = list.stopped;
        match self.number {
            Some(number) => {
                let at = list.waiting.binary_search_by_key(&number, |waiting| waiting.number);
                let waiting = at.ok().and_then(|at| list.waiting.get_mut(at));
                match waiting {
                    Some(waiting) => {
                        let old = std::mem::replace(&mut waiting.waker, waker);
                        (stopped, waiting.end.clone(), Some(old))
                    }
                    None => (stopped, None, Some(waker)),
                }
            }
            None => {
                let number = list.next;
                list.next += 1;
                let wanted = self.wanted.clone();
                list.waiting.push(Waiting { number, wanted, waker, end: None });
                self.waiters.count.store(list.waiting.len(), Ordering::Relaxed);
                self.number = Some(number);
                (stopped, None, None)
            }
        }
    }

    fn leave(&mut self) {
        let Some(number) = self.number.take() else { return };
        let mut list = self.waiters.list.lock();
        let at = list.waiting.binary_search_by_key(&number, |waiting| waiting.number);
        let left = at.ok().map(|at| list.waiting.remove(at));
        self.waiters.count.store(list.waiting.len(), Ordering::Relaxed);
        drop(list);
        drop(left);
    }
}

impl<F> Drop for Wait<'_, F> {
    fn drop(&mut self) {
        self.leave();
    }
}
