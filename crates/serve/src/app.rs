//! The state that all requests share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube_client::Client;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::ask_limit::AskLimit;
use crate::change::Encoded;
use crate::checks::Checks;
use crate::controllers::Controllers;
use crate::encodings::Encodings;
use crate::failures::FailureLog;
use crate::format::rfc3339;
use crate::guard::Guard;
use crate::hidden::HiddenFields;
use crate::limits::Limits;
use crate::memory::{Memory, Recorded};
use crate::metrics::Metrics;
use crate::query::Query;
use crate::reply::Failure;
use crate::state::{self, InformerState, States};
use crate::streams::Streams;
use crate::trends::Trends;
use crate::views::Views;
use crate::watched::Watched;

/// How long the state of all informers is kept for other streams.
const STATE_AGE: Duration = Duration::from_millis(500);
/// How many lists are selected and sorted, or pages and objects encoded, at the same time.
const READS: usize = 2;

/// The state of a server.
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) memory: Arc<Memory>,
    encodings: Encodings,
    pub(crate) views: Views,
    pub(crate) trends: Trends,
    pub(crate) metrics: Metrics,
    pub(crate) ask_limit: AskLimit,
    /// Permits of requests; streams have a limit of their own.
    pub(crate) requests: Arc<Semaphore>,
    pub(crate) streams: Arc<Streams>,
    reads: Arc<Semaphore>,
    /// As `reads`, for the provider of controllers, which may block.
    controller_reads: Arc<Semaphore>,
    pub(crate) started_at: Timestamp,
    pub(crate) shutdown: CancellationToken,
    informers: RwLock<Vec<Arc<Watched>>>,
    /// Held while an informer is added.
    adding: Mutex<()>,
    state: Mutex<Option<(Instant, Arc<str>)>>,
}

/// The parts of an [`App`] that the builder decides.
pub(crate) struct Settings {
    pub(crate) guard: Guard,
    pub(crate) hidden: HiddenFields,
    pub(crate) show_secrets: bool,
    pub(crate) cluster: String,
    pub(crate) limits: Limits,
    /// The clients for single reads, by cluster.
    pub(crate) clients: HashMap<String, Client>,
    /// The fields that each index reads, by the name of the index.
    pub(crate) index_fields: HashMap<String, Vec<String>>,
    /// The logs of objects that could not be stored, by cluster.
    pub(crate) failures: HashMap<String, FailureLog>,
    pub(crate) checks: Checks,
    pub(crate) controllers: Option<Arc<dyn Controllers>>,
    pub(crate) surface: Surface,
    pub(crate) access: Option<Access>,
}

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surface {
    All,
    /// The health and the metrics: no page and no data of objects.
    MetricsOnly,
}

impl App {
    pub(crate) fn new(settings: Settings, metrics: Metrics) -> Self {
        let limits = &settings.limits;
        let started_at = Timestamp::now();
        let memory = Arc::new(Memory::new(limits.memory(), first_id(started_at)));
        Self {
            encodings: Encodings::new(),
            views: Views::new(limits.views_bounds()),
            trends: Trends::default(),
            metrics,
            ask_limit: AskLimit::default(),
            requests: Arc::new(Semaphore::new(limits.requests)),
            streams: Streams::new(limits.streams, memory.last()),
            reads: Arc::new(Semaphore::new(READS)),
            controller_reads: Arc::new(Semaphore::new(READS)),
            started_at,
            shutdown: CancellationToken::new(),
            informers: RwLock::default(),
            adding: Mutex::default(),
            state: Mutex::default(),
            memory,
            settings,
        }
    }

    /// All informers, in the order in which they were added.
    pub(crate) fn informers(&self) -> Vec<Arc<Watched>> {
        self.informers.read().clone()
    }

    /// The informer of a number.
    pub(crate) fn watched(&self, number: usize) -> Option<Arc<Watched>> {
        self.informers.read().get(number).cloned()
    }

    /// Adds an informer. Adding one again has no effect.
    ///
    /// # Errors
    /// [`crate::Error::DuplicateInformer`], [`crate::Error::Informer`].
    pub(crate) fn add(
        &self,
        informer: kinformer::Informer<kinformer::kube_core::DynamicObject>,
    ) -> Result<(), crate::Error> {
        let (resource, scope) = (informer.selection().resource(), informer.selection().scope().to_owned());
        let cluster = informer.status().metrics().cluster;
        // The number is that of the changes which the handler records, so calls follow each other.
        let adding = self.adding.lock();
        let known = self.informers();
        if known.iter().any(|watched| watched.informer.id() == informer.id()) {
            return Ok(());
        }
        if known.iter().any(|watched| watched.is_named(&resource, Some(&cluster), Some(&scope))) {
            return Err(crate::Error::DuplicateInformer { resource, cluster: cluster.to_string(), scope });
        }
        let settings = &self.settings;
        let new = Watched::new(
            known.len(),
            informer.clone(),
            (settings.surface == Surface::All).then_some(&self.memory),
            settings.show_secrets,
            &settings.hidden,
        )?;
        self.informers.write().push(Arc::new(new));
        drop(adding);
        self.metrics.add(&informer);
        Ok(())
    }

