//! Reads the events of one handler: first the initial list, then the log.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use kinformer_core::Object;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::clock::Moment;
use crate::contained::drop_contained;
use crate::event::{Event, LastEvent};
use crate::log::{Cursor, Place};
use crate::undelivered::{Next, Undelivered};

/// The initial list of a handler: every object of the store at a revision.
#[must_use]
pub struct InitialState<T> {
    revision: u64,
    objects: Box<dyn ExactSizeIterator<Item = Arc<T>> + Send>,
}

impl<T> InitialState<T> {
    /// Creates the state at a revision. It must include all changes of [this
    /// revision](kinformer_core::Change::revision) and earlier ones. The iterator is advanced one object at a time, as
    /// the handler receives them.
    pub fn new(revision: u64, objects: impl ExactSizeIterator<Item = Arc<T>> + Send + 'static) -> Self {
        Self { revision, objects: Box::new(objects) }
    }
}

impl<T> fmt::Debug for InitialState<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitialState")
            .field("revision", &self.revision)
            .field("objects", &self.objects.len())
            .finish()
    }
}

/// Events that are published together.
pub(crate) struct Batch<T> {
    /// The revision of the store after each of these events; 0 without a store.
    pub(crate) revision: u64,
    pub(crate) events: SmallVec<[Event<Arc<T>>; 1]>,
    /// Whether the batch is part of a resync. It changes no state, so it may have the revision of the initial list.
    pub(crate) resync: bool,
    /// Whether the initial list of the store ends with this batch.
    pub(crate) synced: bool,
    pub(crate) published: Moment,
}

impl<T> Drop for Batch<T> {
    /// Contains panics of objects: they must not reach the last holder, which is a publisher or a handler.
    fn drop(&mut self) {
        std::mem::take(&mut self.events).into_iter().for_each(Event::drop_contained);
    }
}

/// Reads the log for one handler.
pub(crate) struct LogReader<T> {
    /// The initial list, until all of it has been read.
    initial: Option<InitialObjects<T>>,
    /// The revision of the initial list, which includes all events up to this revision.
    joined: Option<u64>,
    /// The last object of the initial list.
    last: LastEvent<T>,
    cursor: Cursor<Batch<T>>,
    /// The batch under the cursor while it is being read: see [`Self::drop_previous`].
    batch: Option<Arc<Batch<T>>>,
    /// The index of the next event in the batch under the cursor.
    position: usize,
    synced: Synced,
    unread: Arc<Unread<T>>,
}

/// The position of a reader relative to the published end of the initial list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Synced {
    Ahead,
    Passed,
    /// Passed, together with the end of the reader's own initial list, and returned as [`Next::Synced`].
    Returned,
}

/// The starting point of a reader.
pub(crate) struct Start<T> {
    pub(crate) cursor: Cursor<Batch<T>>,
    pub(crate) initial: Option<InitialState<T>>,
    /// Whether the end of the store's initial list was published before the cursor was created.
    pub(crate) synced: bool,
    /// The number of events before the cursor.
    pub(crate) read: u64,
    /// The number of events that were published for all readers.
    pub(crate) published: Arc<AtomicU64>,
    pub(crate) now: Moment,
}

impl<T: Object> LogReader<T> {
    pub(crate) fn new(start: Start<T>) -> Self {
        let Start { cursor, initial, synced, read, published, now } = start;
        let joined = initial.as_ref().map(|state| state.revision);
        let unread = Arc::new(Unread {
            initial_objects: AtomicUsize::new(initial.as_ref().map_or(0, |state| state.objects.len())),
            initial: Mutex::new(initial.map_or(InitialList::Taken, InitialList::Available)),
            place: cursor.place().clone(),
            read: AtomicU64::new(read),
            published,
        });
        let initial =
            joined.map(|revision| InitialObjects { unread: unread.clone(), revision, joined_at: now });
        Self {
            initial,
            joined,
            last: LastEvent::none(),
            cursor,
            batch: None,
            position: 0,
            synced: if synced { Synced::Passed } else { Synced::Ahead },
            unread,
        }
    }

    /// Takes the initial list, so that this reader returns only what follows it.
    pub(crate) fn take_initial(&mut self) -> Option<InitialObjects<T>> {
        self.initial.take()
    }

    /// Returns the half that any thread may use.
    pub(crate) fn unread(&self) -> &Arc<Unread<T>> {
        &self.unread
    }

    /// Drops the object or batch that was returned last, which a removal cannot drop. Must be called before each wait.
    pub(crate) fn drop_previous(&mut self) {
        self.last.clear();
        self.batch = None;
    }

