//! Informers of a cluster's resources, and how they end.

use std::time::Duration;

use kinformer::{
    FieldPath, Informer, ReflectorOptions, SharedInformerFactory, SharedInformerFactoryBuilder, WatchListMode,
};
use kube_core::discovery::Scope;
use kube_core::gvk::GroupVersionResource;

use crate::args::ReadingArgs;
use crate::exit::Error;
use crate::resources::Served;
use crate::session::Session;
use crate::shown::Shown;
use crate::verdict::{Judges, Verdict};

/// How long handlers may take to return at the end.
const GRACE: Duration = Duration::from_secs(5);

/// What is read of the resources, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    /// Of resources that have namespaces; `None` for all.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) labels: Option<&'a str>,
    pub(crate) fields: Option<&'a str>,
    /// Only the metadata of each object.
    pub(crate) metadata_only: bool,
    /// The fields that are not read.
    pub(crate) dropped: &'a [&'a [&'a str]],
    pub(crate) how: ReadingArgs,
}

/// Informers that run and end together.
pub(crate) struct Informers<'a> {
    factory: SharedInformerFactory,
    reading: Reading<'a>,
    judges: Judges,
}

impl<'a> Informers<'a> {
    /// For these resources, of which none is read yet.
    pub(crate) fn new<'r>(
        session: &Session,
        resources: impl IntoIterator<Item = &'r Served>,
        reading: Reading<'a>,
    ) -> Self {
        let judges = Judges::new(&session.connection.server);
        let hook = judges.clone();
        let mut builder = SharedInformerFactory::builder(session.connection.client.clone())
            .grace(GRACE)
            .on_error(move |failure| hook.hear(failure));
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
            builder = dropping(builder, served, reading.dropped);
        }
        Self { factory: builder.build(), reading, judges }
    }

    /// The informer of one resource, to be started, and what will tell if it can never sync.
    pub(crate) fn of(&self, served: &Served) -> (Informer<Shown>, Verdict) {
        let resource = served.resource.clone();
        let scope = if served.namespaced { Scope::Namespaced } else { Scope::Cluster };
        let informer: Informer<Shown> = match self.reading.metadata_only {
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
        let verdict = self.judges.add(informer.name(), &what);
        (informer, verdict)
    }

    /// Starts all that were asked for.
    ///
    /// # Errors
    /// There is no runtime, which would be a mistake of this program.
    pub(crate) fn start(&self) -> Result<(), Error> {
        self.factory.start().map_err(|error| Error::Runtime(std::io::Error::other(error)))
    }

    /// Ends all of them, and waits until none of their tasks is left.
    pub(crate) async fn stop(self) {
        if let Err(error) = self.factory.shutdown().await {
            tracing::warn!(%error, "an informer did not end well");
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
