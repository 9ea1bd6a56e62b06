//! What a cache and its kinds share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kinformer::{Informer, Part, ResourceVersion, SharedInformerFactory};
use kube_client::Client;
use kube_core::discovery::ApiResource;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::mapper::RestMapper;
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

pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) factory: SharedInformerFactory,
    pub(crate) mapper: RestMapper,
    pub(crate) settings: Settings,
    pub(crate) writes: Writes,
    /// The informers that reads of metadata use, by the version and the name of their resource.
    metadata: Mutex<HashMap<String, Informer<()>>>,
    /// One request for the version of a write of a resource at a time, so that many reads of one write send one.
    questions: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
    /// The resources whose questions the server has refused.
    refused: Mutex<HashSet<Arc<str>>>,
    is_started: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        client: Client,
        factory: SharedInformerFactory,
        mapper: RestMapper,
        settings: Settings,
    ) -> Self {
        let kept = settings.kept;
        Self {
            client,
            factory,
            mapper,
            settings,
            writes: Writes::new(kept),
            metadata: Mutex::default(),
            questions: Mutex::default(),
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

    /// The informer that reads of the metadata of a resource use, until it has stopped; `None` if there was no such read.
    pub(crate) fn metadata_informer(&self, resource: &ApiResource) -> Option<Informer<()>> {
        let known = self.metadata.lock().get(&versioned_name(resource)).cloned();
        known.filter(|informer| !informer.status().is_stopped())
    }

    /// Makes further reads of the metadata of a resource use this informer, unless they use another one. Returns theirs.
    pub(crate) fn share_metadata(&self, resource: &ApiResource, informer: Informer<()>) -> Informer<()> {
        let name = versioned_name(resource);
        let mut of_metadata = self.metadata.lock();
        let known = of_metadata.get(&name).filter(|known| !known.status().is_stopped()).cloned();
        let stopped = if known.is_none() { of_metadata.insert(name, informer.clone()) } else { None };
        drop(of_metadata); // first, since the drop of an informer may run user code
        drop(stopped);
        known.unwrap_or(informer)
    }

    /// Forgets the informer of the metadata of a resource, which is removed.
    pub(crate) fn forget_metadata(&self, resource: &ApiResource) {
        let forgotten = self.metadata.lock().remove(&versioned_name(resource));
        drop(forgotten); // without the lock
    }

    /// The permit to ask the server for the version of a write of a resource.
    pub(crate) fn question(&self, resource: &Arc<str>) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(1));
        self.questions.lock().entry(resource.clone()).or_insert_with(new).clone()
    }

    /// The informers of what is stored under a [name](storage_name), one for each group and version that was requested.
    pub(crate) fn informers(&self, stored: &str) -> Vec<Informer<()>> {
        let (plural, group) = stored.split_once('.').unwrap_or((stored, ""));
        let mut informers = self.factory.informers_of(group, plural);
        if stored == "events" {
            informers.extend(self.factory.informers_of(EVENTS, plural));
        }
        informers
    }

    /// Makes reads wait for the writes that the informers before had, if others have taken their place.
    pub(crate) fn note_informers(&self, resource: &ApiResource) {
        let stored = storage_name(&resource.group, &resource.plural);
        let mut informers = Vec::new();
        self.writes.note_state(&stored, || self.noted(&stored, &mut informers));
    }

    /// Returns the state of the informers for the record of writes, under whose lock it is called: an informer that is made
    /// meanwhile is in it, so that the record does not take a write for seen by all. Adds the informers to `read`, which
    /// outlives the lock, since the drop of an informer may run user code.
    pub(crate) fn noted(&self, stored: &str, read: &mut Vec<Informer<()>>) -> Option<Noted> {
        let informers = self.informers(stored);
        let noted = noted(&informers);
        read.extend(informers);
        noted
    }

    /// Notes that the server has refused a question about a resource. Returns whether it is the first one.
    pub(crate) fn is_first_refusal(&self, resource: &Arc<str>) -> bool {
        self.refused.lock().insert(resource.clone())
    }
}

/// The lowest version of informers; unset if there are none, or one has no version.
pub(crate) fn lowest_version(informers: &[Informer<()>]) -> ResourceVersion {
    let version = |informer: &Informer<()>| {
        informer.snapshot().map_or(ResourceVersion::UNSET, |snapshot| snapshot.resource_versions().lowest())
    };
    lowest(informers.iter().map(version))
}

/// The lowest of versions; unset if there are none, or they have no order.
pub(crate) fn lowest(versions: impl Iterator<Item = ResourceVersion>) -> ResourceVersion {
    let lowest = versions.reduce(|lowest, version| match version.compare(&lowest) {
        Some(order) if order.is_lt() => version,
        Some(_) => lowest,
        None => ResourceVersion::UNSET,
    });
    lowest.unwrap_or(ResourceVersion::UNSET)
}

/// Returns the state of informers for the record of writes; `None` if there are none.
fn noted(informers: &[Informer<()>]) -> Option<Noted> {
    // Before the version, so that a version after it is not taken for one before.
    let went_back = |part: &Part| part.reflector().metrics().versions_went_back;
    let of_informer = |informer: &Informer<()>| {
        (informer.id(), informer.status().parts().iter().map(went_back).sum::<u64>())
    };
    let noted = informers.iter().map(of_informer).collect();
    (!informers.is_empty()).then(|| Noted { informers: noted, version: lowest_version(informers) })
}

/// The name of a resource, as kubectl has it: `pods`, `deployments.apps`.
pub(crate) fn resource_name(group: &str, plural: &str) -> Arc<str> {
    match group.is_empty() {
        true => plural.into(),
        false => format!("{plural}.{group}").into(),
    }
}

fn versioned_name(resource: &ApiResource) -> String {
    format!("{}/{}", resource.api_version, resource.plural)
}

/// The group whose events are those of the core group.
const EVENTS: &str = "events.k8s.io";

/// The name under which the objects of a resource are stored, whatever their version: that of the resource, but two groups
/// have the same events.
pub(crate) fn storage_name(group: &str, plural: &str) -> Arc<str> {
    resource_name(if (group, plural) == (EVENTS, "events") { "" } else { group }, plural)
}
