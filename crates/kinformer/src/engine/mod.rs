//! The informer of Kubernetes objects of any kind.
//!
//! Nothing here is generic, so store, queue, processor and informer are compiled once, in this crate. Behind the trait,
//! a program compiles neither their methods nor their drop code.

pub(crate) mod arrival;
pub(crate) mod handlers;
pub(crate) mod kube_engine;
pub(crate) mod projection;
pub(crate) mod state;
pub(crate) mod whole_objects;
mod without_switch;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use kinformer_core::{KeyRef, PartOrKey, ResourceVersion};
use kinformer_kube::DecodeAs;
use kinformer_processor::Registration;
use kinformer_shared_informer::{Error, InformerMetrics, Part, Phase, SharedIndexInformer};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::handlers::{BoxFuture, Events, Handler, HandlerSpec, Object, ObjectIndex};
use crate::engine::state::{Objects, State};

/// An informer with any type of objects.
pub(crate) trait Managed: Any + Send + Sync {
    fn name(&self) -> &str;
    fn phase(&self) -> Phase;
    fn run(&self, cancel: CancellationToken) -> BoxFuture<'_, Result<(), Error>>;
    fn discard(&self);
    fn wait_for_sync(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>>;
    /// As [`Self::wait_for_sync`], for all views of the informer.
    fn wait_for_all(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>> {
        self.wait_for_sync(deadline)
    }
}

/// The boundary between this crate and a program: see the module documentation.
pub(crate) trait Engine: Managed + fmt::Debug {
    fn scope(&self) -> &str;
    /// Returns a view of the whole objects of the same informer, which fetches them from now on.
    fn whole_objects(self: Arc<Self>) -> Arc<dyn Engine>;
    fn add(&self, spec: HandlerSpec, name: &'static str, handler: Handler) -> Result<Registration, Error>;
    fn events(&self, spec: HandlerSpec) -> Result<Box<dyn Events>, Error>;
    fn remove_handler<'a>(&'a self, registration: &'a Registration) -> BoxFuture<'a, bool>;
    fn add_index(&self, name: Arc<str>, index: ObjectIndex) -> Result<(), Error>;
    fn get(&self, key: KeyRef<'_>) -> Option<Object>;
    fn objects(&self) -> Objects;
    fn len(&self) -> usize;
    fn for_each(&self, visit: &mut dyn FnMut(&Object));
    fn snapshot(&self) -> Arc<dyn State>;
    fn has_synced(&self) -> bool;
    fn wait_for<'a>(
        &'a self,
        place: PartOrKey<'a>,
        version: &'a ResourceVersion,
        deadline: Option<Instant>,
    ) -> BoxFuture<'a, Result<(), Error>>;
    fn stopped(&self) -> BoxFuture<'_, ()>;
    fn parts(&self) -> &[Part];
    fn metrics(&self) -> InformerMetrics;
    fn decode_on_arrival(&self, to: DecodeAs);
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
