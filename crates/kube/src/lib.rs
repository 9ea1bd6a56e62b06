//! Kubernetes as the source of a reflector.
//!
//! [`KubeListerWatcher`] lists and watches any kind over a `kube_client::Client`:
//!
//! * typed objects, [`KubeListerWatcher::new`]: any `K: Resource + DeserializeOwned`, in a [`KubeObject`];
//! * dynamic objects, [`KubeListerWatcher::discover`]: a kind that is known only by its name;
//! * packed objects, [`KubeListerWatcher::packed`]: the same, decoded only when they are read;
//! * metadata only: `KubeListerWatcher::<PartialObjectMeta<K>>`, by content negotiation, so that the server
//!   does not even send the rest.
//!
//! # How it works
//!
//! Requests go out by the client's raw path, so that authentication, TLS and kubeconfig are kube-client's.
//! Answers are taken apart as the bytes arrive ([`kinformer_wire`]): a list is never held as a whole, managed fields
//! are dropped, and an object that does not decode is reported by its key while everything else goes on; an event
//! without a readable key ends the watch, which begins again before it. A list of another kind is refused. Built-in
//! kinds and metadata are asked for in protobuf, which costs the server and us a fraction of JSON; a server that has
//! none answers in JSON.
//!
//! # Trade-offs
//!
//! Retrying is the reflector's. kube-client has retries of its own that hide a busy server for minutes; so
//! make the client with [`client`], which switches them off. The feature `rustls-tls`, on by
//! default, gives kube-client HTTPS.
//!
//! # Example
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use kinformer_kube::{KubeListerWatcher, client};
//! use kinformer_reflector::{ListOptions, ListerWatcher};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = client(kube_client::Config::infer().await?)?;
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
mod error;
mod list_kind;
mod lister_watcher;
mod object;
mod params;
mod path;

pub use client::{client, client_http1, drop_credentials, sends_credentials};
pub use error::Error;
pub use kinformer_wire::{
    DecodeAs, Decoded, DecodedRef, Encoding, FieldPath, FromWire, ManagedFields, ObjectDecoder, Packed,
    PackedObject, PackedRef,
};
pub use lister_watcher::KubeListerWatcher;
pub use object::KubeObject;
pub use params::Params;
pub use path::check_group_version;
