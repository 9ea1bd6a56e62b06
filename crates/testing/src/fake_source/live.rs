//! An in-memory server.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use kinformer_core::{KeyRef, ObjectKey, ResourceVersion};
use kinformer_reflector::{
    ApiStatus, DecodeError, EventType, List, ListOptions, ListerWatcher, ProbeBudget, SourceError,
    StatusCause, VersionMatch, WatchEvent, WatchListSupport, WatchOptions, WatchStream,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::item::Versioned;

/// A versioned collection with a history, which can be listed and watched like an API server, and injects faults on
/// demand.
///
/// Cheap to clone; all clones share one server. The history grows until it is [compacted](Self::compact).
pub struct FakeSource<T> {
    server: Arc<Server<T>>,
}

struct Server<T> {
    state: Mutex<State<T>>,
    changed: watch::Sender<u64>,
    open_watches: AtomicUsize,
    watch_list: WatchListSupport,
    probe_budget: ProbeBudget,
}

struct State<T> {
    version: u64,
    objects: BTreeMap<ObjectKey, Arc<T>>,
    undecodable: HashSet<ObjectKey>,
    /// The events after the compacted version, one per version.
    history: VecDeque<Change<T>>,
    compacted: u64,
    pages: HashMap<String, (u64, Vec<Arc<T>>)>,
    next_page: u64,
    /// Watches of an older generation are closed.
    generation: u64,
    bookmarks: u64,
    list_errors: VecDeque<SourceError>,
    watch_errors: VecDeque<SourceError>,
    /// The version to report for the next event instead of its own.
    wrong_version: Option<u64>,
    close_error: Option<fn() -> SourceError>,
    faults: Faults,
    lists: u64,
    watches: u64,
    probes: u64,
    versions: Versions,
    /// The version at which the process of the server started.
    started_at: u64,
}

/// The versions that a server shows: those of kube-apiserver, or those of another healthy server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// One counter for lists, objects and bookmarks, as of kube-apiserver.
    #[default]
    Server,
    /// Neither lists nor objects have versions. A watch ignores its version: it starts with all objects and a bookmark with
    /// a counter of the [process](FakeSource::restart).
    None,
    /// Objects count for themselves, from 1. Lists and bookmarks have the counter of the server, which is far above.
    PerObject,
    /// A list has the highest version of its items. An empty list has none.
    HighestItem,
    /// As [`Self::Server`], but each watch starts with all objects and a bookmark.
    Replayed,
    /// As [`Self::Server`], but a deletion has the version of the last update.
    LastUpdate,
    /// Everything is at version 1. A watch ignores its version and starts with all objects.
    Constant,
}

/// Added to the counter of a server with [`Versions::PerObject`].
const FAR_ABOVE: u64 = 1_000_000;

/// Permanent deviations of the server.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    no_watch_list: bool,
    no_bookmarks: bool,
    no_pages: bool,
    accepts_future_versions: bool,
}

/// The objects of a [`FakeSource`] at one version.
#[derive(Clone, Debug)]
pub struct Backup<T> {
    version: u64,
    objects: BTreeMap<ObjectKey, Arc<T>>,
    undecodable: HashSet<ObjectKey>,
}

struct Change<T> {
    version: u64,
    event_type: EventType,
    object: Arc<T>,
    undecodable: bool,
}

impl<T> Clone for FakeSource<T> {
    fn clone(&self) -> Self {
        Self { server: self.server.clone() }
    }
}

impl<T: Versioned> Default for FakeSource<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Versioned> FakeSource<T> {
    /// Creates an empty server at version 1, with pages, bookmarks and watch-list.
    pub fn new() -> Self {
        let state = State {
            version: 1,
            objects: BTreeMap::new(),
            undecodable: HashSet::new(),
            history: VecDeque::new(),
            compacted: 1,
            pages: HashMap::new(),
            next_page: 0,
            generation: 0,
            bookmarks: 0,
            list_errors: VecDeque::new(),
            watch_errors: VecDeque::new(),
            wrong_version: None,
            close_error: None,
            faults: Faults::default(),
            lists: 0,
            watches: 0,
            probes: 0,
            versions: Versions::Server,
            started_at: 0,
        };
        Self {
            server: Arc::new(Server {
                state: Mutex::new(state),
                changed: watch::Sender::new(0),
                open_watches: AtomicUsize::new(0),
                watch_list: WatchListSupport::new(),
                probe_budget: ProbeBudget::new(),
            }),
        }
    }

