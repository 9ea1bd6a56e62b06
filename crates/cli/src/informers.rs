//! Starting and stopping informers for a cluster's resources.

use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace;
use kinformer::{
    FieldPath, Informer, LabelSelector, ReflectorOptions, SharedInformerFactory,
    SharedInformerFactoryBuilder, WatchListMode,
};
use kinformer_serve::FailureLog;
use kube_core::discovery::Scope;
use kube_core::gvk::GroupVersionResource;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::args::ReadingArgs;
use crate::connect::Connection;
use crate::display_fields::DisplayFields;
use crate::exit::Error;
use crate::fatal_errors::{FatalError, FatalErrors};
use crate::namespaces::Namespaces;
use crate::outages::Outages;
use crate::resources::Served;
use crate::stop::Stop;

/// How long handlers may take to return during shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// How long the first list of namespaces may take.
const NAMESPACES: Duration = Duration::from_secs(120);

/// What to read of each resource, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    /// The namespaces of namespaced resources.
    pub(crate) namespaces: &'a Namespaces,
    pub(crate) labels: Option<&'a str>,
    pub(crate) fields: Option<&'a str>,
    /// Whether to fetch only metadata.
    pub(crate) metadata_only: bool,
    /// The fields of a resource to drop on arrival.
    pub(crate) dropped: fn(&Served) -> &'static [&'static [&'static str]],
    pub(crate) how: ReadingArgs,
}

/// The informer of the namespaces that the scope follows, and the receiver of its fatal error.
pub(crate) type Following = (Informer<DisplayFields>, FatalError);

/// Informers that are started and stopped together.
pub(crate) struct Informers<'a> {
    factory: SharedInformerFactory,
    reading: Reading<'a>,
    fatal_errors: FatalErrors,
    outages: Outages,
    /// The tasks that report the ends of outages and follow namespaces; they end with this set.
    tasks: Mutex<JoinSet<()>>,
}

