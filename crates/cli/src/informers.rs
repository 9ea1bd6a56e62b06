//! Starting and stopping informers for a cluster's resources.

use std::time::Duration;

use kinformer::{
    FieldPath, Informer, ReflectorOptions, SharedInformerFactory, SharedInformerFactoryBuilder, WatchListMode,
};
use kinformer_serve::FailureLog;
use kube_core::discovery::Scope;
use kube_core::gvk::GroupVersionResource;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::args::ReadingArgs;
use crate::connect::Connection;
use crate::display_fields::DisplayFields;
use crate::exit::Error;
use crate::fatal_errors::{FatalError, FatalErrors};
use crate::outages::Outages;
use crate::resources::Served;

/// How long handlers may take to return during shutdown.
const GRACE: Duration = Duration::from_secs(5);

/// What to read of each resource, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    /// The namespace of namespaced resources; `None` for all.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) labels: Option<&'a str>,
    pub(crate) fields: Option<&'a str>,
    /// Whether to fetch only metadata.
    pub(crate) metadata_only: bool,
    /// The fields of a resource to drop on arrival.
    pub(crate) dropped: fn(&Served) -> &'static [&'static [&'static str]],
    pub(crate) how: ReadingArgs,
}

/// Informers that are started and stopped together.
pub(crate) struct Informers<'a> {
    factory: SharedInformerFactory,
    reading: Reading<'a>,
    fatal_errors: FatalErrors,
    outages: Outages,
    /// The tasks that report the ends of outages; they end with this set.
    reporters: Mutex<JoinSet<()>>,
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
        if let Some(namespace) = reading.namespace {
            builder = builder.namespace(namespace);
        }
        if let Some(encoding) = reading.how.encoding {
            builder = builder.encoding(encoding);
        }
        if !reading.how.watch_list {
            let without = |options: ReflectorOptions| options.watch_list(WatchListMode::Off);
            builder = builder.reflector(without);
        }
        let (labels, fields) = (reading.labels.map(str::to_owned), reading.fields.map(str::to_owned));
        builder = builder.tweak_list_options(move |params| {
            for (name, selector) in [("labelSelector", &labels), ("fieldSelector", &fields)] {
                if let Some(selector) = selector {
                    params.set(name, selector);
                }
            }
        });
        for served in resources {
            builder = dropping(builder, served, (reading.dropped)(served));
        }
        Self { factory: builder.build(), reading, fatal_errors, outages, reporters: Mutex::default() }
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
        let what = match self.reading.namespace.filter(|_| served.namespaced) {
            Some(namespace) => format!("list {} in namespace {namespace:?}", served.name()),
            None => format!("list {}", served.name()),
        };
        let fatal_error = self.fatal_errors.add(informer.name(), &what);
        self.reporters.lock().spawn(self.outages.add(informer.clone()));
        (informer, fatal_error)
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

fn dropping(
    builder: SharedInformerFactoryBuilder,
    served: &Served,
    dropped: &[&[&str]],
) -> SharedInformerFactoryBuilder {
    let resource = &served.resource;
    let named = GroupVersionResource::gvr(&resource.group, &resource.version, &resource.plural);
    builder.resource(&named, |options| options.drop_fields(dropped.iter().map(|path| FieldPath::new(path))))
}
