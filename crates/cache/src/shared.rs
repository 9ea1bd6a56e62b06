//! What a cache and its kinds share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kinformer::{FieldPath, Informer, Part, SharedInformerFactory};
use kube_client::Client;
use kube_core::discovery::ApiResource;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::writes::{Kept, Noted, Writes};

/// The settings of a cache.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long a read waits for an informer to sync.
    pub(crate) sync_timeout: Duration,
    /// How long a read waits for a write of the cache's client.
    pub(crate) write_timeout: Duration,
    /// Whether reads start informers.
    pub(crate) starts_on_read: bool,
    /// The names of the resources whose reads are answered by the server.
    pub(crate) live: Vec<Arc<str>>,
    /// The writes that are kept by key.
    pub(crate) kept: Kept,
}

/// An informer of a resource, and how many there were up to it.
#[derive(Clone)]
struct Numbered {
    informer: Informer<()>,
    number: u64,
}

type FieldPaths = HashMap<(Arc<str>, Arc<str>), FieldPath>;

pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) factory: SharedInformerFactory,
    pub(crate) settings: Settings,
    pub(crate) writes: Writes,
    /// One request for the version of a write of a resource at a time, so that many reads of one write send one.
    questions: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
    /// The informers that reads have used, by the name of their resource.
    informers: Mutex<HashMap<Arc<str>, Numbered>>,
    /// The paths of the fields, by the names of their resources and of the fields, whose index is by path.
    field_paths: Mutex<FieldPaths>,
    /// The resources whose questions the server has refused.
    refused: Mutex<HashSet<Arc<str>>>,
    is_started: AtomicBool,
}

impl Shared {
    pub(crate) fn new(client: Client, factory: SharedInformerFactory, settings: Settings) -> Self {
        let kept = settings.kept;
        Self {
            client,
            factory,
            settings,
            writes: Writes::new(kept),
            questions: Mutex::default(),
            informers: Mutex::default(),
            field_paths: Mutex::default(),
            refused: Mutex::default(),
            is_started: AtomicBool::new(false),
        }
    }

    /// Whether reads of a resource are answered by the server.
    pub(crate) fn is_live(&self, resource: &ApiResource) -> bool {
        self.settings.live.contains(&resource_name(&resource.group, &resource.plural))
    }

    pub(crate) fn start(&self) -> Result<(), kinformer::Error> {
        self.factory.start()?;
        self.is_started.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) fn is_started(&self) -> bool {
        self.is_started.load(Ordering::Acquire)
    }

    /// The permit to ask the server for the version of a write of a resource.
    pub(crate) fn question(&self, resource: &Arc<str>) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(1));
        self.questions.lock().entry(resource.clone()).or_insert_with(new).clone()
    }

    /// Notes the informer of a resource, unless it was removed meanwhile.
    pub(crate) fn note_informer(&self, resource: Arc<str>, informer: Informer<()>) {
        if informer.is_stopped() {
            return;
        }
        let before = self.numbered(&resource);
        if before.as_ref().is_some_and(|before| before.informer.is_same_as(&informer)) {
            return;
        }
        let mut informers = self.informers.lock();
        let number = informers.get(&resource).map_or(1, |known| known.number + 1);
        let replaced = informers.insert(resource.clone(), Numbered { informer, number });
        drop(informers);
        drop(replaced); // without the lock
        self.writes.informer_changed(&resource, number);
    }

    fn numbered(&self, resource: &str) -> Option<Numbered> {
        self.informers.lock().get(resource).cloned()
    }

    /// Returns the number of an informer; `None` if it is no longer that of its resource.
    pub(crate) fn number_of(&self, resource: &str, informer: &Informer<()>) -> Option<u64> {
        let known = self.numbered(resource)?;
        known.informer.is_same_as(informer).then_some(known.number)
    }

    /// Returns the version of an informer with its number; `None` if it is no longer that of its resource.
    pub(crate) fn version_of(&self, resource: &str, informer: &Informer<()>) -> Option<Noted> {
        let number = self.number_of(resource, informer)?;
        // Before the version, so that a version after it is not taken for one before.
        let went_back = |part: &Part| part.reflector().metrics().versions_went_back;
        let went_back = informer.parts().iter().map(went_back).sum();
        let version = informer.snapshot().ok()?.resource_versions().lowest();
        Some(Noted { informer: number, version, went_back })
    }

    /// Notes the path of a field, or that its index is not by path.
    pub(crate) fn note_field(&self, resource: Arc<str>, field: &str, path: Option<FieldPath>) {
        let (key, mut paths) = ((resource, field.into()), self.field_paths.lock());
        match path {
            Some(path) => _ = paths.insert(key, path),
            None => _ = paths.remove(&key),
        }
    }

    pub(crate) fn field_path(&self, resource: &Arc<str>, field: &str) -> Option<FieldPath> {
        self.field_paths.lock().get(&(resource.clone(), field.into())).cloned()
    }

    /// Notes that the server has refused a question about a resource. Returns whether it is the first one.
    pub(crate) fn is_first_refusal(&self, resource: &Arc<str>) -> bool {
        self.refused.lock().insert(resource.clone())
    }

    /// Returns the informer of a resource, if a read has used it and it was not removed.
    pub(crate) fn informer(&self, resource: &str) -> Option<Informer<()>> {
        let known = self.numbered(resource)?;
        (!known.informer.is_stopped()).then_some(known.informer)
    }
}

/// The name of a resource, as kubectl has it: `pods`, `deployments.apps`.
pub(crate) fn resource_name(group: &str, plural: &str) -> Arc<str> {
    match group.is_empty() {
        true => plural.into(),
        false => format!("{plural}.{group}").into(),
    }
}
