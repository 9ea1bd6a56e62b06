//! What reads of a cache may return.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kinformer_cache::Error;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::refusals::Refusals;
use crate::api_server::ApiServer;
use crate::record::Objects;
use crate::restores::AHEAD;
use crate::server::{Change, History};
use crate::state::{State, field, text_of};
use crate::trace::Recorder;

/// The label of objects.
pub(crate) const LABEL: &str = "app";

/// Which objects the cache has.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// No namespaces: all.
    pub(crate) namespaces: Vec<&'static str>,
    /// The value of the label of config maps.
    pub(crate) label: Option<&'static str>,
}

impl Scope {
    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(&namespace)
    }

    /// The prefixes of the keys of each part of an informer.
    fn parts(&self) -> Vec<String> {
        match self.namespaces.is_empty() {
            true => vec![String::new()],
            false => self.namespaces.iter().map(|namespace| format!("{namespace}/")).collect(),
        }
    }

    fn has(&self, plural: &str, key: &str, state: &State) -> bool {
        let label = self.label.filter(|_| plural == "configmaps");
        self.has_namespace(key.split_once('/').unwrap_or_default().0)
            && label.is_none_or(|label| text_of(state, ["metadata", "labels", LABEL]) == Some(label))
    }
}

/// What a list selects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selected {
    pub(crate) namespace: Option<&'static str>,
    pub(crate) label: Option<&'static str>,
    pub(crate) value: Option<String>,
    pub(crate) limit: Option<usize>,
}

impl Selected {
    fn has(&self, key: &str, state: &State) -> bool {
        self.namespace.is_none_or(|namespace| key.split_once('/').unwrap_or_default().0 == namespace)
            && self.label.is_none_or(|label| text_of(state, ["metadata", "labels", LABEL]) == Some(label))
            && self.value.as_deref().is_none_or(|value| text_of(state, ["data", "value"]) == Some(value))
    }
}

/// What the response of a write says about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It has this version.
    Version(u64),
    Deleted,
    /// Its deletion has begun, or it is deleted.
    Ending,
}

/// How objects are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Whole,
    /// Only metadata is compared.
    Metadata,
}

impl View {
    pub(crate) fn of(self, state: &State) -> State {
        match self {
            Self::Whole => state.clone(),
            Self::Metadata => {
                State::new(serde_json::json!({"metadata": field(state, ["metadata"]).cloned()}))
            }
        }
    }
}

/// Positions in the history, by resource and key, for reads also by view. A read must see the changes before them.
type Floors = BTreeMap<String, usize>;

#[derive(Debug, Default)]
struct Known {
    /// Of writes that have returned with a version.
    writes: Floors,
    /// Of deletions, which have no version.
    deletions: Floors,
    /// Of reads that have returned, of each key and each list of a part.
    reads: Floors,
    /// Changes when what is known may not hold any more: the versions of the server went back.
    writes_epoch: usize,
    /// Changes when informers are removed as well.
    reads_epoch: usize,
    /// The versions of writes that a restored backup has undone before their responses arrived.
    undone: BTreeSet<u64>,
}

/// An operation in progress, and what was known when it began.
#[derive(Debug)]
pub(crate) struct Begun {
    writes: Floors,
    deletions: Floors,
    reads: Floors,
    epochs: (usize, usize),
    /// The number of changes at the beginning.
    position: usize,
    time: Instant,
    is_certain: bool,
    /// Whether a restored backup had set the versions back.
    had_gone_back: bool,
}

/// Judges reads. Clones are handles.
#[derive(Clone)]
pub(crate) struct Judge {
    server: ApiServer,
    pub(crate) recorder: Recorder,
    scope: Scope,
    /// Whether lists are of one state of each part.
    is_atomic: bool,
    write_timeout: Duration,
    known: Arc<Mutex<Known>>,
    refusals: Refusals,
    /// Whether all informers have versions that the server has had since the last restored backup.
    is_current: Arc<dyn Fn() -> bool + Send + Sync>,
    is_started: Arc<AtomicBool>,
    has_removals: bool,
}

