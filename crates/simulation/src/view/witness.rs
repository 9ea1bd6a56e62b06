//! The events of a handler, as they are received.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use kinformer::{Added, Deleted, Event, Left, PackedObject, Updated};
use parking_lot::Mutex;
use serde_json::Value;

use crate::api_server::ApiServer;
use crate::judge::{HandlerView, Received, check_final, version_of};
use crate::scopes::ScopeLog;
use crate::state::{state_of, text_of};
use crate::trace::Recorder;

/// Reads the revision of the store, and the version of an object in it.
pub(super) type ReadStore = dyn Fn(&str) -> Option<(u64, Option<u64>)> + Send;

/// Checks the events of a handler. Has no informer, because the informer owns the handler.
pub(super) struct Witness {
    pub(super) name: String,
    pub(super) plural: Arc<str>,
    pub(super) server: ApiServer,
    pub(super) recorder: Recorder,
    pub(super) known: Arc<Mutex<HandlerView>>,
    pub(super) running: Arc<AtomicBool>,
    /// Reads the revision of the store and the version of an object.
    pub(super) store: Box<ReadStore>,
    pub(super) scopes: ScopeLog,
}

/// A callback that runs.
pub(super) struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The run times of the callbacks of a handler.
pub(super) struct Times {
    pub(super) rng: Rng,
    /// In milliseconds.
    pub(super) longest: u64,
    pub(super) server: ApiServer,
}

impl Times {
    /// A random time. Rarely, while there are faults, the handler is stuck.
    pub(super) fn next(&mut self) -> Duration {
        let time = Duration::from_millis(self.rng.u64(..=self.longest));
        let stuck = self.rng.u8(..100) == 0 && !self.server.is_calm();
        if stuck { time + Duration::from_secs(self.rng.u64(10..150)) } else { time }
    }
}

impl Witness {
    /// Returns a guard for as long as an asynchronous callback runs.
    pub(super) fn begins(&self) -> Running {
        if self.running.swap(true, Ordering::Relaxed) {
            self.recorder.violation(format_args!("{}: two callbacks at once", self.name));
        }
        Running(self.running.clone())
    }

    pub(super) fn received(&self, event: Event<Arc<PackedObject>>) {
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
                let text = last.as_ref().map_or_else(|| "unknown".into(), |last| describe(last));
                (format!("- {key} {text} rev {revision}"), Received::Deleted)
            }
            Event::Left(Left { object, revision: after, .. }) => {
                revision = after;
                (format!("o {key} {} rev {revision}", describe(&object)), Received::Left)
            }
        };
        self.recorder.note(&self.name, text);
        let version = match &received {
            Received::Added(new) | Received::Updated(_, new) => Some(version_of(new)),
            Received::Deleted | Received::Left => None,
        };
        let listed = if initial { self.server.listed(&self.plural, &key) } else { 0 };
        let applied = self.server.history(&self.plural, |history| {
            let mut known = self.known.lock();
            known.check_place(history, &key, &received, initial, listed, revision)?;
            self.scopes.check(&key, &received, revision, known.is_in_order())?;
            last.iter().try_for_each(|last| check_final(history, &key, last))?;
            known.apply(history, &key, received)
        });
        let stored = (self.store)(&key).map_or(Ok(()), |(stored, object)| {
            // A restored backup sets versions back.
            let is_older = object.zip(version).is_some_and(|(object, version)| object < version);
            if stored < revision || is_older && !self.server.is_restored() {
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
    let text = |name| text_of(object, ["metadata", name]).unwrap_or("?");
    format!("v{} {}", text("resourceVersion"), text("uid"))
}

/// Panics without a message on stderr.
pub(super) fn panic_sometimes(rng: &mut Rng, panics: bool) {
    if rng.u8(..40) == 0 && panics {
        std::panic::resume_unwind(Box::new("a panic of the simulation"));
    }
}
