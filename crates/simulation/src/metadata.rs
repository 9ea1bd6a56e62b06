//! An informer of metadata that switches to whole objects later (F-16).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::core::v1::Pod;
use kinformer::kube_core::PartialObjectMeta;
use kinformer::{Event, Informer, SharedInformerFactory};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::api_server::ApiServer;
use crate::judge::{difference, version_of};
use crate::snapshots::objects_of;
use crate::state::{state_of, text_of};
use crate::trace::Recorder;

/// The name of the handler, and of the lines about the informer.
const NAME: &str = "pods metadata";

/// The versions and UIDs of objects by key. After a restored backup, another object may have a version again.
type Versions = BTreeMap<String, Identity>;

type Identity = (u64, String);

fn identity(object: &Value) -> Identity {
    (version_of(object), text_of(object, ["metadata", "uid"]).unwrap_or_default().to_owned())
}

/// An informer of the metadata of pods, with one handler. Clones are handles.
#[derive(Clone)]
pub(crate) struct MetadataView {
    informer: Informer<PartialObjectMeta<Pod>>,
    /// The objects that the handler has received.
    known: Arc<Mutex<Versions>>,
    /// The informer of whole objects, once they are requested.
    whole: Arc<Mutex<Option<Informer<Pod>>>>,
    server: ApiServer,
    recorder: Recorder,
}

impl MetadataView {
    pub(crate) fn new(factory: &SharedInformerFactory, server: &ApiServer, recorder: &Recorder) -> Self {
        let view = Self {
            informer: factory.metadata::<Pod>(),
            known: Arc::default(),
            whole: Arc::default(),
            server: server.clone(),
            recorder: recorder.clone(),
        };
        let (known, server, violations) = (view.known.clone(), server.clone(), recorder.clone());
        let handler = view.informer.handler().name(NAME).resync(Duration::ZERO).inline();
        let added = handler.for_each(move |event| {
            let key = event.key().to_string();
            let event = event.as_ref().map(|object| identity(&state_of(object.object())));
            // A conversion changes content at one version.
            let applied = apply(&mut known.lock(), &key, event, server.is_calm());
            match applied {
                Ok(text) => violations.note(NAME, text),
                Err(problem) => violations.violation(format_args!("{NAME}: {problem}")),
            }
        });
        if let Err(error) = added {
            recorder.violation(error);
        }
        view
    }

    /// Requests whole objects at some time.
    pub(crate) async fn switch(self, mut rng: Rng, factory: SharedInformerFactory) {
        sleep(Duration::from_millis(rng.u64(..30_000))).await;
        self.recorder.note(NAME, "whole objects are requested");
        *self.whole.lock() = Some(factory.informer::<Pod>());
    }

    /// The number of parts. Each has a reflector.
    pub(crate) fn parts(&self) -> usize {
        self.informer.parts().len()
    }

    /// Whether all parts have reached a version.
    pub(crate) fn has_reached(&self, version: u64) -> bool {
        let Ok(snapshot) = self.informer.snapshot() else { return false };
        self.informer.parts().iter().all(|part| {
            let reached = snapshot.resource_versions().of(part.id()).to_string().parse::<u64>();
            reached.is_ok_and(|reached| reached >= version)
        })
    }

    /// Waits until the handler and the informer of whole objects have the objects of the server.
    ///
    /// # Errors
    /// They have others at the deadline.
    pub(crate) async fn check_end(&self, deadline: Instant) -> Result<(), String> {
        loop {
            let ended = self.compare();
            if ended.is_ok() || Instant::now() >= deadline {
                return ended;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    fn compare(&self) -> Result<(), String> {
        let server = self.server.objects("pods");
        let versions: Versions = server.iter().map(|(key, state)| (key.clone(), identity(state))).collect();
        let known = self.known.lock().clone();
        if known != versions {
            return Err(format!("{NAME} has {known:?}, but the server {versions:?}"));
        }
        let whole = self.whole.lock().clone();
        let Some(whole) = whole else { return Ok(()) };
        let snapshot = whole.snapshot().map_err(|error| error.to_string())?;
        difference("the store of whole pods", &objects_of(&snapshot), "the server", &server)
    }
}

/// Applies an event, and returns it as text.
fn apply(
    known: &mut Versions,
    key: &str,
    event: Event<Identity>,
    may_repeat: bool,
) -> Result<String, String> {
    let has = known.get(key).cloned();
    let (before, after) = match event {
        Event::Added(added) => (None, Some(added.object)),
        Event::Updated(updated) => (Some(updated.old), Some(updated.new)),
        Event::Deleted(_) if has.is_none() => return Err(format!("deleted {key}, which it does not have")),
        Event::Deleted(_) => (has.clone(), None),
        _ => return Err("an unknown event".into()),
    };
    if has != before {
        return Err(format!("{key} changed from {before:?} to {after:?}, but it has {has:?}"));
    }
    if before == after && !may_repeat {
        return Err(format!("received {key} at {after:?} again"));
    }
    let version = |identity: &Option<Identity>| identity.as_ref().map(|(version, _)| *version);
    let text = format!("{key} {:?} -> {:?}", version(&before), version(&after));
    match after {
        Some(identity) => known.insert(key.to_owned(), identity),
        None => known.remove(key),
    };
    Ok(text)
}