impl<'a> Informers<'a> {
    /// Prepares a factory for these resources. Sends no request.
    pub(crate) fn new<'r>(
        connection: &Connection,
        resources: impl IntoIterator<Item = &'r Served>,
        reading: Reading<'a>,
    ) -> Self {
        Self::logging(connection, resources, reading, FailureLog::new())
    }

    /// As [`Self::new`], with a log of the objects that could not be stored.
    pub(crate) fn logging<'r>(
        connection: &Connection,
        resources: impl IntoIterator<Item = &'r Served>,
        reading: Reading<'a>,
        log: FailureLog,
    ) -> Self {
        let fatal_errors = FatalErrors::new(&connection.server);
        let (hook, outages) = (fatal_errors.clone(), Outages::default());
        let reported = outages.clone();
        let mut builder =
            SharedInformerFactory::builder(connection.client.clone()).grace(GRACE).on_error(move |failure| {
                if !hook.report(failure) {
                    reported.report(failure);
                }
                log.record(failure);
            });
        builder = builder.namespaces(reading.namespaces.names().iter().map(String::as_str));
        if let Some(encoding) = reading.how.encoding {
            builder = builder.encoding(encoding);
        }
        if !reading.how.watch_list {
            let without = |options: ReflectorOptions| options.watch_list(WatchListMode::Off);
            builder = builder.reflector(without);
        }
        for served in resources {
            builder = restricted(builder, served, &reading);
        }
        let factory = builder.build();
        if !reading.namespaces.excluded().is_empty() {
            // Without informers, the scope is set at once.
            _ = factory.set_scope(&reading.namespaces.scope()).now_or_never();
        }
        Self { factory, reading, fatal_errors, outages, tasks: Mutex::default() }
    }

    /// Makes the scope of all informers follow the namespaces that the command line selects by their labels, if it does.
    /// Returns the informer of namespaces. Until the namespaces are known, the scope is empty.
    ///
    /// # Errors
    /// [`Error::Usage`]: the selector is invalid, or namespaces are read with selectors of their own.
    pub(crate) fn follow_namespaces(&self) -> Result<Option<Following>, Error> {
        let Some(selector) = self.reading.namespaces.selector() else { return Ok(None) };
        let informer: Informer<DisplayFields> = self.factory.metadata::<Namespace>().cast();
        let api = informer.selection().api_resource().clone();
        if informer.selection().label_selector("").is_some()
            || informer.selection().field_selector("").is_some()
        {
            return Err(Error::Usage(format!(
                "{} cannot be restricted by -l or --field-selector together with --namespace-selector",
                api.plural
            )));
        }
        let fatal_error = self.registered(&informer, "list namespaces");
        let following = self.factory.follow_namespaces(selector, self.reading.namespaces.scope());
        let following = following.map_err(|error| Error::Usage(error.to_string()))?;
        self.tasks.lock().spawn(async move {
            if let Err(error) = following.await {
                tracing::warn!(%error, "the scope does not follow the namespaces any more");
            }
        });
        Ok(Some((informer, fatal_error)))
    }

    /// As [`Self::follow_namespaces`], and waits until the namespaces are known. Call it before [`Self::of`], so that the
    /// first list of an informer is that of the namespaces. Returns `false` if `stop` comes first.
    ///
    /// # Errors
    /// As [`Self::follow_namespaces`], or the namespaces cannot be listed.
    pub(crate) async fn know_namespaces(&self, stop: &Stop) -> Result<bool, Error> {
        let Some((informer, fatal_error)) = self.follow_namespaces()? else { return Ok(true) };
        self.start()?;
        tokio::select! {
            biased;
            Ok(error) = fatal_error => return Err(error),
            synced = informer.wait_for_sync().until(Instant::now() + NAMESPACES) => {
                synced.map_err(|error| Error::Timeout(error.to_string()))?;
            }
            () = stop.requested() => return Ok(false),
        }
        let other = |error| Error::Runtime(std::io::Error::other(error));
        let snapshot = informer.snapshot().map_err(other)?;
        let selector: Result<LabelSelector, _> =
            self.reading.namespaces.selector().unwrap_or_default().parse();
        let selector = selector.map_err(|error| Error::Usage(error.to_string()))?;
        let matching = snapshot.iter().filter(|namespace| selector.matches_object(&**namespace.object()));
        let names = matching.map(|namespace| namespace.key().name().to_owned());
        // The scope that the task sets too, maybe later.
        let scope = self.reading.namespaces.within(names).scope();
        self.factory.set_scope(&scope).await.map_err(|error| Error::Runtime(std::io::Error::other(error)))?;
        Ok(true)
    }

    /// Returns the informer of a resource, not yet started, and the receiver of its fatal error.
    pub(crate) fn of(&self, served: &Served) -> (Informer<DisplayFields>, FatalError) {
        let resource = served.resource.clone();
        let scope = if served.namespaced { Scope::Namespaced } else { Scope::Cluster };
        let informer: Informer<DisplayFields> = match self.reading.metadata_only {
            true => self.factory.dynamic_metadata(resource, scope).cast(),
            false => self.factory.dynamic(resource, scope).cast(),
        };
        if self.reading.how.eager {
            informer.decode_on_arrival();
        }
        let what = match self.reading.namespaces.names() {
            [_, ..] if served.namespaced => {
                format!("list {} in {}", served.name(), self.reading.namespaces.in_words())
            }
            _ => format!("list {}", served.name()),
        };
        let fatal_error = self.registered(&informer, &what);
        (informer, fatal_error)
    }

    /// Registers an informer for the reports of its errors.
    fn registered(&self, informer: &Informer<DisplayFields>, what: &str) -> FatalError {
        self.tasks.lock().spawn(self.outages.add(informer.clone()));
        self.fatal_errors.add(informer.name(), what)
    }

    /// Starts all informers that were requested.
    ///
    /// # Errors
    /// There is no runtime, which is a bug in this program.
    pub(crate) fn start(&self) -> Result<(), Error> {
        self.factory.start().map_err(|error| Error::Runtime(std::io::Error::other(error)))
    }

    /// Stops all informers, and waits until their tasks have ended.
    pub(crate) async fn stop(self) {
        if let Err(error) = self.factory.shutdown().await {
            tracing::warn!(%error, "informer did not shut down cleanly");
        }
    }
}

/// Applies the selectors and the dropped fields to one resource: not to the namespaces that the scope follows.
fn restricted(
    builder: SharedInformerFactoryBuilder,
    served: &Served,
    reading: &Reading<'_>,
) -> SharedInformerFactoryBuilder {
    let resource = &served.resource;
    let named = GroupVersionResource::gvr(&resource.group, &resource.version, &resource.plural);
    let dropped = (reading.dropped)(served);
    builder.resource(&named, |mut options| {
        if let Some(labels) = reading.labels {
            options = options.labels(labels);
        }
        if let Some(fields) = reading.fields {
            options = options.fields(fields);
        }
        options.drop_fields(dropped.iter().map(|path| FieldPath::new(path)))
    })
}
