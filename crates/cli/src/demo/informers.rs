//! The demo's informers: what a controller would have, in small.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::{
    Added, Buffer, Event, EventHandlerFuncs, Informer, InformerError, Packed, PackedRef, Registration,
    SharedInformerFactory,
};
use kinformer_apiserver::ApiServer;
use kinformer_core::internal::with_causes;

use super::clock::Clock;
use super::screen::Show;
use super::story::{self, Told};
use super::view::{self, APP_INDEX, NODE_INDEX};
use crate::exit::Error;
use crate::text::Line;

/// How long handlers may take to return at the end.
const GRACE: Duration = Duration::from_secs(2);

/// A factory with three informers, and their handlers.
pub(crate) struct Informers {
    factory: SharedInformerFactory,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    deployments: Informer<Deployment>,
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
    /// Adds the indexes and handlers, and starts the informers.
    ///
    /// # Errors
    /// The server cannot be talked to.
    pub(crate) fn start(server: &ApiServer, screen: &Show, clock: &Clock) -> Result<Self, Error> {
        let client = kinformer::client(server.config()?)
            .map_err(|error| Error::Config { what: server.url(), reason: with_causes(&error) })?;
        let factory = SharedInformerFactory::builder(client).grace(GRACE).build();
        let pods = factory.core().v1().pods();
        let nodes = factory.core().v1().nodes();
        let deployments = factory.apps().v1().deployments();
        // Every object is read again and again.
        pods.decode_on_arrival();
        nodes.decode_on_arrival();
        deployments.decode_on_arrival();
        add_indexes(&pods).map_err(mistake)?;

        let told = Arc::new(Counts::default());
        let tellers = vec![
            tell(&pods, screen, clock, &told)?,
            tell(&nodes, screen, clock, &told)?,
            tell(&deployments, screen, clock, &told)?,
        ];
        let trouble = Arc::new(Trouble::default());
        let watchman = watch(&pods, &trouble)?;
        factory.start().map_err(mistake)?;
        Ok(Self { factory, pods, nodes, deployments, tellers, _watchman: watchman, trouble, told })
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
        self.tellers.iter().map(|teller| teller.metrics().delivered).sum()
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
        self.pods.snapshot().len() + self.nodes.snapshot().len() + self.deployments.snapshot().len()
    }

    /// What they have done so far.
    pub(crate) fn figures(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            adds: read(&self.told.adds),
            updates: read(&self.told.updates),
            deletes: read(&self.told.deletes),
            troubled_now: read(&self.trouble.now),
            troubled_ever: read(&self.trouble.ever),
            waiting: self.tellers.iter().map(|teller| teller.metrics().depth).max().unwrap_or(0),
        }
    }

    /// What the stores hold, in tables.
    ///
    /// # Errors
    /// None, really: the indexes are there.
    pub(crate) fn tables(&self) -> Result<Vec<Line>, Error> {
        let deployments = self.deployments.snapshot();
        view::tables(&self.pods.snapshot(), &self.nodes.snapshot(), &deployments).map_err(mistake)
    }

    /// Ends all of them, and waits until none of their tasks is left.
    pub(crate) async fn stop(self) {
        if let Err(error) = self.factory.shutdown().await {
            tracing::warn!(%error, "an informer did not end well");
        }
    }
}

/// The indexes by which the tables find pods.
///
/// # Errors
/// They are there already.
pub(super) fn add_indexes(pods: &Informer<Pod>) -> Result<(), InformerError> {
    pods.index_by_field(NODE_INDEX, &["spec", "nodeName"])?;
    pods.index(APP_INDEX, |pod, values| {
        pod.label("app").into_iter().for_each(|app| values.push(app));
        Ok(())
    })
}

/// Every event, in order, as a line.
fn tell<K: Told>(
    informer: &Informer<K>,
    screen: &Show,
    clock: &Clock,
    told: &Arc<Counts>,
) -> Result<Registration, Error> {
    let (screen, clock, told) = (screen.clone(), clock.clone(), told.clone());
    let colours = screen.has_colours();
    let handler = move |event: Event<Packed<K>>| {
        let counter = match &event {
            Event::Added(Added { in_initial_list: true, .. }) => None,
            Event::Added(_) => Some(&told.adds),
            Event::Updated(_) => Some(&told.updates),
            Event::Deleted(_) => Some(&told.deletes),
            _ => None,
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
    informer.handler().name("teller").for_each_async(handler).map_err(mistake)
}

/// Pods that do not run: a filter makes additions and deletions of what a pod goes through, and of what happens
/// between two looks only the end counts.
fn watch(informer: &Informer<Pod>, trouble: &Arc<Trouble>) -> Result<Registration, Error> {
    let (one_more, one_less) = (trouble.clone(), trouble.clone());
    let handler = EventHandlerFuncs::new()
        .on_add(move |_: &Added<Packed<Pod>>| {
            one_more.now.fetch_add(1, Ordering::Relaxed);
            one_more.ever.fetch_add(1, Ordering::Relaxed);
        })
        .on_delete(move |_| {
            one_less.now.fetch_sub(1, Ordering::Relaxed);
        });
    let builder = informer.handler().name("watchman").buffer(Buffer::Coalesced);
    let does_not_run =
        |pod: PackedRef<'_, Pod>| pod.decode().is_ok_and(|pod| story::condition(&pod) != "Running");
    builder.filter(does_not_run).inline().add(handler).map_err(mistake)
}

/// Nothing that a user could have done.
fn mistake(error: impl std::error::Error + 'static) -> Error {
    Error::Runtime(std::io::Error::other(with_causes(&error)))
}
