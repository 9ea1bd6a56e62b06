//! DeltaFIFO: one place per key, with everything that happened to it since.

use std::collections::VecDeque;
use std::sync::Arc;

use kinformer_core::{
    Delta, Error as SinkError, KeyRef, KnownObjects, Object, ObjectKey, ReadyFuture, Replacement, Report,
    ResourceVersion, Sink, Tombstone, Transform, VersionUpdate,
};

use crate::in_flight::{InFlight, KeyMap, Lookup, Newest};
use crate::incoming::{self, Incoming, Keyed};
use crate::known::{self, Known, LastKnown};
use crate::popped::{Deltas, Taken};
use crate::queue::BoxFuture;
use crate::shared::{Backlog, Garbage, Shared};
use crate::{Bound, Error, Popped, Queue, Stats};

/// What a replace queues for each object of its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnReplace {
    /// [`Delta::Replaced`]: a consumer can tell a list from a resync.
    #[default]
    Replaced,
    /// [`Delta::Sync`], as client-go does unless told otherwise.
    Sync,
}

/// A queue in which each key has one place, and deltas for a key gather there until it is popped.
///
/// So a slow consumer sees everything that happened to an object, but pops the object only once. Two
/// deletions in a row are one: the later one if it was observed, else the one that carries more. A key that is written while it is queued keeps its place; after its pop it goes
/// to the tail again.
///
/// With [known objects](DeltaFifoBuilder::known_objects) a replace finds out what is gone, also of what the
/// queue itself does not hold, and a resync has something to queue; without them only the queued keys are
/// compared. The known objects are asked while no lock is held.
///
/// A clone is another handle to the same queue. Follows client-go 1.37 (`DeltaFIFO`), which has no bookmarks; here they
/// are no deltas, and move the [version](Popped::version) of what is popped.
pub struct DeltaFifo<T: Object> {
    shared: Arc<Shared<T, PerKey<T>>>,
    settings: Arc<DeltaFifoBuilder<T>>,
}

/// Builds a [`DeltaFifo`].
#[must_use]
pub struct DeltaFifoBuilder<T> {
    known: Option<Known<T>>,
    on_replace: OnReplace,
    transform: Option<Transform<T>>,
    bound: Bound,
}

impl<T: Object> DeltaFifoBuilder<T> {
    /// What a replace queues for each object.
    pub fn on_replace(mut self, on_replace: OnReplace) -> Self {
        self.on_replace = on_replace;
        self
    }

    /// The queue, empty.
    pub fn build(self) -> DeltaFifo<T> {
        DeltaFifo { shared: Shared::new(PerKey::default(), self.bound), settings: Arc::new(self) }
    }
}

/// The deltas of each key, and the keys in the order of their pops. A key is in both or in neither.
pub(crate) struct PerKey<T> {
    deltas: KeyMap<Deltas<T>>,
    queue: VecDeque<Place>,
    depth: usize,
}

struct Place {
    key: ObjectKey,
    /// What is reached when this key, and so all before it, has been popped.
    version: VersionUpdate,
}

impl<T> Default for PerKey<T> {
    fn default() -> Self {
        Self { deltas: KeyMap::default(), queue: VecDeque::new(), depth: 0 }
    }
}

impl<T: Object> PerKey<T> {
    fn push(&mut self, key: ObjectKey, delta: Delta<T>, garbage: &mut Garbage<T>) {
        let Some(deltas) = self.deltas.get_mut(&key) else {
            self.deltas.insert(key.clone(), Deltas::from_iter([delta]));
            self.queue.push_back(Place { key, version: VersionUpdate::NONE });
            self.depth += 1;
            return;
        };
        if let (Some(Delta::Deleted(earlier)), Delta::Deleted(later)) = (deltas.last_mut(), &delta) {
            // Of two deletions the one that carries more stays. Of two that were observed that is the newer one.
            if !later.is_final_state_unknown() || weight(later) > weight(earlier) {
                let dropped = std::mem::replace(earlier, later.clone());
                garbage.push(Newest::State(dropped.into_object()));
            }
            garbage.push(Newest::State(delta.object().cloned()));
            return;
        }
        deltas.push(delta);
        self.depth += 1;
    }
}

