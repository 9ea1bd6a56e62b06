//! An informer of a world with its handlers: what they receive, and the comparison with the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use kinformer::kube_core::Resource;
use kinformer::{Added, Buffer, Deleted, Event, Informer, PackedObject, Registration, Updated};
use kinformer_processor::stepping::pass_time;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::api_server::ApiServer;
use crate::judge::{
    HandlerView, Objects, Received, Rules, StoreView, check_final, check_reached, difference, version_of,
};
use crate::random::pick;
use crate::snapshots::{BY_VALUE, Snapshots, objects_of, state_of};
use crate::trace::Recorder;

/// Reads the revision of the store, and the version of an object in it.
type ReadStore = dyn Fn(&str) -> Option<(u64, Option<u64>)> + Send;

/// A handler and its view of the objects.
pub(crate) struct CheckedHandler {
    pub(crate) registration: Registration,
    known: Arc<Mutex<HandlerView>>,
    resync: Duration,
    /// Whether it was added after the start.
    is_late: bool,
}

impl CheckedHandler {
    /// Removes the handler.
    pub(crate) async fn remove(&self) {
        self.registration.remove().await;
        self.known.lock().removed();
    }
}

/// An informer with its handlers, and what the judge knows about them.
pub(crate) struct View<K> {
    informer: Arc<Informer<K>>,
    plural: Arc<str>,
    server: ApiServer,
    pub(crate) recorder: Recorder,
    store: Arc<Mutex<StoreView>>,
    snapshots: Arc<Mutex<Snapshots<K>>>,
    handlers: Arc<Mutex<Vec<CheckedHandler>>>,
}

impl<K> Clone for View<K> {
    fn clone(&self) -> Self {
        Self {
            informer: self.informer.clone(),
            plural: self.plural.clone(),
            server: self.server.clone(),
            recorder: self.recorder.clone(),
            store: self.store.clone(),
            snapshots: self.snapshots.clone(),
            handlers: self.handlers.clone(),
        }
    }
}

