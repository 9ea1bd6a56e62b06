//! The demo's informers: those of a small controller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::{
    Added, Buffer, CancellationToken, Event, EventHandlerFuncs, Failure, Informer, Packed, PackedRef,
    Registration, SharedInformerFactory,
};
use kinformer_apiserver::ApiServer;
use kinformer_core::internal::with_causes;
use kinformer_serve::{FailureLog, Server, ServerBuilder};

use super::lag::LagRecorder;
use super::narration::{self, Describe};
use super::screen::ScreenWriter;
use super::slow_report;
use super::view::{self, APP_INDEX, NODE_INDEX};
use crate::exit::Error;
use crate::text::Line;

/// How long handlers may take to return during shutdown.
const GRACE: Duration = Duration::from_secs(2);

/// A factory with three informers and their handlers.
pub(crate) struct Informers {
    failures: FailureLog,
    factory: SharedInformerFactory,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    deployments: Informer<Deployment>,
    /// The handler of each informer that prints events.
    event_handlers: Vec<Registration>,
    /// The handler that counts pods that are not running.
    _not_running_handler: Registration,
    /// The handler that is slow at times, for the page to show.
    _slow_report_handler: Registration,
    /// Ends the callback of the slow handler.
    stopping: CancellationToken,
    not_running: Arc<NotRunning>,
    counts: Arc<Counts>,
}

/// Events delivered since the initial lists.
#[derive(Debug, Default)]
struct Counts {
    adds: AtomicU64,
    updates: AtomicU64,
    deletes: AtomicU64,
}

/// Counts of pods that are not running.
#[derive(Debug, Default)]
struct NotRunning {
    now: AtomicU64,
    ever: AtomicU64,
}

/// The figures of a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) adds: u64,
    pub(crate) updates: u64,
    pub(crate) deletes: u64,
    pub(crate) not_running_now: u64,
    pub(crate) not_running_ever: u64,
    /// The largest backlog of a handler, in events.
    pub(crate) waiting: usize,
}

impl Informers {
    /// Adds the indexes and handlers, and starts the informers.
    ///
    /// # Errors
    /// The client cannot be built.
    pub(crate) fn start(server: &ApiServer, screen: &ScreenWriter, lag: &LagRecorder) -> Result<Self, Error> {
        let client = kinformer::client(server.config()?)
            .map_err(|error| Error::Config { what: server.url(), reason: with_causes(&error) })?;
        let failures = FailureLog::new();
        let log = failures.clone();
        let hook = move |failure: &Failure<'_>| log.record(failure);
        let factory = SharedInformerFactory::builder(client).grace(GRACE).on_error(hook).build();
        let pods = factory.core().v1().pods();
        let nodes = factory.core().v1().nodes();
        let deployments = factory.apps().v1().deployments();
        // The tables read every object on each refresh.
        pods.decode_on_arrival();
        nodes.decode_on_arrival();
        deployments.decode_on_arrival();
        add_indexes(&pods).map_err(mistake)?;

        let counts = Arc::new(Counts::default());
        let event_handlers = vec![
            print_events(&pods, screen, lag, &counts)?,
            print_events(&nodes, screen, lag, &counts)?,
            print_events(&deployments, screen, lag, &counts)?,
        ];
        let not_running = Arc::new(NotRunning::default());
        let not_running_handler = count_not_running(&pods, &not_running)?;
        let stopping = CancellationToken::new();
        let slow_report_handler = slow_report::add_to(&pods, &stopping).map_err(mistake)?;
        factory.start().map_err(mistake)?;
        Ok(Self {
            failures,
            factory,
            pods,
            nodes,
            deployments,
            event_handlers,
            _not_running_handler: not_running_handler,
            _slow_report_handler: slow_report_handler,
            stopping,
            not_running,
            counts,
        })
    }

    /// Returns a server of the informers over HTTP, with the page.
    pub(crate) fn server(&self) -> ServerBuilder {
        let builder =
            Server::builder().informer(&self.pods).informer(&self.nodes).informer(&self.deployments);
        builder.client(self.factory.client().clone()).failures(self.failures.clone()).cluster("demo")
    }

    /// Returns the number of objects in the initial lists.
    ///
    /// # Errors
    /// Practically none: the server has these kinds.
    pub(crate) fn expected(&self, server: &ApiServer) -> Result<u64, Error> {
        let count = server.count("v1", "Pod")?
            + server.count("v1", "Node")?
            + server.count("apps/v1", "Deployment")?;
        Ok(count as u64)
    }

    /// Returns the number of events that the event handlers have processed.
    pub(crate) fn delivered(&self) -> u64 {
        self.event_handlers.iter().map(|handler| handler.metrics().delivered).sum()
    }

