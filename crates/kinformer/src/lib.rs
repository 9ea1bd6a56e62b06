//! Kubernetes informers: an in-memory cache of a cluster's objects that watches keep up to date, with indexes and event
//! handlers.
//!
//! ```
//! use kinformer::{LabelSelector, SharedInformerFactory};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = kinformer_apiserver::ApiServer::builder().start().await?; // a cluster in this process
//!     let config = server.config()?; // for a real cluster: kinformer::config()?
//!     let factory = SharedInformerFactory::new(kinformer::client(config)?);
//!     let pods = factory.core().v1().pods();
//!     pods.handler().name("printer").for_each(|event| println!("{event:?}"))?;
//!
//!     factory.start()?;
//!     factory.wait_for_cache_sync().await.into_result()?;
//!
//!     let web: LabelSelector = "app in (web, api), !canary".parse()?;
//!     for pod in pods.lister().namespace("default").list(&web)? {
//!         let pod = pod.decode()?; // decoded here; concurrent readers share the value
//!         println!("{:?}", pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()));
//!     }
//!     factory.shutdown().await?;
//!     Ok(())
//! }
//! ```
//!
//! [`SharedInformerFactory`] creates one [`Informer`] for each resource and returns the same informer to every caller;
//! its [`accessors`] are methods for all built-in Kubernetes kinds. A [`Lister`] reads the stored objects, by key or by
//! [`LabelSelector`], in all namespaces or in one; a [`Snapshot`] shows all of them at one revision. Changes are
//! delivered to handlers, which are closures, futures or streams.
//!
//! # Objects are packed
//!
//! Objects are stored [`Packed`]: as the bytes that the server sent, beside their key, UID, resource version and
//! labels. [`decode`](Packed::decode) decodes an object when it is read. The decoded value is shared for as long as a
//! reader holds it, and the most recently read values stay decoded. [`PackedObject::field`] reads one field without
//! decoding the rest of the object, and [`Informer::index_by_field`] adds an index by one field. For kinds whose
//! objects are read all the time, [`Informer::decode_on_arrival`] decodes each object as it arrives and keeps the
//! value.
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
//!     let (nodes, pods) = (nodes.snapshot()?, pods.snapshot()?);
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
//! * A decoding error is returned to the reader of the object. With decoding on arrival it is reported when the object
//!   arrives, and the object is stored anyway.
//! * Store, queue, handlers and lists are compiled once for all kinds, in this crate. Each kind adds to a program only
//!   the decoder of its type and the program's own closures.
//! * The available kinds depend on the `k8s-openapi` version feature enabled by your program: `v1_33` to `v1_37`, or the
//!   newest by this crate's `latest`. There is no default. A kind has an accessor in the versions that have it.
//! * An unused informer keeps its watch and memory until it is [released](InformerLease).
//! * Handlers receive shared, immutable objects; clone an object to change it.
//!
//! # Layers
//!
//! Each crate that this one is built on (see its dependencies, `kinformer-core` to `kinformer-kube`) can be used alone.
//! Beside this crate are [kinformer-controller](https://docs.rs/kinformer-controller) (reconcilers and their manager),
//! [kinformer-cache](https://docs.rs/kinformer-cache) (reads that start informers, and see own writes),
//! [kinformer-apiserver](https://docs.rs/kinformer-apiserver) (the API server of the program above, for tests),
//! [kinformer-leader-election](https://docs.rs/kinformer-leader-election), [kinformer-ring](https://docs.rs/kinformer-ring)
//! (objects shared out among processes) and [kinformer-serve](https://docs.rs/kinformer-serve) (informers over HTTP, and a page).
#![doc = include_str!("items.md")]
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod any_informer;
mod arrival;
mod async_handler;
mod callbacks;
mod changing_scope;
pub mod conditions;
mod entry;
mod error;
mod factory;
mod field_selector;
mod generated;
pub mod generic;
mod handler;
mod index_by_field;
mod informer;
mod kind;
mod kube_informer;
mod layers;
mod lister;
mod make_source;
mod objects;
mod options;
mod own_informer;
pub mod prelude;
mod projection;
#[cfg(feature = "prometheus")]
pub mod prometheus;
mod requests;
mod resource_options;
#[cfg(feature = "kube-runtime")]
pub mod runtime;
mod scope;
mod selection;
mod shards;
mod snapshot;
mod started;
mod sync;
mod target;

pub use self::{
    error::{Error, FixedScope},
    factory::SharedInformerFactory,
    field_selector::{FieldSelector, FieldSelectorError},
    generated::accessors,
    handler::{EventStream, HandlerBuilder},
    informer::{Informer, InformerLease, InformerSelection, InformerStatus},
    kind::scope_of,
    layers::*,
    lister::{Lister, NamespaceLister},
    options::SharedInformerFactoryBuilder,
    own_informer::NewInformer,
    projection::Projection,
    resource_options::{Decode, ResourceOptions},
    scope::Scope,
    selection::{NamespaceOptions, NamespaceWatches, WatchReason},
    snapshot::{Difference, Snapshot},
    sync::CacheSync,
};

#[doc(hidden)]
pub use kinformer_kube::internal::{certificates, is_list_of, path_of_object, path_of_resource};
pub use tokio_util::sync::CancellationToken;
pub use {k8s_openapi, kube_client, kube_core};
