//! What a cache and its kinds share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kinformer::{Informer, ResourceVersion, SharedInformerFactory};
use kube_client::Client;
use kube_core::discovery::ApiResource;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::mapper::RestMapper;
use crate::writes::{InformersState, Kept, ReadState, Writes};

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
    /// The informers that reads of metadata use.
    metadata: Mutex<HashMap<ApiResource, Informer<()>>>,
    /// One request for the version of a write of a resource at a time, so that many reads of one write send one.
    questions: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
    /// The resources whose questions the server has refused.
    refused: Mutex<HashSet<Arc<str>>>,
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
        }
    }

    /// Whether reads of a resource are answered by the server.
    pub(crate) fn is_live(&self, resource: &ApiResource) -> bool {
        self.settings.live.contains(&resource_name(&resource.group, &resource.plural))
    }

    /// The informer that reads of the metadata of a resource use, until it has stopped; `None` if there was no such read.
    pub(crate) fn metadata_informer(&self, resource: &ApiResource) -> Option<Informer<()>> {
        let known = self.metadata.lock().get(resource).cloned();
        known.filter(|informer| !informer.status().is_stopped())
    }

    /// Makes further reads of the metadata of a resource use this informer, unless they use another one. Returns theirs.
    pub(crate) fn share_metadata(&self, resource: &ApiResource, informer: Informer<()>) -> Informer<()> {
        let mut shared = self.metadata.lock();
        let known = shared.get(resource).filter(|known| !known.status().is_stopped()).cloned();
        let stopped = if known.is_none() { shared.insert(resource.clone(), informer.clone()) } else { None };
        drop(shared); // first, since the drop of an informer may run user code
        drop(stopped);
        known.unwrap_or(informer)
    }

    /// Forgets the informer of the metadata of a resource, which is removed.
    pub(crate) fn forget_metadata(&self, resource: &ApiResource) {
        let forgotten = self.metadata.lock().remove(resource);
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
        let mut informers = self.informers(&stored);
        self.writes.note_state(&stored, self.state_of(&stored, &mut informers));
    }

    /// Returns the function that reads the state of [these informers](Self::informers) for the record of writes, under whose
    /// lock it is called. It finds them again if they are not those of the last state: an informer that was made meanwhile is
    /// in the state, so that the record does not take a write for reflected by all. `informers` outlives the lock, since the
    /// drop of an informer may run user code.
    pub(crate) fn state_of<'a>(
        &'a self,
        stored: &'a str,
        informers: &'a mut Vec<Informer<()>>,
    ) -> impl ReadState + 'a {
        move |last: &InformersState| {
            let are_last = informers.iter().map(Informer::id).eq(last.informers.iter().map(|(id, _)| *id));
            let known = if are_last { 0 } else { informers.len() };
            if !are_last {
                informers.extend(self.informers(stored));
            }
            let informers = informers.get(known..).filter(|informers| !informers.is_empty())?;
            // Before the version, so that a version after it is not taken for one before.
            let went_back = informers.iter().map(|informer| (informer.id(), went_back(informer))).collect();
            Some(InformersState { informers: went_back, version: lowest_version(informers) })
        }
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

/// How often the reflectors of an informer have found that versions went back.
fn went_back(informer: &Informer<()>) -> u64 {
    informer.status().parts().iter().map(|part| part.reflector().versions_went_back()).sum()
}

/// The name of a resource, as kubectl has it: `pods`, `deployments.apps`.
pub(crate) fn resource_name(group: &str, plural: &str) -> Arc<str> {
    match group.is_empty() {
        true => plural.into(),
        false => format!("{plural}.{group}").into(),
    }
}

/// The group whose events are those of the core group.
const EVENTS: &str = "events.k8s.io";

/// The name under which the objects of a resource are stored, whatever their version: that of the resource, but two groups
/// have the same events.
pub(crate) fn storage_name(group: &str, plural: &str) -> Arc<str> {
    resource_name(if (group, plural) == (EVENTS, "events") { "" } else { group }, plural)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::Cache;

    /// An informer may be made between the search for informers and the lock of the record.
    // contract: C-08a
    #[tokio::test]
    async fn state_has_informers_that_were_made_meanwhile() {
        let client = kube_client::Config::new("http://127.0.0.1:1".parse().unwrap());
        let cache = Cache::builder(client.try_into().unwrap()).build().await.unwrap();
        let state_of = |informers: &mut Vec<_>, last| {
            let last = InformersState { informers: last, ..InformersState::default() };
            cache.shared.state_of("configmaps", informers)(&last).map(|state| state.informers)
        };
        let mut before = cache.shared.informers("configmaps");
        assert_eq!(state_of(&mut before, Vec::new()), None);
        let id = cache.kind::<ConfigMap>().informer().unwrap().id();
        let known = vec![(id, 0)];
        assert_eq!(state_of(&mut before, known.clone()), Some(known.clone()));
        let mut now = cache.shared.informers("configmaps");
        assert_eq!(state_of(&mut now, known.clone()), Some(known));
        assert_eq!(now.len(), 1, "they were not searched again");
    }
}
