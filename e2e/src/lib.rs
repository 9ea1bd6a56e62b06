//! A real control plane (etcd, kube-apiserver) on loopback, in a temporary folder, without downloads.
//!
//! The program that is all of its components is built from `e2e/control-plane` by `cargo xtask e2e`, which names
//! it in the variable [`PROGRAM`].

mod control_plane;
mod process;

pub use control_plane::{ControlPlane, Error, Options, PROGRAM};
