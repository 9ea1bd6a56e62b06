//! Kubernetes informers: a copy of a cluster's objects in memory that is kept up to date, with indexes and handlers.
//!
//! ```
//! use kinformer::{LabelSelector, SharedInformerFactory};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = kinformer_apiserver::ApiServer::builder().start().await?;
//! # let config = server.config()?;
//! # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
//! #     "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
//! #     "spec": {"nodeName": "node-1"}}))?;
//! let factory = SharedInformerFactory::new(kinformer::client(config)?);
//! let pods = factory.core().v1().pods();
//! pods.informer().handler().named("printer").for_each(|event| println!("{event:?}"))?;
//!
//! factory.start()?;
//! factory.wait_for_cache_sync().await.into_result()?;
//!
//! let web: LabelSelector = "app in (web, api), !canary".parse()?;
//! for pod in pods.lister().namespace("default").list(&web) {
//!     let pod = pod.typed()?; // decoded here, and shared with everyone who reads it at this time
//!     assert_eq!(pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()), Some("node-1"));
//! }
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
//! # Packed or decoded at once
//!
//! Objects of built-in kinds and of derived types are [`Packed`] unless told otherwise: kept as the bytes that they came
//! in, with their key, UID, version and labels at hand, and decoded when [`typed`](Packed::typed) asks for it. What was
//! decoded is shared for as long as anyone holds it, and what was read last stays decoded. [`Packed::field`](kinformer_kube::PackedObject::field) reads one
//! member without the rest, and [`index_by_field`] indexes by one. Where most objects are read all the time, [`SharedInformerFactory::eager`] has
//! the same informers with objects that are decoded as they arrive: for a whole program
//! (`builder(client).build().eager()`), or for one kind.
//!
//! ```
//! use k8s_openapi::api::core::v1::{Node, Pod};
//! use kinformer::{Objects, SharedInformerFactory, Typed, index_by_field};
//!
//! fn busy(factory: &SharedInformerFactory) -> Result<(), Box<dyn std::error::Error>> {
//!     let nodes = factory.eager().core().v1().nodes().informer(); // a SharedIndexInformer<Node>
//!     let pods = factory.core().v1().pods().informer(); // a SharedIndexInformer<Packed<Pod>>
//!     pods.add_indexers([("node", index_by_field(&["spec", "nodeName"]))])?;
//!     for node in nodes.store().list().iter().filter(|node| is_schedulable(node)) {
//!         let there = pods.store().by_index("node", node.metadata.name.as_deref().unwrap_or_default())?;
//!         println!("{:?} has {} pods", node.metadata.name, there.len());
//!     }
//!     Ok(())
//! }
//!
//! fn is_schedulable(node: &Node) -> bool {
//!     node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true))
//! }
//!
//! /// For factories of both forms.
//! fn restarts<O: Objects>(factory: &SharedInformerFactory<O>) -> Result<i32, Box<dyn std::error::Error>> {
//!     let mut restarts = 0;
//!     for pod in factory.core().v1().pods().informer().store().list() {
//!         restarts += restarts_of(&*pod.as_ref().typed()?);
//!     }
//!     Ok(restarts)
//! }
//!
//! fn restarts_of(pod: &Pod) -> i32 {
//!     let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
//!     containers.map(|container| container.restart_count).sum()
//! }
//! ```
//!
//! # Trade-offs
//!
//! * That a packed object does not decode is found by who reads it, and not when it arrives. Handlers that read every
//!   object pay for the decoding of each, as they would with objects that are decoded at once.
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
pub use kinformer_core::{KeyError, KeyRef, Object, ObjectKey, ResourceVersion, Tombstone, Transform};
pub use kinformer_kube::{
    Decoded, Encoding, Error as ClientError, FieldPath, FromWire, KubeListerWatcher, Packed, Params, Typed,
    client, client_http1, drop_credentials, sends_credentials,
};
pub use kinformer_processor::{
    Added, AsyncEventHandler, Buffer, Event, EventHandler, EventHandlerFuncs, EventStream, HandlerBuilder,
    HandlerStats, Registration, ThreadMetrics, set_base_threads, thread_metrics,
};
pub use kinformer_reflector::{
    ApiError, Backoff, Failure, Recovery, ReflectorHandle, ReflectorOptions, ReflectorState, Statistics,
    WatchListMode,
};
#[cfg(feature = "prometheus")]
pub use kinformer_shared_informer::prometheus;
pub use kinformer_shared_informer::{
    Error as InformerError, InformerMetrics, Phase, QueueKind, SharedIndexInformer,
    SharedIndexInformerBuilder,
};
pub use kinformer_store::{IndexFunction, IndexValues, NAMESPACE_INDEX, Reader, Snapshot};
