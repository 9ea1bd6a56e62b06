//! Requests of the log, and their selection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::faults::Verb;

/// The longest path, in bytes.
const MAX_PATH: usize = 2_048;
/// The longest message, in bytes.
const MAX_MESSAGE: usize = 1_024;

/// A request that the server has received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedRequest {
    /// The method of HTTP: `PATCH`.
    pub method: String,
    /// The path and the query, cut after 2,048 bytes.
    pub path: String,
    /// The verb.
    pub verb: Verb,
    /// The plural of the resource; empty for a request without a resource that is served.
    pub resource: String,
    /// The subresource, such as `status`; empty for a request for the object itself.
    pub subresource: String,
    /// The namespace; empty for all namespaces and for cluster-scoped kinds.
    pub namespace: String,
    /// The name of the object; empty for a request for several objects, and for a create.
    pub name: String,
    /// The parameter `fieldManager`; empty if the request has none.
    pub field_manager: String,
    /// The header `User-Agent`; empty if the request has none.
    pub user_agent: String,
    /// The status code of the response; `None` if there is none: not yet, or because the connection was closed.
    pub code: Option<u16>,
    /// The message of the `Status` with which the request was refused, cut after 1,024 bytes; empty if it was not.
    pub message: String,
    /// When the request arrived, since the start of the server, on tokio's clock.
    pub since_start: Duration,
    /// The time until the head of the response, or until the connection was closed without one, on tokio's clock.
    pub duration: Option<Duration>,
}

impl LoggedRequest {
    /// A request for no object.
    pub(crate) fn of(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: shortened(path, MAX_PATH),
            verb: Verb::Other,
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            field_manager: String::new(),
            user_agent: String::new(),
            code: None,
            message: String::new(),
            since_start: Duration::ZERO,
            duration: None,
        }
    }

    pub(super) fn set_message(&mut self, message: &str) {
        self.message = shortened(message, MAX_MESSAGE);
    }

    /// Whether the request can change objects.
    pub fn is_write(&self) -> bool {
        use Verb::{Create, Delete, DeleteCollection, Patch, Update};
        matches!(self.verb, Create | Update | Patch | Delete | DeleteCollection)
    }
}

fn shortened(text: &str, length: usize) -> String {
    let mut end = text.len().min(length);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// One line: `+1.204s PATCH /api/v1/… by my-operator: 404 after 0.003s: pods "a" not found`.
impl fmt::Display for LoggedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, since_start, .. } = self;
        write!(f, "+{:.3}s {method} {path}", since_start.as_secs_f64())?;
        // The field manager is in the path.
        if !self.user_agent.is_empty() {
            write!(f, " by {}", self.user_agent)?;
        }
        match (self.code, self.duration) {
            (Some(code), Some(duration)) => write!(f, ": {code} after {:.3}s", duration.as_secs_f64())?,
            (None, Some(_)) => f.write_str(": connection closed")?,
            _ => f.write_str(": no response yet")?,
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message.replace('\n', " ")) }
    }
}

/// Whether a client is named by its field manager, or by the program in its `User-Agent`, the text before `/`.
pub(crate) fn is_client(client: &str, field_manager: &str, user_agent: &str) -> bool {
    let program = user_agent.split('/').next();
    field_manager == client || program == Some(client) && !client.is_empty()
}

/// Requests of the log, oldest first, as they were when the log was read.
///
/// Selections have the words of [`Fault`](crate::Fault):
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use kinformer_apiserver::{ApiServer, Verb};
/// # let server = ApiServer::builder().request_log(100).start().await?;
/// let written = server.requests().on(Verb::Patch).resource("pods").subresource("status");
/// assert_eq!(written.len(), 0, "{written}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a selection does nothing until it is read"]
pub struct LoggedRequests(Vec<Arc<LoggedRequest>>);

impl LoggedRequests {
    pub(crate) fn new(requests: Vec<Arc<LoggedRequest>>) -> Self {
        Self(requests)
    }

    /// Selects the requests for which the function returns true.
    pub fn filter(mut self, mut wanted: impl FnMut(&LoggedRequest) -> bool) -> Self {
        self.0.retain(|request| wanted(request));
        self
    }

    /// Selects the requests with this verb.
    pub fn on(self, verb: Verb) -> Self {
        self.filter(|request| request.verb == verb)
    }

    /// Selects the requests for this resource, by its plural: `pods`. They include those for its subresources.
    pub fn resource(self, plural: &str) -> Self {
        self.filter(|request| request.resource == plural)
    }

    /// Selects the requests for this subresource: `status`. An empty name selects those for objects themselves.
    pub fn subresource(self, name: &str) -> Self {
        self.filter(|request| request.subresource == name)
    }

    /// Selects the requests in this namespace.
    pub fn namespace(self, name: &str) -> Self {
        self.filter(|request| request.namespace == name)
    }

    /// Selects the requests for the object of this name. A create has its name in its body only.
    pub fn name(self, name: &str) -> Self {
        self.filter(|request| request.name == name)
    }

    /// Selects the requests that can change objects.
    pub fn writes(self) -> Self {
        self.filter(LoggedRequest::is_write)
    }

    /// Selects the requests of a client, by its field manager or the program in its `User-Agent`, the text before `/`.
    pub fn by(self, client: &str) -> Self {
        self.filter(|request| is_client(client, &request.field_manager, &request.user_agent))
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the requests, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &LoggedRequest> {
        self.0.iter().map(|request| &**request)
    }

    /// Selects the newest requests, at most this many.
    pub fn last(mut self, requests: usize) -> Self {
        self.0.drain(..self.0.len().saturating_sub(requests));
        self
    }
}

/// A line for each request, oldest first.
impl fmt::Display for LoggedRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, request) in self.iter().enumerate() {
            write!(f, "{}{request}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}
