//! The log of the newest requests.

mod log;
mod logged;

pub(crate) use log::RequestLog;
pub(crate) use logged::is_client;
pub use logged::{LoggedRequest, LoggedRequests};
