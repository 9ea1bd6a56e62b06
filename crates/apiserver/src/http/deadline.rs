//! The parameter `timeout` of requests.

use std::time::Duration;

use tokio::time::Instant;

use super::request::Query;
use crate::builtin::duration_fault;
use crate::faults::Verb;
use crate::schema::go_duration;
use crate::status::Status;

/// The longest time that a request can have.
const MAX: Duration = Duration::from_secs(60);

/// Returns when a request ends that says so; `None` for the time limits of the server. Watches have a timeout of their own.
///
/// Follows Kubernetes 1.37 (`WithRequestDeadline`).
///
/// # Errors
/// 400 for a text that is no duration.
pub(super) fn of(query: &Query, verb: Verb) -> Result<Option<Instant>, Status> {
    let text = query.text("timeout");
    if text.is_empty() || verb == Verb::Watch {
        return Ok(None);
    }
    if let Some(why) = duration_fault(text) {
        let message = format!("invalid timeout specified in the request URL - time: {why}");
        return Err(Status::bad_request(message));
    }
    let nanoseconds = go_duration(text).and_then(|nanoseconds| u64::try_from(nanoseconds).ok());
    let timeout =
        nanoseconds.map(Duration::from_nanos).filter(|timeout| !timeout.is_zero() && *timeout < MAX);
    Ok(timeout.map(|timeout| Instant::now() + timeout))
}

/// The answer of a request that has reached its end.
pub(super) fn exceeded() -> Status {
    let why = "Timeout: request did not complete within requested timeout - context deadline exceeded";
    Status::new(504, "Timeout", why).retry_after(0)
}
