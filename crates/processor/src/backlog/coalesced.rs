//! The policy that keeps the newest state of each key, for handlers that do not need every event.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use foldhash::fast::RandomState;
use futures::task::AtomicWaker;
use kinformer_core::internal::{contain, yield_now};
use kinformer_core::{Object, ObjectKey, Tombstone};
use parking_lot::Mutex;

use super::policy::{Backlog, Opened, Reading};
use crate::clock::Moment;
use crate::event::{Added, Deleted, Event, LastEvent, Left, Updated, drop_object};
use crate::log_reader::{InitialObjects, Unread};
use crate::undelivered::{Next, Undelivered};

/// The number of events that are read before the task yields.
const YIELD_AFTER: usize = 128;

/// The number of keys for which memory is kept while none is undelivered.
const KEPT: usize = 16;

pub(super) fn open<T: Object>(mut reading: Reading<T>) -> Opened<T> {
    let initial = reading.reader.take_initial();
    let pending = Pending {
        entries: BTreeMap::new(),
        places: HashMap::default(),
        next: 0,
        initial_end: None,
        closed: false,
        released: false,
    };
    let newest = Arc::new(Newest {
        pending: Mutex::new(pending),
        keys: AtomicUsize::new(0),
        changed: AtomicBool::new(false),
        waker: AtomicWaker::new(),
        unread: reading.reader.unread().clone(),
        name: reading.name.clone(),
    });
    let backlog = Coalesced { initial, newest: newest.clone(), last: LastEvent::none() };
    Opened { backlog: Box::new(backlog), task: Some(Box::pin(async move { newest.read_log(reading).await })) }
}

struct Coalesced<T> {
    /// The initial list, until all of it has been delivered. It is not copied: see [`Newest::merge`].
    initial: Option<InitialObjects<T>>,
    newest: Arc<Newest<T>>,
    last: LastEvent<T>,
}

/// The state that the handler's task and the task that reads the log share.
struct Newest<T> {
    pending: Mutex<Pending<T>>,
    /// The number of undelivered keys, readable without the lock.
    keys: AtomicUsize,
    /// Whether the log or the entries have changed since the handler last started to wait.
    changed: AtomicBool,
    waker: AtomicWaker,
    unread: Arc<Unread<T>>,
    /// The name of the handler.
    name: Arc<str>,
}

/// At most one entry for each key with an event after the initial list, in the order of the oldest undelivered event of
/// each key.
struct Pending<T> {
    /// By place.
    entries: BTreeMap<u64, Entry<T>>,
    /// The place of the entry of each key.
    places: HashMap<ObjectKey, u64, RandomState>,
    /// The place of the next new entry.
    next: u64,
    /// The place after the last entry before the end of the initial list. Set when that end is read from the log, unset
    /// when it is delivered.
    initial_end: Option<u64>,
    closed: bool,
    /// Set when the handler is removed: further events are dropped at once.
    released: bool,
}

/// The delivered state of a key and its undelivered state.
struct Entry<T> {
    key: ObjectKey,
    delivered: Delivered<T>,
    /// That the delivered object left the scope, at this revision, if it came back since: then the handler receives two events.
    left: Option<(Arc<T>, u64)>,
    newest: State<T>,
    /// The revision of the newest event.
    revision: u64,
    /// The time of publication of the oldest coalesced event.
    since: Moment,
}

enum Popped<T> {
    Entry(Entry<T>),
    /// The first of the two events of an entry.
    Left(Left<Arc<T>>, Moment),
    InitialEnd,
}

enum Delivered<T> {
    /// The handler has received nothing about the key, or a deletion, or that it left the scope.
    Nothing,
    /// The handler has received the object in this state; `None` if the state is unknown.
    State(Option<Arc<T>>),
}

enum State<T> {
    Present { object: Arc<T>, in_initial_list: bool },
    Gone(Tombstone<Arc<T>>),
    Left(Arc<T>),
}

impl<T> Delivered<T> {
    fn into_state(self) -> Option<Arc<T>> {
        match self {
            Self::Nothing => None,
            Self::State(state) => state,
        }
    }
}

impl<T> State<T> {
    fn of(event: &Event<Arc<T>>) -> Self {
        match event {
            Event::Added(added) => {
                Self::Present { object: added.object.clone(), in_initial_list: added.in_initial_list }
            }
            Event::Updated(updated) => Self::Present { object: updated.new.clone(), in_initial_list: false },
            Event::Deleted(deleted) => Self::Gone(deleted.tombstone.clone()),
            Event::Left(left) => Self::Left(left.object.clone()),
        }
    }

    fn drop_contained(self) {
        match self {
            Self::Present { object, .. } | Self::Left(object) => drop_object(object),
            Self::Gone(tombstone) => tombstone.into_object().into_iter().for_each(drop_object),
        }
    }
}

impl<T> Entry<T> {
    fn drop_contained(self) {
        self.newest.drop_contained();
        if let Delivered::State(Some(object)) = self.delivered {
            drop_object(object);
        }
        self.left.into_iter().for_each(|(object, _)| drop_object(object));
    }

