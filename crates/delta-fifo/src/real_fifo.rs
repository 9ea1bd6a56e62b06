//! RealFIFO: everything in the order in which it arrived.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use kinformer_core::{
    Delta, Error as SinkError, KeyError, KeyProblem, KnownObjects, Object, ObjectKey, ReadyFuture,
    Replacement, Report, ResourceVersion, Sink, Tombstone, Transform, VersionUpdate, ask, contain,
};

use crate::in_flight::{InFlight, KeyMap, Newest};
use crate::incoming::{self, Incoming, Keyed};
use crate::known::{self, Known, LastKnown};
use crate::popped::Taken;
use crate::queue::BoxFuture;
use crate::shared::{Backlog, Garbage, Shared, State};
use crate::{Bound, Error, Popped, Queue, Stats};

/// A queue that gives out everything that happened, across all keys, in the order of its arrival.
///
/// * **Atomic** (the default): a replace is one [`Delta::ReplacedAll`], a resync one [`Delta::SyncAll`], and
///   bookmarks come in order with everything else. It needs no known objects: what is missing in a list is
///   for the consumer to find out, when it applies the list.
/// * **With [known objects](RealFifoBuilder::known_objects)**: a replace is a [`Delta::Deleted`] for each
///   key that is missing, then a [`Delta::Replaced`] for each object; a resync is a [`Delta::Sync`] for each
///   known object. Bookmarks are no deltas, and only move the [version](Popped::version). The known objects are asked while no lock is held.
///
/// A clone is another handle to the same queue. Follows client-go 1.37 (`RealFIFO`).
pub struct RealFifo<T: Object> {
    shared: Arc<Shared<T, InOrder<T>>>,
    settings: Arc<RealFifoBuilder<T>>,
    seed: RandomState,
}

/// Builds a [`RealFifo`].
#[must_use]
pub struct RealFifoBuilder<T> {
    known: Option<Known<T>>,
    transform: Option<Transform<T>>,
    bound: Bound,
}

impl<T: Object> RealFifoBuilder<T> {
    /// The queue, empty.
    pub fn build(self) -> RealFifo<T> {
        let seed = RandomState::default();
        let backlog = InOrder { items: VecDeque::new(), in_batch: HashTable::new() };
        RealFifo { shared: Shared::new(backlog, self.bound), settings: Arc::new(self), seed }
    }
}

pub(crate) struct InOrder<T> {
    items: VecDeque<Item<T>>,
    /// The hashes of the keys of one batch; kept between batches for its memory only.
    in_batch: HashTable<u64>,
}

struct Item<T> {
    delta: Delta<T>,
    /// The hash of the key, made before the lock was taken. Two keys with one hash only end a batch early.
    hash: u64,
    /// The key, where keys are tracked beyond their pop, because there are known objects.
    key: Option<ObjectKey>,
    /// What is reached when this, and so all before it, has been popped.
    version: VersionUpdate,
}

impl<T> Item<T> {
    /// A delta without a key.
    fn of_all(delta: Delta<T>) -> Self {
        Self { delta, hash: 0, key: None, version: VersionUpdate::NONE }
    }
}

impl<T: Object> InOrder<T> {
    /// The key of an item, if it still is one; an object may have changed inside since it was queued.
    fn check(item: &Item<T>) -> Option<KeyError> {
        let checked = ask(|| item.delta.key().map_or(Ok(()), |key| key.check()));
        let panicked = |_| Err(KeyError::new("", KeyProblem::Panicked));
        checked.unwrap_or_else(panicked).err()
    }

    /// How many items at the front make a batch, and what is wrong with the key of the last one.
    fn batch(&mut self, max: usize) -> (usize, Option<KeyError>) {
        let Self { items, in_batch, .. } = self;
        let mut size = 0;
        let mut key_error = None;
        for item in items.iter().take(max) {
            let alone = matches!(item.delta, Delta::ReplacedAll(_) | Delta::SyncAll | Delta::Bookmark(_));
            if alone && size > 0 {
                break;
            }
            if max > 1 && !alone {
                match in_batch.entry(item.hash, |other| *other == item.hash, |other| *other) {
                    Entry::Occupied(_) => break,
                    Entry::Vacant(entry) => drop(entry.insert(item.hash)),
                }
            }
            size += 1;
            key_error = Self::check(item);
            if alone || key_error.is_some() {
                break;
            }
        }
        in_batch.clear();
        in_batch.shrink_to(crate::KEPT, |hash| *hash);
        (size, key_error)
    }
}

impl<T: Object> Backlog<T> for InOrder<T> {
    fn depth(&self) -> usize {
        self.items.len()
    }

    fn entries(&self) -> usize {
        self.items.len()
    }

