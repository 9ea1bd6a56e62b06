//! The demo's informers: what a controller would have, in small.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer_apiserver::ApiServer;
use kinformer_core::{Object, Tombstone};
use kinformer_kube::KubeListerWatcher;
use kinformer_processor::{Buffer, Event, EventHandlerFuncs, HandlerStats, Registration};
use kinformer_shared_informer::{SharedIndexInformer, SharedIndexInformerBuilder};
use kinformer_store::{IndexFunction, NAMESPACE_INDEX};
use kube_client::Client;
use kube_core::Resource;
use serde::de::DeserializeOwned;

use super::clock::Clock;
use super::screen::Screen;
use super::story::{self, Told};
use super::view::{self, APP_INDEX, NODE_INDEX};
use crate::exit::{Error, chain};
use crate::informers::Running;

/// Three informers and their handlers.
pub(crate) struct Informers {
    pods: Running<Pod>,
    nodes: Running<Node>,
    deployments: Running<Deployment>,
    /// One that tells of events, of each informer.
    tellers: Vec<Registration>,
    /// One that counts pods that do not run.
    _watchman: Registration,
    trouble: Arc<Trouble>,
    told: Arc<Counts>,
}

/// What handlers were told since the first lists.
#[derive(Debug, Default)]
struct Counts {
    adds: AtomicU64,
    updates: AtomicU64,
    deletes: AtomicU64,
}

/// Pods that do not run.
#[derive(Debug, Default)]
struct Trouble {
    now: AtomicU64,
    ever: AtomicU64,
}

/// What a summary says of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) adds: u64,
    pub(crate) updates: u64,
    pub(crate) deletes: u64,
    pub(crate) troubled_now: u64,
    pub(crate) troubled_ever: u64,
    /// How many events wait for the slowest handler.
    pub(crate) waiting: usize,
}

impl Informers {
    /// Adds the handlers and starts the informers.
    ///
    /// # Errors
    /// The server cannot be talked to.
    pub(crate) fn start(server: &ApiServer, screen: &Screen, clock: &Clock) -> Result<Self, Error> {
        let client = kinformer_kube::client(server.config()?)
            .map_err(|error| Error::Config { what: server.url(), reason: chain(&error) })?;
        let pods = informer::<Pod>(&client)
            .index(NAMESPACE_INDEX, IndexFunction::by_namespace())
            .index(APP_INDEX, IndexFunction::by_label("app"))
            .index(
                NODE_INDEX,
                IndexFunction::new(|pod: &Pod, values| {
                    if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
                        values.push(node);
                    }
                }),
            )
            .build()
            .map_err(mistake)?;
        let nodes = informer::<Node>(&client).build().map_err(mistake)?;
        let deployments = informer::<Deployment>(&client)
            .index(NAMESPACE_INDEX, IndexFunction::by_namespace())
            .build()
            .map_err(mistake)?;