impl Judge {
    pub(crate) fn new(
        server: &ApiServer,
        recorder: &Recorder,
        (scope, is_atomic, has_removals): (Scope, bool, bool),
        write_timeout: Duration,
        refusals: Refusals,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            server: server.clone(),
            recorder: recorder.clone(),
            scope,
            is_atomic,
            write_timeout,
            known: Arc::default(),
            refusals,
            is_current: Arc::new(is_current),
            is_started: Arc::default(),
            has_removals,
        }
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(crate) fn set_started(&self) {
        self.is_started.store(true, Ordering::Relaxed);
    }

    /// An informer is about to be removed.
    pub(crate) fn removal_begins(&self) {
        self.informers_change();
        self.server.removal_begins();
    }

    /// The informer is removed.
    pub(crate) fn removal_ended(&self) {
        self.server.removal_ended();
        self.informers_change();
    }

    /// The next informer may begin with an older state, but with all writes of the client.
    fn informers_change(&self) {
        let mut known = self.known.lock();
        known.reads.clear();
        known.reads_epoch += 1;
    }

    /// Whether positions are certain. They are not from the moment at which a backup is restored until all informers have
    /// noticed it: versions of the lost history may be higher than those of later writes (C-08h).
    fn is_certain(&self) -> bool {
        if !self.server.is_restored() {
            return true;
        }
        let is_current = (self.is_current)();
        if !is_current {
            let mut known = self.known.lock();
            known.writes.clear();
            known.deletions.clear();
            known.reads.clear();
            known.writes_epoch += 1;
            known.reads_epoch += 1;
        }
        is_current
    }

    /// Begins a read or a write.
    pub(crate) fn begin(&self) -> Begun {
        let is_certain = self.is_certain();
        let known = self.known.lock();
        Begun {
            writes: known.writes.clone(),
            deletions: known.deletions.clone(),
            reads: known.reads.clone(),
            epochs: (known.writes_epoch, known.reads_epoch),
            position: self.server.read(|history| history.changes().len()),
            time: Instant::now(),
            is_certain,
            had_gone_back: self.server.has_gone_back(),
        }
    }

    /// A write has returned.
    pub(crate) fn wrote(&self, begun: &Begun, plural: &str, key: &str, written: Written) {
        let is_certain = self.is_certain() && begun.is_certain;
        if let Written::Version(version) = written
            && !begun.had_gone_back
            && self.server.has_gone_back()
        {
            self.known.lock().undone.insert(version);
        }
        let position = self.server.read(|history| {
            let is_it = |(index, change): &(usize, &Change)| match written {
                Written::Version(version) => change.version == version && change.after.is_some(),
                Written::Deleted => *index >= begun.position && change.after.is_none(),
                Written::Ending => *index >= begun.position && change.after.as_ref().is_none_or(is_ending),
            };
            // If its deletion had begun before, no later state is waited for (C-08c).
            let had_begun = match written {
                Written::Ending => ending_since(history, plural, key, begun.position),
                Written::Version(_) | Written::Deleted => None,
            };
            had_begun.or_else(|| history.changes_of(plural, key).find(is_it).map(|(index, _)| index + 1))
        });
        let Some(position) = position else {
            return self
                .violation(format_args!("the write of {plural} {key}, {written:?}, is not in the history"));
        };
        let mut known = self.known.lock();
        if is_certain && known.writes_epoch == begun.epochs.0 {
            let Known { writes, deletions, .. } = &mut *known;
            let floors = if let Written::Version(_) = written { writes } else { deletions };
            raise(floors, format!("{plural} {key}"), position);
        }
    }

