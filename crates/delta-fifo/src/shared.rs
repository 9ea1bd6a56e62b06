//! The parts of a delta queue that do not depend on its [`Backlog`]: the lock, the waiters and the bound.

use std::sync::Arc;

use kinformer_core::{Error as SinkError, Object, Parts};

use crate::backlog::Backlog;
use crate::bound::Bound;
use crate::in_flight::DeferredDrops;
use crate::popped::{Finish, Popped, Taken, Ticket};
use crate::state::State;
use crate::sync::{Mutex, MutexGuard};
use crate::waiting::Condition;
use crate::writes::{Settings, Write};
use crate::{DeltaQueueMetrics, Error};

pub(crate) struct Shared<T, B> {
    state: Mutex<State<T, B>>,
    /// Notified when something was queued, or the queue was closed.
    items: Condition,
    /// Notified when there is room again, or the queue was closed.
    room: Condition,
    /// Notified when the queue has synced, or no longer can.
    synced: Condition,
    limit: usize,
}

impl<T: Object, B: Backlog<T>> Shared<T, B> {
    pub(crate) fn new(backlog: B, bound: Bound, parts: Parts<T>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new(backlog, parts)),
            items: Condition::new(),
            room: Condition::new(),
            synced: Condition::new(),
            limit: bound.limit(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T, B>> {
        self.state.lock()
    }

    /// Queues all writes of one operation if the queue is open and has any room, otherwise none. Displaced and rejected
    /// objects are dropped after the lock is released.
    #[inline]
    pub(crate) fn write(&self, settings: &Settings<T>, writes: &mut [Write<T>]) -> Result<(), SinkError> {
        let mut drops = DeferredDrops::new();
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return Err(SinkError::Closed);
        }
        if state.backlog.depth() >= self.limit && writes.iter().any(Write::needs_room) {
            state.refused += 1;
            drop(state);
            let key = writes.first().and_then(Write::key);
            return Err(SinkError::Full { key, limit: self.limit });
        }
        let mut synced = false;
        for write in writes {
            synced |= settings.queue(&mut state, write, self.limit, &mut drops);
        }
        state.peak_depth = state.peak_depth.max(state.backlog.depth());
        drop(state);
        self.items.notify();
        if synced {
            self.synced.notify();
        }
        drop(drops);
        Ok(())
    }

    /// The check of [`Self::write`], for an operation without writes.
    pub(crate) fn check_open(&self) -> Result<(), SinkError> {
        if self.is_closed() { Err(SinkError::Closed) } else { Ok(()) }
    }

    pub(crate) fn try_pop(self: &Arc<Self>, max: usize) -> Result<Option<Popped<T>>, Error> {
        let mut drops = DeferredDrops::new();
        let mut state = self.lock();
        let State { backlog, flight, initial, reached, closed, popped, .. } = &mut *state;
        let mut taken = Taken::only(std::mem::take(reached));
        taken.ticket.initial = initial.take_reached();
        if backlog.entries() == 0 {
            let closed = *closed;
            drop(state);
            return match taken.versions.is_none() {
                false => Ok(Some(Popped::new(taken, self))),
                true if closed => Err(Error::Closed),
                true => Ok(None),
            };
        }
        let was_full = backlog.depth() >= self.limit;
        let (max, in_initial_list) = initial.next(max.max(1));
        let entries = backlog.take(max, flight, &mut drops, &mut taken);
        taken.in_initial_list = in_initial_list;
        taken.ticket.initial += initial.popped(entries);
        *popped += taken.deltas.len() as u64;
        let has_room = was_full && backlog.depth() < self.limit;
        let drained = *closed && backlog.entries() == 0;
        drop(state);
        if has_room {
            self.room.notify();
        }
        if drained {
            // Other waiters for a pop have nothing to wait for.
            self.items.notify();
        }
        drop(drops);
        Ok(Some(Popped::new(taken, self)))
    }

