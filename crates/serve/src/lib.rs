//! HTTP and JSON over Kubernetes informers: their state, their objects and indexes, live events, metrics, health, and a
//! page for browsers.
//!
//! ```
//! use kinformer::SharedInformerFactory;
//! use kinformer_serve::Server;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let cluster = kinformer_apiserver::ApiServer::builder().start().await?;
//! # let config = cluster.config()?;
//! let client = kinformer::client(config)?;
//! let factory = SharedInformerFactory::new(client.clone());
//! let pods = factory.core().v1().pods();
//! factory.start()?;
//!
//! let server = Server::builder().informer(&pods).client(client).or_any_port().bind().await?;
//! println!("{}", server.url()); // http://127.0.0.1:4000/
//! let server = server.spawn();
//! // ...
//! server.shutdown().await;
//! # factory.shutdown().await?;
//! # cluster.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The [documentation of the interface](https://github.com/kinformer/kinformer/blob/main/docs/serve.md) has all paths; the
//! server itself has them as an OpenAPI document at `/openapi.json`.
//!
//! # Trade-offs
//!
//! * Reads never touch the API server: they show what the informers have. The only exception is a `POST` that asks for
//!   one object, which is for the button "ask the API server".
//! * Changes are remembered in a memory of [limited](Limits) size, as the shared objects of the store; their differences
//!   are computed when they are read. A stream of events has no queue of its own: a client that is too slow gets a gap.
//! * Without a token or [access checks](ServerBuilder::delegate_access) the server listens on loopback addresses only, and
//!   anyone on the machine can read it. Beyond loopback, use TLS ([`ServerBuilder::tls`]), or a proxy or a tunnel.
//! * Objects of kind `Secret` are not shown, unless [`ServerBuilder::show_secrets`] is used.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod app;
mod ask;
mod ask_limit;
mod assets;
mod builder;
mod change;
mod checks;
mod connections;
mod controller_answers;
mod controllers;
mod diff;
mod encodings;
mod error;
mod events;
mod explain;
mod failures;
mod format;
mod guard;
mod health;
mod hidden;
#[doc(hidden)]
pub mod internal;
mod limits;
mod listen;
mod memory;
mod metrics;
mod objects;
mod openapi;
mod problems;
#[cfg(target_os = "linux")]
mod process;
mod publish;
mod query;
mod reply;
mod ring;
mod router;
mod selection;
mod serialized;
mod server;
mod state;
mod streams;
mod summary;
#[cfg(feature = "rustls-tls")]
mod tls;
#[cfg(not(feature = "rustls-tls"))]
#[path = "no_tls.rs"]
mod tls;
mod trends;
mod views;
mod watched;
mod write_timeout;

pub use self::{
    builder::ServerBuilder,
    controllers::{
        CauseView, ControllerView, Controllers, CountsView, FailureView, LeadershipView, QueueView,
        ReconciliationView, RunningView,
    },
    error::Error,
    failures::FailureLog,
    limits::Limits,
    ring::{MovedView, RingProcessView, RingView, SlotRange},
    server::{Server, ServerHandle},
};
