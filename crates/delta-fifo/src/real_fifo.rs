//! RealFIFO: everything in the order in which it arrived.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use kinformer_core::{
    Delta, Error as SinkError, KeyError, KeyProblem, KnownObjects, Object, ObjectKey, ReadyFuture,
    Replacement, Report, ResourceVersion, Sink, Tombstone, Transform, contain,
};

use crate::in_flight::{InFlight, KeyMap, Newest};
use crate::incoming::{self, Incoming};
use crate::known::{Known, LastKnown, known_objects};
use crate::popped::{Deltas, Taken, Ticket};
use crate::queue::BoxFuture;
use crate::shared::{Backlog, Garbage, Shared, State};
use crate::{Bound, Error, Popped, Queue};

/// A queue that gives out everything that happened, across all keys, in the order of its arrival.
///
/// * **Atomic** (the default): a replace is one [`Delta::ReplacedAll`], a resync one [`Delta::SyncAll`], and
///   bookmarks come in order with everything else. It needs no known objects: what is missing in a list is
///   for the consumer to find out, when it applies the list.
/// * **With [known objects](RealFifoBuilder::known_objects)**: a replace is a [`Delta::Deleted`] for each
///   key that is missing, then a [`Delta::Replaced`] for each object; a resync is a [`Delta::Sync`] for each
///   known object. Bookmarks are left out. The known objects are asked while no lock is held.
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
    /// What the consumer knows already, usually the store that it fills: the queue is then not atomic.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<T>>) -> Self {
        self.known = Some(known);
        self
    }

    /// Every object passes this once before it is queued.
    pub fn transform(mut self, transform: Transform<T>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// How many deltas the queue takes; 10,000 by default.
    pub fn bound(mut self, bound: Bound) -> Self {
        self.bound = bound;
        self
    }

    /// The queue, empty.
    pub fn build(self) -> RealFifo<T> {
        let seed = RandomState::default();
        let backlog = InOrder { items: VecDeque::new(), seed: seed.clone() };
        RealFifo { shared: Shared::new(backlog, self.bound), settings: Arc::new(self), seed }
    }
}

pub(crate) struct InOrder<T> {
    items: VecDeque<Item<T>>,
    seed: RandomState,
}

struct Item<T> {
    delta: Delta<T>,
    /// The hash of the key, made before the lock was taken. Two keys with one hash only end a batch early.
    hash: u64,
    /// The key, where keys are tracked beyond their pop, because there are known objects.
    key: Option<ObjectKey>,
}

impl<T: Object> InOrder<T> {
    /// The key of an item, if it still is one; an object may have changed inside since it was queued.
    fn check(item: &Item<T>) -> Option<KeyError> {
        let checked = contain(|| item.delta.key().map_or(Ok(()), |key| key.check()));
        let panicked = |_| Err(KeyError::new("", KeyProblem::Panicked));
        checked.unwrap_or_else(panicked).err()
    }
}

impl<T: Object> Backlog<T> for InOrder<T> {
    fn depth(&self) -> usize {
        self.items.len()
    }

    fn entries(&self) -> usize {
        self.items.len()
    }

    fn take(&mut self, max: usize, flight: &mut InFlight<T>, garbage: &mut Garbage<T>) -> (usize, Taken<T>) {
        let mut taken = Taken {
            deltas: Deltas::new(),
            in_initial_list: false,
            key_error: None,
            ticket: Ticket::default(),
        };
        let max = max.min(self.items.len());
        taken.deltas.reserve_exact(if max > 1 { max } else { 0 });
        let mut keys = HashSet::with_capacity_and_hasher(if max > 1 { max } else { 0 }, self.seed.clone());
        while taken.deltas.len() < max
            && let Some(item) = self.items.front()
        {
            let alone = matches!(item.delta, Delta::ReplacedAll(_) | Delta::SyncAll | Delta::Bookmark(_));
            if !taken.deltas.is_empty() && (alone || keys.contains(&item.hash)) {
                break;
            }
            taken.key_error = Self::check(item);
            if max > 1 {
                keys.insert(item.hash);
            }
            let Some(Item { delta, key, .. }) = self.items.pop_front() else { break };
            if let Some(key) = key {
                garbage.push(flight.popped(key.clone(), Newest::of(&delta)));
                taken.ticket.keys.push(key);
            }
            taken.deltas.push(delta);
            if alone || taken.key_error.is_some() {
                break;
            }
        }
        if self.items.is_empty() {
            self.items.shrink_to(crate::KEPT);
        }
        (taken.deltas.len(), taken)
    }
}

impl<T: Object> Clone for RealFifo<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), settings: self.settings.clone(), seed: self.seed.clone() }
    }
}

