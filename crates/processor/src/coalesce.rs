//! The newest state of each key, for handlers that do not need every event.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::fast::RandomState;
use kinformer_core::{Object, ObjectKey, Tombstone, ask, contain};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::event::{Event, Notification, drop_contained};
use crate::inbox::{Inbox, Next};
use crate::listener::{Listener, Moment, Undelivered};

impl<T> Now<T> {
    fn drop_contained(self) {
        match self {
            Self::Present { object, .. } => drop_contained(object),
            Self::Gone(tombstone) => tombstone.into_object().into_iter().for_each(drop_contained),
        }
    }
}

impl<T> Entry<T> {
    fn drop_contained(self) {
        self.now.drop_contained();
        if let Told::State(Some(object)) = self.told {
            drop_contained(object);
        }
    }
}

impl<T: Send + Sync> Undelivered for Coalescer<T> {
    fn release(&self) {
        let entries = {
            let mut pending = self.pending.lock();
            pending.released = true;
            pending.places = HashMap::default();
            self.listener.pending.store(0, Ordering::Relaxed);
            std::mem::take(&mut pending.entries)
        };
        entries.into_values().for_each(Entry::drop_contained);
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        std::mem::take(&mut self.entries).into_values().for_each(Entry::drop_contained);
    }
}

/// What waits for one handler: at most one entry for each key, in the order in which the keys came to wait.
pub(crate) struct Coalescer<T> {
    pending: Mutex<Pending<T>>,
    wake: Notify,
    listener: Arc<Listener>,
}

struct Pending<T> {
    entries: BTreeMap<u64, Entry<T>>,
    places: HashMap<ObjectKey, u64, RandomState>,
    next: u64,
    /// The place behind the last entry of the initial list, once that has been read.
    initial_end: Option<u64>,
    closed: bool,
    /// Whether nothing is to wait any more.
    released: bool,
}

/// What the handler knows of a key, and what is to be told.
struct Entry<T> {
    key: ObjectKey,
    told: Told<T>,
    now: Now<T>,
    /// The revision of the newest event.
    revision: u64,
    /// When what waits was published, the first of it.
    since: Moment,
}

enum Told<T> {
    /// It has never heard of it.
    Nothing,
    /// It knows the object, in this state, unless that cannot be said.
    State(Option<Arc<T>>),
}

enum Now<T> {
    Present { object: Arc<T>, in_initial_list: bool },
    Gone(Tombstone<Arc<T>>),
}

impl<T> Now<T> {
    fn of(event: &Event<Arc<T>>) -> Self {
        match event {
            Event::Added { object, in_initial_list, .. } => {
                Self::Present { object: object.clone(), in_initial_list: *in_initial_list }
            }
            Event::Updated { new, .. } => Self::Present { object: new.clone(), in_initial_list: false },
            Event::Deleted { tombstone, .. } => Self::Gone(tombstone.clone()),
        }
    }
}

impl<T: Object> Coalescer<T> {
    pub(crate) fn new(listener: Arc<Listener>) -> Self {
        let pending = Pending {
            entries: BTreeMap::new(),
            places: HashMap::default(),
            next: 0,
            initial_end: None,
            closed: false,
            released: false,
        };
        Self { pending: Mutex::new(pending), wake: Notify::new(), listener }
    }

    /// Notes that what waits now is the rest of the initial list.
    fn end_initial_list(&self) {
        let mut pending = self.pending.lock();
        let end = pending.next;
        pending.initial_end.get_or_insert(end);
    }

    /// Reads the log into the pending entries until it is closed or the listener stops, however slow the handler is.
    pub(crate) async fn absorb(&self, mut inbox: Inbox<T>) {
        const AT_ONCE: usize = 128;
        let mut synced = false;
        loop {
            let mut more = true;
            for _ in 0..AT_ONCE {
                if !synced && inbox.is_synced() {
                    synced = true;
                    self.end_initial_list();
                }
                match contain(|| {
                    inbox.next_with(|notification, published| self.fold(notification, published))
                }) {
                    Ok(Next::Empty) => {
                        more = false;
                        break;
                    }
                    Ok(Next::Passed | Next::Told(())) => {}
                    Err(error) => {
                        tracing::error!(handler = %self.listener.name, %error, "an event was left out");
                    }
                }
            }
            self.wake.notify_one();
            if more && !self.listener.is_stopped() {
                tokio::task::yield_now().await;
                continue;
            }
            if inbox.is_closed() || self.listener.is_stopped() {
                self.pending.lock().closed = true;
                self.wake.notify_one();
                return;
            }
            tokio::select! {
                () = inbox.wait() => {}
                () = self.listener.stop.cancelled() => {}
            }
        }
    }

