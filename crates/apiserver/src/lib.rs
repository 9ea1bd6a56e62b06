//! An in-memory Kubernetes API server. It starts within milliseconds on a loopback port and injects faults on demand.
//!
//! Use it in development, tests and benchmarks of clients: an informer, a controller or kubectl sees no difference to
//! a kube-apiserver in the API that it uses. The reference is Kubernetes 1.37.
//!
//! * **API**: the built-in kinds and those of CustomResourceDefinitions; create, get, list, update, patch (JSON,
//!   merge, strategic), server-side apply with managers and conflicts, delete, deletecollection; status and scale;
//!   optimistic concurrency, generateName, finalizers, owners and garbage collection, grace periods, generations,
//!   namespaces; discovery, tables, metadata-only responses.
//! * **Admission webhooks** of MutatingWebhookConfigurations and ValidatingWebhookConfigurations are called, with the feature
//!   `tls`; [`Builder::service`] says where their services are.
//! * **Lists and watches**: one resource version for all resources, exact and minimum versions, pages of one
//!   consistent state, selectors, bookmarks, streamed initial events, 410 beyond the history window.
//! * **Faults**: [`Faults`] fails requests, breaks connections in the middle of an event, and stalls streams.
//!
//! # Trade-offs
//!
//! Custom resources are pruned, defaulted and validated by their schemas, with rules in CEL. Objects of the usual built-in
//! kinds get the defaults of Kubernetes and are validated as there ([`Validation`]). Nothing is persisted, and every
//! request is allowed unless [`Access`] is set. No controller creates objects: a Deployment has no pods. What
//! follows from a deletion is done as in a cluster, but without a delay, before the request is answered: dependents
//! are deleted or orphaned ([`GarbageCollection`]), kubelets end scheduled pods ([`Kubelets`]), and namespaces and
//! CustomResourceDefinitions are deleted after their contents. A watch from a version that this server has never
//! issued fails with 410 `Expired`, so that clients relist after a restart; a kube-apiserver accepts such a watch
//! and stays silent, and [`Fault::future_versions`] does the same. Versions start at the microseconds since 1970, so
//! that the versions of two servers never overlap. Creates and updates by clients record their managers in
//! `managedFields`, as in Kubernetes; fields that only Kubernetes' defaulting sets have no manager. Requests may be JSON, YAML or protobuf;
//! responses are JSON, or protobuf if [`ProtobufAnswers`] enables it. Lists and watches select a shard (`shardSelector`) if
//! [`ShardSelectors`] enables it.
//!
//! # How it works
//!
//! An object is serialized once, when it is written, as the watch line of its event. Lists copy slices of these bytes
//! and parse nothing; watches send the bytes themselves. Each resource is a persistent map and a ring of events under
//! one short lock: a list clones the map in O(1), a page of an older version is reconstructed by undoing events, and
//! a watch is a cursor into the ring. Writing an event therefore costs the same for any number of objects, and a slow
//! watch costs no memory: it is closed when the ring has overtaken it.
//!
//! # Features
//!
//! `cel` (default): the rules of custom resources in CEL (`x-kubernetes-validations`), which are stored but not evaluated
//! without it. `yaml` (default): request bodies in YAML. `client`: `ApiServer::config`, a ready `kube_client::Config`. `tls`:
//! HTTPS with a self-signed certificate, and calls of admission webhooks. `test-cluster`: `TestCluster`, a server with a
//! ready client for tests of operators.
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
//!     "spec": {"containers": [{"name": "web", "image": "web:1"}]},
//!     "status": {"phase": "Running"},
//! }))?;
//! assert_eq!(pod["metadata"]["resourceVersion"], server.version().to_string());
//!
//! // The next watch of pods fails with 429; lists and watches from versions before now fail with 410.
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

mod access;
mod admission;
mod api;
mod apply;
mod builder;
mod builtin;
mod causes;
mod clock;
#[cfg(feature = "test-cluster")]
mod cluster;
mod conversion;
mod dns;
mod error;
mod faults;
mod gc;
mod go_url;
mod http;
mod metrics;
mod order;
mod owner_references;
mod patch;
mod protobuf;
mod registry;
mod requests;
mod schema;
mod selectors;
mod server;
mod snapshot;
mod status;
mod storage;
mod table;
mod time_zones;

pub use access::{Access, AccessUser};
pub use api::NamespaceLifecycle;
pub use builder::Builder;
pub use builtin::{Validation, valid_pod};
#[cfg(feature = "test-cluster")]
pub use cluster::{NotReached, TestCluster, TestClusterBuilder, Wait};
pub use error::Error;
pub use faults::{Fault, FaultId, Faults, Verb};
pub use gc::{GarbageCollection, Kubelets};
pub use http::{FaultHeader, ProtobufAnswers, ShardSelectors};
pub use metrics::ServerMetrics;
pub use requests::{LoggedRequest, LoggedRequests};
pub use server::ApiServer;
pub use snapshot::Snapshot;
pub use status::Status;
