//! A real control plane (etcd, kube-apiserver) on loopback, in a temporary folder, without downloads, and what the
//! suite needs to judge what informers say about it.
//!
//! The programs are built by `cargo xtask e2e`, which names them in the variables of [`programs`].

mod control_plane;
mod process;
pub mod programs;

pub use control_plane::{ControlPlane, Error, Options};
