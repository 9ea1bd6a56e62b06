//! The places of open connections.
//!
//! A connection is idle while no response to a request of it is awaited or taken from its body. If all places are taken,
//! the connection that has been idle for longest is closed for a new one, so that connections which send nothing cannot
//! keep others out. The number of those that are not idle is limited by the limits of requests and streams.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The places.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    shutdown: CancellationToken,
    table: Mutex<Table>,
    /// Notified when a connection ends or becomes idle.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    open: usize,
    next: u64,
    /// The idle connections, in the order in which they became idle.
    idle: BTreeMap<u64, CancellationToken>,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    /// The position among the idle connections; `None` while a request is answered.
    position: Mutex<Option<u64>>,
    /// Cancelled at shutdown, and when the place is needed for a new connection. A connection is polled for each change of
    /// a stream, so it waits for one token.
    pub(crate) closed: CancellationToken,
}

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Place>);

impl Connections {
    pub(crate) fn new(most: usize, shutdown: CancellationToken) -> Arc<Self> {
        Arc::new(Self { most, shutdown, table: Mutex::default(), changed: Notify::new() })
    }

    /// Returns a place for a new connection. If there is none, closes the connection that has been idle for longest, and
    /// waits until it has ended. For one caller at a time.
    pub(crate) async fn place(self: &Arc<Self>) -> Arc<Place> {
        let mut closing = false;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut table = self.table.lock();
                if table.open < self.most {
                    table.open += 1;
                    let closed = self.shutdown.child_token();
                    let position = Mutex::new(Some(table.add(closed.clone())));
                    return Arc::new(Place { connections: self.clone(), position, closed });
                }
                if !closing && let Some((_, longest)) = table.idle.pop_first() {
                    closing = true;
                    longest.cancel();
                }
            }
            changed.await;
        }
    }
}

impl Table {
    fn add(&mut self, closed: CancellationToken) -> u64 {
        self.next += 1;
        self.idle.insert(self.next, closed);
        self.next
    }
}

impl Place {
    /// Marks the connection as not idle. A connection has one request at a time.
    pub(crate) fn answering(self: &Arc<Self>) -> Answering {
        if let Some(position) = self.position.lock().take() {
            self.connections.table.lock().idle.remove(&position);
        }
        Answering(self.clone())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Self(place) = self;
        *place.position.lock() = Some(place.connections.table.lock().add(place.closed.clone()));
        place.connections.changed.notify_one();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.connections.table.lock();
        table.open = table.open.saturating_sub(1);
        if let Some(position) = self.position.get_mut() {
            table.idle.remove(position);
        }
        drop(table);
        self.connections.changed.notify_one();
    }
}

/// A body, and what is held until it was sent or dropped.
pub(crate) struct Holding<T> {
    body: Body,
    _held: T,
}

impl<T: Send + Unpin + 'static> Holding<T> {
    pub(crate) fn body(body: Body, held: T) -> Body {
        Body::new(Self { body, _held: held })
    }
}

impl<T: Unpin> http_body::Body for Holding<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    // contract: H-19b
    #[tokio::test]
    async fn connection_that_is_idle_for_longest_is_closed_for_a_new_one() {
        let connections = Connections::new(3, CancellationToken::new());
        let [first, second, third] =
            [connections.place().await, connections.place().await, connections.place().await];
        let answering = first.answering();
        let mut fourth = Box::pin(connections.place());
        assert!((&mut fourth).now_or_never().is_none());
        let closed = [&first, &second, &third].map(|place| place.closed.is_cancelled());
        assert_eq!(closed, [false, true, false], "the first is not idle");
        // One that becomes idle meanwhile does not close another connection.
        drop(answering);
        assert!((&mut fourth).now_or_never().is_none());
        assert!(!first.closed.is_cancelled() && !third.closed.is_cancelled());
        drop(second);
        let fourth = fourth.now_or_never().unwrap();
        // If all are answering, a new connection waits for the first that is idle.
        let [one, _two, _three] = [first.answering(), third.answering(), fourth.answering()];
        let mut fifth = Box::pin(connections.place());
        assert!((&mut fifth).now_or_never().is_none());
        drop(one);
        assert!((&mut fifth).now_or_never().is_none());
        assert!(first.closed.is_cancelled() && !third.closed.is_cancelled());
        drop(first);
        assert!(fifth.now_or_never().is_some());
    }

    /// A wait that was dropped leaves no place taken.
    #[tokio::test]
    async fn dropped_wait_takes_no_place() {
        let connections = Connections::new(1, CancellationToken::new());
        let first = connections.place().await;
        drop(first.answering());
        assert!(connections.place().now_or_never().is_none());
        drop(first);
        assert!(connections.place().now_or_never().is_some());
        let table = connections.table.lock();
        assert_eq!((table.open, table.idle.len()), (0, 0));
    }
}