impl<K: Resource<DynamicType = ()> + 'static> View<K> {
    pub(crate) fn of(informer: Informer<K>, server: &ApiServer, recorder: &Recorder) -> Self {
        if let Err(error) = informer.index_by_field(BY_VALUE, &["data", "value"]) {
            recorder.violation(error);
        }
        Self {
            informer: Arc::new(informer),
            plural: K::plural(&()).into(),
            server: server.clone(),
            recorder: recorder.clone(),
            store: Arc::default(),
            snapshots: Arc::default(),
            handlers: Arc::default(),
        }
    }

    /// Compares a handler with the server at the end.
    pub(crate) fn keep(&self, handler: Option<CheckedHandler>) {
        self.handlers.lock().extend(handler);
    }

    /// Adds a handler of random form, which the judge follows.
    pub(crate) fn add(&self, rng: &mut Rng, name: &str) -> Option<CheckedHandler> {
        let name = format!("{} {name}", self.plural);
        let run_time = pick(rng, [0, 3, 400, 3_000]);
        let buffers = [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(rng.usize(1..5))];
        let buffer = pick(rng, buffers);
        let builder = self.informer.handler().name(&*name).buffer(buffer);
        // A resync takes less time than its period.
        let resync = Duration::from_secs(rng.u64(5..60)) + Duration::from_millis(run_time * 20);
        let resync = if rng.bool() { resync } else { Duration::ZERO };
        let builder = builder.resync(resync);
        let rules = Rules {
            resyncs: !resync.is_zero(),
            in_order: !matches!(buffer, Buffer::Coalesced),
            is_late: self.informer.has_synced(),
        };
        let known = Arc::new(Mutex::new(HandlerView::new(rules)));
        let witness = Witness {
            name: name.clone(),
            plural: self.plural.clone(),
            server: self.server.clone(),
            recorder: self.recorder.clone(),
            known: known.clone(),
            running: Arc::default(),
            store: self.reader(),
        };
        let mut times = Times { rng: rng.fork(), longest: run_time, server: self.server.clone() };
        let (form, panics) = (rng.u8(..3), rng.bool());
        let added = match form {
            0 => builder.for_each(move |event| {
                witness.received(event.as_ref().map(|object| object.object().clone()));
                pass_time(times.next());
                panic_sometimes(&mut times.rng, panics);
            }),
            1 => builder.inline().for_each(move |event| {
                witness.received(event.as_ref().map(|object| object.object().clone()));
                panic_sometimes(&mut times.rng, panics);
            }),
            _ => builder.for_each_async(move |event| {
                witness.received(event.as_ref().map(|object| object.object().clone()));
                let running = witness.begins();
                let (slept, mut later) = (sleep(times.next()), times.rng.fork());
                panic_sometimes(&mut times.rng, panics);
                async move {
                    let _running = running;
                    slept.await;
                    panic_sometimes(&mut later, panics);
                }
            }),
        };
        self.recorder.note(
            &name,
            format_args!("added, form {form}, {buffer:?}, run time {run_time} ms, panics {panics}"),
        );
        match added {
            Ok(registration) => Some(CheckedHandler {
                registration,
                known,
                resync,
                is_late: self.informer.snapshot().is_ok(),
            }),
            Err(error) => {
                self.recorder.violation(format_args!("{name}: {error}"));
                None
            }
        }
    }

    /// Returns a function that reads the revision of the store, and the version of an object in it. It does not keep the
    /// informer.
    fn reader(&self) -> Box<ReadStore> {
        let informer = Arc::downgrade(&self.informer);
        Box::new(move |key| {
            let snapshot = informer.upgrade()?.snapshot().ok()?;
            let object = snapshot.get(key.split_once('/')?);
            Some((snapshot.revision(), object.map(|object| version_of(&state_of(object.object())))))
        })
    }

    /// Waits until the store has a version of an object, for at most some time.
    pub(crate) async fn wait_for(&self, key: &str, version: u64, longest: Duration) -> Result<(), String> {
        let deadline = Instant::now() + longest;
        let place = key.split_once('/').unwrap_or_default();
        let waited = self.informer.wait_for_until(place, &version.to_string().into(), deadline).await;
        match waited {
            Ok(()) => {
                let objects = self.stored().1;
                self.server.history(&self.plural, |h| check_reached(h, key, version, objects.get(key)))
            }
            Err(error) if Instant::now() < deadline => {
                Err(format!("waiting for {key} at {version}: {error}"))
            }
            Err(_) => Ok(()),
        }
    }

    /// Returns the key and the version of the newest change.
    pub(crate) fn newest(&self) -> Option<(String, u64)> {
        self.server.history(&self.plural, |h| h.last().map(|change| (change.key.clone(), change.version)))
    }

    /// Waits until the newest change is stored.
    pub(crate) async fn check_wait(&self, longest: Duration) -> Result<(), String> {
        let Some((key, version)) = self.newest() else { return Ok(()) };
        let began = Instant::now();
        self.wait_for(&key, version, longest).await?;
        if began.elapsed() < longest {
            Ok(())
        } else {
            Err(format!("{key} at {version} is not stored in time"))
        }
    }

    /// Waits until each handler with a period has been resynced.
    pub(crate) async fn check_resyncs(&self) -> Result<(), String> {
        let since = Instant::now();
        // The check period may be as long as the longest period, and a slow handler comes later.
        sleep(Duration::from_secs(400)).await;
        let handlers = self.handlers.lock();
        // A handler that was added later may have no check period (P-04d).
        let mut resynced = handlers.iter().filter(|handler| !handler.resync.is_zero() && !handler.is_late);
        resynced.try_for_each(|CheckedHandler { registration, known, .. }| {
            known
                .lock()
                .check_resynced(since)
                .map_err(|problem| format!("{}: {problem}", registration.name()))
        })
    }

    /// The number of parts. Each has a reflector.
    pub(crate) fn parts(&self) -> usize {
        self.informer.parts().len()
    }

    /// Returns the objects of the store with the version of each part.
    fn stored(&self) -> (Vec<(String, Option<u64>)>, Objects) {
        // Empty before the start.
        let Ok(snapshot) = self.informer.snapshot() else { return Default::default() };
        let parts = self.informer.parts().iter().map(|part| {
            let version = snapshot.resource_versions().of(part.id()).to_string().parse().ok();
            let prefix = if part.name().is_empty() { String::new() } else { format!("{}/", part.name()) };
            (prefix, version)
        });
        let objects = snapshot.iter().map(|object| (object.key().to_string(), state_of(object.object())));
        (parts.collect(), objects.collect())
    }

    fn check_snapshot(&self) -> Result<(), String> {
        let Ok(snapshot) = self.informer.snapshot() else { return Ok(()) };
        let metrics = self.informer.metrics();
        if metrics.objects != snapshot.len() {
            return Err(format!("{} objects in the metrics, {} stored", metrics.objects, snapshot.len()));
        }
        let objects = objects_of(&snapshot);
        self.snapshots.lock().check(snapshot, &objects)
    }

    pub(crate) fn check_store(&self) {
        for CheckedHandler { registration, known, .. } in &*self.handlers.lock() {
            if registration.has_synced() {
                known.lock().synced();
            }
        }
        if let Err(problem) = self.check_snapshot() {
            self.recorder.violation(format_args!("{}: {problem}", self.plural));
        }
        let (versions, objects) = self.stored();
        let checked = self
            .server
            .history(&self.plural, |history| self.store.lock().check(history, &versions, &objects));
        if let Err(problem) = checked {
            self.recorder.violation(format_args!("{}: {problem}", self.plural));
        }
    }

    /// Allows objects of the store to be newer than its version.
    pub(crate) fn may_be_ahead(&self) {
        self.store.lock().may_be_ahead = true;
    }

    /// Waits until the store and all handlers have the objects of the server.
    pub(crate) async fn check_end(&self, deadline: Instant) -> Result<(), String> {
        loop {
            let ended = self.compare();
            if ended.is_ok() || Instant::now() >= deadline {
                self.check_store();
                return ended;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn compare(&self) -> Result<(), String> {
        let server = self.server.objects(&self.plural);
        difference("the store", &self.stored().1, "the server", &server)?;
        for CheckedHandler { registration, known, .. } in &*self.handlers.lock() {
            difference(registration.name(), known.lock().objects(), "the server", &server)?;
            if !registration.has_synced() {
                return Err(format!("{} has not synced", registration.name()));
            }
        }
        Ok(())
    }
}

/// Checks the events of a handler. Has no informer, because the informer owns the handler.
struct Witness {
    name: String,
    plural: Arc<str>,
    server: ApiServer,
    recorder: Recorder,
    known: Arc<Mutex<HandlerView>>,
    running: Arc<AtomicBool>,
    /// Reads the revision of the store and the version of an object.
    store: Box<ReadStore>,
}

/// A callback that runs.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The run times of the callbacks of a handler.
struct Times {
    rng: Rng,
    /// In milliseconds.
    longest: u64,
    server: ApiServer,
}

impl Times {
    /// A random time. Rarely, while there are faults, the handler is stuck.
    fn next(&mut self) -> Duration {
        let time = Duration::from_millis(self.rng.u64(..=self.longest));
        let stuck = self.rng.u8(..100) == 0 && !self.server.is_calm();
        if stuck { time + Duration::from_secs(self.rng.u64(10..150)) } else { time }
    }
}

impl Witness {
    /// Returns a guard for as long as an asynchronous callback runs.
    fn begins(&self) -> Running {
        if self.running.swap(true, Ordering::Relaxed) {
            self.recorder.violation(format_args!("{}: two callbacks at once", self.name));
        }
        Running(self.running.clone())
    }

    fn received(&self, event: Event<Arc<PackedObject>>) {
        let key = event.key().to_string();
        let (mut last, mut initial) = (None, false);
        let revision;
        let (text, received) = match event.map(|object| state_of(&object)) {
            Event::Added(Added { object, in_initial_list, revision: after, .. }) => {
                (initial, revision) = (in_initial_list, after);
                let initial = if in_initial_list { ", initial" } else { "" };
                (format!("+ {key} {} rev {revision}{initial}", describe(&object)), Received::Added(object))
            }
            Event::Updated(Updated { old, new, revision: after, .. }) => {
                revision = after;
                let text = format!("~ {key} {} -> {} rev {revision}", describe(&old), describe(&new));
                (text, Received::Updated(old, new))
            }
            Event::Deleted(Deleted { tombstone, revision: after, .. }) => {
                revision = after;
                last = tombstone.into_object();
                let text = last.as_ref().map_or_else(|| "unknown".into(), describe);
                (format!("- {key} {text} rev {revision}"), Received::Deleted)
            }
            _ => return self.recorder.violation("an unknown event"),
        };
        self.recorder.note(&self.name, text);
        let version = match &received {
            Received::Added(new) | Received::Updated(_, new) => Some(version_of(new)),
            Received::Deleted => None,
        };
        let applied = self.server.history(&self.plural, |history| {
            let mut known = self.known.lock();
            known.check_place(&key, &received, initial, revision)?;
            last.iter().try_for_each(|last| check_final(history, &key, last))?;
            known.apply(history, &key, received)
        });
        let stored = (self.store)(&key).map_or(Ok(()), |(stored, object)| {
            if stored < revision || object.zip(version).is_some_and(|(object, version)| object < version) {
                return Err(format!("received {key} at revision {revision} before the store had it"));
            }
            Ok(())
        });
        for problem in [applied, stored].into_iter().filter_map(Result::err) {
            self.recorder.violation(format_args!("{}: {problem}", self.name));
        }
    }
}

fn describe(object: &Value) -> String {
    let text = |path| object.pointer(path).and_then(Value::as_str).unwrap_or("?");
    format!("v{} {}", text("/metadata/resourceVersion"), text("/metadata/uid"))
}

/// Panics without a message on stderr.
fn panic_sometimes(rng: &mut Rng, panics: bool) {
    if rng.u8(..40) == 0 && panics {
        std::panic::resume_unwind(Box::new("a panic of the simulation"));
    }
}
