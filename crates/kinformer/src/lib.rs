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
//! pods.handler().name("printer").for_each(|event| println!("{event:?}"))?;
//!
//! factory.start()?;
//! factory.wait_for_cache_sync().await.into_result()?;
//!
//! let web: LabelSelector = "app in (web, api), !canary".parse()?;
//! for pod in pods.lister().namespace("default").list(&web) {
//!     let pod = pod.decode()?; // decoded here, and shared with everyone who reads it at this time
//!     assert_eq!(pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()), Some("node-1"));
//! }
//! factory.shutdown().await?;
//! # server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`SharedInformerFactory`] gives out one [`Informer`] for each resource, however many ask for it; [`accessors`] are its
//! methods for the kinds that Kubernetes has built in. What an informer has stored is read through a [`Lister`], by
//! key, by [`LabelSelector`], in all namespaces or in one, or as a [`Snapshot`]. Changes are delivered to handlers:
//! closures, futures, streams.
//!
//! # Objects are packed
//!
//! Objects are [`Packed`]: kept as the bytes that they came in, with their key, UID, version and labels at hand, and
//! decoded when [`decode`](Packed::decode) asks for it. What was decoded is shared for as long as anyone holds it, and what
//! was read last stays decoded. [`PackedObject::field`] reads one member without the rest, and [`Informer::index_by_field`]
//! indexes by one. Where most objects are read all the time, [`Informer::decode_on_arrival`] decodes each as it arrives,
//! and keeps the value.
//!
//! ```
//! use k8s_openapi::api::core::v1::Node;
//! use kinformer::SharedInformerFactory;
//!
//! fn busy(factory: &SharedInformerFactory) -> Result<(), Box<dyn std::error::Error>> {
//!     let nodes = factory.core().v1().nodes();
//!     nodes.decode_on_arrival();
//!     let pods = factory.core().v1().pods();
//!     pods.index_by_field("node", &["spec", "nodeName"])?;
//!     let (nodes, pods) = (nodes.snapshot(), pods.snapshot());
//!     for node in nodes.iter() {
//!         if is_schedulable(&*node.decode()?) {
//!             println!("{} has {} pods", node.name(), pods.by_index("node", node.name())?.len());
//!         }
//!     }
//!     Ok(())
//! }
//!
//! fn is_schedulable(node: &Node) -> bool {
//!     node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true))
//! }
//! ```
//!
//! # Trade-offs
//!
//! * That an object does not decode is found by who reads it. Decoded on arrival, it is reported then, and stored all the
//!   same.
//! * Store, queue, handlers and lists of all kinds are compiled once, in this crate. A kind costs a program the decoding
//!   of its type, and its own closures.
//! * Which kinds there are depends on the Kubernetes version that the program chooses by a feature of `k8s-openapi`
//!   (`v1_33` to `v1_37`); this library chooses none. A kind that only some versions have has an accessor in those.
//! * An informer that nobody needs any more costs a watch and memory until it is [released](InformerLease).
//! * What a handler receives is shared and cannot be changed; clone what you need to change.
//!
//! # Layers
//!
//! Each of these can be used without those above it: `kinformer-core`, `kinformer-store`, `kinformer-delta-fifo`,
//! `kinformer-reflector`, `kinformer-processor`, `kinformer-shared-informer`, `kinformer-kube`. What a user of this
//! crate needs of them is named here.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod accessors;
mod async_handler;
mod engine;
mod entry;
mod error;
mod factory;
mod handler;
mod index_by_field;
mod informer;
mod kind;
mod lister;
mod options;
pub mod prelude;
mod requests;
mod resource_options;
#[cfg(feature = "kube-runtime")]
pub mod runtime;
mod selector;
mod snapshot;
mod sync;
mod target;

pub use self::{
    error::Error,
    factory::SharedInformerFactory,
    handler::{EventStream, HandlerBuilder},
    informer::{Informer, InformerLease},
    lister::{Lister, NamespaceLister},
    options::SharedInformerFactoryBuilder,
    resource_options::{Decode, ResourceOptions},
    selector::{LabelSelector, SelectorError, SelectorProblem},
    snapshot::{Difference, Snapshot},
    sync::CacheSync,
};

// What one needs of the layers below.
pub use kinformer_core::{
    KeyError, KeyRef, Object, ObjectKey, PartId, PartOrKey, ResourceVersion, Tombstone, Transform, Versions,
};
pub use kinformer_kube::{
    Decoded, DecodedRef, Encoding, Error as ClientError, FieldPath, KubeListerWatcher, KubeObject, Packed,
    PackedObject, PackedRef, Params, client, client_http1, drop_credentials, sends_credentials,
};
pub use kinformer_processor::{
    Added, AsyncEventHandler, Buffer, Deleted, Event, EventHandler, EventHandlerFuncs, HandlerMetrics,
    Registration, ThreadMetrics, Updated, set_base_threads, thread_metrics,
};
pub use kinformer_reflector::{
    Backoff, Failure, Recovery, ReflectorHandle, ReflectorMetrics, ReflectorOptions, ReflectorState,
    SourceError, WatchListMode,
};
#[cfg(feature = "prometheus")]
pub use kinformer_shared_informer::prometheus;
pub use kinformer_shared_informer::{
    Bound, Error as InformerError, InformerMetrics, Part, Phase, Queue, QueueKind, QueueParts,
    SharedIndexInformer, SharedIndexInformerBuilder, Sources,
};
pub use kinformer_store::{IndexFunction, IndexValues, NAMESPACE_INDEX};

/// What [informers of one's own](SharedInformerFactory::informer_with) have, whose objects are not packed.
pub mod generic {
    pub use kinformer_processor::{EventStream, HandlerBuilder};
    pub use kinformer_store::{Reader, Snapshot};
}