    fn reaches(&mut self, version: VersionUpdate) -> Option<VersionUpdate> {
        match self.items.back_mut() {
            Some(last) => last.version.append(version),
            None => return Some(version),
        }
        None
    }

    fn take(&mut self, max: usize, flight: &mut InFlight<T>, garbage: &mut Garbage<T>) -> (usize, Taken<T>) {
        let (size, key_error) = self.batch(max);
        let mut taken = Taken::only(VersionUpdate::NONE);
        taken.deltas.reserve(size);
        taken.key_error = key_error;
        for Item { delta, key, version, .. } in self.items.drain(..size) {
            taken.version.append(version);
            if let Some(key) = key {
                garbage.push(flight.popped(key.clone(), Newest::of(&delta)));
                taken.ticket.keys.push(key);
            }
            taken.deltas.push(delta);
        }
        if self.items.is_empty() {
            self.items.shrink_to(crate::KEPT);
        }
        (size, taken)
    }
}

impl<T: Object> Clone for RealFifo<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), settings: self.settings.clone(), seed: self.seed.clone() }
    }
}

/// Making and looking.
impl<T: Object> RealFifo<T> {
    /// An atomic queue.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A queue with options.
    pub fn builder() -> RealFifoBuilder<T> {
        RealFifoBuilder { known: None, transform: None, bound: Bound::default() }
    }

    /// Whether a replace and a resync are one delta each.
    pub fn is_atomic(&self) -> bool {
        self.settings.known.is_none()
    }

    fn item(&self, delta: Delta<T>, version: VersionUpdate) -> Result<Item<T>, SinkError> {
        let (hash, key) = ask(|| {
            let key = delta.key()?;
            let owned = if self.is_atomic() { None } else { ObjectKey::try_from(key).ok() };
            Some((self.seed.hash_one(key), owned))
        })
        .map_err(|source| SinkError::Accessor { key: None, source })?
        .unwrap_or_default();
        Ok(Item { delta, hash, key, version })
    }

    /// An item whose key is known already, so that the object need not be asked.
    fn keyed(&self, key: ObjectKey, delta: Delta<T>) -> Item<T> {
        Item { delta, hash: self.seed.hash_one(key.as_key()), key: Some(key), version: VersionUpdate::NONE }
    }

    fn write(&self, delta: Delta<T>, version: VersionUpdate) -> Result<(), SinkError> {
        let item = self.item(delta, version)?;
        self.push(item, |state| state.initial.written())
    }

    /// Queues one item; `count` says whether that made the queue synced.
    fn push(
        &self,
        item: Item<T>,
        count: impl FnOnce(&mut State<T, InOrder<T>>) -> bool,
    ) -> Result<(), SinkError> {
        let name = |item: &Item<T>| {
            let named = contain(|| item.delta.key().map(|key| key.to_string()));
            named.ok().flatten().unwrap_or_else(|| "*".into())
        };
        self.shared.write(item, name, |state, _, item| {
            state.backlog.items.push_back(item);
            count(state)
        })
    }

    /// A replace as single deltas: what is gone first, then the list.
    fn replace_each(&self, known: &Known<T>, incoming: Incoming<T>) -> Result<Report, SinkError> {
        let version = VersionUpdate::Set(incoming.resource_version.clone());
        let Keyed { objects, all, is_complete, report } = incoming.keyed();
        // What is missing in an incomplete list may exist: as if it were listed.
        let listed = |key: &ObjectKey| !is_complete || all.contains_key(key);
        let replaced: Vec<_> =
            objects.into_iter().map(|(key, object)| self.keyed(key, Delta::Replaced(object))).collect();
        let apply = |known: Vec<LastKnown<T>>| {
            self.shared.write_all((known, replaced), |state, garbage, (known, replaced)| {
                let before = state.backlog.items.len();
                // The newest delta of each key that is not listed, in the order of their first ones.
                let mut queued: KeyMap<usize> = KeyMap::default();
                let mut order: Vec<(ObjectKey, &Delta<T>)> = Vec::new();
                for item in &state.backlog.items {
                    let Some(key) = item.key.as_ref().filter(|key| !listed(key)) else { continue };
                    let at = *queued.entry(key.clone()).or_insert(order.len());
                    match order.get_mut(at) {
                        Some(newest) => newest.1 = &item.delta,
                        None => order.push((key.clone(), &item.delta)),
                    }
                }
                let mut gone: Vec<LastKnown<T>> = order
                    .into_iter()
                    .filter(|(_, newest)| !matches!(newest, Delta::Deleted(_)))
                    .map(|(key, newest)| (key, newest.object().cloned()))
                    .collect();
                let unqueued = |key: &ObjectKey| !queued.contains_key(key);
                gone.extend(state.flight.existing(|key| !listed(key) && unqueued(key)));
                for (key, object) in known {
                    match !unqueued(&key) || state.flight.newest(&key).is_some() {
                        true => garbage.push(Newest::State(object)),
                        false => gone.push((key, object)),
                    }
                }
                for (key, last_known) in gone {
                    let tombstone = Tombstone::FinalStateUnknown { key: key.clone(), last_known };
                    state.backlog.items.push_back(self.keyed(key, Delta::Deleted(tombstone)));
                }
                state.backlog.items.extend(replaced);
                state.reaches(version);
                state.initial.replaced(before, state.backlog.items.len() - before)
            })
        };
        match is_complete {
            true => self.shared.ask(|| known::missing(known, &all), apply)?,
            false => apply(Vec::new())?,
        }
        Ok(report)
    }

