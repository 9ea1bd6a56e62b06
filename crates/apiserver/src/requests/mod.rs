//! The log of the newest requests.

mod log;
mod logged;

pub(crate) use log::RequestLog;
pub use logged::{LoggedRequest, LoggedRequests};
