//! The writes that some informer of their resource may not have yet. A write is kept until all of them reflect it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kinformer::{ObjectKey, Packed, ResourceVersion};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How many writes of one resource are kept apart from others, and how long. Reads of any key wait for the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) writes: usize,
    /// The bytes of the written states, as they are encoded.
    pub(crate) bytes: usize,
    pub(crate) time: Duration,
}

impl Default for Kept {
    fn default() -> Self {
        Self { writes: 65_536, bytes: 64 << 20, time: Duration::from_secs(600) }
    }
}

/// How many deletions of one key are kept.
const DELETIONS: usize = 8;

/// How many writes are recorded at least before those that the informers have are looked for.
const SWEEP: usize = 64;

/// What the response of a write says about an object.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// It is in this state.
    State(Packed<()>),
    /// Its state is that of this version, which is not known.
    Version(ResourceVersion),
    /// There is no object with this key at this version.
    Absent(ResourceVersion),
    /// The object with this UID is gone, or its deletion has begun. `existed` is a version at which it existed, if one is
    /// known: without it, an object with another UID may be an earlier one.
    Deleted { uid: Arc<str>, is_gone: bool, existed: Option<ResourceVersion> },
    /// It can be read at this version, whatever has become of the object. Events of other objects, or a bookmark, have it.
    Reached(ResourceVersion),
    /// Nothing.
    Unversioned,
    /// One of several writes can be read at this version, and nothing is known of another one.
    AtLeast(ResourceVersion),
    /// This was known until a read did not see it in time. A server that was restored from a backup may not have the write any
    /// more, so the next read asks it.
    Unconfirmed(Arc<Write>),
}

impl Write {
    /// The version from which on this write can be read.
    pub(crate) fn version(&self) -> Option<ResourceVersion> {
        match self {
            Self::State(object) => Some(object.resource_version()),
            Self::Version(version) | Self::Absent(version) | Self::Reached(version) => Some(version.clone()),
            Self::Deleted { .. } | Self::Unversioned | Self::AtLeast(_) | Self::Unconfirmed(_) => None,
        }
    }

    /// As [`Self::version`], also of a write that a read did not see in time.
    pub(crate) fn version_or_unconfirmed(&self) -> Option<ResourceVersion> {
        if let Self::Unconfirmed(known) = self { known.version() } else { self.version() }
    }

    /// A version before which this write cannot be read.
    pub(crate) fn lower_bound(&self) -> Option<ResourceVersion> {
        if let Self::AtLeast(version) = self { Some(version.clone()) } else { self.version_or_unconfirmed() }
    }

    /// One write for several: what is known of all of them.
    fn all<'a>(writes: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let later = |mut one: ResourceVersion, other: ResourceVersion| {
            one.advance(&other);
            one
        };
        let is_known = writes.clone().all(|write| write.version_or_unconfirmed().is_some());
        let is_unconfirmed = writes.clone().any(|write| matches!(write, Self::Unconfirmed(_)));
        match writes.filter_map(Self::lower_bound).reduce(later) {
            None => Self::Unversioned,
            Some(version) if !is_known => Self::AtLeast(version),
            Some(version) if is_unconfirmed => Self::Reached(version).unconfirmed(),
            Some(version) => Self::Reached(version),
        }
    }

    /// Returns the write after a read that did not see it in time.
    pub(crate) fn unconfirmed(self) -> Self {
        match self {
            Self::Unversioned | Self::AtLeast(_) | Self::Unconfirmed(_) => self,
            known => Self::Unconfirmed(Arc::new(known.without_state())),
        }
    }

    /// Returns the write with the version instead of the state, for a resource without an informer.
    pub(crate) fn without_state(self) -> Self {
        match self {
            Self::State(object) => Self::Version(object.resource_version()),
            other => other,
        }
    }

    /// Returns the write with a version at which its object existed, unless it has a later one.
    pub(crate) fn with_existed(mut self, at: &ResourceVersion) -> Self {
        if let Self::Deleted { existed, .. } = &mut self {
            existed.get_or_insert_with(|| at.clone()).advance(at);
        }
        self
    }

    /// Returns the version at which the object with this UID existed, if this write says so.
    fn version_of(&self, of: &str) -> Option<ResourceVersion> {
        match self {
            Self::State(object) if object.uid() == Some(of) => Some(object.resource_version()),
            Self::Deleted { uid, existed, .. } if **uid == *of => existed.clone(),
            _ => None,
        }
    }

    /// The bytes of the state.
    fn bytes(&self) -> usize {
        if let Self::State(object) = self { object.object().encoded_len() } else { 0 }
    }

    /// Whether a read that sees `other` also sees this write. A state of another object with the same name may be older or
    /// newer than a deletion.
    fn is_covered_by(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Deleted { uid, is_gone, existed },
                Self::Deleted { uid: other, is_gone: other_is_gone, existed: other_existed },
            ) => {
                let knows =
                    |at| other_existed.as_ref().is_some_and(|other: &ResourceVersion| other.reaches(at));
                uid == other && is_gone <= other_is_gone && existed.as_ref().is_none_or(knows)
            }
            (Self::Unversioned, Self::Unversioned) => true,
            _ => match (self.version(), other.version()) {
                (Some(own), Some(other)) => other.reaches(&own),
                _ => false,
            },
        }
    }
}

