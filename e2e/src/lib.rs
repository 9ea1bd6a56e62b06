//! A real control plane (etcd, kube-apiserver) on loopback, in a temporary folder, without downloads, and the tools
//! with which the suite checks informers against it.
//!
//! A [`Writer`] makes random changes and records their [`History`]. An [`InformerProgram`] prints the events of its
//! informers as [`Line`]s. The history either explains the lines, or an informer is wrong.
//!
//! The programs are built by `cargo xtask e2e`, which names them in the variables of [`programs`].

mod control_plane;
mod error;
mod etcd;
mod history;
mod informer_program;
mod line;
mod mode;
mod process;
pub mod programs;
mod proxy;
mod workload;

pub use control_plane::{ControlPlane, Options, free_ports};
pub use error::Error;
pub use etcd::{Etcd, Stored};
pub use history::{History, Unexplained};
pub use informer_program::InformerProgram;
pub use line::{Line, ObjectEvent, Stopped};
pub use mode::{Mode, Objects};
pub use proxy::Proxy;
pub use workload::{GROUP_VERSION_RESOURCES, RESOURCES, Writer};
