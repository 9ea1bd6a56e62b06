//! A cache of Kubernetes objects: reads are answered from memory, and informers are started on first use.
//!
//! ```
//! use k8s_openapi::api::core::v1::{Pod, Secret};
//! use kinformer_cache::{Cache, FieldPath, Query};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = kinformer_apiserver::ApiServer::builder().start().await?;
//! # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
//! #     "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
//! #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}}))?;
//! # let client = kinformer::client(server.config()?)?;
//! let cache = Cache::builder(client)
//!     .options(|factory| factory.of_kind::<Secret>(|secrets| secrets.namespaces(["default"])))
//!     .build()
//!     .await?;
//! cache.start()?;
//!
//! let pods = cache.kind::<Pod>();
//! pods.index_by_field("spec.nodeName", &["spec", "nodeName"])?;
//! let pod = pods.get("default/web-0").await?; // starts the informer, and waits until it has synced
//! assert_eq!(pod.label("app"), Some("web"));
//!
//! let query = Query::new().labels("app in (web, api)".parse()?).field("spec.nodeName", "node-1");
//! assert_eq!(pods.list(&query).await?.len(), 1);
//! cache.shutdown().await?;
//! # server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Cache`] has one informer for each resource, which all its users share, those of [`Cache::factory`] too. A [`Kind`]
//! reads the objects of one resource, as a type, as dynamic objects or as metadata. [`RestMapper`] finds the resources of
//! kinds without a type.
//!
//! # Trade-offs
//!
//! * Reads return shared immutable objects; nothing is copied. controller-runtime copies each object by default.
//! * A list is sorted by key. That takes O(n log n) for n objects that match.
//!
//! Follows controller-runtime 0.25 (`pkg/cache`).
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod cache;
mod error;
mod kind;
mod list;
mod live;
mod mapper;
mod shared;
mod tracker;
mod writes;

pub use cache::{Cache, CacheBuilder};
pub use error::Error;
pub use kind::{Kind, Pages};
pub use kinformer;
#[doc(no_inline)]
pub use kinformer::{FieldPath, LabelSelector};
pub use list::Query;
pub use mapper::RestMapper;
pub use tracker::{NotReady, WriteTracker};
pub use writes::IncompleteUpdate;