/// The state of a resource's informers.
#[derive(Default)]
pub(crate) struct InformersState {
    /// The ID of each, and how often its reflectors have found that versions went back.
    pub(crate) informers: Vec<(u64, u64)>,
    /// Their lowest version.
    pub(crate) version: ResourceVersion,
}

/// Returns the current state of a resource's informers from the last one; `None` if there are none.
pub(crate) trait ReadState: FnOnce(&InformersState) -> Option<InformersState> {}

impl<F: FnOnce(&InformersState) -> Option<InformersState>> ReadState for F {}

/// A write that an informer may not have yet.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// `None` for writes of any keys.
    pub(crate) key: Option<ObjectKey>,
    pub(crate) write: Write,
    pub(crate) id: u64,
}

/// A write, and the informers that reflect it.
#[derive(Clone)]
struct Recorded {
    id: u64,
    write: Write,
    /// The IDs of these informers, as reads have found them.
    reflected_by: Vec<u64>,
}

impl Recorded {
    fn new(id: u64, write: Write) -> Self {
        Self { id, write, reflected_by: Vec::new() }
    }
}

/// The writes that some informer may not have yet, of all resources.
#[derive(Default)]
pub(crate) struct Writes {
    /// So that reads without writes take no lock.
    len: AtomicUsize,
    resources: Mutex<HashMap<Arc<str>, OfResource>>,
    kept: Kept,
}

#[derive(Default)]
struct OfResource {
    last_id: u64,
    keys: HashMap<ObjectKey, Vec<Recorded>>,
    /// The bytes of their states.
    bytes: usize,
    /// When writes were recorded, oldest first. Some of them have been removed since.
    order: VecDeque<(Instant, ObjectKey, u64)>,
    /// What all reads wait for: writes that are too old or too many to be kept by key.
    any: Option<Recorded>,
    /// Whether writes without a version have become old.
    is_question_due: bool,
    /// The writes up to this number can be read at this version: the server has answered with it after them.
    bound: Option<(u64, ResourceVersion)>,
    /// The last state of the resource's informers.
    noted: InformersState,
    /// The highest version of a write that was forgotten because all informers had it. Another one may begin below it.
    newest_forgotten: Option<ResourceVersion>,
    /// The length of the order after the last sweep.
    swept: usize,
}

impl Writes {
    pub(crate) fn new(kept: Kept) -> Self {
        Self { kept, ..Self::default() }
    }

    /// Records the writes of a response, each with its key; `None` if the response does not say which objects were written.
    /// `passed` are those that the resource's informers cannot have: another informer may begin below them. `state` is called
    /// under the lock, so that versions are noted in the order in which an informer had them.
    pub(crate) fn record(
        &self,
        resource: &Arc<str>,
        writes: impl IntoIterator<Item = (Option<ObjectKey>, Write)>,
        passed: &[Write],
        state: impl ReadState,
    ) {
        // Versions of another form have no order, so nothing could be waited for.
        let has_order = |at: &ResourceVersion| at.compare(&ResourceVersion::number(0)).is_some();
        let mut resources = self.resources.lock();
        let of_resource = resources.entry(resource.clone()).or_default();
        of_resource.note_state(state, self.kept);
        let passed = passed.iter().filter_map(Write::version).filter(has_order);
        passed.for_each(|version| of_resource.note_forgotten(&version));
        for (key, write) in writes {
            if write.version().is_none_or(|version| has_order(&version)) {
                of_resource.record(key, write, self.kept);
            }
        }
        self.count(&resources);
    }