    /// Makes the server reject watch-lists with 422.
    #[must_use]
    pub fn without_watch_list(self) -> Self {
        self.server.state.lock().faults.no_watch_list = true;
        self
    }

    /// Makes the server send no bookmarks, not even the one that ends a watch-list.
    #[must_use]
    pub fn without_bookmarks(self) -> Self {
        self.server.state.lock().faults.no_bookmarks = true;
        self
    }

    /// Makes the server ignore the limit of a list.
    #[must_use]
    pub fn without_pages(self) -> Self {
        self.server.state.lock().faults.no_pages = true;
        self
    }

    /// Makes the server accept watches from future versions, and send no event and no bookmark at or below them. A
    /// restored server then stays silent until it has passed the requested version.
    ///
    /// Follows kube-apiserver 1.37 (`cacheWatcher.process`).
    #[must_use]
    pub fn accept_future_versions(self) -> Self {
        self.server.state.lock().faults.accepts_future_versions = true;
        self
    }

    /// Sets the versions that the server shows.
    #[must_use]
    pub fn versions(self, versions: Versions) -> Self {
        self.server.state.lock().versions = versions;
        self
    }

    /// Adds or replaces an object, and returns the version of the server.
    pub fn apply(&self, mut object: T) -> u64 {
        self.change(|state| {
            state.version += 1;
            state.set_version(&mut object);
            let Ok(key) = ObjectKey::try_from(object.key()) else { return };
            let object = Arc::new(object);
            state.undecodable.remove(&key);
            let known = state.objects.insert(key, object.clone()).is_some();
            let event_type = if known { EventType::Modified } else { EventType::Added };
            state.record(event_type, object, false);
        })
    }

    /// The same as [`Self::apply`], but the object cannot be decoded until it is applied again.
    pub fn apply_undecodable(&self, mut object: T) -> u64 {
        self.change(|state| {
            state.version += 1;
            object.set_version(state.version);
            let Ok(key) = ObjectKey::try_from(object.key()) else { return };
            let object = Arc::new(object);
            state.undecodable.insert(key.clone());
            let known = state.objects.insert(key, object.clone()).is_some();
            let event_type = if known { EventType::Modified } else { EventType::Added };
            state.record(event_type, object, true);
        })
    }

