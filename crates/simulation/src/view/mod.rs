//! An informer of a world with its handlers: what they receive, and the comparison with the server.

mod witness;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use kinformer::kube_core::Resource;
use kinformer::{Buffer, Informer, Registration};
use kinformer_processor::stepping::pass_time;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::api_server::ApiServer;
use crate::judge::{
    HandlerView, Objects, Rules, StoreView, as_stored, check_reached, difference, passes, version_of,
};
use crate::random::pick;
use crate::snapshots::{BY_VALUE, Snapshots, objects_of, state_of};
use crate::trace::Recorder;
use witness::{ReadStore, Times, Witness, panic_sometimes};

/// The time within which a write is stored. A watch that ends is opened again within half a second.
const OWN_WRITE: Duration = Duration::from_secs(5);

/// A handler and its view of the objects.
pub(crate) struct CheckedHandler {
    pub(crate) registration: Registration,
    known: Arc<Mutex<HandlerView>>,
    resync: Duration,
    /// Whether it was added after the start.
    is_late: bool,
    /// Whether it makes the store wait.
    has_back_pressure: bool,
    /// The objects that were stored when it was added.
    joined: Objects,
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
    /// The handlers that stay.
    handlers: Arc<Mutex<Vec<Arc<CheckedHandler>>>>,
    /// All handlers.
    all_handlers: Arc<Mutex<Vec<Arc<CheckedHandler>>>>,
    /// Whether a handler with a resync period was added before the start.
    has_check_period: Arc<AtomicBool>,
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
            all_handlers: self.all_handlers.clone(),
            has_check_period: self.has_check_period.clone(),
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
            all_handlers: Arc::default(),
            has_check_period: Arc::default(),
        }
    }

    /// Compares a handler with the server at the end.
    pub(crate) fn keep(&self, handler: Option<Arc<CheckedHandler>>) {
        self.handlers.lock().extend(handler);
    }

    /// Adds a handler of random form, which the judge follows.
    pub(crate) fn add(&self, rng: &mut Rng, name: &str) -> Option<Arc<CheckedHandler>> {
        let name = format!("{} {name}", self.plural);
        let run_time = pick(rng, [0, 3, 400, 3_000]);
        let buffers = [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(rng.usize(1..5))];
        let buffer = pick(rng, buffers);
        let builder = self.informer.handler().name(&*name).buffer(buffer);
        // A resync takes less time than its period.
        let resync = Duration::from_secs(rng.u64(5..60)) + Duration::from_millis(run_time * 20);
        let resync = if rng.bool() { resync } else { Duration::ZERO };
        let is_filtered = rng.u8(..4) == 0;
        let builder = builder.resync(resync);
        let builder = match is_filtered {
            true => builder.filter(|object| passes(&state_of(object.object()))),
            false => builder,
        };
        let joined = self.stored().1;
        let rules = Rules {
            resyncs: (!resync.is_zero()).then(|| (resync, Instant::now())),
            is_filtered,
            in_order: !matches!(buffer, Buffer::Coalesced),
            is_before_start: self.informer.snapshot().is_err(),
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
            format_args!("added, form {form}, {buffer:?}, run time {run_time} ms, panics {panics}, filter {is_filtered}, resync {resync:?}"),
        );
        match added {
            Ok(registration) => {
                let handler = Arc::new(CheckedHandler {
                    registration,
                    known,
                    resync,
                    is_late: self.informer.snapshot().is_ok(),
                    has_back_pressure: matches!(buffer, Buffer::BackPressure(_)),
                    joined,
                });
                if !handler.resync.is_zero() && !handler.is_late {
                    self.has_check_period.store(true, Ordering::Relaxed);
                }
                self.all_handlers.lock().push(handler.clone());
                Some(handler)
            }
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
                if self.server.was_incomplete(&self.plural) {
                    return Ok(());
                }
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
        // A handler that was added later has no check period of its own (P-04d).
        let has_check_period = self.has_check_period.load(Ordering::Relaxed);
        let mut resynced = handlers
            .iter()
            .filter(|handler| !handler.resync.is_zero() && (!handler.is_late || has_check_period));
        resynced.try_for_each(|handler| {
            let resynced = handler.known.lock().check_resynced(since);
            resynced.map_err(|problem| format!("{}: {problem}", handler.registration.name()))
        })
    }

    /// Waits for a version that the server does not have, until the informer stops.
    pub(crate) fn wait_forever(&self) -> tokio::task::JoinHandle<bool> {
        let informer = self.informer.clone();
        let version = u64::MAX.to_string().into();
        tokio::spawn(async move { informer.wait_for(("a", "p0"), &version).await.is_err() })
    }

    /// Writes an object, and checks that a wait for it ends with its event (S-17, S-18). Not if a handler makes the store
    /// wait.
    pub(crate) async fn check_own_write(&self, decodes: bool) -> Result<(), String> {
        if self.handlers.lock().iter().any(|handler| handler.has_back_pressure) {
            return Ok(());
        }
        let key = "a/own";
        let version = match decodes {
            true => self.server.put(&self.plural, key, "own"),
            false => self.server.put_undecodable(&self.plural, key),
        };
        self.recorder
            .note("world", format_args!("writes {} {key} at {version}, decodes {decodes}", self.plural));
        let began = Instant::now();
        self.wait_for(key, version, OWN_WRITE).await?;
        match began.elapsed() < OWN_WRITE {
            true => Ok(()),
            false => Err(format!("the wait for {key} at {version} has not ended with its event")),
        }
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

    /// Checks the parts: an informer has synced when all of them have a version, and no watch goes back to a version
    /// before that of the store.
    fn check_parts(&self) -> Result<(), String> {
        let Ok(snapshot) = self.informer.snapshot() else { return Ok(()) };
        for part in self.informer.parts() {
            let (stored, last) =
                (snapshot.resource_versions().of(part.id()), part.reflector().last_version());
            let stored_number = stored.to_string().parse::<u64>();
            if self.informer.has_synced() && stored_number.is_err() {
                return Err(format!("has synced, but {:?} has not been listed", part.name()));
            }
            if stored_number.unwrap_or_default() > last.to_string().parse().unwrap_or_default() {
                return Err(format!("the store is at {stored}, but the reflector at {last}"));
            }
        }
        let back = self.informer.metrics().reflector.versions_went_back;
        if back > 0 { Err("versions went back, but the server was not restored".into()) } else { Ok(()) }
    }

    /// Checks the handlers: each that has synced has received its initial list, and each that waits for an event has
    /// received the objects of the store.
    fn check_handlers(&self) -> Result<(), String> {
        let handlers = self.all_handlers.lock();
        let live = handlers.iter().filter(|handler| !handler.registration.is_removed());
        let live: Vec<_> = live.collect();
        let stored = self.stored().1;
        // The store has objects whose events wait for the handlers with back-pressure.
        let is_published = !live.iter().any(|handler| handler.has_back_pressure);
        for handler in live.into_iter().filter(|handler| handler.registration.has_synced()) {
            let name = handler.registration.name();
            let mut known = handler.known.lock();
            known.synced();
            self.server
                .history(&self.plural, |history| known.check_synced(history, &handler.joined))
                .map_err(|problem| format!("{name}: {problem}"))?;
            if is_published && handler.registration.metrics().depth == 0 {
                difference(name, known.objects(), "the store", &known.kept(&stored))?;
            }
        }
        Ok(())
    }

    pub(crate) fn check_store(&self) {
        for problem in [self.check_parts(), self.check_handlers()].into_iter().filter_map(Result::err) {
            self.recorder.violation(format_args!("{}: {problem}", self.plural));
        }
        if let Err(problem) = self.check_snapshot() {
            self.recorder.violation(format_args!("{}: {problem}", self.plural));
        }
        let (versions, objects) = self.stored();
        let is_incomplete = self.server.was_incomplete(&self.plural);
        let checked = self.server.history(&self.plural, |history| {
            self.store.lock().check(history, &versions, &objects, is_incomplete)
        });
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
        let stored = self.stored().1;
        let server = self.server.objects(&self.plural);
        let server = self.server.history(&self.plural, |history| as_stored(history, server, &stored));
        difference("the store", &stored, "the server", &server)?;
        for handler in &*self.handlers.lock() {
            let (name, known) = (handler.registration.name(), handler.known.lock());
            difference(name, known.objects(), "the server", &known.kept(&server))?;
            if !handler.registration.has_synced() {
                return Err(format!("{name} has not synced"));
            }
        }
        Ok(())
    }
}
