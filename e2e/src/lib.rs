//! A real control plane (etcd, kube-apiserver) on loopback, in a temporary folder, without downloads, and what the
//! suite needs to judge what informers say about it.
//!
//! A [`Writer`] writes at random and keeps the [`History`] of what it wrote; programs that are [`Listening`] tell in
//! [`Line`]s what their informers heard; the history explains the lines or not.
//!
//! The programs are built by `cargo xtask e2e`, which names them in the variables of [`programs`].

mod control_plane;
mod error;
mod etcd;
mod history;
mod line;
mod listening;
mod mode;
mod process;
pub mod programs;
mod proxy;
mod workload;

pub use control_plane::{ControlPlane, Options};
pub use error::Error;
pub use etcd::{Etcd, Stored};
pub use history::{History, Unexplained};
pub use line::{Line, Stopped, Told};
pub use listening::Listening;
pub use mode::{Mode, Objects};
pub use proxy::Proxy;
pub use workload::{GROUP_VERSION_RESOURCES, RESOURCES, Writer};