    /// Forgets earlier writes of the keys of these writes, up to number `last_id` and at later versions. The request of each
    /// began after that number was recorded, so the server was restored from a backup in between.
    pub(crate) fn forget_before_restore<'a>(
        &self,
        resource: &str,
        writes: impl IntoIterator<Item = (&'a ObjectKey, &'a Write)>,
        last_id: u64,
    ) {
        let mut resources = self.resources.lock();
        let Some(of_resource) = resources.get_mut(resource) else { return };
        for (key, write) in writes {
            let Some(version) = write.version() else { continue };
            let is_later = |at: ResourceVersion| version.compare(&at).is_some_and(|order| order.is_lt());
            let earlier = of_resource.keys.get(key).into_iter().flatten().filter(|known| known.id <= last_id);
            let lost = earlier.filter(|known| known.write.version_or_unconfirmed().is_some_and(is_later));
            for id in lost.map(|known| known.id).collect::<Vec<_>>() {
                of_resource.take(key, id);
            }
        }
        self.count(&resources);
    }

    /// Notes the current state of a resource's informers; `state` is as for [`Self::record`].
    pub(crate) fn note_state(&self, resource: &str, state: impl ReadState) {
        let mut resources = self.resources.lock();
        if let Some(of_resource) = resources.get_mut(resource) {
            of_resource.note_state(state, self.kept);
        }
        self.count(&resources);
    }

    /// Whether there are no writes, of any resource.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a resource was ever written.
    pub(crate) fn were_recorded(&self, resource: &str) -> bool {
        self.resources.lock().contains_key(resource)
    }

    /// The number of writes.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Returns the writes of a key and those of any keys that this informer may not have; all of them for no key.
    /// `state` is as for [`Self::record`]: if the version has gone back, the server was restored from a backup, and the writes
    /// are forgotten.
    pub(crate) fn pending(
        &self,
        (resource, informer): (&str, u64),
        key: Option<&ObjectKey>,
        state: impl ReadState,
    ) -> Vec<Pending> {
        let mut resources = self.resources.lock();
        let Some(of_resource) = resources.get_mut(resource) else { return Vec::new() };
        of_resource.note_state(state, self.kept);
        let pending = of_resource.pending(key, informer);
        self.count(&resources);
        pending
    }

    /// Notes that an informer has a write, at this version. The write is forgotten when all informers of the resource have
    /// it. Returns whether it was.
    pub(crate) fn note_reflected(
        &self,
        (resource, informer): (&str, u64),
        pending: &Pending,
        version: &ResourceVersion,
    ) -> bool {
        let mut resources = self.resources.lock();
        let Some(of_resource) = resources.get_mut(resource) else { return true };
        let is_forgotten = of_resource.note_reflected(pending, version, informer);
        self.count(&resources);
        is_forgotten
    }

    /// The number of the last write of a resource.
    pub(crate) fn last_id(&self, resource: &str) -> u64 {
        self.resources.lock().get(resource).map_or(0, |of_resource| of_resource.last_id)
    }

    /// Whether the server should be asked for a version, because writes without one have become old. `true` for one of the
    /// callers, and again after some time if they are still there.
    pub(crate) fn is_question_due(&self, resource: &str) -> bool {
        let mut resources = self.resources.lock();
        resources
            .get_mut(resource)
            .is_some_and(|of_resource| std::mem::take(&mut of_resource.is_question_due))
    }

    /// Notes a version that the server has returned after the writes up to this number.
    pub(crate) fn note_bound(&self, resource: &str, last_id: u64, version: ResourceVersion) {
        if version.is_unset() {
            return; // never reached
        }
        if let Some(of_resource) = self.resources.lock().get_mut(resource) {
            // The lowest one is reached first. Earlier ones are higher after a backup was restored, and never reached.
            let is_lower = |at: &ResourceVersion| version.compare(at).is_some_and(|order| order.is_lt());
            if of_resource.bound.as_ref().is_none_or(|(_, bound)| is_lower(bound)) {
                of_resource.bound = Some((last_id, version));
            }
        }
    }

    /// Whether a write is still waited for.
    pub(crate) fn has(&self, resource: &str, pending: &Pending) -> bool {
        let resources = self.resources.lock();
        let Some(of_resource) = resources.get(resource) else { return false };
        match &pending.key {
            Some(key) => of_resource
                .keys
                .get(key)
                .is_some_and(|writes| writes.iter().any(|known| known.id == pending.id)),
            None => of_resource.any.as_ref().is_some_and(|known| known.id == pending.id),
        }
    }

    /// Replaces a write by what is known about it now.
    pub(crate) fn replace(&self, resource: &str, pending: &Pending, known: Write) {
        let mut resources = self.resources.lock();
        if let Some(of_resource) = resources.get_mut(resource)
            && of_resource.remove(pending)
        {
            of_resource.record(pending.key.clone(), known, self.kept);
        }
        self.count(&resources);
    }

    fn count(&self, resources: &HashMap<Arc<str>, OfResource>) {
        self.len.store(resources.values().map(OfResource::len).sum(), Ordering::Release);
    }
}

impl OfResource {
    fn len(&self) -> usize {
        self.keys.len() + usize::from(self.any.is_some())
    }

    /// Notes the state of the informers. Forgets the writes that they have, now and then those of keys, and all writes if
    /// versions went back.
    fn note_state(&mut self, state: impl ReadState, kept: Kept) {
        let Some(InformersState { informers, version }) = state(&self.noted) else { return };
        let last = &self.noted;
        let known = |id| last.informers.iter().find(|(of, _)| *of == id).map_or(0, |(_, times)| *times);
        let are_same = informers.iter().map(|(id, _)| id).eq(last.informers.iter().map(|(id, _)| id));
        // The lowest version may be that of another part, or not have been looked at while it was high.
        let has_gone_back = informers.iter().any(|(id, times)| *times > known(*id))
            || are_same && last.version.compare(&version).is_some_and(|order| order.is_gt());
        if has_gone_back {
            *self = Self { last_id: self.last_id, ..Self::default() };
        }
        // The first version of another informer may be lower: all reads wait until it has what the others had.
        if !are_same && let Some(newest) = self.newest_forgotten.take() {
            self.record_any(Write::Reached(newest));
        }
        let has = |known: &mut Recorded| known.write.version().is_some_and(|at| version.reaches(&at));
        if let Some(reached) = self.any.take_if(has).and_then(|known| known.write.version()) {
            self.note_forgotten(&reached);
        }
        let bound = self.bound.take_if(|(_, bound)| version.reaches(bound));
        if bound.is_some() || self.order.len() >= self.swept.saturating_mul(2) + SWEEP.min(kept.writes) {
            self.sweep(&version, bound);
        }
        self.noted = InformersState { informers, version };
    }