    /// A get has returned this object, or none. `waits` is whether it has waited for writes.
    pub(crate) fn got(
        &self,
        begun: &Begun,
        (plural, view, waits): (&str, View, bool),
        key: &str,
        object: Option<&State>,
    ) {
        let floor = self.floor(begun, (plural, view), key, waits);
        let found = self.server.read(|history| self.place(history, (plural, view), key, object, floor));
        // The writes do not say which state of the informer it was: it may be an earlier one that is the same.
        let earliest = self.floor(begun, (plural, view), key, false);
        let earliest = self.server.read(|history| self.place(history, (plural, view), key, object, earliest));
        match earliest.filter(|_| found.is_some()) {
            Some(position) => self.read(begun, name_of(plural, view, key), position),
            None => self.violation(format_args!(
                "{plural} {key} was read as {}, which it has not been since position {floor}: {}",
                text(object),
                self.states(plural, key)
            )),
        }
    }

    /// A live get has returned this object, or none.
    pub(crate) fn got_live(&self, begun: &Begun, plural: &str, key: &str, object: Option<&State>) {
        let found = self
            .server
            .read(|history| states(history, plural, key, begun.position).any(|(_, state)| state == object));
        if !found {
            self.violation(format_args!("{plural} {key} was read live as {}", text(object)));
        }
    }

    /// A list has returned these objects.
    pub(crate) fn listed(
        &self,
        begun: &Begun,
        (plural, view, waits): (&str, View, bool),
        selected: &Selected,
        objects: &Objects,
    ) {
        let all: Vec<String> = self.server.read(|history| keys(history, plural));
        let last = objects.keys().next_back().filter(|_| Some(objects.len()) == selected.limit);
        // Each key by itself: a list has the writes that it can see.
        for key in all.iter().filter(|key| last.is_none_or(|last| *key <= last)) {
            let floor = self.floor(begun, (plural, view), key, waits);
            let listed = objects.get(key);
            let is_possible = self.server.read(|history| {
                states(history, plural, key, floor).any(|(_, state)| {
                    let state =
                        state.filter(|state| self.scope.has(plural, key, state) && selected.has(key, state));
                    state.map(|state| view.of(state)).as_ref() == listed
                })
            });
            if !is_possible {
                self.violation(format_args!(
                    "{plural} {key} was listed by {selected:?} as {}, which it has not been since position {floor}: {}",
                    text(listed),
                    self.states(plural, key)
                ));
            }
        }
        // A later get or list does not return an older state.
        for (key, object) in objects {
            let earliest = self.floor(begun, (plural, view), key, false);
            let place = |history: &History| self.place(history, (plural, view), key, Some(object), earliest);
            if let Some(position) = self.server.read(place) {
                self.read(begun, name_of(plural, view, key), position);
            }
        }
        if let Some(foreign) = objects.keys().find(|key| !all.contains(key)) {
            self.violation(format_args!("{plural} {foreign} was listed, and has never been"));
        }
        if self.is_atomic && selected.limit.is_none() && !self.server.was_incomplete(plural) {
            for part in self.scope.parts() {
                self.check_state(begun, (plural, view), (&part, selected), objects);
            }
        }
    }

    /// All listed objects of a part were there at one moment, not before that of an earlier list.
    fn check_state(
        &self,
        begun: &Begun,
        (plural, view): (&str, View),
        (part, selected): (&str, &Selected),
        objects: &Objects,
    ) {
        let of_part: BTreeMap<&String, &State> =
            objects.iter().filter(|(key, _)| key.starts_with(part)).collect();
        let name = name_of(plural, view, &format!("{part}*"));
        let floor = begun.reads.get(&name).copied().unwrap_or_default();
        let found = self.server.read(|history| {
            let mut state: Objects = Objects::new();
            let is_same =
                |state: &Objects| state.iter().eq(of_part.iter().map(|(key, state)| (*key, *state)));
            let mut is_changed = true;
            for (index, change) in history.changes().iter().enumerate() {
                if is_changed && index >= floor && is_same(&state) {
                    return Some(index);
                }
                let key = change.key.path();
                is_changed = change.key.plural == plural && key.starts_with(part) || index + 1 == floor;
                if change.key.plural != plural || !key.starts_with(part) {
                    continue;
                }
                let has = |state: &&State| self.scope.has(plural, &key, state) && selected.has(&key, state);
                match change.after.as_ref().filter(has) {
                    Some(after) => state.insert(key, view.of(after)),
                    None => state.remove(&key),
                };
            }
            is_same(&state).then_some(history.changes().len())
        });
        match found {
            Some(position) => self.read(begun, name, position),
            None => self.violation(format_args!(
                "{plural} of {part:?} listed by {selected:?} were at no moment since position {floor} {:?}",
                of_part.keys()
            )),
        }
    }

