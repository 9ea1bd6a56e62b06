//! Informers over a cluster's resources, and how they end.

use std::time::Duration;

use kinformer::{
    FromWire, KubeListerWatcher, Object, SharedIndexInformer, SharedIndexInformerBuilder, WatchListMode,
};
use kinformer_store::Indexers;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::ReadingArgs;
use crate::exit::Error;
use crate::resources::Served;
use crate::session::Session;
use crate::verdict::{Judge, Verdict};

/// How long handlers may take to return at the end.
const GRACE: Duration = Duration::from_secs(5);

/// What is selected of a resource.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selected<'a> {
    /// `None` for all.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) labels: Option<&'a str>,
    pub(crate) fields: Option<&'a str>,
}

/// An informer that runs.
pub(crate) struct Running<T: Object> {
    pub(crate) informer: SharedIndexInformer<T>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl<T: Object> Running<T> {
    /// Starts an informer.
    pub(crate) fn start(informer: SharedIndexInformer<T>) -> Self {
        let stop = CancellationToken::new();
        let (running, stopping) = (informer.clone(), stop.clone());
        let task = tokio::spawn(async move {
            tracing::info!(informer = running.name(), "started");
            if let Err(error) = running.run(stopping).await {
                tracing::warn!(%error, "an informer did not end well");
            }
        });
        Self { informer, stop, task }
    }

    /// Ends it, and waits until none of its tasks is left.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "an informer did not end well");
        }
    }
}

/// An informer to be started for one resource, and what will tell if it can never sync.
///
/// # Errors
/// Two indexes have the same name, which would be a mistake of this program.
pub(crate) fn build<T: Object + FromWire>(
    session: &Session,
    served: &Served,
    mut source: KubeListerWatcher<T>,
    selected: Selected<'_>,
    reading: ReadingArgs,
    indexers: Indexers<T>,
) -> Result<(SharedIndexInformer<T>, Verdict), Error> {
    let mut what = format!("list {}", served.name());
    if let Some(namespace) = selected.namespace {
        source = source.namespace(namespace);
        what = format!("{what} in namespace {namespace:?}");
    }
    if let Some(selector) = selected.labels {
        source = source.labels(selector);
    }
    if let Some(selector) = selected.fields {
        source = source.fields(selector);
    }
    if let Some(encoding) = reading.encoding {
        source = source.encoding(encoding);
    }
    let (judge, verdict) = Judge::new(&session.connection.server, &what);
    let mut informer: SharedIndexInformerBuilder<T> = SharedIndexInformer::builder(source);
    if !reading.watch_list {
        informer = informer.reflector(|options| options.watch_list(WatchListMode::Off));
    }
    let informer = informer
        .named(served.name())
        .indexers(indexers)
        .grace(GRACE)
        .on_error(move |failure| judge.hear(failure))
        .build()
        .map_err(|error| Error::Usage(error.to_string()))?;
    Ok((informer, verdict))
}