    /// Forgets the writes that all informers have at this version, and those without a version that are before a bound.
    fn sweep(&mut self, version: &ResourceVersion, bound: Option<(u64, ResourceVersion)>) {
        let (last_id, mut newest) = bound.map_or((0, None), |(id, bound)| (id, Some(bound)));
        // After a refusal the bound is a guess.
        let may_be_later = |write: &Write| {
            let at_least = write.lower_bound();
            at_least.is_some_and(|at| !version.reaches(&at))
        };
        for writes in self.keys.values_mut() {
            writes.retain(|Recorded { id, write, .. }| match write.version() {
                Some(at) if version.reaches(&at) => {
                    newest.get_or_insert_with(|| at.clone()).advance(&at);
                    false
                }
                Some(_) => true,
                None => *id > last_id || may_be_later(write),
            });
        }
        self.keys.retain(|_, writes| !writes.is_empty());
        let Self { keys, order, .. } = self;
        order.retain(|(_, key, id)| keys.get(key).is_some_and(|writes| writes.iter().any(|of| of.id == *id)));
        self.bytes = self.keys.values().flatten().map(|known| known.write.bytes()).sum();
        self.swept = self.order.len();
        if let Some(newest) = newest {
            self.note_forgotten(&newest);
        }
    }

    fn note_forgotten(&mut self, version: &ResourceVersion) {
        self.newest_forgotten.get_or_insert_with(|| version.clone()).advance(version);
    }

    fn id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn record(&mut self, key: Option<ObjectKey>, mut write: Write, kept: Kept) {
        let Some(key) = key else { return self.record_any(write) };
        let (id, now) = (self.id(), Instant::now());
        let writes = self.keys.entry(key.clone()).or_default();
        if let Write::Deleted { uid, .. } = &write {
            let known: Vec<_> = writes.iter().filter_map(|known| known.write.version_of(uid)).collect();
            write = known.iter().fold(write, Write::with_existed);
        }
        if writes.iter().any(|known| write.is_covered_by(&known.write)) {
            return;
        }
        let bytes = |writes: &[Recorded]| writes.iter().map(|known| known.write.bytes()).sum::<usize>();
        let before = bytes(writes);
        writes.retain(|known| !known.write.is_covered_by(&write));
        writes.push(Recorded::new(id, write));
        if writes.len() > DELETIONS {
            *writes = vec![Recorded::new(id, Write::all(writes.iter().map(|known| &known.write)))];
        }
        self.bytes = self.bytes.saturating_sub(before).saturating_add(bytes(writes));
        self.order.push_back((now, key, id));
        self.expire(now, kept);
    }

    fn record_any(&mut self, write: Write) {
        let earlier = self.any.take().map(|earlier| earlier.write);
        let write = Write::all(earlier.iter().chain([&write]));
        self.any = Some(Recorded::new(self.id(), write));
    }

    /// Makes all reads wait for the writes that are too old or too many. Old ones without a version are small and concern no
    /// other keys: they stay until a question to the server bounds them.
    fn expire(&mut self, now: Instant, kept: Kept) {
        for _ in 0..self.order.len() {
            let is_too_much = self.order.len() > kept.writes || self.bytes > kept.bytes;
            let is_old = |at: Instant| now.saturating_duration_since(at) >= kept.time;
            let Some((_, key, id)) = self.order.pop_front_if(|(at, ..)| is_too_much || is_old(*at)) else {
                return;
            };
            let of_key = self.keys.get(&key).into_iter().flatten();
            let Some(known) = of_key.into_iter().find(|of| of.id == id) else { continue };
            if known.write.version_or_unconfirmed().is_none() && !is_too_much {
                self.is_question_due = true;
                self.order.push_back((now, key, id));
            } else if let Some(write) = self.take(&key, id) {
                self.record_any(write);
            }
        }
    }

    fn take(&mut self, key: &ObjectKey, id: u64) -> Option<Write> {
        let writes = self.keys.get_mut(key)?;
        let at = writes.iter().position(|of| of.id == id)?;
        let write = writes.swap_remove(at).write;
        self.bytes = self.bytes.saturating_sub(write.bytes());
        if writes.is_empty() {
            self.keys.remove(key);
        }
        Some(write)
    }

    fn pending(&self, key: Option<&ObjectKey>, informer: u64) -> Vec<Pending> {
        let pending_of = |key: Option<&ObjectKey>, known: &Recorded| {
            let pending = || Pending { key: key.cloned(), write: known.write.clone(), id: known.id };
            (!known.reflected_by.contains(&informer)).then(pending)
        };
        let of = |key: &ObjectKey, writes: &[Recorded]| {
            writes.iter().filter_map(|known| pending_of(Some(key), known)).collect::<Vec<_>>()
        };
        let mut pending = match key {
            Some(key) => self.keys.get(key).map(|writes| of(key, writes)).unwrap_or_default(),
            None => self.keys.iter().flat_map(|(key, writes)| of(key, writes)).collect(),
        };
        pending.extend(self.any.as_ref().and_then(|known| pending_of(None, known)));
        pending
    }

    /// Returns whether the write is forgotten, because all informers have it.
    fn note_reflected(&mut self, pending: &Pending, version: &ResourceVersion, informer: u64) -> bool {
        let known = match &pending.key {
            Some(key) => self.keys.get_mut(key).into_iter().flatten().find(|known| known.id == pending.id),
            None => self.any.as_mut().filter(|known| known.id == pending.id),
        };
        let Some(known) = known else { return true };
        if !known.reflected_by.contains(&informer) {
            known.reflected_by.push(informer);
        }
        let informers = &self.noted.informers;
        if informers.is_empty() || !informers.iter().all(|(id, _)| known.reflected_by.contains(id)) {
            return false;
        }
        self.note_forgotten(version);
        self.remove(pending)
    }