    /// Waits until all event handlers have processed their initial lists.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the handlers, and a later call continues it.
    ///
    /// # Errors
    /// [`Error::Timeout`]: an informer has stopped.
    pub(crate) async fn synced(&self) -> Result<(), Error> {
        for handler in &self.event_handlers {
            handler.synced().await.map_err(|error| Error::Timeout(error.to_string()))?;
        }
        Ok(())
    }

    /// Returns the number of objects in the stores.
    ///
    /// # Errors
    /// Practically none: the informers have started.
    pub(crate) fn objects(&self) -> Result<usize, Error> {
        let (pods, nodes) = (self.pods.snapshot().map_err(mistake)?, self.nodes.snapshot().map_err(mistake)?);
        Ok(pods.len() + nodes.len() + self.deployments.snapshot().map_err(mistake)?.len())
    }

    /// Returns the current figures.
    pub(crate) fn figures(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            adds: read(&self.counts.adds),
            updates: read(&self.counts.updates),
            deletes: read(&self.counts.deletes),
            not_running_now: read(&self.not_running.now),
            not_running_ever: read(&self.not_running.ever),
            waiting: self.event_handlers.iter().map(|handler| handler.metrics().depth).max().unwrap_or(0),
        }
    }

    /// Formats the contents of the stores as tables for a terminal of this width.
    ///
    /// # Errors
    /// Practically none: the informers have started and the indexes exist.
    pub(crate) fn tables(&self, width: usize) -> Result<Vec<Line>, Error> {
        let (pods, nodes) = (self.pods.snapshot().map_err(mistake)?, self.nodes.snapshot().map_err(mistake)?);
        let deployments = self.deployments.snapshot().map_err(mistake)?;
        view::tables(&pods, &nodes, &deployments, width).map_err(mistake)
    }

    /// Stops all informers, and waits until their tasks have ended.
    pub(crate) async fn stop(self) {
        self.stopping.cancel();
        if let Err(error) = self.factory.shutdown().await {
            tracing::warn!(%error, "informer did not shut down cleanly");
        }
    }
}

/// Adds the indexes that the tables use.
///
/// # Errors
/// The indexes exist already.
pub(super) fn add_indexes(pods: &Informer<Pod>) -> Result<(), kinformer::Error> {
    pods.index_by_field(NODE_INDEX, &["spec", "nodeName"])?;
    pods.index(APP_INDEX, |pod, values| {
        pod.label("app").into_iter().for_each(|app| values.push(app));
        Ok(())
    })
}

/// Adds a handler that prints every event, in order, one per line.
fn print_events<K: Describe>(
    informer: &Informer<K>,
    screen: &ScreenWriter,
    lag: &LagRecorder,
    counts: &Arc<Counts>,
) -> Result<Registration, Error> {
    let (screen, lag, counts) = (screen.clone(), lag.clone(), counts.clone());
    let colours = screen.has_colours();
    let handler = move |event: Event<Packed<K>>| {
        let counter = match &event {
            Event::Added(Added { in_initial_list: true, .. }) => None,
            Event::Added(_) => Some(&counts.adds),
            Event::Updated(_) => Some(&counts.updates),
            Event::Deleted(_) => Some(&counts.deletes),
            // No namespace is left during the demo.
            Event::Left(_) => None,
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
            if let Some(object) = event.object() {
                lag.delivered(&object.resource_version());
            }
        }
        let line = narration::line(&event).map(|line| line.render(colours));
        let screen = screen.clone();
        async move {
            if let Some(line) = line {
                // An error means that the reader has closed the output.
                let _ = screen.line(line).await;
            }
        }
    };
    informer.handler().name("events").for_each_async(handler).map_err(mistake)
}

/// Adds a handler that counts pods that are not running. The filter turns transitions of a pod into additions and
/// deletions; the coalescing buffer reduces several of them to the last.
fn count_not_running(informer: &Informer<Pod>, not_running: &Arc<NotRunning>) -> Result<Registration, Error> {
    let (one_more, one_less) = (not_running.clone(), not_running.clone());
    let handler = EventHandlerFuncs::new()
        .on_add(move |_: &Added<Packed<Pod>>| {
            one_more.now.fetch_add(1, Ordering::Relaxed);
            one_more.ever.fetch_add(1, Ordering::Relaxed);
        })
        .on_delete(move |_| {
            one_less.now.fetch_sub(1, Ordering::Relaxed);
        });
    let builder = informer.handler().name("not-running").buffer(Buffer::Coalesced);
    let does_not_run =
        |pod: PackedRef<'_, Pod>| pod.decode().is_ok_and(|pod| narration::condition(&pod) != "Running");
    builder.filter(does_not_run).inline().add(handler).map_err(mistake)
}

/// Converts an error that only a bug in this program can cause.
fn mistake(error: impl std::error::Error + 'static) -> Error {
    Error::Runtime(std::io::Error::other(with_causes(&error)))
}