    /// A resync as single deltas: not of what is queued or being processed, which has newer states on its way.
    fn resync_each(&self, known: &Known<T>) -> Result<(), SinkError> {
        let apply = |known: Vec<(ObjectKey, Arc<T>)>| {
            self.shared.write_all(known, |state, garbage, known| {
                let queued: KeyMap<()> =
                    state.backlog.items.iter().filter_map(|item| Some((item.key.clone()?, ()))).collect();
                for (key, object) in known {
                    match queued.contains_key(&key) || state.flight.newest(&key).is_some() {
                        true => garbage.push(Newest::State(Some(object))),
                        false => state.backlog.items.push_back(self.keyed(key, Delta::Sync(object))),
                    }
                }
                false
            })
        };
        self.shared.ask(|| known::all(known), apply)
    }
}

impl<T: Object> Sink<T> for RealFifo<T> {
    fn add(&self, object: Arc<T>) -> Result<Report, SinkError> {
        let (version, object) = incoming::object(self.settings.transform.as_ref(), object)?;
        self.write(Delta::Added(object), version)?;
        Ok(Report::default())
    }

    fn update(&self, object: Arc<T>) -> Result<Report, SinkError> {
        let (version, object) = incoming::object(self.settings.transform.as_ref(), object)?;
        self.write(Delta::Updated(object), version)?;
        Ok(Report::default())
    }

    /// Always queued, whether or not anybody knows the key.
    ///
    /// An observed final state passes the transform. If that fails, the deletion is queued without a state, and
    /// the report says so.
    fn delete(&self, tombstone: Tombstone<Arc<T>>) -> Result<Report, SinkError> {
        let (version, tombstone, report) = incoming::deletion(self.settings.transform.as_ref(), tombstone)?;
        self.write(Delta::Deleted(tombstone), version)?;
        Ok(report)
    }

    fn replace(&self, replacement: Replacement<T>) -> Result<Report, SinkError> {
        let incoming = Incoming::new(self.settings.transform.as_ref(), replacement);
        if let Some(known) = &self.settings.known {
            return self.replace_each(known, incoming);
        }
        let Incoming { objects, undelivered, unreadable, resource_version, report } = incoming;
        let version = VersionUpdate::Set(resource_version.clone());
        let all = Replacement::new(objects, resource_version).undelivered(undelivered).unreadable(unreadable);
        let all = Item { version, ..Item::of_all(Delta::ReplacedAll(Box::new(all))) };
        self.push(all, |state| state.initial.replaced(state.backlog.items.len() - 1, 1))?;
        Ok(report)
    }

    fn resync(&self) -> Result<(), SinkError> {
        match &self.settings.known {
            Some(known) => self.resync_each(known),
            None => self.push(Item::of_all(Delta::SyncAll), |_| false),
        }
    }

    /// An atomic queue queues it in order with everything else; one that is full, or has known objects, only moves the
    /// [version](Popped::version).
    fn bookmark(&self, version: ResourceVersion) -> Result<(), SinkError> {
        if !self.is_atomic() || !self.shared.is_ready() {
            return self.shared.bookmark(version);
        }
        let reached = VersionUpdate::Advance(version.clone());
        let bookmark = Item { version: reached, ..Item::of_all(Delta::Bookmark(version.clone())) };
        match self.push(bookmark, |_| false) {
            Err(SinkError::Full { .. }) => self.shared.bookmark(version),
            other => other,
        }
    }

    fn is_ready(&self) -> bool {
        self.shared.is_ready()
    }

    fn ready(&self) -> ReadyFuture<'_> {
        Box::pin(self.shared.ready())
    }
}

crate::methods::delta_queue!(
    RealFifo,
    RealFifoBuilder,
    "What the consumer knows already, usually the store that it fills: the queue is then not atomic.",
    "The delta at the front."
);
