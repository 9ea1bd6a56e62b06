//! A model of kube-apiserver: one history, watch caches that lag behind it, and faults.
//!
//! [`Cluster`] has the history of all objects. [`Server`] is one kube-apiserver of the cluster, with a watch cache of its
//! own, and a `tower::Service` for `kube_client::Client::new`. [`Balancer`] distributes requests among several servers.
//!
//! The model is simple rather than fast: each list is computed from the history. With tokio's paused clock on a
//! current-thread runtime, equal seeds and equal requests lead to equal bytes in equal chunks.
//!
//! Follows kube-apiserver 1.37 (`CacheDelegator`, `Cacher`) in which requests the watch cache answers, which wait for it,
//! and which events a watch does not send. Single objects are read and written in the history, with the preconditions of
//! their versions and UIDs; patches are JSON merge patches. Left out: field selectors, label selectors other than
//! `key=value`, finalizers, generations, and writes of several objects.

mod balancer;
mod body;
mod cache;
mod cluster;
mod damage;
mod encoding;
mod faults;
mod history;
mod list;
mod object;
mod request;
mod service;
mod state;
mod status;
mod watch;

pub use balancer::{Balancer, Route};
pub use body::AnswerBody;
pub use cache::Lag;
pub use cluster::Cluster;
pub use faults::{Damage, Fault, Stop, Verb};
pub use history::{Change, History, Key};
pub(crate) use request::{DISCOVERY, is_of_object};
pub(crate) use service::Seen;
pub use service::Server;
pub use state::{Options, WatchErrors};
pub(crate) use status::Status;