    /// Merges a newer event. Returns the displaced states, to be dropped outside the lock.
    ///
    /// An object that left the scope and came back is never an update: it may be another one.
    fn merge(&mut self, newest: State<T>, revision: u64) -> [Option<State<T>>; 2] {
        let newest = match (newest, &self.newest) {
            // An undelivered addition keeps its `in_initial_list`.
            (State::Present { object, .. }, &State::Present { in_initial_list, .. }) => {
                State::Present { object, in_initial_list }
            }
            (newest @ State::Present { .. }, State::Left(left)) => {
                let delivered = std::mem::replace(&mut self.delivered, Delivered::Nothing);
                // A filter decides by the state that the handler has received.
                let left = delivered.into_state().unwrap_or_else(|| left.clone());
                self.left = Some((left, self.revision));
                newest
            }
            (gone @ (State::Gone(_) | State::Left(_)), _) if self.left.is_some() => {
                // What came back is gone again, before the handler has received anything of it.
                let Some((left, at)) = self.left.take() else { return [Some(gone), None] };
                self.delivered = Delivered::State(Some(left.clone()));
                self.revision = at;
                return [Some(std::mem::replace(&mut self.newest, State::Left(left))), Some(gone)];
            }
            (newest, _) => newest,
        };
        self.revision = revision;
        [Some(std::mem::replace(&mut self.newest, newest)), None]
    }

    /// Returns whether the handler has nothing to receive: neither the object nor that it is gone.
    fn is_void(&self) -> bool {
        matches!(
            (&self.delivered, &self.newest, &self.left),
            (Delivered::Nothing, State::Gone(_) | State::Left(_), None)
        )
    }

    /// Returns the addition of the newest state in the initial list; `None` if the object was deleted or has left.
    fn into_initial(self) -> Option<Event<Arc<T>>> {
        let Self { delivered, newest, revision, left, .. } = self;
        if let Delivered::State(Some(object)) = delivered {
            drop_object(object);
        }
        left.into_iter().for_each(|(object, _)| drop_object(object));
        match newest {
            State::Present { object, .. } => Some(Event::initial(object, revision)),
            gone @ (State::Gone(_) | State::Left(_)) => {
                gone.drop_contained();
                None
            }
        }
    }

    fn into_event(self) -> Event<Arc<T>> {
        let Self { delivered, newest, revision, .. } = self;
        match (delivered, newest) {
            (Delivered::State(Some(old)), State::Present { object: new, .. }) => {
                Event::Updated(Updated { old, new, revision })
            }
            (Delivered::State(None), State::Present { object, .. }) => {
                Event::Added(Added { object, in_initial_list: false, revision })
            }
            (Delivered::Nothing, State::Present { object, in_initial_list }) => {
                Event::Added(Added { object, in_initial_list, revision })
            }
            (Delivered::State(old), State::Gone(tombstone)) => {
                Event::Deleted(Deleted { tombstone, old, revision })
            }
            // Such an entry is removed: see `fold`.
            (Delivered::Nothing, State::Gone(tombstone)) => {
                Event::Deleted(Deleted { tombstone, old: None, revision })
            }
            (delivered, State::Left(object)) => {
                // As in `merge`.
                let object = match delivered.into_state() {
                    Some(received) => {
                        drop_object(object);
                        received
                    }
                    None => object,
                };
                Event::Left(Left { object, revision })
            }
        }
    }
}

impl<T> Pending<T> {
    fn remove(&mut self, place: u64) -> Option<Entry<T>> {
        let entry = self.entries.remove(&place)?;
        self.places.remove(&entry.key);
        if self.entries.is_empty() {
            self.places.shrink_to(KEPT);
        }
        Some(entry)
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        std::mem::take(&mut self.entries).into_values().for_each(Entry::drop_contained);
    }
}

