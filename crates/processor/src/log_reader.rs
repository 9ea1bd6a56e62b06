//! Reading the log for one handler: the initial list, then the log.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering as Atomic};
use std::task::{Context, Poll};

use kinformer_core::Object;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::clock::Moment;
use crate::contained::drop_contained;
use crate::event::{LastEvent, LoggedEvent};
use crate::log::{Cursor, Place};
use crate::resync::DueHandlers;
use crate::undelivered::{Next, Undelivered};

/// What a handler that joins receives first: every object of the store.
#[must_use]
pub struct InitialState<T> {
    revision: u64,
    objects: Box<dyn ExactSizeIterator<Item = Arc<T>> + Send>,
}

impl<T> InitialState<T> {
    /// The state at a revision: it includes all changes of [this revision](kinformer_core::Change::revision) and earlier
    /// ones. The objects are taken one by one while the handler receives them.
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

/// The events that are published at once.
pub(crate) struct Batch<T> {
    /// The position of its first event.
    pub(crate) first: u64,
    /// The revision of the store since, which is that of each of them; 0 where there is no store.
    pub(crate) revision: u64,
    pub(crate) events: SmallVec<[LoggedEvent<T>; 1]>,
    /// The handlers that receive it, if it is (a part of) a resync; else all of them do.
    pub(crate) due: Option<DueHandlers>,
    /// Whether the initial list ends with it.
    pub(crate) synced: bool,
    pub(crate) published: Moment,
}

impl<T> Drop for Batch<T> {
    /// Contained: panics of objects must not reach its last holder, a publisher or a handler.
    fn drop(&mut self) {
        std::mem::take(&mut self.events).into_iter().for_each(LoggedEvent::drop_contained);
    }
}

/// Reads the log for one handler.
pub(crate) struct LogReader<T> {
    handler: u64,
    /// Whether objects of the initial list may be left.
    initial: bool,
    /// The revision of the initial list: it includes all events up to there.
    joined: Option<u64>,
    joined_at: Moment,
    /// The last object of the initial list.
    last: LastEvent<T>,
    cursor: Cursor<Batch<T>>,
    /// The batch under the cursor while it is being read: see [`Self::rest`].
    batch: Option<Arc<Batch<T>>>,
    /// The next event of the batch under the cursor.
    position: usize,
    synced: Synced,
    unread: Arc<Unread<T>>,
}

/// Where a reader is with the end of the initial list of the informer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Synced {
    Ahead,
    Passed,
    /// Passed, and its own initial list as well; returned as [`Next::Synced`].
    Returned,
}

/// Where a reader starts.
pub(crate) struct Start<T> {
    pub(crate) handler: u64,
    pub(crate) cursor: Cursor<Batch<T>>,
    pub(crate) initial: Option<InitialState<T>>,
    /// Whether the end of the initial list was published before the cursor was made.
    pub(crate) synced: bool,
    /// The position of the cursor.
    pub(crate) read: u64,
    /// The position of the end of the log.
    pub(crate) published: Arc<AtomicU64>,
    pub(crate) now: Moment,
}

impl<T: Object> LogReader<T> {
    pub(crate) fn new(start: Start<T>) -> Self {
        let Start { handler, cursor, initial, synced, read, published, now } = start;
        let joined = initial.as_ref().map(|state| state.revision);
        let unread = Arc::new(Unread {
            initial_objects: AtomicUsize::new(initial.as_ref().map_or(0, |state| state.objects.len())),
            initial: Mutex::new(initial.map_or(InitialList::Taken, InitialList::Waits)),
            place: cursor.place().clone(),
            read: AtomicU64::new(read),
            published,
        });
        Self {
            handler,
            initial: joined.is_some(),
            joined,
            joined_at: now,
            last: LastEvent::none(),
            cursor,
            batch: None,
            position: 0,
            synced: if synced { Synced::Passed } else { Synced::Ahead },
            unread,
        }
    }

    /// What others see of it, from any thread.
    pub(crate) fn unread(&self) -> &Arc<Unread<T>> {
        &self.unread
    }

