//! The events of a handler as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::FusedStream;
use kinformer_core::Object;

use crate::event::Event;
use crate::feed::EventFeed;
use crate::registration::Registration;

/// The events of a processor as a stream.
///
/// An event counts as delivered when the stream returns it, and as processed when the stream is polled for the next
/// one. The stream ends when the processor stops or the registration is removed; undelivered events are discarded then.
/// Polled after its end, it returns `None` again. Dropping it removes the registration. The
/// [metrics](Registration::metrics) count its undelivered events. Allocates nothing for an event.
///
/// Polling is cancel safe: `poll_next` holds no event between two calls.
#[must_use = "streams do nothing unless polled"]
pub struct ListenerStream<T> {
    registration: Registration,
    /// `None` after the end.
    feed: Option<EventFeed<T>>,
}

impl<T> ListenerStream<T> {
    pub(crate) fn new(registration: Registration, feed: EventFeed<T>) -> Self {
        // A removal does not wait for a stream, which ends only when it is polled again.
        registration.listener.done.cancel();
        Self { registration, feed: Some(feed) }
    }

    /// Returns the registration of the stream: its metrics, and whether it has taken the initial list.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }
}

impl<T: Object> Stream for ListenerStream<T> {
    type Item = Event<Arc<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<Arc<T>>>> {
        let Some(feed) = &mut self.feed else { return Poll::Ready(None) };
        let next = feed.poll_next(context);
        if let Poll::Ready(None) = next {
            self.feed = None;
        }
        next
    }
}

impl<T: Object> FusedStream for ListenerStream<T> {
    fn is_terminated(&self) -> bool {
        self.feed.is_none()
    }
}

impl<T> Drop for ListenerStream<T> {
    fn drop(&mut self) {
        drop(self.registration.remove());
    }
}

impl<T> fmt::Debug for ListenerStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerStream").field("registration", &self.registration).finish_non_exhaustive()
    }
}