    /// Returns the informer of a request. An empty cluster or scope is that of the informers without one.
    ///
    /// # Errors
    /// 404 with the names of the informers; 400 if several have the name.
    pub(crate) fn find(&self, name: &str, query: &Query) -> Result<Arc<Watched>, Failure> {
        let informers = self.informers();
        let (cluster, scope) = (query.value("cluster"), query.value("scope"));
        let place = |watched: &Watched| format!("cluster={:?} scope={:?}", &*watched.cluster, watched.scope);
        let mut found = informers.iter().filter(|watched| watched.is_named(name, cluster, scope));
        let Some(first) = found.next() else {
            if let Some(other) = informers.iter().find(|watched| watched.name() == name) {
                return Err(Failure::not_found(format!(
                    "no informer {name:?} has this cluster and scope; there is one with {}",
                    place(other)
                )));
            }
            let names: Vec<&str> = informers.iter().map(|watched| watched.name()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(Failure::not_found(format!(
                "there is no such informer {name:?}; the informers are: {names}"
            )));
        };
        if let Some(second) = found.next() {
            return Err(Failure::bad_request(format!(
                "several informers have the name {name:?}; choose one by {} or {}",
                place(first),
                place(second)
            )));
        }
        Ok(first.clone())
    }

    /// The log of the cluster of an informer.
    pub(crate) fn failures_of(&self, watched: &Watched) -> Option<&FailureLog> {
        self.settings.failures.get(&*watched.cluster)
    }

    /// Returns a change as it is sent.
    ///
    /// # Errors
    /// 500 if encoding it panics, or if its informer is being added.
    pub(crate) async fn encoded(self: &Arc<Self>, change: &Arc<Recorded>) -> Result<Encoded, Failure> {
        if let Some(encoded) = self.encodings.kept(change.id) {
            return Ok(encoded);
        }
        let added = self.watched(change.informer);
        let watched = added.ok_or_else(|| Failure::internal("the informer is not added yet"))?;
        let (app, recorded) = (self.clone(), change.clone());
        let encode = move || {
            app.metrics.encoded();
            Encoded::of(&recorded, watched.names(), &app.settings.hidden)
        };
        self.encodings.get(change.id, encode).await
    }

    /// Calls a function that reads many objects or a large one: not on the workers of the runtime, which answer probes, and
    /// two at a time.
    ///
    /// # Errors
    /// 500 if it panics.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        blocking(&self.reads, read).await
    }

    /// Calls the provider of controllers as [`Self::read`]; `None` if there is none.
    ///
    /// # Errors
    /// 500 if it panics.
    pub(crate) async fn read_controllers<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Controllers) -> T + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        let Some(provider) = self.settings.controllers.clone() else { return Ok(None) };
        blocking(&self.controller_reads, move || read(&*provider)).await.map(Some)
    }

    /// Reads the state of all informers.
    pub(crate) async fn states(self: &Arc<Self>) -> Result<States, Failure> {
        let app = self.clone();
        let read = tokio::task::spawn_blocking(move || States {
            time: state::now(),
            started_at: rfc3339(app.started_at),
            cluster: app.settings.cluster.clone(),
            events_kept: app.settings.limits.changes,
            informers: app
                .informers()
                .iter()
                .map(|watched| InformerState::of(watched, &app.trends, app.failures_of(watched)))
                .collect(),
        });
        read.await.map_err(|error| Failure::internal(error.to_string()))
    }

    /// The state of all informers as JSON, at most half a second old.
    pub(crate) async fn state_json(self: &Arc<Self>) -> Result<Arc<str>, Failure> {
        if let Some((at, json)) = self.state.lock().clone()
            && at.elapsed() < STATE_AGE
        {
            return Ok(json);
        }
        let states = self.states().await?;
        let json = serde_json::to_string(&states).map_err(|error| Failure::internal(error.to_string()))?;
        let json: Arc<str> = json.into();
        *self.state.lock() = Some((Instant::now(), json.clone()));
        Ok(json)
    }
}

async fn blocking<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let permit = permits.clone().acquire_owned().await;
    let reading = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        read()
    });
    reading.await.map_err(|error| Failure::internal(error.to_string()))
}

/// The identifier of the first change of a server: higher than those of servers before it, also in the same second, which
/// had fewer than a million changes in a second. Below 2^53, so that JavaScript has exact numbers, until the year 2255.
fn first_id(started_at: Timestamp) -> u64 {
    u64::try_from(started_at.as_microsecond()).unwrap_or(0)
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("informers", &self.informers.read().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: H-10b
    #[test]
    fn identifiers_of_a_server_are_above_those_of_earlier_ones() {
        let started: Timestamp = "2026-01-01T00:00:00.1Z".parse().unwrap();
        let again: Timestamp = "2026-01-01T00:00:00.2Z".parse().unwrap();
        assert!(first_id(again) > first_id(started) + 10_000);
        assert!(first_id("2250-01-01T00:00:00Z".parse().unwrap()) + (1 << 40) < 1 << 53);
    }
}
