//! An informer of a world with its handlers: what they receive, and the comparison with the server.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kinformer::kube_core::Resource;
use kinformer::{Added, Buffer, Deleted, Event, Informer, PackedObject, Registration, Updated};
use kinformer_processor::stepping::pass_time;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::api_server::ApiServer;
use crate::judge::{HandlerView, Objects, Received, StoreView, difference};
use crate::random::pick;
use crate::trace::Recorder;

/// A handler and its view of the objects.
type CheckedHandler = (Registration, Arc<Mutex<HandlerView>>);

/// An informer with its handlers, and what the judge knows about them.
pub(crate) struct View<K> {
    informer: Arc<Informer<K>>,
    plural: Arc<str>,
    server: ApiServer,
    pub(crate) recorder: Recorder,
    store: Arc<Mutex<StoreView>>,
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
            handlers: self.handlers.clone(),
        }
    }
}

impl<K: Resource<DynamicType = ()> + 'static> View<K> {
    pub(crate) fn of(informer: Informer<K>, server: &ApiServer, recorder: &Recorder) -> Self {
        Self {
            informer: Arc::new(informer),
            plural: K::plural(&()).into(),
            server: server.clone(),
            recorder: recorder.clone(),
            store: Arc::default(),
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
        let known = Arc::<Mutex<HandlerView>>::default();
        let run_time = pick(rng, [0, 3, 400, 3_000]);
        let buffers = [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(rng.usize(1..5))];
        let buffer = pick(rng, buffers);
        let builder = self.informer.handler().name(&*name).buffer(buffer);
        // A resync takes less time than its period.
        let resync = Duration::from_secs(rng.u64(5..60)) + Duration::from_millis(run_time * 20);
        let builder = if rng.bool() { builder.resync(resync) } else { builder.resync(Duration::ZERO) };
        let witness = Witness {
            name: name.clone(),
            plural: self.plural.clone(),
            server: self.server.clone(),
            recorder: self.recorder.clone(),
            known: known.clone(),
        };
        let mut times = rng.fork();
        let (form, panics) = (rng.u8(..3), rng.bool());
        let added = match form {
            0 => builder.for_each(move |event| {
                witness.received(event.as_ref().map(|object| object.object().clone()));
                pass_time(Duration::from_millis(times.u64(..=run_time)));
                panic_sometimes(&mut times, panics);
            }),
            1 => builder.inline().for_each(move |event| {
                witness.received(event.as_ref().map(|object| object.object().clone()));
                panic_sometimes(&mut times, panics);
            }),
            _ => builder.for_each_async(move |event| {
                witness.received(event.as_ref().map(|object| object.object().clone()));
                let (slept, mut later) = (sleep(Duration::from_millis(times.u64(..=run_time))), times.fork());
                panic_sometimes(&mut times, panics);
                async move {
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
            Ok(registration) => Some((registration, known)),
            Err(error) => {
                self.recorder.violation(format_args!("{name}: {error}"));
                None
            }
        }
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

    pub(crate) fn check_store(&self) {
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
        for (registration, known) in &*self.handlers.lock() {
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
}

impl Witness {
    fn received(&self, event: Event<Arc<PackedObject>>) {
        let key = event.key().to_string();
        let (text, received) = match event.map(|object| state_of(&object)) {
            Event::Added(Added { object, in_initial_list, revision, .. }) => {
                let initial = if in_initial_list { ", initial" } else { "" };
                (format!("+ {key} {} rev {revision}{initial}", describe(&object)), Received::Added(object))
            }
            Event::Updated(Updated { old, new, revision, .. }) => (
                format!("~ {key} {} -> {} rev {revision}", describe(&old), describe(&new)),
                Received::Updated(old, new),
            ),
            Event::Deleted(Deleted { tombstone, revision, .. }) => {
                let text = tombstone.into_object().as_ref().map_or_else(|| "unknown".into(), describe);
                (format!("- {key} {text} rev {revision}"), Received::Deleted)
            }
            _ => return self.recorder.violation("an unknown event"),
        };
        self.recorder.note(&self.name, text);
        let applied =
            self.server.history(&self.plural, |history| self.known.lock().apply(history, &key, received));
        if let Err(problem) = applied {
            self.recorder.violation(format_args!("{}: {problem}", self.name));
        }
    }
}

/// Returns the state of an object as the history has it.
fn state_of(object: &PackedObject) -> Value {
    let mut state = object.decode_as::<Value>().map(|value| value.clone()).unwrap_or_default();
    if let Some(state) = state.as_object_mut() {
        state.remove("kind");
        state.remove("apiVersion");
    }
    state
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