    /// Tries to pop once, for a wait.
    fn attempt(self: &Arc<Self>, max: usize) -> Option<Result<Popped<T>, Error>> {
        self.try_pop(max).transpose()
    }

    pub(crate) async fn pop(self: &Arc<Self>, max: usize) -> Result<Popped<T>, Error> {
        self.items.wait(|| self.attempt(max)).await
    }

    #[cfg(not(loom))]
    pub(crate) fn pop_blocking(
        self: &Arc<Self>,
        max: usize,
        deadline: Option<std::time::Instant>,
    ) -> Result<Popped<T>, Error> {
        self.items.wait_blocking(deadline, || self.attempt(max))
    }

    pub(crate) fn is_ready(&self) -> bool {
        let state = self.lock();
        state.closed || state.backlog.depth() < self.limit
    }

    pub(crate) async fn ready(&self) {
        self.room.wait(|| self.is_ready().then_some(())).await;
    }

    #[cfg(not(loom))]
    pub(crate) fn ready_blocking(&self, deadline: Option<std::time::Instant>) -> Result<(), Error> {
        self.room.wait_blocking(deadline, || self.is_ready().then_some(Ok(())))
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.lock().initial.has_synced()
    }

    /// Checks once whether the queue has synced, for a wait.
    fn check_synced(&self) -> Option<Result<(), Error>> {
        let mut state = self.lock();
        if state.initial.has_synced() {
            return Some(Ok(()));
        }
        // A closed queue still syncs if its initial lists are queued or in flight.
        (state.closed && !state.initial.is_populated()).then_some(Err(Error::Closed))
    }

    pub(crate) async fn synced(&self) -> Result<(), Error> {
        self.synced.wait(|| self.check_synced()).await
    }

    #[cfg(not(loom))]
    pub(crate) fn synced_blocking(&self, deadline: Option<std::time::Instant>) -> Result<(), Error> {
        self.synced.wait_blocking(deadline, || self.check_synced())
    }

    pub(crate) fn metrics(&self) -> DeltaQueueMetrics {
        let state = self.lock();
        DeltaQueueMetrics {
            depth: state.backlog.depth(),
            peak_depth: state.peak_depth,
            entries: state.backlog.entries(),
            in_flight: state.flight.processing(),
            popped: state.popped,
            refused: state.refused,
        }
    }

    pub(crate) fn close(&self) -> bool {
        let was_open = !std::mem::replace(&mut self.lock().closed, true);
        self.items.notify();
        self.room.notify();
        self.synced.notify();
        was_open
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Runs a query of known objects without the lock; see [`InFlight`](crate::in_flight::InFlight). `apply` uses the
    /// answer, under the lock.
    pub(crate) fn query_known<A, R>(
        &self,
        query: impl FnOnce() -> Result<A, SinkError>,
        apply: impl FnOnce(A) -> Result<R, SinkError>,
    ) -> Result<R, SinkError> {
        struct Query<'a, T: Object, B: Backlog<T>>(&'a Shared<T, B>);
        impl<T: Object, B: Backlog<T>> Drop for Query<'_, T, B> {
            fn drop(&mut self) {
                let drops = self.0.lock().flight.end_query();
                drop(drops);
            }
        }
        self.lock().flight.begin_query();
        let _query = Query(self);
        apply(query()?)
    }
}

impl<T: Object, B: Backlog<T>> Finish for Shared<T, B> {
    fn finish(&self, ticket: Ticket) {
        let mut drops: DeferredDrops<T> = DeferredDrops::new();
        let mut state = self.lock();
        let State { flight, initial, .. } = &mut *state;
        for key in &ticket.keys {
            flight.processed(key).into_iter().flatten().for_each(|newest| drops.push(newest));
        }
        let synced = initial.processed(ticket.initial);
        drop(state);
        if synced {
            self.synced.notify();
        }
        drop(drops);
    }
}
