//! A Kubernetes API server in memory: started in milliseconds, on a loopback port, with failures on demand.
//!
//! It is made for development, tests and benches of clients: an informer, a controller or kubectl cannot
//! tell it from the real thing in what they use of it. The reference is Kubernetes 1.37.
//!
//! * **API**: the built-in kinds and those that CustomResourceDefinitions add; create, get, list, update,
//!   patch (JSON, merge, strategic), delete, deletecollection; status and scale; optimistic conflicts,
//!   generateName, finalizers, generations, namespaces; discovery, tables, metadata-only answers.
//! * **Lists and watches**: one version for everything, exact and minimum versions, pages from one
//!   consistent state, selectors, bookmarks, streamed initial events, 410 beyond the history window.
//! * **Failures**: [`Faults`] makes requests fail, connections break off within an event, streams stall.
//!
//! # Trade-offs
//!
//! Nothing is persisted, authorised or validated against schemas, and no controller runs: a Deployment
//! makes no pods, owners take nothing with them, and a pod that is deleted goes at once, where Kubernetes marks it
//! first: an update before the deletion. A watch from a version that this server has not issued, which a
//! kube-apiserver takes and is silent on, is answered with 410 `Expired`, so that a client whose server was restarted
//! lists again; [`Fault::future_versions`] makes it as in Kubernetes. Versions begin at the microseconds since 1970, so
//! that those of two servers never overlap. Server-side apply is refused with 415. Requests may be
//! JSON, YAML or protobuf; answers are JSON, and protobuf where [`ProtobufAnswers`] are offered.
//!
//! # How it works
//!
//! An object is serialized once, when it is written, as the line that its watchers get. Lists copy slices
//! of these bytes and parse nothing; watchers send the bytes themselves. Each resource is a persistent map
//! and a ring of events under one short lock: a list takes the map in O(1), a page of an older version is
//! made by undoing events, and a watcher is a cursor into the ring. So an event costs the writer the same
//! however many objects there are, a slow watcher costs no memory, and it is cut off when the ring has
//! overtaken it.
//!
//! # Features
//!
//! `yaml` (on): request bodies in YAML. `client`: a ready `kube_client::Config`. `tls`: HTTPS with a
//! certificate of its own.
//!
//! # Example
//!
//! ```
//! use kinformer_apiserver::{ApiServer, Fault, Verb};
//! use serde_json::json;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = ApiServer::builder().start().await?;
//! println!("kubectl --server {} get pods -A", server.url());
//!
//! let pod = server.create(json!({
//!     "apiVersion": "v1", "kind": "Pod",
//!     "metadata": {"name": "web-0", "namespace": "default"},
//!     "status": {"phase": "Running"},
//! }))?;
//! assert_eq!(pod["metadata"]["resourceVersion"], server.version().to_string());
//!
//! // The next watch of pods is answered with 429; lists and watches from before now with 410.
//! server.faults().inject(Fault::too_many_requests(1).on(Verb::Watch).resource("pods"));
//! server.compact();
//!
//! server.shutdown().await;
//! # Ok::<(), kinformer_apiserver::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
mod builder;
mod clock;
mod error;
mod faults;
mod http;
mod patch;
mod protobuf;
mod registry;
mod selectors;
mod server;
mod stats;
mod status;
mod storage;
mod table;

pub use api::NamespaceLifecycle;
pub use builder::Builder;
pub use error::Error;
pub use faults::{Fault, FaultId, Faults, Verb};
pub use http::{FaultHeader, ProtobufAnswers};
pub use server::ApiServer;
pub use stats::Stats;
pub use status::Status;
