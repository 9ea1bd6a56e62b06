//! Kubernetes informers: a copy of a cluster's objects in memory that is kept up to date, with indexes and handlers.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use kinformer::{Event, LabelSelector, SharedInformerFactory};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = kinformer_apiserver::ApiServer::builder().start().await?;
//! # let config = server.config()?;
//! # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
//! #     "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}}}))?;
//! let factory = SharedInformerFactory::new(kinformer::client(config)?);
//! let pods = factory.core().v1().pods();
//! pods.informer().handler().named("printer").for_each(|event: &Event<Pod>| println!("{event:?}"))?;
//!
//! factory.start()?;
//! factory.wait_for_cache_sync().await.into_result()?;
//!
//! let web: LabelSelector = "app in (web, api), !canary".parse()?;
//! assert_eq!(pods.lister().namespace("default").list(&web).len(), 1);
//! factory.shutdown().await?;
//! # server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`SharedInformerFactory`] gives out one informer for each type, however many ask for it; [`accessors`] are its
//! methods for the kinds that Kubernetes has built in. What an informer has stored is read through a [`Lister`], by
//! key, by [`LabelSelector`], in all namespaces or in one, or through the indexes of its
//! [store](SharedIndexInformer::store). What changes is told to handlers: closures, [`EventHandler`]s, futures, streams.
//!
//! # Trade-offs
//!
//! * Which kinds there are depends on the Kubernetes version that the program chooses by a feature of `k8s-openapi`
//!   (`v1_33` to `v1_37`); this library chooses none. A kind that only some versions have has an accessor in those.
//! * An informer that nobody needs any more costs a watch and memory until it is [released](InformerLease).
//! * What is told to a handler is shared and cannot be changed; clone what you need to change.
//!
//! # Layers
//!
//! Each of these can be used without those above it: `kinformer-core`, `kinformer-store`, `kinformer-delta-fifo`,
//! `kinformer-reflector`, `kinformer-processor`, `kinformer-shared-informer`, `kinformer-kube`. What a user of this
//! crate needs of them is named here.

pub mod accessors;
mod entry;
mod error;
mod factory;
mod generic_informer;
mod index_by_field;
mod kind;
mod lister;
mod objects;
mod options;
#[cfg(feature = "kube-runtime")]
pub mod runtime;
mod selector;
mod sync;

pub use error::Error;
pub use factory::SharedInformerFactory;
pub use generic_informer::{GenericInformer, InformerLease};
pub use index_by_field::index_by_field;
pub use kind::KnownKind;
pub use lister::{Lister, NamespaceLister};
pub use objects::{EagerObjects, Objects, PackedObjects};
pub use options::SharedInformerFactoryBuilder;
pub use selector::{LabelSelector, SelectorError, SelectorProblem};
pub use sync::CacheSync;

// What one needs of the layers below.
pub use kinformer_core::{KeyRef, Object, ObjectKey, ResourceVersion, Tombstone, Transform};
pub use kinformer_kube::{
    Encoding, FromWire, KubeListerWatcher, MemberPath, Packed, Params, Typed, client, client_http1,
};
pub use kinformer_processor::{
    AsyncEventHandler, Buffer, Event, EventHandler, EventHandlerFuncs, EventStream, HandlerBuilder,
    HandlerStats, Registration,
};
pub use kinformer_reflector::{
    ApiError, Backoff, Failure, Recovery, ReflectorHandle, ReflectorOptions, ReflectorState, Statistics,
    WatchListMode,
};
#[cfg(feature = "prometheus")]
pub use kinformer_shared_informer::prometheus;
pub use kinformer_shared_informer::{
    InformerMetrics, Phase, QueueKind, SharedIndexInformer, SharedIndexInformerBuilder,
};
pub use kinformer_store::{IndexFunction, IndexValues, NAMESPACE_INDEX, Reader, Snapshot};