    /// Returns the next event, if there is one.
    pub(crate) fn next(&mut self) -> Next<'_, T> {
        self.last.clear();
        if let Some(initial) = &mut self.initial {
            if let Some((event, joined_at)) = initial.next() {
                return Next::Event(self.last.set(event), joined_at);
            }
            self.initial = None;
        }
        if self.synced == Synced::Passed {
            self.synced = Synced::Returned;
            return Next::Synced;
        }
        let position = loop {
            if self.batch.is_none() {
                self.batch = self.cursor.batch();
            }
            let Some(batch) = &self.batch else {
                return Next::Empty;
            };
            if self.position < batch.events.len() && !self.is_included(batch) {
                self.position += 1;
                self.unread.add_read(1);
                break self.position - 1;
            }
            self.unread.add_read(batch.events.len() - self.position);
            let synced = batch.synced;
            self.position = 0;
            self.batch = None;
            self.cursor.advance();
            if synced {
                self.synced = Synced::Returned;
                return Next::Synced;
            }
        };
        let batch = self.batch.as_ref();
        let next = batch.and_then(|batch| Some(Next::Event(batch.events.get(position)?, batch.published)));
        next.unwrap_or(Next::Empty)
    }

    /// Returns whether the initial list includes the events of a batch.
    fn is_included(&self, batch: &Batch<T>) -> bool {
        !batch.resync && batch.revision > 0 && self.joined.is_some_and(|joined| batch.revision <= joined)
    }

    /// Returns whether no further events will be published.
    pub(crate) fn is_closed(&self) -> bool {
        self.cursor.is_closed()
    }

    /// Ready when there may be an event, or the log is closed. A release wakes no reader.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.initial.is_some() { Poll::Ready(()) } else { self.cursor.poll_wait(context) }
    }
}

/// The unread objects of the initial list of one reader, read one at a time.
pub(crate) struct InitialObjects<T> {
    unread: Arc<Unread<T>>,
    revision: u64,
    joined_at: Moment,
}

impl<T> InitialObjects<T> {
    /// Returns the addition of the next object, and the time at which the handler joined.
    pub(crate) fn next(&mut self) -> Option<(Event<Arc<T>>, Moment)> {
        let object = self.unread.next_initial()?;
        Some((Event::initial(object, self.revision), self.joined_at))
    }
}

/// The unread events of one reader, for use by other threads.
pub(crate) struct Unread<T> {
    initial: Mutex<InitialList<T>>,
    /// The number of unread objects of the initial list.
    initial_objects: AtomicUsize,
    place: Arc<Place<Batch<T>>>,
    /// The number of events that have been read, including those before the reader. Only the reader writes it.
    read: AtomicU64,
    /// The number of events that were published for all readers.
    published: Arc<AtomicU64>,
}

/// The initial list of one handler, until a removal releases it.
enum InitialList<T> {
    Available(InitialState<T>),
    /// The reader is using it, or there is no list.
    Taken,
    Released,
}

impl<T> Unread<T> {
    fn add_read(&self, events: usize) {
        self.read.store(self.read() + events as u64, Ordering::Release);
    }

    /// Returns the number of unread events in the log, without the initial list.
    pub(crate) fn behind(&self) -> usize {
        let read = self.read.load(Ordering::Acquire);
        let published = self.published.load(Ordering::Acquire) + self.place.own_events();
        published.saturating_sub(read) as usize
    }

    /// Returns the number of events that have been read, for comparison with an earlier one.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the next object of the initial list. The iterator is user code, so it runs without the lock.
    fn next_initial(&self) -> Option<Arc<T>> {
        let mut initial = self.initial.lock();
        let InitialList::Available(state) = std::mem::replace(&mut *initial, InitialList::Taken) else {
            return None;
        };
        drop(initial);
        let mut taken = PutBack { unread: self, state: Some(state) };
        let state = taken.state.as_mut()?;
        let next = state.objects.next();
        self.initial_objects.store(state.objects.len(), Ordering::Relaxed);
        next
    }
}

/// Puts the initial list back after use, also if its iterator panics, unless the list was released meanwhile.
struct PutBack<'a, T> {
    unread: &'a Unread<T>,
    state: Option<InitialState<T>>,
}

impl<T> Drop for PutBack<'_, T> {
    fn drop(&mut self) {
        let mut initial = self.unread.initial.lock();
        if let (InitialList::Taken, Some(state)) = (&*initial, self.state.take()) {
            *initial = InitialList::Available(state);
        }
        drop(initial);
        drop_contained("initial list", self.state.take());
    }
}

impl<T: Send + Sync> Undelivered for Unread<T> {
    fn depth(&self) -> usize {
        self.behind() + self.initial_objects.load(Ordering::Relaxed)
    }

    fn release(&self) {
        let initial = std::mem::replace(&mut *self.initial.lock(), InitialList::Released);
        drop_contained("initial list", initial);
        self.place.release();
    }
}
