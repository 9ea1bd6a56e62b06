//! Counts the requests of the clients of this process.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::{Method, StatusCode, Uri};
use parking_lot::Mutex;

/// The number of requests to one server with one result, since the start of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCount {
    /// The status code of the responses; `None` for requests without one.
    pub status: Option<u16>,
    /// The method, such as `GET`.
    pub method: Method,
    /// The host of the server, with its port unless that is of the scheme.
    pub host: String,
    /// The number.
    pub count: u64,
}

/// By host, method and status.
type Counts = BTreeMap<(String, String, Option<u16>), u64>;

static COUNTS: LazyLock<Mutex<Counts>> = LazyLock::new(Mutex::default);

/// Returns the numbers of requests of all clients that [`client`](crate::client) and [`client_http1`](crate::client_http1) have made
/// in this process, ordered by host, method and status. A request that is sent again counts again.
///
/// Follows client-go 0.37 (`rest_client_requests_total`).
pub fn request_counts() -> Vec<RequestCount> {
    let counts = COUNTS.lock();
    let counts = counts.iter().filter_map(|((host, method, status), count)| {
        let method = method.parse().ok()?;
        Some(RequestCount { status: *status, method, host: host.clone(), count: *count })
    });
    counts.collect()
}

pub(super) fn count(server: &Uri, method: &Method, status: Option<StatusCode>) {
    let host = server.authority().map_or("", |authority| authority.as_str());
    let key = (host.to_owned(), method.as_str().to_owned(), status.map(|status| status.as_u16()));
    *COUNTS.lock().entry(key).or_default() += 1;
}