    /// Checks the error of a read.
    pub(crate) fn failed(
        &self,
        begun: &Begun,
        plural: &str,
        namespace: Option<&str>,
        key: Option<&str>,
        error: &Error,
    ) {
        let waited = begun.time.elapsed();
        let is_allowed = match error {
            Error::NotStarted { .. } => {
                !self.is_started.load(Ordering::Relaxed) || begun.time == Instant::now()
            }
            Error::UnknownNamespace { namespace, .. } => !self.scope.has_namespace(namespace),
            Error::WriteNotSeen { key: written_key, written, read, .. } => {
                let is_own = written_key.as_deref().is_none_or(|written| match key {
                    Some(key) => written == key,
                    None => namespace.is_none_or(|own| written.split_once('/').unwrap_or_default().0 == own),
                });
                let is_reached = written.as_ref().is_some_and(|written| read.reaches(written));
                let may_be_reached = self.server.was_incomplete(plural) || self.server.is_restored();
                // A write of a history that a restored backup has undone, after the informers have noticed that. The next
                // informer after a removal cannot notice it, nor can one whether a response is of an undone write.
                // Nor can a refused question, after which the newest version of any part counts (C-08t).
                let is_lost = begun.is_certain
                    && !self.has_removals
                    && !self.refusals.were()
                    && begun.had_gone_back
                    && written.as_ref().is_some_and(|written| {
                        let is_late =
                            self.known.lock().undone.iter().any(|undone| *written == (*undone).into());
                        written.reaches(&AHEAD.into()) && !is_late
                    });
                !is_lost && is_own && waited >= self.write_timeout && (!is_reached || may_be_reached)
            }
            Error::NotSynced { timeout, .. } => waited >= *timeout || self.has_removals,
            // It is not needed.
            Error::Request { source, .. } if is_refusal(source) => false,
            Error::Request { .. } | Error::LiveRead { .. } => {
                !self.server.is_calm() || waited > Duration::ZERO
            }
            Error::Informer(_) => self.has_removals,
            _ => false,
        };
        if !is_allowed {
            self.violation(format_args!(
                "a read of {plural} {key:?} of {namespace:?} failed after {waited:?}: {error}"
            ));
        }
    }

    /// Whether the newest visible state of an object is this one.
    pub(crate) fn is_newest(&self, (plural, view): (&str, View), key: &str, object: Option<&State>) -> bool {
        self.server.read(|history| {
            let newest = states(history, plural, key, usize::MAX).last().and_then(|(_, state)| state);
            let newest = newest.filter(|state| self.scope.has(plural, key, state));
            newest.map(|state| view.of(state)).as_ref() == object
        })
    }

    /// The keys that ever were.
    pub(crate) fn keys(&self, plural: &str) -> Vec<String> {
        self.server.read(|history| keys(history, plural))
    }

    pub(crate) fn violation(&self, what: impl std::fmt::Display) {
        self.recorder.violation(what);
    }

    /// The first position from a floor on at which an object is read as this.
    fn place(
        &self,
        history: &History,
        (plural, view): (&str, View),
        key: &str,
        object: Option<&State>,
        floor: usize,
    ) -> Option<usize> {
        let mut states = states(history, plural, key, floor);
        let found = states.find(|(_, state)| {
            let state = state.filter(|state| self.scope.has(plural, key, state));
            state.map(|state| view.of(state)).as_ref() == object
        });
        found.map(|(position, _)| position)
    }