impl<T: Object> Newest<T> {
    /// Reads the log into the pending entries until the log is closed or the handler stops.
    async fn read_log(&self, reading: Reading<T>) {
        let Reading { mut reader, stop, .. } = reading;
        loop {
            let mut more = true;
            for _ in 0..YIELD_AFTER {
                let step = contain(|| match reader.next() {
                    Next::Empty => false,
                    Next::Synced => {
                        self.end_initial_list();
                        true
                    }
                    Next::Event(event, published) => {
                        self.fold(event, published);
                        true
                    }
                });
                match step {
                    Ok(true) => {}
                    Ok(false) => {
                        more = false;
                        break;
                    }
                    Err(error) => {
                        tracing::error!(handler = %self.name, %error, "failed to read event; skipping event");
                    }
                }
            }
            reader.drop_previous();
            self.wake();
            if more && !stop.is_cancelled() {
                yield_now().await;
                continue;
            }
            if reader.is_closed() || stop.is_cancelled() {
                self.pending.lock().closed = true;
                self.wake();
                return;
            }
            // The order does not matter: either arm ends the wait, and the stop is checked after each event.
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = poll_fn(|context| reader.poll_ready(context)) => {}
            }
        }
    }

    /// Records the end of the initial list: it is delivered after the current entries.
    fn end_initial_list(&self) {
        let mut pending = self.pending.lock();
        let end = pending.next;
        pending.initial_end = Some(end);
    }

    /// Merges an event into the entry of its key.
    fn fold(&self, event: &Event<Arc<T>>, since: Moment) {
        let Ok(Ok(key)) = contain(|| ObjectKey::try_from(event.key())) else {
            tracing::error!(handler = %self.name, "event has no valid key; skipping event");
            return;
        };
        let newest = State::of(event);
        let revision = event.revision();
        let mut guard = self.pending.lock();
        let pending = &mut *guard;
        if pending.released {
            drop(guard);
            return newest.drop_contained();
        }
        let place = pending.places.get(&key).copied();
        let displaced = match place.and_then(|place| pending.entries.get_mut(&place)) {
            Some(entry) => {
                let displaced = entry.merge(newest, revision);
                let void = entry.is_void();
                (displaced, place.filter(|_| void).and_then(|place| pending.remove(place)))
            }
            None => {
                let delivered = match event {
                    Event::Added(_) => Delivered::Nothing,
                    _ => Delivered::State(event.before().cloned()),
                };
                let place = pending.next;
                pending.next += 1;
                pending.places.insert(key.clone(), place);
                let entry = Entry { key, delivered, left: None, newest, revision, since };
                pending.entries.insert(place, entry);
                ([None, None], None)
            }
        };
        self.keys.store(pending.entries.len(), Ordering::Relaxed);
        drop(guard);
        // Objects are dropped outside the lock.
        let (states, entry) = displaced;
        states.into_iter().flatten().for_each(State::drop_contained);
        entry.into_iter().for_each(Entry::drop_contained);
    }

    /// Merges an object of the initial list with the later events of its key, and removes their entry. Returns `None` if
    /// the object was deleted. An event that is folded later follows the object.
    fn merge(&self, initial: Event<Arc<T>>) -> Option<Event<Arc<T>>> {
        // The usual case, without the lock.
        if self.keys.load(Ordering::Relaxed) == 0 {
            return Some(initial);
        }
        let Ok(Ok(key)) = contain(|| ObjectKey::try_from(initial.key())) else {
            return Some(initial);
        };
        let mut pending = self.pending.lock();
        let place = pending.places.get(&key).copied();
        let entry = place.and_then(|place| pending.remove(place));
        self.keys.store(pending.entries.len(), Ordering::Relaxed);
        drop(pending);
        let Some(entry) = entry else { return Some(initial) };
        initial.drop_contained();
        entry.into_initial()
    }

    /// Removes the oldest entry, or the end of the initial list.
    fn pop(&self) -> Option<Popped<T>> {
        let mut pending = self.pending.lock();
        let first = pending.entries.first_key_value().map(|(place, _)| *place);
        if pending.initial_end.is_some_and(|end| first.is_none_or(|first| first >= end)) {
            pending.initial_end = None;
            return Some(Popped::InitialEnd);
        }
        let place = first?;
        if let Some(Entry { left, since, .. }) = pending.entries.get_mut(&place)
            && let Some((object, revision)) = left.take()
        {
            return Some(Popped::Left(Left { object, revision }, *since));
        }
        let entry = pending.remove(place)?;
        self.keys.store(pending.entries.len(), Ordering::Relaxed);
        Some(Popped::Entry(entry))
    }

    /// Wakes the handler, if it waits.
    fn wake(&self) {
        self.changed.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl<T: Object> Backlog<T> for Coalesced<T> {
    fn next(&mut self) -> Next<'_, T> {
        self.last.clear();
        while let Some(initial) = &mut self.initial {
            match initial.next() {
                Some((event, joined_at)) => {
                    if let Some(event) = self.newest.merge(event) {
                        return Next::Event(self.last.set(event), joined_at);
                    }
                }
                None => self.initial = None,
            }
        }
        match self.newest.pop() {
            None => Next::Empty,
            Some(Popped::InitialEnd) => Next::Synced,
            Some(Popped::Left(left, since)) => Next::Event(self.last.set(Event::Left(left)), since),
            Some(Popped::Entry(entry)) => {
                let since = entry.since;
                Next::Event(self.last.set(entry.into_event()), since)
            }
        }
    }

    fn drop_previous(&mut self) {
        self.last.clear();
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.initial.is_some() {
            return Poll::Ready(());
        }
        // Registered before the check, so that a later change wakes.
        self.newest.waker.register(context.waker());
        if self.newest.changed.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn is_closed(&self) -> bool {
        self.newest.pending.lock().closed
    }

    fn undelivered(&self) -> Arc<dyn Undelivered> {
        self.newest.clone()
    }
}

impl<T: Send + Sync> Undelivered for Newest<T> {
    /// Counts the undelivered keys, the events that have not been coalesced yet, and the initial list.
    fn depth(&self) -> usize {
        self.unread.depth() + self.keys.load(Ordering::Relaxed)
    }

    fn release(&self) {
        let entries = {
            let mut pending = self.pending.lock();
            pending.released = true;
            pending.places = HashMap::default();
            self.keys.store(0, Ordering::Relaxed);
            std::mem::take(&mut pending.entries)
        };
        entries.into_values().for_each(Entry::drop_contained);
        self.unread.release();
    }
}
