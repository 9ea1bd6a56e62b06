//! The limits of a server.

use std::time::Duration;

use crate::memory::Bounds;
use crate::views::ViewBounds;

/// The places of connections beside those of requests and streams.
const IDLE_PLACES: usize = 16;

/// The limits of a [`Server`](crate::Server). The defaults suit a person with a browser, and a few programs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Limits {
    pub(crate) changes: usize,
    pub(crate) change_bytes: usize,
    pub(crate) views: usize,
    pub(crate) view_bytes: usize,
    pub(crate) view_idle: Duration,
    pub(crate) streams: usize,
    pub(crate) requests: usize,
    pub(crate) connections: usize,
    pub(crate) request_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) changes_per_second: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            changes: 10_000,
            change_bytes: 64 << 20,
            views: 16,
            view_bytes: 256 << 20,
            view_idle: Duration::from_secs(120),
            streams: 64,
            requests: 256,
            connections: 512,
            request_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            changes_per_second: 200,
        }
    }
}

impl Limits {
    /// The changes that are remembered for histories and for streams that resume, among all informers: 10,000 by default.
    pub fn changes(mut self, most: usize) -> Self {
        self.changes = most.max(1);
        self
    }

    /// The encoded bytes of the objects of remembered changes: 64 MiB by default.
    pub fn change_bytes(mut self, most: usize) -> Self {
        self.change_bytes = most;
        self
    }

    /// The lists whose pages can be read at the same time: 16 by default. The least recently used one is dropped.
    pub fn views(mut self, most: usize) -> Self {
        self.views = most.max(1);
        self
    }

    /// The encoded bytes of the objects of these lists, which keep the states that they were made of: 256 MiB by default.
    /// An object of several lists counts for each of them. One list is kept whatever its size.
    pub fn view_bytes(mut self, most: usize) -> Self {
        self.view_bytes = most;
        self
    }

    /// How long a list is kept after its last page was read: 120 s by default.
    pub fn view_idle(mut self, idle: Duration) -> Self {
        self.view_idle = idle;
        self
    }

    /// The streams of events at the same time: 64 by default.
    pub fn streams(mut self, most: usize) -> Self {
        self.streams = most;
        self
    }

    /// The requests that are answered at the same time, until their response was sent: 256 by default. Streams and
    /// requests for the health do not count.
    pub fn requests(mut self, most: usize) -> Self {
        self.requests = most;
        self
    }

    /// The open connections: 512 by default, and always enough for all requests and streams and for 16 more. If there are
    /// more, the one that has been idle for longest is closed, so that a new one, such as that of a probe, is answered.
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    /// The time for one request, without streams: 30 s by default.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How long a client may read nothing of a response that waits to be sent: 30 s by default. Its connection is then
    /// closed, also that of a stream.
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// The changes that one stream sends in a second: 200 by default. Older ones are skipped, and the stream says how many.
    pub fn changes_per_second(mut self, most: usize) -> Self {
        self.changes_per_second = most.max(1);
        self
    }

    /// The places for connections. Some are left when all requests and streams are being answered.
    pub(crate) fn places(&self) -> usize {
        self.connections.max(self.requests.saturating_add(self.streams).saturating_add(IDLE_PLACES))
    }

    pub(crate) fn memory(&self) -> Bounds {
        Bounds { changes: self.changes, bytes: self.change_bytes }
    }

    pub(crate) fn views_bounds(&self) -> ViewBounds {
        ViewBounds { views: self.views, bytes: self.view_bytes, idle: self.view_idle }
    }
}