/// An observed deletion carries the final state; a missed one a state, or nothing.
fn weight<T>(tombstone: &Tombstone<Arc<T>>) -> u8 {
    match tombstone {
        Tombstone::FinalState(_) => 2,
        Tombstone::FinalStateUnknown { last_known, .. } => u8::from(last_known.is_some()),
    }
}

impl<T: Object> Backlog<T> for PerKey<T> {
    fn depth(&self) -> usize {
        self.depth
    }

    fn entries(&self) -> usize {
        self.queue.len()
    }

    fn reaches(&mut self, version: VersionUpdate) -> Option<VersionUpdate> {
        match self.queue.back_mut() {
            Some(last) => last.version.append(version),
            None => return Some(version),
        }
        None
    }

    fn take(&mut self, max: usize, flight: &mut InFlight<T>, garbage: &mut Garbage<T>) -> (usize, Taken<T>) {
        let mut taken = Taken::only(VersionUpdate::NONE);
        let mut entries = 0;
        while entries < max
            && let Some(Place { key, version }) = self.queue.pop_front()
        {
            entries += 1;
            taken.version.append(version);
            let Some(mut deltas) = self.deltas.remove(&key) else { continue };
            self.depth -= deltas.len();
            if let Some(newest) = deltas.last() {
                garbage.push(flight.popped(key.clone(), Newest::of(newest)));
            }
            taken.ticket.keys.push(key);
            match taken.deltas.is_empty() {
                true => taken.deltas = deltas,
                false => taken.deltas.append(&mut deltas),
            }
        }
        if self.queue.is_empty() {
            crate::shrink(&mut self.deltas);
            self.queue.shrink_to(crate::KEPT);
        }
        (entries, taken)
    }
}

impl<T: Object> Clone for DeltaFifo<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), settings: self.settings.clone() }
    }
}

/// Making and looking.
impl<T: Object> DeltaFifo<T> {
    /// A queue without known objects.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A queue with options.
    pub fn builder() -> DeltaFifoBuilder<T> {
        DeltaFifoBuilder {
            known: None,
            on_replace: OnReplace::default(),
            transform: None,
            bound: Bound::default(),
        }
    }

    /// How many keys are queued.
    pub fn len(&self) -> usize {
        self.shared.lock().backlog.queue.len()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The queued keys, in the order of their pops.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.shared.lock().backlog.queue.iter().map(|place| place.key.clone()).collect()
    }

    /// What is queued for a key, in order; empty if it is not queued.
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Vec<Delta<T>> {
        let key = Lookup(key.into());
        self.shared.lock().backlog.deltas.get(&key).map(|deltas| deltas.to_vec()).unwrap_or_default()
    }
}

impl<T: Object> Sink<T> for DeltaFifo<T> {
    fn add(&self, object: Arc<T>) -> Result<Report, SinkError> {
        self.write(Delta::Added, object)
    }

    fn update(&self, object: Arc<T>) -> Result<Report, SinkError> {
        self.write(Delta::Updated, object)
    }

    /// Dropped if neither the queue nor the known objects have the key: then it has been reported already.
    ///
    /// An observed final state passes the transform. If that fails, the deletion is queued without a state, and
    /// the report says so.
    fn delete(&self, tombstone: Tombstone<Arc<T>>) -> Result<Report, SinkError> {
        let (version, tombstone, report) = incoming::deletion(self.settings.transform.as_ref(), tombstone)?;
        let key = incoming::key(|| tombstone.key())?;
        let apply = |known: bool| {
            self.shared.write(
                tombstone,
                |_| key.to_string(),
                |state, garbage, tombstone| {
                    let synced = state.initial.written();
                    let had = match state.flight.newest(&key) {
                        _ if state.backlog.deltas.contains_key(&key) => true,
                        Some(_) if state.flight.is_processing(&key) => true,
                        Some(Newest::Deleted) => false,
                        Some(Newest::State(_)) => true,
                        None => known,
                    };
                    match had {
                        true => state.backlog.push(key.clone(), Delta::Deleted(tombstone), garbage),
                        false => garbage.push(Newest::State(tombstone.into_object())),
                    }
                    state.reaches(version);
                    synced
                },
            )
        };
        match &self.settings.known {
            None => apply(false)?,
            Some(known) => self.shared.ask(|| known::is_known(known, &key), apply)?,
        }
        Ok(report)
    }