    /// Drops the object or batch that was returned last, which a removal cannot reach. To be called wherever the reader
    /// may stay for long.
    pub(crate) fn rest(&mut self) {
        self.last.clear();
        self.batch = None;
    }

    /// The next event, if there is one.
    pub(crate) fn next(&mut self) -> Next<'_, T> {
        self.last.clear();
        if self.initial {
            if let Some(object) = self.unread.next_initial() {
                let event = LoggedEvent::initial(object, self.joined.unwrap_or_default());
                return Next::Event(self.last.set(event), self.joined_at);
            }
            self.initial = false;
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
            if !self.concerns(batch) {
                self.position = batch.events.len();
            }
            if self.position < batch.events.len() {
                self.position += 1;
                self.unread.has_read(batch.first + self.position as u64);
                break self.position - 1;
            }
            self.unread.has_read(batch.first + batch.events.len() as u64);
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

    /// Whether a batch is for this handler, and not a part of its initial list.
    fn concerns(&self, batch: &Batch<T>) -> bool {
        let joined = self.joined.filter(|_| batch.revision > 0);
        let compared = joined.map(|joined| batch.revision.cmp(&joined));
        match &batch.due {
            None => compared.is_none_or(Ordering::is_gt),
            // A resync changes no state: it may be one of the state of the initial list.
            Some(due) => compared.is_none_or(Ordering::is_ge) && due.contains(self.handler),
        }
    }

    /// Whether nothing will be published any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.cursor.is_closed()
    }

    /// Ready when there may be an event, or the log is closed. A release wakes no reader.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.initial { Poll::Ready(()) } else { self.cursor.poll_wait(context) }
    }
}

/// What one reader has not read, as others see it.
pub(crate) struct Unread<T> {
    initial: Mutex<InitialList<T>>,
    /// How many objects of the initial list are left.
    initial_objects: AtomicUsize,
    place: Arc<Place<Batch<T>>>,
    /// Up to where the log has been read. Only the reader writes it.
    read: AtomicU64,
    /// The end of the log.
    published: Arc<AtomicU64>,
}

/// The initial list of one handler. A removal takes it out.
enum InitialList<T> {
    Waits(InitialState<T>),
    /// The reader has it, there is none, or it is finished.
    Taken,
    Released,
}

impl<T> Unread<T> {
    fn has_read(&self, position: u64) {
        self.read.store(position, Atomic::Release);
    }

    /// How much of the log has not been read. The initial list does not count.
    pub(crate) fn behind(&self) -> usize {
        let read = self.read.load(Atomic::Acquire);
        self.published.load(Atomic::Acquire).saturating_sub(read) as usize
    }

    /// Up to where the log has been read.
    pub(crate) fn position(&self) -> u64 {
        self.read.load(Atomic::Relaxed)
    }

    /// The next object of the initial list. The iterator is the user's: it runs without the lock.
    fn next_initial(&self) -> Option<Arc<T>> {
        let mut initial = self.initial.lock();
        let InitialList::Waits(state) = std::mem::replace(&mut *initial, InitialList::Taken) else {
            return None;
        };
        drop(initial);
        let mut taken = PutBack { unread: self, state: Some(state) };
        let state = taken.state.as_mut()?;
        let next = state.objects.next();
        self.initial_objects.store(state.objects.len(), Atomic::Relaxed);
        next
    }
}

/// Puts the initial list back, also when its iterator panics, unless it was released meanwhile.
struct PutBack<'a, T> {
    unread: &'a Unread<T>,
    state: Option<InitialState<T>>,
}

impl<T> Drop for PutBack<'_, T> {
    fn drop(&mut self) {
        let mut initial = self.unread.initial.lock();
        if let (InitialList::Taken, Some(state)) = (&*initial, self.state.take()) {
            *initial = InitialList::Waits(state);
        }
        drop(initial);
        drop_contained("initial list", self.state.take());
    }
}

impl<T: Send + Sync> Undelivered for Unread<T> {
    fn depth(&self) -> usize {
        self.behind() + self.initial_objects.load(Atomic::Relaxed)
    }

    fn release(&self) {
        let initial = std::mem::replace(&mut *self.initial.lock(), InitialList::Released);
        drop_contained("initial list", initial);
        self.place.release();
    }
}
