//! Lists and watches a Kubernetes API server, as the source of a reflector.
//!
//! [`KubeListerWatcher`] lists and watches any kind over a `kube_client::Client`:
//!
//! * typed objects, [`KubeListerWatcher::new`]: any `K: Resource + DeserializeOwned`, in a [`KubeObject`];
//! * dynamic objects, [`KubeListerWatcher::discover`]: a kind without a Rust type;
//! * packed objects, [`KubeListerWatcher::packed`]: any kind, decoded only when an object is read;
//! * metadata only: `KubeListerWatcher::<PartialObjectMeta<K>>`, by content negotiation, so that the server sends
//!   nothing else.
//!
//! # How it works
//!
//! Requests are sent through kube-client's raw request method. [`config`] and [`Kubeconfig`] read kubeconfigs as kubectl
//! does. Responses are split into objects as the bytes arrive ([`kinformer_wire`]): a list is never held in
//! memory as one piece, managed fields are dropped, and an object that cannot be decoded is reported with its key while
//! all others are processed. An event without a known key ends the watch, and the next watch starts before that
//! event. A list of another kind is refused. Built-in kinds and metadata are requested in protobuf, which takes a
//! fraction of the CPU time of JSON on both sides; a server without protobuf responds in JSON.
//!
//! # Trade-offs
//!
//! The reflector retries failed requests. kube-client's own retries would hide a busy server for minutes, so create the
//! client with [`client`], which disables them. The feature `rustls-tls`, enabled by default, gives kube-client HTTPS.
//!
//! # Example
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use kinformer_kube::{KubeListerWatcher, client, config};
//! use kinformer_reflector::{ListOptions, ListerWatcher};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = client(config()?)?;
//! let pods = KubeListerWatcher::<Pod>::new(client).namespace("default").labels("app=web");
//! let list = pods.list(ListOptions::at_version("0")).await?;
//! println!("{} pods at version {}", list.objects.len(), list.resource_version);
//! # Ok(())
//! # }
//! ```
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod client;
mod decode;
mod discovery;
mod error;
mod filter;
#[doc(hidden)]
pub mod internal;
mod kubeconfig;
mod list_kind;
mod lister_watcher;
mod metadata;
mod object;
mod params;
mod path;
mod scope;
mod selector;
mod shard;
mod watch_events;

pub use client::{
    RequestCount, client, client_http1, drop_credentials, parse_server, request_counts, sends_credentials,
};
pub use discovery::discovery_client;
pub use error::Error;
pub use filter::NamespaceFilter;
pub use kubeconfig::{Kubeconfig, config};
// What users of this crate need of other crates.
#[doc(no_inline)]
pub use kinformer_core::{KeyRef, Object, ObjectKey, ResourceVersion};
#[doc(no_inline)]
pub use kinformer_reflector::{ListOptions, ListerWatcher, SourceError, WatchEvent, WatchOptions};
pub use kinformer_wire::{
    DecodeAs, Decoded, DecodedCache, DecodedRef, Encoding, Error as WireError, FieldPath, FromWire,
    ManagedFields, ObjectDecoder, Packed, PackedObject, PackedRef, ProtobufProblem,
};
pub use lister_watcher::KubeListerWatcher;
pub use metadata::PackedMetadata;
pub use object::KubeObject;
pub use params::Params;
pub use path::check_group_version;
pub use selector::{LabelSelector, SelectorError, SelectorProblem};
pub use shard::{Shard, ShardField, ShardSelector, fnv1a64};
pub use {k8s_openapi, kube_client, kube_core};