    fn replace(&self, replacement: Replacement<T>) -> Result<Report, SinkError> {
        let incoming = Incoming::new(self.settings.transform.as_ref(), replacement);
        let version = VersionUpdate::Set(incoming.resource_version.clone());
        let Keyed { objects, all, is_complete, report } = incoming.keyed();
        // What is missing in an incomplete list may exist: as if it were listed.
        let listed = |key: &ObjectKey| !is_complete || all.contains_key(key);
        let apply = |known: Vec<LastKnown<T>>| {
            self.shared.write_all((known, objects), |state, garbage, (known, objects)| {
                let mut gone: Vec<LastKnown<T>> = Vec::new();
                for Place { key, .. } in state.backlog.queue.iter().filter(|place| !listed(&place.key)) {
                    match state.backlog.deltas.get(key).and_then(|deltas| deltas.last()) {
                        None | Some(Delta::Deleted(_)) => {}
                        Some(newest) => gone.push((key.clone(), newest.object().cloned())),
                    }
                }
                let queued = |key: &ObjectKey| state.backlog.deltas.contains_key(key);
                gone.extend(state.flight.existing(|key| !listed(key) && !queued(key)));
                for (key, object) in known {
                    match queued(&key) || state.flight.newest(&key).is_some() {
                        true => garbage.push(Newest::State(object)),
                        false => gone.push((key, object)),
                    }
                }
                for (key, object) in objects {
                    let delta = match self.settings.on_replace {
                        OnReplace::Replaced => Delta::Replaced(object),
                        OnReplace::Sync => Delta::Sync(object),
                    };
                    state.backlog.push(key, delta, garbage);
                }
                for (key, last_known) in gone {
                    let tombstone = Tombstone::FinalStateUnknown { key: key.clone(), last_known };
                    state.backlog.push(key, Delta::Deleted(tombstone), garbage);
                }
                state.reaches(version);
                // What a resync has queued before is a part of the list now: the list has merged into it.
                state.initial.replaced(0, state.backlog.entries())
            })
        };
        match &self.settings.known {
            Some(known) if is_complete => self.shared.ask(|| known::missing(known, &all), apply)?,
            _ => apply(Vec::new())?,
        }
        Ok(report)
    }

    /// Queues a [`Delta::Sync`] for each known object that is neither queued nor being processed: those have
    /// newer states on their way.
    fn resync(&self) -> Result<(), SinkError> {
        let Some(known) = &self.settings.known else { return Ok(()) };
        self.shared.ask(
            || known::all(known),
            |known| {
                self.shared.write_all(known, |state, garbage, known| {
                    for (key, object) in known {
                        let newer =
                            state.backlog.deltas.contains_key(&key) || state.flight.newest(&key).is_some();
                        match newer {
                            true => garbage.push(Newest::State(Some(object))),
                            false => state.backlog.push(key, Delta::Sync(object), garbage),
                        }
                    }
                    false
                })
            },
        )
    }

    fn bookmark(&self, version: ResourceVersion) -> Result<(), SinkError> {
        self.shared.bookmark(version)
    }

    fn is_ready(&self) -> bool {
        self.shared.is_ready()
    }

    fn ready(&self) -> ReadyFuture<'_> {
        Box::pin(self.shared.ready())
    }
}

impl<T: Object> DeltaFifo<T> {
    fn write(&self, delta: fn(Arc<T>) -> Delta<T>, object: Arc<T>) -> Result<Report, SinkError> {
        let (version, object) = incoming::object(self.settings.transform.as_ref(), object)?;
        let key = incoming::key(|| object.key())?;
        let input = (key, delta(object));
        self.shared.write(
            input,
            |(key, _)| key.to_string(),
            |state, garbage, (key, delta)| {
                let synced = state.initial.written();
                state.backlog.push(key, delta, garbage);
                state.reaches(version);
                synced
            },
        )?;
        Ok(Report::default())
    }
}

crate::methods::delta_queue!(
    DeltaFifo,
    DeltaFifoBuilder,
    "What the consumer knows already, usually the store that it fills.",
    "The deltas of the key at the front, in order."
);
