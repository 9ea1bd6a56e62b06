//! Bodies of requests.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, header};
use http_body::{Frame, SizeHint};
use kube_client::Error;
use kube_client::client::Body;

/// A body that records whether the connection has begun to read it.
pub(super) struct Outgoing {
    body: Body,
    is_read: Arc<AtomicBool>,
}

/// An extension that records whether a request still has its extensions.
#[derive(Clone)]
struct Head {
    _alive: Arc<()>,
}

/// Whether the server may have received a request completely.
pub(super) struct Sent {
    /// Whether the request is complete without its body, and changes something.
    is_write_without_body: bool,
    is_read: Arc<AtomicBool>,
    /// Dropped with the extensions of the request, by the connection that takes it.
    head: Weak<()>,
}

impl Sent {
    /// Whether a connection has taken the request from its queue.
    pub(super) fn is_taken(&self) -> bool {
        self.head.strong_count() == 0 || self.is_read.load(Ordering::Relaxed)
    }

    /// Whether the server certainly did not receive a write.
    pub(super) fn is_unsent(&self) -> bool {
        !self.is_write_without_body && !self.is_read.load(Ordering::Relaxed)
    }
}

impl Outgoing {
    pub(super) fn new(mut request: Request<Body>) -> (Request<Self>, Sent) {
        let head = Arc::new(());
        let is_read = Arc::new(AtomicBool::new(false));
        // An upgrade may be an `exec`.
        let is_write = !matches!(*request.method(), Method::GET | Method::HEAD)
            || request.headers().contains_key(header::UPGRADE);
        let is_write_without_body = is_write && http_body::Body::is_end_stream(request.body());
        let sent = Sent { is_write_without_body, is_read: is_read.clone(), head: Arc::downgrade(&head) };
        request.extensions_mut().insert(Head { _alive: head });
        (request.map(|body| Self { body, is_read }), sent)
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.is_read.store(true, Ordering::Relaxed);
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
