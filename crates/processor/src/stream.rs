//! Events as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::{BoxStream, FusedStream};
use kinformer_core::Object;

use crate::Registration;
use crate::event::Event;
use crate::inbox::Next;
use crate::run;
use crate::source::Source;

/// The events of a processor, to be taken one by one.
///
/// An event counts as finished when the next one is asked for. The stream ends when the processor stops or the
/// registration is removed, without the events that were not taken by then; polled after its end, it is at its end
/// again. Dropping it removes the registration. What is not taken waits, visibly, in the
/// [statistics](Registration::stats).
#[must_use = "streams do nothing unless polled"]
pub struct EventStream<T> {
    registration: Registration,
    /// Until the end.
    events: Option<BoxStream<'static, Event<Arc<T>>>>,
}

impl<T: Object> EventStream<T> {
    pub(crate) fn new(registration: Registration, source: Source<T>) -> Self {
        // Nobody is to wait for a stream: it ends by itself when it is polled again.
        registration.listener.done.cancel();
        let events = futures::stream::unfold(source, |mut source| async move {
            loop {
                if source.listener.is_stopped() {
                    return None;
                }
                match run::next(&mut source, |event| Ok(event.clone())) {
                    Ok(Next::Told(event)) => {
                        source.listener.has_told();
                        source.rest();
                        return Some((event, source));
                    }
                    Ok(Next::Passed) => {}
                    Ok(Next::Empty) if source.is_closed() => return None,
                    Ok(Next::Empty) => source.wait().await,
                    Err(panicked) => run::report(&source, &panicked),
                }
            }
        });
        Self { registration, events: Some(Box::pin(events)) }
    }

    /// To see how far behind it is, and whether it has taken the initial list.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }
}

impl<T> Stream for EventStream<T> {
    type Item = Event<Arc<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<Arc<T>>>> {
        let Some(events) = &mut self.events else { return Poll::Ready(None) };
        let next = events.as_mut().poll_next(context);
        if let Poll::Ready(None) = next {
            self.events = None;
        }
        next
    }
}

impl<T> FusedStream for EventStream<T> {
    fn is_terminated(&self) -> bool {
        self.events.is_none()
    }
}

impl<T> Drop for EventStream<T> {
    fn drop(&mut self) {
        drop(self.registration.remove());
    }
}

impl<T> fmt::Debug for EventStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("registration", &self.registration).finish_non_exhaustive()
    }
}
