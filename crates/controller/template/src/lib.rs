//! An operator of websites: each has a Deployment and a Service.

pub mod controller;
pub mod manifests;
mod resources;
pub mod website;

/// The name of the operator: its field manager, its Lease, and its objects in the cluster.
pub const NAME: &str = "{{project-name}}";