    /// Deletes an object; does nothing if it does not exist. Returns the version of the server.
    pub fn delete<'a>(&self, key: impl Into<KeyRef<'a>>) -> u64 {
        let key = ObjectKey::try_from(key.into());
        self.change(|state| {
            let Some((key, object)) = key.ok().and_then(|key| state.objects.remove_entry(&key)) else {
                return;
            };
            state.version += 1;
            let mut object = (*object).clone();
            if matches!(state.versions, Versions::Server | Versions::Replayed) {
                object.set_version(state.version);
            }
            let undecodable = state.undecodable.remove(&key);
            state.record(EventType::Deleted, Arc::new(object), undecodable);
        })
    }

    /// Increments the version without a change, as a write to another resource does.
    pub fn tick(&self) -> u64 {
        self.change(|state| state.version += 1)
    }

    /// Makes the next event report this version instead of its object's.
    pub fn misreport_next_version(&self, version: u64) {
        self.server.state.lock().wrong_version = Some(version);
    }

    /// Returns the current objects and version, for [`Self::restore`].
    pub fn backup(&self) -> Backup<T> {
        let state = self.server.state.lock();
        let State { version, objects, undecodable, .. } = &*state;
        Backup { version: *version, objects: objects.clone(), undecodable: undecodable.clone() }
    }

    /// Restores the objects and the version of a backup, as after the restore of an etcd. The history is dropped, and
    /// all watches break.
    pub fn restore(&self, backup: &Backup<T>) {
        let Backup { version, objects, undecodable } = backup.clone();
        self.change(|state| {
            state.version = version;
            state.objects = objects;
            state.undecodable = undecodable;
            state.compact();
            state
                .close_watches(Some(|| SourceError::Transport { source: "the server was restarted".into() }));
        });
    }

    /// Restarts the process of the server: its objects stay, all watches break, and the counter of
    /// [`Versions::None`] starts over.
    pub fn restart(&self) {
        self.change(|state| {
            state.started_at = state.version;
            state
                .close_watches(Some(|| SourceError::Transport { source: "the server was restarted".into() }));
        });
    }

    /// Drops the history and all pages: watches and pages of older versions fail with 410.
    pub fn compact(&self) {
        self.change(State::compact);
    }

    /// Ends all watches cleanly, and drops the history in the same step: the next watches of older versions fail with
    /// 410, but none that is open.
    pub fn disconnect_and_compact(&self) {
        self.change(|state| {
            state.compact();
            state.close_watches(None);
        });
    }

    /// Ends all watches cleanly.
    pub fn disconnect(&self) {
        self.change(|state| state.close_watches(None));
    }

    /// Ends all watches with an error.
    pub fn break_watches(&self, error: fn() -> SourceError) {
        self.change(|state| state.close_watches(Some(error)));
    }

    /// Sends a bookmark to all watches that are up to date.
    pub fn send_bookmarks(&self) {
        self.change(|state| state.bookmarks += 1);
    }

    /// Makes the next list fail; several errors are queued.
    pub fn fail_next_list(&self, error: SourceError) {
        self.server.state.lock().list_errors.push_back(error);
    }

    /// Makes the next watch fail; several errors are queued.
    pub fn fail_next_watch(&self, error: SourceError) {
        self.server.state.lock().watch_errors.push_back(error);
    }

    /// Returns the version of the server.
    pub fn version(&self) -> u64 {
        self.server.state.lock().version
    }

    /// Returns all objects that can be decoded, by key.
    pub fn decodable(&self) -> BTreeMap<ObjectKey, Arc<T>> {
        let state = self.server.state.lock();
        let decodable = state.objects.iter().filter(|(key, _)| !state.undecodable.contains(*key));
        decodable.map(|(key, object)| (key.clone(), object.clone())).collect()
    }

    /// Whether an object with this key exists, decodable or not.
    pub fn exists<'a>(&self, key: impl Into<KeyRef<'a>>) -> bool {
        ObjectKey::try_from(key.into()).is_ok_and(|key| self.server.state.lock().objects.contains_key(&key))
    }

    /// Returns the number of lists (pages) and of watches requested.
    pub fn requests(&self) -> (u64, u64) {
        let state = self.server.state.lock();
        (state.lists, state.watches)
    }

    /// Returns how often the newest version has been requested.
    pub fn probes(&self) -> u64 {
        self.server.state.lock().probes
    }

    /// Returns the number of open watches.
    pub fn open_watches(&self) -> usize {
        self.server.open_watches.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut State<T>)) -> u64 {
        let mut state = self.server.state.lock();
        change(&mut state);
        let version = state.version;
        drop(state);
        self.server.changed.send_modify(|n| *n = n.wrapping_add(1));
        version
    }
}

impl<T: Versioned> State<T> {
    fn compact(&mut self) {
        self.compacted = self.version;
        self.history.clear();
        self.pages.clear();
    }

    fn close_watches(&mut self, error: Option<fn() -> SourceError>) {
        self.generation += 1;
        self.close_error = error;
    }

    /// Sets the version of an object that was written at the present version.
    fn set_version(&self, object: &mut T) {
        let known = ObjectKey::try_from(object.key()).ok().and_then(|key| self.objects.get(&key));
        object.set_version(match self.versions {
            Versions::None => 0,
            Versions::Constant => 1,
            Versions::PerObject => {
                known.and_then(|known| known.resource_version().to_string().parse::<u64>().ok()).unwrap_or(0)
                    + 1
            }
            _ => self.version,
        });
    }

