//! The protocol on the Leases of an API server.

mod calls;
mod driver;
mod error;
mod inner;
mod names;
mod owned;
mod process;
mod reads;
mod ring;
mod shards;
mod writes;

pub use error::RunError;
pub use inner::RingMetrics;
pub use names::LABEL;
pub use process::RingProcess;
pub use ring::{Ring, RingBuilder};
pub use shards::Shards;