    /// Removes a write, unless it was forgotten or replaced. Returns whether it was there.
    fn remove(&mut self, pending: &Pending) -> bool {
        match &pending.key {
            Some(key) => self.take(key, pending.id).is_some(),
            None => self.any.take_if(|known| known.id == pending.id).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kinformer::ObjectDecoder;
    use kinformer::generic::FromWire as _;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("a", name).unwrap()
    }

    fn state(uid: &str, version: u64) -> Write {
        let json = format!(
            r#"{{"metadata": {{"name": "x", "namespace": "a", "uid": "{uid}", "resourceVersion": "{version}"}}}}"#
        );
        Write::State(Packed::from_wire(json.as_bytes(), &ObjectDecoder::json()).unwrap())
    }

    fn deleted(uid: &str) -> Write {
        Write::Deleted { uid: uid.into(), is_gone: true, existed: None }
    }

    fn version(version: u64) -> ResourceVersion {
        ResourceVersion::number(version)
    }

    fn noted(informer: u64, version: ResourceVersion) -> Option<InformersState> {
        Some(InformersState { informers: vec![(informer, 0)], version })
    }

    /// What reads of a key wait for, as text.
    fn pending(writes: &Writes, of: &str, seen: u64) -> Vec<String> {
        pending_of(writes, of, noted(0, version(seen)))
    }

    fn pending_of(writes: &Writes, of: &str, noted: Option<InformersState>) -> Vec<String> {
        let reader = noted.as_ref().and_then(|noted| noted.informers.first()).map_or(0, |(id, _)| *id);
        let pending = writes.pending(("pods", reader), Some(&key(of)), |_| noted);
        let text = |Pending { key, write, .. }: Pending| {
            let write = match write {
                Write::State(object) => {
                    format!("state {} {}", object.uid().unwrap(), object.resource_version())
                }
                Write::Version(version) => format!("version {version}"),
                Write::Absent(version) => format!("absent {version}"),
                Write::Reached(version) => format!("reached {version}"),
                Write::Deleted { uid, .. } => format!("deleted {uid}"),
                Write::Unversioned => "unversioned".to_owned(),
                Write::AtLeast(version) => format!("at least {version}"),
                Write::Unconfirmed(known) => format!("unconfirmed {known:?}"),
            };
            if key.is_some() { write } else { format!("any: {write}") }
        };
        pending.into_iter().map(text).collect()
    }

    /// Responses of concurrent writes may arrive in any order.
    // contract: C-08b, C-08c
    #[test]
    fn later_write_replaces_what_it_covers() {
        let resource: Arc<str> = "pods".into();
        for (recorded, expected) in [
            (vec![state("1", 5), state("1", 7)], &["state 1 7"][..]),
            (vec![state("1", 7), state("1", 5)], &["state 1 7"]),
            (vec![state("1", 5), deleted("1")], &["state 1 5", "deleted 1"]),
            (vec![deleted("1"), state("2", 9)], &["deleted 1", "state 2 9"]),
            (vec![state("2", 9), deleted("1")], &["state 2 9", "deleted 1"]),
            (vec![deleted("1"), deleted("1")], &["deleted 1"]),
            (vec![deleted("1"), deleted("2")], &["deleted 1", "deleted 2"]),
            (vec![Write::Unversioned, state("1", 5), Write::Unversioned], &["unversioned", "state 1 5"]),
            (vec![Write::Version(version(8)), state("1", 5)], &["version 8"]),
            (vec![state("1", 8), Write::Absent(version(9)), deleted("1")], &["absent 9", "deleted 1"]),
            (vec![Write::Absent(version(8)), state("2", 8)], &["absent 8"]),
            (vec![Write::Absent(version(8)), state("2", 9)], &["state 2 9"]),
        ] {
            let writes = Writes::default();
            for write in recorded {
                writes.record(&resource, [(Some(key("x")), write)], &[], |_| None);
            }
            assert_eq!(pending(&writes, "x", 1), *expected);
            assert!(pending(&writes, "y", 1).is_empty());
        }
    }

    /// The informer that has found that the versions went back may have been removed since.
    // contract: C-08h
    #[test]
    fn later_write_with_an_earlier_version_replaces_those_before_a_restore() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        let record = |write: Write, last_id| {
            let of = key("x");
            writes.forget_before_restore(&resource, [(&of, &write)], last_id);
            writes.record(&resource, [(Some(of), write)], &[], |_| None);
        };
        record(state("1", 10_007), 0);
        let last_id = writes.last_id(&resource);
        record(Write::Version(version(10_009)), last_id);
        assert_eq!(pending(&writes, "x", 1), ["version 10009"]);
        record(state("2", 22), last_id);
        assert_eq!(pending(&writes, "x", 1), ["version 10009"], "they ran at one time");
        record(state("2", 22), writes.last_id(&resource));
        assert_eq!(pending(&writes, "x", 1), ["state 2 22"]);
    }

