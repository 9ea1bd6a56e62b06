//! A cluster for a test: a server, a ready client, and waits.

mod builder;
mod manifests;
mod objects;
mod server;
mod test_cluster;
mod transport;
mod wait;

pub use builder::TestClusterBuilder;
pub use test_cluster::TestCluster;
pub use wait::{NotReached, Wait};
