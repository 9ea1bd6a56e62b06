//! The informer of Kubernetes objects, one type for all kinds.
//!
//! [`Engine`] is the interface between the typed handles ([`Informer`](crate::Informer), listers, snapshots) and the
//! informer behind them. It has no type parameter, so store, queue, processor and informer are compiled once, in this
//! crate, and not again for each kind in the user's program.

pub(crate) mod arrival;
pub(crate) mod handlers;
pub(crate) mod kube_engine;
pub(crate) mod projection;
pub(crate) mod started;
pub(crate) mod state;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kinformer_core::{PartOrKey, ResourceVersion};
use kinformer_kube::{DecodeAs, FieldPath};
use kinformer_processor::Registration;
use kinformer_shared_informer::{Error, InformerMetrics, Part, Phase, SharedIndexInformer};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::handlers::{BoxFuture, Events, Handler, HandlerSpec, Object, ObjectIndex};
use crate::engine::projection::Projection;
use crate::engine::started::Started;
use crate::engine::state::{Objects, State};

/// The paths of the indexes by one field, by the names of the indexes.
pub(crate) type FieldPaths = Mutex<HashMap<Arc<str>, FieldPath>>;

/// What the factory needs of an informer, whatever its type of objects: implemented by [`Engine`]s and by the informers
/// of [`informer_with`](crate::SharedInformerFactory::informer_with).
pub(crate) trait Managed: Any + Send + Sync {
    fn name(&self) -> &str;
    fn phase(&self) -> Phase;
    fn run(&self, cancel: CancellationToken) -> BoxFuture<'_, Result<(), Error>>;
    /// Ends an informer that was never run.
    fn discard(&self);
    /// Records that the informer was started, for reads of its store, or that its start was lost.
    fn set_started(&self, _started: bool) {}
    fn wait_for_sync(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>>;
}

/// A type-erased informer of Kubernetes objects.
pub(crate) trait Engine: Managed + fmt::Debug {
    /// The scope as text, for metrics and errors: its namespaces and selectors.
    fn scope(&self) -> &str;
    /// Whether the informer holds the objects of this namespace.
    fn has_namespace(&self, namespace: &str) -> bool;
    /// Whether the informer holds an object in this state.
    fn selects(&self, object: &Object) -> bool;
    /// Whether objects may have other labels and fields here than on the server.
    fn has_transform(&self) -> bool;
    /// The fields that are dropped from each object.
    fn dropped_fields(&self) -> &[FieldPath];
    /// The label selector and the field selector of the requests for the objects of a namespace.
    fn selectors(&self, namespace: &str) -> [Option<Arc<str>>; 2];
    /// The resource name, for errors.
    fn resource(&self) -> &Arc<str>;
    /// The projection now.
    fn projection(&self) -> Projection;
    /// Makes the informer fetch whole objects. Returns `false` if it has started with metadata.
    fn request_whole(&self) -> bool;
    /// Adds a handler.
    fn add(&self, spec: HandlerSpec, name: &'static str, handler: Handler) -> Result<Registration, Error>;
    /// Adds a handler that is a stream of events.
    fn events(&self, spec: HandlerSpec) -> Result<Box<dyn Events>, Error>;
    fn remove_handler<'a>(&'a self, registration: &'a Registration) -> BoxFuture<'a, bool>;
    fn add_index(&self, name: Arc<str>, index: ObjectIndex) -> Result<(), Error>;
    /// The paths of the indexes by one field.
    fn field_paths(&self) -> &FieldPaths;
    fn objects(&self) -> Objects;
    fn started(&self) -> &Started;
    fn for_each(&self, visit: &mut dyn FnMut(&Object));
    fn snapshot(&self) -> Arc<dyn State>;
    fn has_synced(&self) -> bool;
    fn wait_for<'a>(
        &'a self,
        place: PartOrKey<'a>,
        version: &'a ResourceVersion,
        deadline: Option<Instant>,
    ) -> BoxFuture<'a, Result<(), Error>>;
    /// Waits until the store has a state after this revision; `false` if the informer stops first.
    fn changed(&self, revision: u64) -> BoxFuture<'_, bool>;
    /// Waits until the informer has ended.
    fn stopped(&self) -> BoxFuture<'_, ()>;
    fn parts(&self) -> &[Part];
    fn metrics(&self) -> InformerMetrics;
    /// Decodes objects to this type on arrival, unless another type was set before.
    fn decode_on_arrival(&self, to: DecodeAs);
    /// The number of objects that could not be decoded on arrival.
    fn undecoded(&self) -> u64;
    #[cfg(feature = "prometheus")]
    fn add_to(
        &self,
        collector: &kinformer_shared_informer::prometheus::InformerCollector,
    ) -> Result<(), Error>;
}

impl<T: kinformer_core::Object> Managed for SharedIndexInformer<T> {
    fn name(&self) -> &str {
        self.name()
    }

    fn phase(&self) -> Phase {
        self.phase()
    }

    fn run(&self, cancel: CancellationToken) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.run(cancel))
    }

    fn discard(&self) {
        self.discard();
    }

    fn wait_for_sync(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match deadline {
                Some(deadline) => self.wait_for_sync_until(deadline).await,
                None => self.wait_for_sync().await,
            }
        })
    }
}