    /// Returns the version that a list of these objects or a bookmark shows.
    fn shown<'a>(
        &self,
        version: u64,
        listed: Option<impl IntoIterator<Item = &'a Arc<T>>>,
    ) -> ResourceVersion {
        match (self.versions, listed) {
            (Versions::None, Some(_)) => ResourceVersion::UNSET,
            (Versions::None, None) => (version - self.started_at).into(),
            (Versions::Constant, _) => 1.into(),
            (Versions::PerObject, _) => (FAR_ABOVE + version).into(),
            (Versions::HighestItem, Some(listed)) => {
                let highest = |highest: ResourceVersion, object: &Arc<T>| {
                    let version = object.resource_version();
                    if highest.reaches(&version) { highest } else { version }
                };
                listed.into_iter().fold(ResourceVersion::UNSET, highest)
            }
            _ => version.into(),
        }
    }

    fn bookmark(&self, version: u64) -> WatchEvent<T> {
        WatchEvent::bookmark(self.shown(version, None::<[&Arc<T>; 0]>))
    }

    /// Returns the version of the server that a request names; `None` if the server ignores it.
    fn requested(&self, version: &ResourceVersion) -> Result<Option<u64>, SourceError> {
        let number = number(version)?;
        Ok(match self.versions {
            Versions::None | Versions::Constant => None,
            Versions::PerObject => number.checked_sub(FAR_ABOVE).or((number == 0).then_some(0)),
            _ => Some(number),
        })
    }

    fn added_events(&self) -> impl Iterator<Item = WatchEvent<T>> {
        self.objects.iter().map(|(key, object)| match self.undecodable.contains(key) {
            true => {
                let error = bad_object(key.clone(), object.resource_version());
                WatchEvent::Undecodable(error.event_type(EventType::Added))
            }
            false => WatchEvent::Added(object.clone()),
        })
    }

    fn record(&mut self, event_type: EventType, mut object: Arc<T>, undecodable: bool) {
        let version = self.version;
        if let Some(wrong) = self.wrong_version.take() {
            let mut misreported = (*object).clone();
            misreported.set_version(wrong);
            object = Arc::new(misreported);
        }
        self.history.push_back(Change { version, event_type, object, undecodable });
    }

    fn expired() -> SourceError {
        SourceError::expired("too old resource version")
    }

    fn too_large() -> SourceError {
        let cause = StatusCause::new("ResourceVersionTooLarge", "Too large resource version");
        ApiStatus::new(504, "Timeout", "Too large resource version").cause(cause).into()
    }

    fn list(&mut self, options: &ListOptions<T>) -> Result<List<T>, SourceError> {
        self.lists += 1;
        if let Some(error) = self.list_errors.pop_front() {
            return Err(error);
        }
        let wanted = self.requested(&options.resource_version)?;
        if wanted.is_some_and(|wanted| wanted > self.version) {
            return Err(Self::too_large());
        }
        if options.version_match == Some(VersionMatch::Exact) && wanted != Some(self.version) {
            return Err(Self::expired());
        }
        let (version, mut objects) = match &options.continue_token {
            Some(token) => {
                let (version, objects) = self.pages.remove(token).ok_or_else(Self::expired)?;
                (version, objects)
            }
            None => (self.version, self.objects.values().cloned().collect()),
        };
        let limit = options.limit.map_or(usize::MAX, |limit| limit.get() as usize);
        let rest = if objects.len() > limit && !self.faults.no_pages {
            objects.split_off(limit)
        } else {
            Vec::new()
        };
        let shown = self.shown(version, Some(&objects));
        let bad = self.split_undecodable(&mut objects);
        let mut list = List::new(objects, shown).undecodable(bad);
        if !rest.is_empty() {
            self.next_page += 1;
            let token = format!("page-{}", self.next_page);
            list = list.remaining(rest.len() as u64).continue_token(token.clone());
            self.pages.insert(token, (version, rest));
        }
        Ok(list)
    }

    fn split_undecodable(&self, objects: &mut Vec<Arc<T>>) -> Vec<DecodeError> {
        let mut bad = Vec::new();
        objects.retain(|object| {
            let Ok(key) = ObjectKey::try_from(object.key()) else { return true };
            if !self.undecodable.contains(&key) {
                return true;
            }
            bad.push(bad_object(key, object.resource_version()));
            false
        });
        bad
    }
}

fn bad_object(key: ObjectKey, version: ResourceVersion) -> DecodeError {
    DecodeError::new("this object cannot be decoded").key(key).resource_version(version)
}

fn number(version: &ResourceVersion) -> Result<u64, SourceError> {
    if version.is_unset() {
        return Ok(0);
    }
    version
        .to_string()
        .parse()
        .map_err(|_| ApiStatus::new(400, "BadRequest", "invalid resource version").into())
}

impl<T> Change<T>
where
    T: Versioned,
{
    fn event(&self) -> WatchEvent<T> {
        if self.undecodable {
            let mut error = DecodeError::new("this object cannot be decoded")
                .resource_version(self.version)
                .event_type(self.event_type);
            error.key = ObjectKey::try_from(self.object.key()).ok();
            return WatchEvent::Undecodable(error);
        }
        match self.event_type {
            EventType::Modified => WatchEvent::Modified(self.object.clone()),
            EventType::Deleted => WatchEvent::Deleted(self.object.clone()),
            _ => WatchEvent::Added(self.object.clone()),
        }
    }
}

/// The position of one watch.
struct Cursor<T: Versioned> {
    server: Arc<Server<T>>,
    changed: watch::Receiver<u64>,
    initial: VecDeque<WatchEvent<T>>,
    version: u64,
    generation: u64,
    bookmarks: u64,
    ends: Instant,
    done: bool,
}