    /// The position from which on a read must show a key. A backup that is restored during a read may undo what was known
    /// at its begin.
    fn floor(&self, begun: &Begun, (plural, view): (&str, View), key: &str, waits: bool) -> usize {
        if !begun.is_certain || !self.is_certain() || self.known.lock().writes_epoch != begun.epochs.0 {
            return 0;
        }
        let name = format!("{plural} {key}");
        let of = |floors: &Floors| floors.get(&name).copied().unwrap_or_default();
        let deleted = if self.refusals.were() { 0 } else { of(&begun.deletions) };
        let read = begun.reads.get(&name_of(plural, view, key)).copied().unwrap_or_default();
        read.max(if waits { of(&begun.writes).max(deleted) } else { 0 })
    }

    /// A later read of the informer is not older.
    fn read(&self, begun: &Begun, name: String, position: usize) {
        let is_certain = self.is_certain() && begun.is_certain;
        let mut known = self.known.lock();
        if is_certain && known.reads_epoch == begun.epochs.1 {
            raise(&mut known.reads, name, position);
        }
    }

    /// The states of an object with their positions, as text.
    fn states(&self, plural: &str, key: &str) -> String {
        self.server.read(|history| {
            let states = states(history, plural, key, 0)
                .map(|(position, state)| format!("{position} {}", text(state)));
            states.collect::<Vec<_>>().join(", ")
        })
    }
}

/// The name of what was read: metadata and whole objects may be read from two informers, and one of them may be behind.
fn name_of(plural: &str, view: View, key: &str) -> String {
    format!("{plural} {view:?} {key}")
}

fn is_refusal(error: &kube_client::Error) -> bool {
    matches!(error, kube_client::Error::Api(status) if matches!(status.code, 401 | 403))
}

fn is_ending(state: &State) -> bool {
    field(state, ["metadata", "deletionTimestamp"]).is_some()
}

fn raise(floors: &mut Floors, name: String, position: usize) {
    let floor = floors.entry(name).or_default();
    *floor = position.max(*floor);
}

/// The first position from which on an object was in deletion, until a later one.
fn ending_since(history: &History, plural: &str, key: &str, until: usize) -> Option<usize> {
    let before = history.changes_of(plural, key).take_while(|(index, _)| *index < until);
    before.fold(None, |since, (index, change)| match change.after.as_ref().is_some_and(is_ending) {
        true => since.or(Some(index + 1)),
        false => None,
    })
}

/// The states of an object from a position on, each with its first position.
fn states<'a>(
    history: &'a History,
    plural: &'a str,
    key: &'a str,
    from: usize,
) -> impl Iterator<Item = (usize, Option<&'a State>)> {
    let before = history.changes_of(plural, key).take_while(move |(index, _)| *index < from).last();
    let before = (from.min(history.changes().len()), before.and_then(|(_, change)| change.after.as_ref()));
    let later = history.changes_of(plural, key).skip_while(move |(index, _)| *index < from);
    std::iter::once(before).chain(later.map(|(index, change)| (index + 1, change.after.as_ref())))
}

fn keys(history: &History, plural: &str) -> Vec<String> {
    let keys = history.changes().iter().filter(|change| change.key.plural == plural);
    let mut keys: Vec<String> = keys.map(|change| change.key.path()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn text(state: Option<&State>) -> String {
    let version =
        |state: &State| text_of(state, ["metadata", "resourceVersion"]).unwrap_or_default().to_owned();
    state.map_or("absent".into(), |state| format!("version {} {state}", version(state)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::Key;

    // contract: C-08c
    #[test]
    fn deletion_that_has_begun_is_visible_in_its_earlier_states() {
        let mut history = History::default();
        let key = || Key::new("secrets", "a", "p");
        let ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"]}});
        let since = |history: &History| ending_since(history, "secrets", "a/p", history.changes().len());
        history.put(key(), json!({}));
        assert_eq!(since(&history), None);
        history.put(key(), ending.clone());
        history.put(key(), json!({"data": {}}));
        assert_eq!(since(&history), Some(2), "a later change waits for nothing else");
        history.delete(key(), None);
        assert_eq!(since(&history), None);
        history.put(key(), ending);
        assert_eq!(since(&history), Some(5));
    }
}