    // contract: C-08s, C-08o
    #[tokio::test(start_paused = true)]
    async fn old_writes_concern_all_reads() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        writes.record(&resource, [(Some(key("x")), state("1", 5))], &[], |_| None);
        tokio::time::advance(Kept::default().time).await;
        writes.record(&resource, [(Some(key("y")), state("2", 9))], &[], |_| None);
        assert_eq!(pending(&writes, "z", 1), ["any: reached 5"]);
        assert_eq!(pending(&writes, "y", 1), ["state 2 9", "any: reached 5"]);
        writes.record(&resource, [(Some(key("y")), deleted("2"))], &[], |_| None);
        tokio::time::advance(Kept::default().time).await;
        writes.record(&resource, [(Some(key("v")), state("3", 11))], &[], |_| None);
        assert_eq!(pending(&writes, "z", 1), ["any: reached 9"], "a deletion concerns no other key");
        assert_eq!(pending(&writes, "y", 1), ["deleted 2", "any: reached 9"]);
        let read = writes.pending(("pods", 0), Some(&key("z")), |_| None).remove(0);
        writes.note_reflected(("pods", 0), &read, &version(9));
        assert_eq!(pending(&writes, "v", 1), ["state 3 11"]);
        assert_eq!(writes.len(), 2);
    }

    /// Old writes without a version leave when the informer has a version that the server has returned after them.
    // contract: C-08p
    #[tokio::test(start_paused = true)]
    async fn old_writes_without_a_version_are_bounded_by_a_question() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        writes.record(&resource, [(Some(key("x")), deleted("1"))], &[], |_| None);
        writes.record(&resource, [(Some(key("y")), Write::Unversioned)], &[], |_| None);
        assert!(!writes.is_question_due("pods"));
        for seen in [10, 11] {
            tokio::time::advance(Kept::default().time).await;
            writes.record(&resource, [(Some(key("v")), state("3", seen))], &[], |_| None);
            assert!(writes.is_question_due("pods"));
            assert!(!writes.is_question_due("pods"), "one read asks");
        }
        let last_id = writes.last_id("pods");
        writes.record(&resource, [(Some(key("z")), deleted("4"))], &[], |_| None);
        writes.note_bound("pods", last_id, version(12));
        assert_eq!(pending(&writes, "x", 11), ["deleted 1"]);
        assert!(pending(&writes, "x", 12).is_empty());
        assert!(pending(&writes, "y", 12).is_empty());
        assert_eq!(pending(&writes, "z", 12), ["deleted 4"], "after the question");
        assert!(pending(&writes, "v", 12).is_empty(), "the informer has it");
        // The next informer may begin below it.
        assert_eq!(pending_of(&writes, "x", noted(1, version(3))), ["any: reached 12"]);
        assert!(pending_of(&writes, "x", noted(1, version(12))).is_empty());
    }

    /// The version of an earlier answer is never reached after the server was restored from a backup.
    // contract: C-08p
    #[test]
    fn later_bound_with_a_lower_version_replaces_one_before_a_restore() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        writes.record(&resource, [(Some(key("x")), deleted("1"))], &[], |_| None);
        writes.note_bound("pods", writes.last_id("pods"), version(10_021));
        writes.record(&resource, [(Some(key("y")), deleted("2"))], &[], |_| None);
        writes.note_bound("pods", writes.last_id("pods"), version(339));
        writes.note_bound("pods", writes.last_id("pods"), version(400));
        assert_eq!(pending(&writes, "x", 338).len(), 1);
        assert!(pending(&writes, "x", 339).is_empty());
        assert!(writes.is_empty());
    }

    /// An object that existed at a version, and is not there later, is deleted.
    // contract: C-08c
    #[test]
    fn deletion_has_the_last_version_or_unconfirmed_of_its_object() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        for write in [state("1", 5), state("2", 7), deleted("2"), deleted("2").with_existed(&version(6))] {
            writes.record(&resource, [(Some(key("x")), write)], &[], |_| None);
        }
        let pending = writes.pending(("pods", 0), Some(&key("x")), |_| None);
        let last = pending.last().unwrap().write.clone();
        assert!(matches!(last, Write::Deleted { existed: Some(at), .. } if at == version(7)));
    }

    // contract: C-08s
    #[test]
    fn many_writes_take_bounded_memory() {
        let (writes, resource, limit) = (Writes::default(), Arc::from("pods"), Kept::default().writes);
        for number in 0..limit + 10 {
            writes.record(
                &resource,
                [(
                    Some(key(&format!("x-{number}"))),
                    Write::Version(version(u64::try_from(number).unwrap() + 1)),
                )],
                &[],
                |_| None,
            );
        }
        assert_eq!(pending(&writes, "x-0", 1), ["any: reached 10"]);
        assert!(writes.len() <= limit + 1);
        for uid in 0..=DELETIONS {
            writes.record(&resource, [(Some(key("y")), deleted(&uid.to_string()))], &[], |_| None);
        }
        assert_eq!(pending(&writes, "y", 1).first().unwrap(), "unversioned");
    }

    /// A question that is refused may need it, also if nothing is known of another write.
    // contract: C-08t
    #[test]
    fn writes_of_any_keys_that_were_not_seen_in_time_keep_their_version() {
        let writes = Writes::new(Kept { time: Duration::ZERO, ..Kept::default() });
        let resource: Arc<str> = "pods".into();
        writes.record(&resource, [(Some(key("x")), state("1", 5))], &[], |_| None);
        let read = writes.pending(("pods", 0), None, |_| None).remove(0);
        writes.replace("pods", &read, read.write.clone().unconfirmed());
        let known = || writes.pending(("pods", 0), None, |_| None).remove(0).write.version_or_unconfirmed();
        assert_eq!(known(), Some(version(5)));
        writes.record(&resource, [(Some(key("x")), state("1", 7))], &[], |_| None);
        assert_eq!(pending(&writes, "y", 1).len(), 1);
        assert_eq!(known(), Some(version(7)));
        let read = writes.pending(("pods", 0), None, |_| None).remove(0);
        assert!(matches!(read.write, Write::Unconfirmed(_)), "the server is still to be asked");
        writes.record(&resource, [(None, Write::Unversioned)], &[], |_| None);
        assert_eq!(pending(&writes, "y", 1), ["any: at least 7"]);
    }

    /// Large objects take no more memory than small ones.
    // contract: C-08s
    #[test]
    fn bytes_of_written_states_are_bounded() {
        let bytes = state("1", 5).bytes();
        let writes = Writes::new(Kept { bytes: 10 * bytes, ..Kept::default() });
        let resource: Arc<str> = "pods".into();
        for number in 1..=9 {
            writes
                .record(&resource, [(Some(key(&format!("x-{number}"))), state("1", number))], &[], |_| None);
            writes
                .record(&resource, [(Some(key(&format!("x-{number}"))), state("1", number))], &[], |_| None);
        }
        assert_eq!((writes.len(), pending(&writes, "x-1", 1).len()), (9, 1), "a write is counted once");
        for number in 1..=9 {
            writes
                .record(&resource, [(Some(key(&format!("y-{number}"))), state("2", number))], &[], |_| None);
        }
        assert_eq!(pending(&writes, "x-8", 1), ["any: reached 8"]);
        assert_eq!(pending(&writes, "x-9", 1), ["state 1 9", "any: reached 8"]);
        assert_eq!(writes.len(), 11);
        for write in writes.pending(("pods", 0), None, |_| None) {
            writes.note_reflected(("pods", 0), &write, &version(9));
        }
        for number in 1..=10 {
            writes
                .record(&resource, [(Some(key(&format!("z-{number}"))), state("3", number))], &[], |_| None);
        }
        assert_eq!(writes.len(), 10, "those that were seen have left");
    }

    /// The server was restored from a backup: its versions begin again, and the writes are lost.
    // contract: C-08h
    #[test]
    fn versions_that_go_back_end_the_waits() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        writes.record(&resource, [(Some(key("x")), state("1", 90))], &[], |_| noted(0, version(80)));
        assert_eq!(pending(&writes, "x", 85), ["state 1 90"]);
        let of_other = |seen| pending_of(&writes, "x", noted(1, version(seen))).len();
        assert_eq!(of_other(70), 1, "another informer");
        assert_eq!(pending(&writes, "x", 30), ["state 1 90"], "of the earlier informer");
        assert_eq!((of_other(70), of_other(71)), (1, 1));
        assert_eq!(of_other(30), 0);
        assert!(writes.is_empty());
        // Nothing has looked at the informer while its version was high.
        writes.record(&resource, [(Some(key("x")), state("1", 90))], &[], |_| noted(1, version(40)));
        let went_back =
            |_: &InformersState| Some(InformersState { informers: vec![(1, 1)], version: version(50) });
        assert!(writes.pending(("pods", 0), Some(&key("x")), went_back).is_empty());
        // Nothing has looked at the informer before.
        let writes = Writes::default();
        writes.record(&resource, [(Some(key("x")), state("1", 90))], &[], |_| None);
        assert!(writes.pending(("pods", 0), Some(&key("x")), went_back).is_empty());
    }

    /// A read in progress may not have seen a write in time that has been forgotten since.
    // contract: C-08h
    #[test]
    fn forgotten_write_is_not_replaced() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        for of in [None, Some(key("x"))] {
            writes.record(&resource, [(of.clone(), Write::Version(version(90)))], &[], |_| {
                noted(0, version(80))
            });
            let seen_by_read = writes.pending(("pods", 0), Some(&key("x")), |_| None).remove(0);
            assert!(pending(&writes, "x", 30).is_empty());
            writes.replace("pods", &seen_by_read, seen_by_read.write.clone().unconfirmed());
            assert!(pending(&writes, "x", 30).is_empty(), "{of:?}");
        }
    }

    /// Another informer may begin with an older state, from a server that is behind.
    // contract: C-08a
    #[test]
    fn writes_that_one_informer_has_are_waited_for_with_the_next() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        writes.record(&resource, [(Some(key("x")), state("1", 5))], &[], |_| None);
        let read = writes.pending(("pods", 0), Some(&key("x")), |_| noted(0, version(1))).remove(0);
        assert!(writes.note_reflected(("pods", 0), &read, &version(5)));
        assert!(writes.is_empty());
        let of_next = |of| pending_of(&writes, of, noted(1, version(1)));
        assert_eq!(of_next("x"), ["any: reached 5"]);
        // A read that goes on with the earlier informer.
        writes.record(&resource, [(Some(key("x")), state("1", 7))], &[], |_| None);
        let read = writes.pending(("pods", 0), Some(&key("x")), |_| None).remove(0);
        assert!(!writes.note_reflected(("pods", 0), &read, &version(5)));
        assert_eq!(of_next("x"), ["state 1 7", "any: reached 5"]);
    }

    /// Two versions of a resource have an informer each, and one storage.
    // contract: C-08a, C-08g
    #[test]
    fn writes_are_kept_until_all_informers_have_them() {
        let (writes, resource) = (Writes::new(Kept { writes: 3, ..Kept::default() }), Arc::from("pods"));
        let both = |times, seen| {
            Some(InformersState { informers: vec![(1, times), (2, 0)], version: version(seen) })
        };
        writes.record(&resource, [(Some(key("x")), state("1", 5))], &[], |_| both(3, 4));
        let read = writes.pending(("pods", 0), Some(&key("x")), |_| both(3, 4)).remove(0);
        assert!(!writes.note_reflected(("pods", 2), &read, &version(5)));
        assert_eq!(pending_of(&writes, "x", both(3, 4)), ["state 1 5"]);
        for (name, number) in [("y", 7), ("z", 8)] {
            writes.record(&resource, [(Some(key(name)), state("1", number))], &[], |_| both(3, 4));
        }
        assert!(pending_of(&writes, "x", both(3, 5)).is_empty());
        // A third one may be behind.
        let third = Some(InformersState { informers: vec![(1, 3), (2, 0), (3, 0)], version: version(2) });
        assert_eq!(pending_of(&writes, "x", third), ["any: reached 5"]);
        assert!(pending_of(&writes, "x", both(4, 5)).is_empty(), "its versions went back");
    }

    /// The server has refused the question for the version of older writes.
    // contract: C-08a, C-08p
    #[test]
    fn write_that_was_not_seen_in_time_stays_until_its_version_is_reached() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        writes.record(&resource, [(Some(key("x")), state("1", 323))], &[], |_| noted(0, version(6)));
        let read = writes.pending(("pods", 0), Some(&key("x")), |_| None).remove(0);
        writes.replace("pods", &read, read.write.clone().unconfirmed());
        writes.note_bound("pods", writes.last_id("pods"), version(7));
        assert_eq!(pending(&writes, "x", 7).len(), 1);
        writes.note_bound("pods", writes.last_id("pods"), version(8));
        assert_eq!(pending(&writes, "x", 322).len(), 1);
        writes.note_bound("pods", writes.last_id("pods"), version(323));
        assert!(pending(&writes, "x", 323).is_empty());
    }

    // contract: C-14b
    #[test]
    fn writes_that_a_read_has_seen_are_pending_for_the_other_informer_only() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        let both = |_: &InformersState| {
            Some(InformersState { informers: vec![(1, 0), (2, 0)], version: version(4) })
        };
        writes.record(&resource, [(Some(key("x")), state("1", 5))], &[], both);
        writes.record(&resource, [(None, Write::Reached(version(6)))], &[], both);
        let of = |informer| writes.pending(("pods", informer), Some(&key("x")), both);
        for read in of(1) {
            assert!(!writes.note_reflected(("pods", 1), &read, &version(6)));
        }
        assert_eq!((of(1).len(), of(2).len(), writes.len()), (0, 2, 2));
        for read in of(2) {
            assert!(writes.note_reflected(("pods", 2), &read, &version(6)));
        }
        assert!(writes.is_empty());
        // A third informer may begin below it.
        let third =
            |_: &InformersState| Some(InformersState { informers: vec![(3, 0)], version: version(2) });
        assert_eq!(writes.pending(("pods", 3), Some(&key("x")), third).len(), 1);
    }

    /// Nothing reads a resource whose informer has handlers.
    // contract: C-08g
    #[test]
    fn writes_that_nothing_reads_are_forgotten_when_the_informer_has_them() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        for number in 1..1_000 {
            let seen = |_: &InformersState| noted(0, version(number - 1));
            writes.record(&resource, [(Some(key(&format!("x-{number}"))), state("1", number))], &[], seen);
            assert!(writes.len() <= SWEEP + 1);
        }
        let unread = writes.pending(("pods", 0), Some(&key("x-999")), |_| noted(0, version(998)));
        assert_eq!(unread.len(), 1);
    }

    // contract: C-08e
    #[test]
    fn versions_without_order_are_not_waited_for() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        writes.record(&resource, [(Some(key("x")), Write::Version("x7".into()))], &[], |_| None);
        assert!(writes.is_empty());
    }

    /// What a read has found out concerns only the write that it has looked at.
    // contract: C-08b
    #[test]
    fn write_during_a_wait_is_kept() {
        let (writes, resource) = (Writes::default(), Arc::from("pods"));
        writes.record(&resource, [(Some(key("x")), state("1", 5))], &[], |_| None);
        let read = writes.pending(("pods", 0), Some(&key("x")), |_| None).remove(0);
        writes.record(&resource, [(Some(key("x")), state("1", 7))], &[], |_| None);
        writes.note_reflected(("pods", 0), &read, &version(5));
        assert_eq!(pending(&writes, "x", 1), ["state 1 7"]);
    }
}