    fn fold(&self, notification: &Notification<T>, since: Moment) {
        let Ok(Ok(key)) = ask(|| ObjectKey::try_from(notification.event.key())) else {
            tracing::error!(handler = %self.listener.name, "an event without a valid key was left out");
            return;
        };
        let now = Now::of(&notification.event);
        let revision = notification.event.revision();
        let mut guard = self.pending.lock();
        let pending = &mut *guard;
        if pending.released {
            drop(guard);
            return now.drop_contained();
        }
        let place = pending.places.get(&key).copied();
        let displaced = match place.and_then(|place| pending.entries.get_mut(&place)) {
            Some(entry) => {
                let now = match (now, &entry.now) {
                    // Still the addition that it was.
                    (Now::Present { object, .. }, &Now::Present { in_initial_list, .. }) => {
                        Now::Present { object, in_initial_list }
                    }
                    (now, _) => now,
                };
                entry.revision = revision;
                let displaced = std::mem::replace(&mut entry.now, now);
                if matches!((&entry.told, &entry.now), (Told::Nothing, Now::Gone(_))) {
                    pending.places.remove(&key);
                    let entry = place.and_then(|place| pending.entries.remove(&place));
                    (Some(displaced), entry)
                } else {
                    (Some(displaced), None)
                }
            }
            None => {
                let told = match &notification.event {
                    Event::Added { .. } => Told::Nothing,
                    _ => Told::State(notification.before().cloned()),
                };
                let place = pending.next;
                pending.next += 1;
                pending.places.insert(key.clone(), place);
                pending.entries.insert(place, Entry { key, told, now, revision, since });
                (None, None)
            }
        };
        self.listener.pending.store(pending.entries.len(), Ordering::Relaxed);
        drop(guard);
        // Objects end outside the lock.
        let (now, entry) = displaced;
        now.into_iter().for_each(Now::drop_contained);
        entry.into_iter().for_each(Entry::drop_contained);
    }

    /// Tells what has waited longest.
    pub(crate) fn next_with<R>(&self, tell: impl FnOnce(&Notification<T>, Moment) -> R) -> Next<R> {
        let next = {
            let mut pending = self.pending.lock();
            let next = pending.entries.pop_first();
            if let Some((_, entry)) = &next {
                pending.places.remove(&entry.key);
            }
            self.listener.pending.store(pending.entries.len(), Ordering::Relaxed);
            next
        };
        let Some((_, Entry { told, now, revision, since, .. })) = next else {
            return Next::Empty;
        };
        let (event, old) = match (told, now) {
            (Told::State(Some(old)), Now::Present { object: new, .. }) => {
                (Event::Updated { old, new, revision }, None)
            }
            (Told::State(None), Now::Present { object, .. }) => {
                (Event::Added { object, in_initial_list: false, revision }, None)
            }
            (Told::Nothing, Now::Present { object, in_initial_list }) => {
                (Event::Added { object, in_initial_list, revision }, None)
            }
            (Told::State(old), Now::Gone(tombstone)) => (Event::Deleted { tombstone, revision }, old),
            // Not kept: see `fold`.
            (Told::Nothing, Now::Gone(tombstone)) => (Event::Deleted { tombstone, revision }, None),
        };
        let notification = Notification { event, old };
        let told = tell(&notification, since);
        notification.drop_contained();
        Next::Told(told)
    }

    /// Whether everything of the initial list has been told.
    pub(crate) fn is_synced(&self) -> bool {
        let pending = self.pending.lock();
        let first = pending.entries.first_key_value().map(|(place, _)| *place);
        pending.initial_end.is_some_and(|end| first.is_none_or(|first| first >= end))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.pending.lock().closed
    }

    /// Waits until there may be something to tell. Only one may wait. Cancel-safe.
    pub(crate) async fn wait(&self) {
        self.wake.notified().await;
    }
}
