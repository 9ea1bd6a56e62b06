//! Kubernetes controllers: a function reconciles each object that changes, with retries.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kinformer::SharedInformerFactory;
//! use kinformer_controller::{Action, CancellationToken, Controller, Request};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = kinformer_apiserver::ApiServer::builder().start().await?;
//! # server.create(serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
//! #     "metadata": {"name": "a", "namespace": "default"}, "data": {"replicas": "2"}}))?;
//! let factory = SharedInformerFactory::new(kinformer::client(server.config()?)?);
//! let config_maps = factory.informer::<ConfigMap>().lister();
//! let shutdown = CancellationToken::new();
//! # let stop = shutdown.clone();
//! let controller = Controller::of(&factory)
//!     .reconciles::<ConfigMap>()
//!     .owns::<Deployment>()
//!     .workers(8)
//!     .build(move |request: Request<_>| {
//!         let config_maps = config_maps.clone();
//!         # let stop = stop.clone();
//!         async move {
//!             # stop.cancel();
//!             let Some(config_map) = config_maps.get_opt(&request.key)? else {
//!                 return Ok(Action::none()); // it was deleted
//!             };
//!             let replicas = config_map.decode()?.data.as_ref().and_then(|data| data.get("replicas").cloned());
//!             println!("{} needs {replicas:?} replicas", request.key);
//!             Ok(Action::none())
//!         }
//!     });
//! controller.run(shutdown).await?;
//! # factory.shutdown().await?;
//! # server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! Events enqueue keys, not objects. A key is reconciled from the state in the informer's store, so several changes of
//! an object lead to one reconciliation, and the memory of a controller is that of its informers, which all controllers of
//! a [factory](kinformer::SharedInformerFactory) share.
//!
//! [`Controller`] has triggers: the kind that it [reconciles](NewController::reconciles), those that it
//! [owns](ControllerBuilder::owns) or [watches](ControllerBuilder::watches), and any other [`Trigger`], with
//! [`Predicate`]s. A [`Manager`] runs controllers and [`Task`]s, with a leader election.
//!
//! # Writes
//!
//! [`apply`] writes by server-side apply, [`create_or_update`] and [`create_or_patch`] write what differs,
//! [`set_controller_reference`] and [`Owner`] make an object owned, [`condition`] edits the conditions of a status, [`finalizer`]
//! runs a cleanup before an object is deleted, and [`events`] reports what was done. [`crd`] installs the definitions of the
//! program's own kinds, and [`client`] wraps clients: with a field manager, for dry runs, with a limit of requests.
//!
//! # Errors of a reconciliation
//!
//! A reconciliation that fails, panics or exceeds its [timeout](ControllerBuilder::timeout) is logged and repeated with
//! backoff, from 5 ms to 1,000 s; meanwhile other keys go on. A [permanent](ReconcileError::permanent) error is not
//! repeated. A reconciliation that never returns occupies one worker; a shutdown drops it after the
//! [grace](ControllerBuilder::grace) period. One that blocks its thread blocks a thread of the runtime, and cannot be
//! dropped: use [`tokio::task::spawn_blocking`].
//!
//! # Trade-offs
//!
//! * Webhooks are not built.
//! * Keys of the initial list and of resyncs have a low priority.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod action;
pub mod apply;
pub mod client;
pub mod condition;
mod controller;
pub mod crd;
mod create_or_update;
mod error;
mod event_metrics;
mod event_writes;
pub mod events;
mod failures;
pub mod finalizer;
mod health;
#[cfg_attr(not(feature = "serve"), allow(dead_code, reason = "the page reads it, and only then it is kept"))]
mod history;
mod manager;
mod metrics;
mod monitor;
mod owner;
mod predicate;
#[cfg(feature = "prometheus")]
pub mod prometheus;
mod reason;
mod relations;
mod reporter;
mod request;
#[cfg(feature = "ring")]
mod sharding;
mod signal;
mod trigger;
#[cfg(feature = "serve")]
mod view;
mod worker;
mod write_error;

pub use action::{Action, ReconcileError};
pub use controller::{Controller, ControllerBuilder, NewController};
pub use create_or_update::{Written, create_or_patch, create_or_update, retry_on_conflict};
pub use error::Error;
pub use failures::FailedReconciliation;
pub use health::{ControllerHealth, ControllerState, Health, State};
pub use kinformer;
pub use kinformer::CancellationToken;
#[cfg(feature = "ring")]
pub use kinformer_ring;
#[cfg(feature = "serve")]
pub use kinformer_serve;
pub use manager::{Manager, ManagerHandle, Runnable, Task};
pub use metrics::ControllerMetrics;
pub use monitor::Monitor;
pub use owner::{Owner, OwnerError, set_controller_reference};
pub use predicate::Predicate;
pub use reason::{Cause, Reason, Reasons};
pub use reporter::Reporter;
pub use request::{ReconcileId, Request};
#[cfg(feature = "ring")]
pub use sharding::{ShardLost, Sharding, ShardingError};
pub use trigger::{InformerTrigger, Queue, Trigger};
pub use worker::Key;
pub use write_error::WriteError;
pub use {kinformer_leader_election, kinformer_workqueue};