impl<T: Versioned> Drop for Cursor<T> {
    fn drop(&mut self) {
        self.server.open_watches.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T: Versioned> Cursor<T> {
    async fn next(&mut self) -> Option<Result<WatchEvent<T>, SourceError>> {
        loop {
            self.changed.borrow_and_update();
            if self.done {
                return None;
            }
            if let Some(item) = self.ready() {
                self.done = item.is_err();
                return Some(item);
            }
            if self.done {
                return None;
            }
            let more = tokio::time::timeout_at(self.ends, self.changed.changed()).await;
            if !matches!(more, Ok(Ok(()))) {
                return None;
            }
        }
    }

    fn ready(&mut self) -> Option<Result<WatchEvent<T>, SourceError>> {
        let state = self.server.state.lock();
        if state.generation != self.generation {
            self.done = true;
            return state.close_error.map(|error| Err(error()));
        }
        if let Some(event) = self.initial.pop_front() {
            return Some(Ok(event));
        }
        let skip = state.history.partition_point(|change| change.version <= self.version);
        if let Some(change) = state.history.get(skip) {
            // A version in between may have been compacted.
            if self.version < state.compacted {
                return Some(Err(State::<T>::expired()));
            }
            self.version = change.version;
            return Some(Ok(change.event()));
        }
        if self.version < state.compacted {
            return Some(Err(State::<T>::expired()));
        }
        if self.bookmarks != state.bookmarks {
            self.bookmarks = state.bookmarks;
            let hidden = state.faults.accepts_future_versions && state.version <= self.version;
            if !state.faults.no_bookmarks && !hidden {
                self.version = state.version;
                return Some(Ok(state.bookmark(state.version)));
            }
        }
        None
    }
}

#[async_trait]
impl<T: Versioned> ListerWatcher<T> for FakeSource<T> {
    async fn list(&self, options: ListOptions<T>) -> Result<List<T>, SourceError> {
        self.server.state.lock().list(&options)
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<T>, SourceError> {
        let mut state = self.server.state.lock();
        state.watches += 1;
        if let Some(error) = state.watch_errors.pop_front() {
            return Err(error);
        }
        if options.send_initial_events && state.faults.no_watch_list {
            return Err(ApiStatus::new(422, "Invalid", "sendInitialEvents is forbidden").into());
        }
        let requested = state.requested(&options.resource_version)?;
        let from = requested.unwrap_or(0);
        if from > state.version && (options.send_initial_events || !state.faults.accepts_future_versions) {
            return Err(State::<T>::too_large());
        }
        let mut initial = VecDeque::new();
        let is_replayed = requested.is_none() || state.versions == Versions::Replayed;
        if from == 0 || options.send_initial_events || is_replayed {
            initial.extend(state.added_events());
        }
        let is_current = from == 0 || options.send_initial_events;
        if !is_current && from < state.compacted {
            return Err(State::<T>::expired());
        }
        let version = if is_current { state.version } else { from };
        if !state.faults.no_bookmarks {
            if options.send_initial_events {
                initial.push_back(WatchEvent::initial_events_end(state.version));
            } else if is_replayed {
                initial.push_back(state.bookmark(version));
            }
        }
        let cursor = Cursor {
            changed: self.server.changed.subscribe(),
            initial,
            version,
            generation: state.generation,
            bookmarks: state.bookmarks,
            ends: Instant::now() + options.timeout.min(Duration::from_secs(1_000_000)),
            done: false,
            server: self.server.clone(),
        };
        drop(state);
        self.server.open_watches.fetch_add(1, Ordering::Relaxed);
        Ok(stream::unfold(cursor, |mut cursor| async move {
            let item = cursor.next().await?;
            Some((item, cursor))
        })
        .fuse()
        .boxed())
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        let mut state = self.server.state.lock();
        state.probes += 1;
        // As a list of one object.
        let newest = state.shown(state.version, Some(state.objects.values().take(1)));
        Ok((!newest.is_unset()).then_some(newest))
    }

    fn probe_budget(&self) -> Option<&ProbeBudget> {
        Some(&self.server.probe_budget)
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        Some(&self.server.watch_list)
    }
}

impl<T> fmt::Debug for FakeSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.server.state.lock();
        f.debug_struct("FakeSource")
            .field("version", &state.version)
            .field("objects", &state.objects.len())
            .finish_non_exhaustive()
    }
}