impl<T: Object> Default for RealFifo<T> {
    fn default() -> Self {
        Self::new()
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

    /// A delta about one object.
    fn item(&self, delta: Delta<T>) -> Item<T> {
        let (hash, key) = match delta.key() {
            Some(key) => (self.seed.hash_one(key), key),
            None => return Item { delta, hash: 0, key: None },
        };
        let key = if self.is_atomic() { None } else { ObjectKey::try_from(key).ok() };
        Item { delta, hash, key }
    }

    fn write(&self, delta: Delta<T>) -> Result<Report, SinkError> {
        let item = self.item(delta);
        self.push(item, |state| state.initial.written())?;
        Ok(Report::default())
    }

    /// Queues one item; `count` says whether that made the queue synced.
    fn push(
        &self,
        item: Item<T>,
        count: impl FnOnce(&mut State<T, InOrder<T>>) -> bool,
    ) -> Result<(), SinkError> {
        let name = |item: &Item<T>| item.delta.key().map_or("*".into(), |key| key.to_string());
        self.shared.write(item, name, |state, _, item| {
            state.backlog.items.push_back(item);
            count(state)
        })
    }

    /// A replace as single deltas: what is gone first, then the list.
    fn replace_each(&self, known: &Known<T>, incoming: Incoming<T>) -> Result<(), SinkError> {
        let keys = incoming.keys();
        let listed = |key: &ObjectKey| keys.contains_key(key);
        let replaced: Vec<_> =
            incoming.objects.into_iter().map(|object| self.item(Delta::Replaced(object))).collect();
        let apply = |known: Vec<LastKnown<T>>| {
            self.shared.write_all((known, replaced), |state, _, (known, replaced)| {
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
                for (key, newest) in state.flight.iter().filter(|(key, _)| !listed(key) && unqueued(key)) {
                    if let Newest::State(object) = newest {
                        gone.push((key.clone(), object.clone()));
                    }
                }
                let popped = |key: &ObjectKey| state.flight.newest(key.as_str()).is_some();
                gone.extend(known.into_iter().filter(|(key, _)| unqueued(key) && !popped(key)));
                for (key, last_known) in gone {
                    let tombstone = Tombstone::FinalStateUnknown { key, last_known };
                    state.backlog.items.push_back(self.item(Delta::Deleted(tombstone)));
                }
                state.backlog.items.extend(replaced);
                state.initial.replaced(state.backlog.items.len())
            })
        };
        self.shared.ask(|| known_objects(known, |key| !listed(key)), apply)
    }

    /// A resync as single deltas: not of what is queued or being processed, which has newer states on its way.
    fn resync_each(&self, known: &Known<T>) -> Result<(), SinkError> {
        let apply = |known: Vec<LastKnown<T>>| {
            self.shared.write_all(known, |state, garbage, known| {
                let queued: KeyMap<()> =
                    state.backlog.items.iter().filter_map(|item| Some((item.key.clone()?, ()))).collect();
                for (key, object) in known {
                    match object {
                        Some(object)
                            if !queued.contains_key(&key) && state.flight.newest(key.as_str()).is_none() =>
                        {
                            state.backlog.items.push_back(self.item(Delta::Sync(object)));
                        }
                        other => garbage.push(Newest::State(other)),
                    }
                }
                false
            })
        };
        self.shared.ask(|| known_objects(known, |_| true), apply)
    }
}

impl<T: Object> Sink<T> for RealFifo<T> {
    fn add(&self, object: Arc<T>) -> Result<Report, SinkError> {
        self.write(Delta::Added(incoming::object(self.settings.transform.as_ref(), object)?))
    }

    fn update(&self, object: Arc<T>) -> Result<Report, SinkError> {
        self.write(Delta::Updated(incoming::object(self.settings.transform.as_ref(), object)?))
    }

    /// Always queued, whether or not anybody knows the key.
    fn delete(&self, tombstone: Tombstone<T>) -> Result<Report, SinkError> {
        tombstone.key().check()?;
        self.write(Delta::Deleted(tombstone))
    }

    fn replace(&self, replacement: Replacement<T>) -> Result<Report, SinkError> {
        let mut incoming = Incoming::new(self.settings.transform.as_ref(), replacement);
        let report = std::mem::take(&mut incoming.report);
        match &self.settings.known {
            Some(known) => self.replace_each(known, incoming)?,
            None => {
                let all = Replacement::new(incoming.objects, incoming.resource_version)
                    .undelivered(incoming.undelivered);
                let item = Item { delta: Delta::ReplacedAll(Box::new(all)), hash: 0, key: None };
                self.push(item, |state| state.initial.replaced(state.backlog.items.len()))?;
            }
        }
        Ok(report)
    }

    fn resync(&self) -> Result<(), SinkError> {
        match &self.settings.known {
            Some(known) => self.resync_each(known),
            None => self.push(self.item(Delta::SyncAll), |_| false),
        }
    }

    /// Queued in order with everything else by an atomic queue; left out by one with known objects.
    fn bookmark(&self, version: ResourceVersion) -> Result<(), SinkError> {
        if !self.is_atomic() {
            return Ok(());
        }
        self.push(self.item(Delta::Bookmark(version)), |_| false)
    }

    fn is_ready(&self) -> bool {
        self.shared.is_ready()
    }

    fn ready(&self) -> ReadyFuture<'_> {
        Box::pin(self.shared.ready())
    }
}

crate::methods::delta_queue!(RealFifo, "The delta at the front.");