        let told = Arc::new(Counts::default());
        let tellers = vec![
            tell(&pods, screen, clock, &told)?,
            tell(&nodes, screen, clock, &told)?,
            tell(&deployments, screen, clock, &told)?,
        ];
        let trouble = Arc::new(Trouble::default());
        let watchman = watch(&pods, &trouble)?;
        Ok(Self {
            pods: Running::start(pods),
            nodes: Running::start(nodes),
            deployments: Running::start(deployments),
            tellers,
            _watchman: watchman,
            trouble,
            told,
        })
    }

    /// How many objects there are to be told of at first.
    ///
    /// # Errors
    /// None, really: the kinds are served.
    pub(crate) fn expected(&self, server: &ApiServer) -> Result<u64, Error> {
        let count = server.count("v1", "Pod")?
            + server.count("v1", "Node")?
            + server.count("apps/v1", "Deployment")?;
        Ok(count as u64)
    }

    /// How many events the tellers have been told.
    pub(crate) fn told(&self) -> u64 {
        self.tellers.iter().map(|teller| teller.stats().delivered).sum()
    }

    /// Waits until all of them have synced, and all their tellers have told everything. Cancel safe.
    ///
    /// # Errors
    /// [`Error::Late`]: one has ended.
    pub(crate) async fn synced(&self) -> Result<(), Error> {
        for teller in &self.tellers {
            teller.synced().await.map_err(|error| Error::Late(error.to_string()))?;
        }
        Ok(())
    }

    /// How many objects the stores hold.
    pub(crate) fn objects(&self) -> usize {
        let (pods, nodes) = (&self.pods.informer, &self.nodes.informer);
        pods.snapshot().len() + nodes.snapshot().len() + self.deployments.informer.snapshot().len()
    }

    /// What they have done so far.
    pub(crate) fn figures(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let waiting = |stats: HandlerStats| stats.depth;
        Figures {
            adds: read(&self.told.adds),
            updates: read(&self.told.updates),
            deletes: read(&self.told.deletes),
            troubled_now: read(&self.trouble.now),
            troubled_ever: read(&self.trouble.ever),
            waiting: self.tellers.iter().map(|teller| waiting(teller.stats())).max().unwrap_or(0),
        }
    }

    /// What the stores hold, in tables.
    ///
    /// # Errors
    /// None, really: the indexes are there.
    pub(crate) fn tables(&self) -> Result<String, Error> {
        let (pods, nodes) = (self.pods.informer.snapshot(), self.nodes.informer.snapshot());
        view::tables(&pods, &nodes, &self.deployments.informer.snapshot()).map_err(mistake)
    }

    /// Ends all of them.
    pub(crate) async fn stop(self) {
        tokio::join!(self.pods.stop(), self.nodes.stop(), self.deployments.stop());
    }
}

fn informer<K>(client: &Client) -> SharedIndexInformerBuilder<K>
where
    K: Object + Resource<DynamicType = ()> + DeserializeOwned,
{
    SharedIndexInformer::builder(KubeListerWatcher::<K>::new(client.clone()))
        .named(K::plural(&()).into_owned())
}

/// Every event, in order, as a line.
fn tell<K: Told + 'static>(
    informer: &SharedIndexInformer<K>,
    screen: &Screen,
    clock: &Clock,
    told: &Arc<Counts>,
) -> Result<Registration, Error> {
    let (screen, clock, told) = (screen.clone(), clock.clone(), told.clone());
    let colours = screen.has_colours();
    let handler = move |event: Event<K>| {
        let counter = match &event {
            Event::Added { in_initial_list: true, .. } => None,
            Event::Added { .. } => Some(&told.adds),
            Event::Updated { .. } => Some(&told.updates),
            Event::Deleted(_) => Some(&told.deletes),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
            if let Some(object) = event.object() {
                clock.heard(&object.resource_version());
            }
        }
        let line = story::line(&event).map(|line| line.shown(colours));
        let screen = screen.clone();
        async move {
            if let Some(line) = line {
                // Whoever does not look any more has missed it.
                let _ = screen.line(line).await;
            }
        }
    };
    informer.handler().named("teller").add_async(handler).map_err(mistake)
}

/// Pods that do not run: a filter makes additions and deletions of what a pod goes through, and of what happens
/// between two looks only the end counts.
fn watch(informer: &SharedIndexInformer<Pod>, trouble: &Arc<Trouble>) -> Result<Registration, Error> {
    let (one_more, one_less) = (trouble.clone(), trouble.clone());
    let handler = EventHandlerFuncs::new()
        .on_add(move |_: &Arc<Pod>, _| {
            one_more.now.fetch_add(1, Ordering::Relaxed);
            one_more.ever.fetch_add(1, Ordering::Relaxed);
        })
        .on_delete(move |_: &Tombstone<Pod>| {
            one_less.now.fetch_sub(1, Ordering::Relaxed);
        });
    let builder = informer.handler().named("watchman").buffer(Buffer::Coalesced);
    builder.filter(|pod| story::condition(pod) != "Running").inline().add(handler).map_err(mistake)
}

/// Nothing that a user could have done.
fn mistake(error: impl std::error::Error + 'static) -> Error {
    Error::Runtime(std::io::Error::other(chain(&error)))
}
