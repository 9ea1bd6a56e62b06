//! Fault injection.

mod fault;
mod injection;
mod listener;
mod request;
mod requested;
mod verb;

pub use fault::Fault;
pub(crate) use fault::Kind;
pub use injection::{FaultId, Faults};
pub(crate) use listener::ListenerState;
pub(crate) use request::RequestFaults;
pub(crate) use requested::Requested;
pub use verb::Verb;
