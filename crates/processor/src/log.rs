//! A log of batches with any number of readers. A batch is for all of them, or for some.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};

use crate::bell::{Bell, Sleeper};
use crate::sync::{Mutex, OnceLock, Ordering};

/// A linked list of immutable batches. The log holds only its end: a batch lives until the last cursor has left it.
/// Batches for some cursors only are in the places of these cursors, and the others hold nothing of them.
pub(crate) struct Log<B> {
    end: Mutex<End<B>>,
    bell: Arc<Bell>,
}

struct End<B> {
    tail: Arc<Link<B>>,
    /// The places of all cursors, by the id of the cursor.
    places: BTreeMap<u64, Arc<Place<B>>>,
    next_id: u64,
}

/// The place of a batch that is, or will be, published. The batch has its own reference count, so that a reader can
/// hold a batch without the later ones.
struct Link<B>(OnceLock<(Arc<B>, Arc<Self>)>);

/// The position of a reader: the link after the batches it has read. An idle reader is at the empty link at the end and
/// keeps no batch alive.
pub(crate) struct Cursor<B> {
    id: u64,
    log: Arc<Log<B>>,
    place: Arc<Place<B>>,
    sleeper: Sleeper,
}

/// The unread batches of a reader, which it keeps alive until they are released.
pub(crate) struct Place<B> {
    unread: Mutex<Option<UnreadBatches<B>>>,
    /// The number of events that were published for this reader alone.
    own_events: AtomicU64,
}

struct UnreadBatches<B> {
    link: Arc<Link<B>>,
    /// The batches for this reader, each with the link that was the end of the log: the reader leaves the batch before
    /// it reads that link.
    own: VecDeque<(Arc<Link<B>>, Arc<B>)>,
}

impl<B> Link<B> {
    fn new() -> Arc<Self> {
        Arc::new(Self(OnceLock::new()))
    }
}

impl<B> Drop for Link<B> {
    /// Drops the following links in a loop: otherwise the drop of a long backlog would recurse once for each link.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut link) = next.and_then(|(_, link)| Arc::into_inner(link)) {
            next = link.0.take();
        }
    }
}

impl<B> Log<B> {
    pub(crate) fn new() -> Self {
        let end = End { tail: Link::new(), places: BTreeMap::new(), next_id: 0 };
        Self { end: Mutex::new(end), bell: Arc::new(Bell::new()) }
    }

    /// Appends a batch. The batch is created under the lock that writers and new readers share.
    pub(crate) fn publish(&self, batch: impl FnOnce() -> B) {
        let next = Link::new();
        let mut end = self.end.lock();
        let set = end.tail.0.set((Arc::new(batch()), next.clone()));
        debug_assert!(set.is_ok(), "the tail is always empty");
        let left = std::mem::replace(&mut end.tail, next);
        drop(end);
        // Without a cursor at this link, the batch and its contents are dropped here, after the lock is released.
        drop(left);
        self.bell.ring();
    }

    /// Appends a batch of this many events for the cursors with these ids. O(log n) for each of them.
    pub(crate) fn publish_to(&self, ids: &[u64], events: usize, batch: B) {
        let batch = Arc::new(batch);
        let end = self.end.lock();
        for place in ids.iter().filter_map(|id| end.places.get(id)) {
            if let Some(unread) = &mut *place.unread.lock() {
                place.own_events.fetch_add(events as u64, Ordering::Release);
                unread.own.push_back((end.tail.clone(), batch.clone()));
            }
        }
        drop(end);
        // Without any of these cursors, the batch is dropped here, after the lock is released.
        drop(batch);
        self.bell.ring();
    }

    /// Returns a cursor at the end of the log, and the result of `read` at the same moment.
    pub(crate) fn cursor<R>(self: &Arc<Self>, read: impl FnOnce() -> R) -> (Cursor<B>, R) {
        let mut end = self.end.lock();
        let state = read();
        let unread = UnreadBatches { link: end.tail.clone(), own: VecDeque::new() };
        let place = Arc::new(Place { unread: Mutex::new(Some(unread)), own_events: AtomicU64::new(0) });
        let id = end.next_id;
        end.next_id += 1;
        end.places.insert(id, place.clone());
        (Cursor { id, log: self.clone(), place, sleeper: Sleeper::default() }, state)
    }

    /// Returns the bell, which is rung for each batch.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}

impl<B> Cursor<B> {
    /// Returns the id, for [`Log::publish_to`]. Later cursors have larger ids.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the place that keeps batches alive for this cursor.
    pub(crate) fn place(&self) -> &Arc<Place<B>> {
        &self.place
    }

    /// Returns the batch under the cursor, if there is one.
    pub(crate) fn batch(&self) -> Option<Arc<B>> {
        self.place.unread.lock().as_ref()?.batch().cloned()
    }

    /// Leaves the batch under the cursor, if there is one. The last cursor to leave a batch drops it.
    pub(crate) fn advance(&self) {
        let mut unread = self.place.unread.lock();
        let left = unread.as_mut().map(UnreadBatches::advance);
        drop(unread);
        // The contents of the batch are dropped here, after the lock is released.
        drop(left);
    }

    /// Returns whether no further batch will be published. Unread batches may remain.
    pub(crate) fn is_closed(&self) -> bool {
        self.log.bell.is_closed()
    }

    /// Ready when there is a batch under the cursor, its place was released, or the log is closed. Releasing the place
    /// wakes no reader.
    pub(crate) fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Self { log, place, sleeper, .. } = self;
        while place.is_empty() && !log.bell.is_closed() {
            ready!(log.bell.poll_wait(sleeper, || !place.is_empty(), context));
        }
        Poll::Ready(())
    }
}

impl<B> Drop for Cursor<B> {
    fn drop(&mut self) {
        // Dropped after the lock is released: this may be the last reference to the place.
        let place = self.log.end.lock().places.remove(&self.id);
        drop(place);
    }
}

impl<B> Place<B> {
    /// Returns the number of events that were published for this reader alone.
    pub(crate) fn own_events(&self) -> u64 {
        self.own_events.load(Ordering::Acquire)
    }

    /// Returns whether there is no batch now but may be one later.
    fn is_empty(&self) -> bool {
        self.unread.lock().as_ref().is_some_and(|unread| unread.batch().is_none())
    }

    /// Releases all batches: the cursor has no batch from now on.
    pub(crate) fn release(&self) {
        let unread = self.unread.lock().take();
        drop(unread);
    }
}

impl<B> UnreadBatches<B> {
    /// Returns whether the next batch is one for this reader alone. Stays `false` once there is a batch at the link.
    fn own_is_next(&self) -> bool {
        self.own.front().is_some_and(|(link, _)| Arc::ptr_eq(link, &self.link))
    }

    fn batch(&self) -> Option<&Arc<B>> {
        if self.own_is_next() {
            return self.own.front().map(|(_, batch)| batch);
        }
        self.link.0.get().map(|(batch, _)| batch)
    }

    /// Leaves the next batch, and returns what must be dropped without the lock.
    fn advance(&mut self) -> (Option<Arc<Link<B>>>, Option<Arc<B>>) {
        if self.own_is_next() {
            let left = self.own.pop_front().map(|(_, batch)| batch);
            if self.own.is_empty() {
                self.own = VecDeque::new();
            }
            return (None, left);
        }
        let next = self.link.0.get().map(|(_, next)| next.clone());
        (next.map(|next| std::mem::replace(&mut self.link, next)), None)
    }
}
