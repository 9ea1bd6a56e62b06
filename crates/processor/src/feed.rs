//! Events to be polled for: what streams and asynchronous handlers are made of.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use kinformer_core::{BoxError, Object};
use tokio::time::Sleep;

use crate::delivery::{Delivery, Panicked, Step};
use crate::event::Event;
use crate::run::{AFTER_PANIC, AT_ONCE, drop_contained, report};

/// The events of one handler, to be polled for.
///
/// It depends on no handler's type, so a loop over it is all that is compiled for an asynchronous handler:
/// [`deliver_async`](crate::deliver_async) is that loop. Allocates nothing for an event.
pub struct EventFeed<T>(Box<dyn Feed<T>>);

trait Feed<T>: Send {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event<Arc<T>>>>;
    fn begin(&mut self);
    fn end(&mut self, event: Event<Arc<T>>, outcome: Result<(), BoxError>);
    fn name(&self) -> &str;
}

impl<T: Object> EventFeed<T> {
    /// The feed of an asynchronous handler.
    pub(crate) fn of_handler(delivery: Delivery<T>) -> Self {
        Self(Box::new(DeliveryFeed { delivery, left: AT_ONCE, taker: Taker::Handler { pause: None } }))
    }

    /// The feed of a stream, whose events are processed when the next one is polled for.
    pub(crate) fn of_stream(delivery: Delivery<T>) -> Self {
        Self(Box::new(DeliveryFeed { delivery, left: AT_ONCE, taker: Taker::Stream }))
    }
}

impl<T> EventFeed<T> {
    /// The next event; `None` when the handler was removed or its processor has stopped, and again after that.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event<Arc<T>>>> {
        self.0.poll_next(context)
    }

    /// As [`Self::poll_next`]. Cancel-safe.
    pub async fn next(&mut self) -> Option<Event<Arc<T>>> {
        poll_fn(|context| self.0.poll_next(context)).await
    }

    /// A callback begins. It is watched until [`Self::end`] is called.
    pub fn begin(&mut self) {
        self.0.begin();
    }

    /// The callback for this event has ended, and the event counts as delivered; or it has panicked.
    pub fn end(&mut self, event: Event<Arc<T>>, outcome: Result<(), BoxError>) {
        self.0.end(event, outcome);
    }

    /// Drops the handler of this feed; a panic of it is logged.
    pub(crate) fn drop_contained<H>(&self, handler: H) {
        drop_contained(self.0.name(), handler);
    }
}

struct DeliveryFeed<T> {
    delivery: Delivery<T>,
    /// How many events may come before other tasks may use the thread.
    left: usize,
    taker: Taker,
}

enum Taker {
    /// An event is delivered when it is taken.
    Stream,
    /// An event is delivered when its callback ends; after a panic there is no event for a while.
    Handler { pause: Option<Pin<Box<Sleep>>> },
}

impl<T: Object> DeliveryFeed<T> {
    fn panicked(&mut self, panicked: &Panicked) {
        report(&self.delivery, panicked);
        if let Taker::Handler { pause } = &mut self.taker {
            *pause = Some(Box::pin(tokio::time::sleep(AFTER_PANIC)));
        }
    }

    /// Ready when no pause is left, or the listener is to stop.
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Taker::Handler { pause } = &mut self.taker else { return Poll::Ready(()) };
        if let Some(sleep) = pause
            && sleep.as_mut().poll(context).is_pending()
        {
            ready!(self.delivery.poll_stopped(context));
        }
        *pause = None;
        Poll::Ready(())
    }
}

impl<T: Object> Feed<T> for DeliveryFeed<T> {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event<Arc<T>>>> {
        loop {
            ready!(self.poll_pause(context));
            if self.delivery.listener.is_stopped() {
                return Poll::Ready(None);
            }
            if self.left == 0 {
                self.left = AT_ONCE;
                self.delivery.rest();
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.delivery.next(|event| Ok(event.clone())) {
                Ok(Step::Delivered(event)) => {
                    self.delivery.rest();
                    if let Taker::Stream = self.taker {
                        self.delivery.listener.has_delivered();
                        self.left = AT_ONCE;
                    }
                    return Poll::Ready(Some(event));
                }
                Ok(Step::Skipped) => self.left -= 1,
                Ok(Step::Empty) if self.delivery.is_closed() => return Poll::Ready(None),
                Ok(Step::Empty) => {
                    self.left = AT_ONCE;
                    self.delivery.rest();
                    ready!(self.delivery.poll_ready(context));
                }
                Err(panicked) => self.panicked(&panicked),
            }
        }
    }

    fn begin(&mut self) {
        self.delivery.listener.busy.store(true, Ordering::Relaxed);
    }

    fn end(&mut self, event: Event<Arc<T>>, outcome: Result<(), BoxError>) {
        self.delivery.listener.busy.store(false, Ordering::Relaxed);
        self.left = self.left.saturating_sub(1);
        match outcome {
            Ok(()) => {
                event.drop_contained();
                self.delivery.listener.has_delivered();
            }
            Err(error) => {
                let panicked = Panicked::over(&event, error);
                event.drop_contained();
                self.panicked(&panicked);
            }
        }
    }

    fn name(&self) -> &str {
        &self.delivery.listener.name
    }
}

impl<T> fmt::Debug for EventFeed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFeed").finish_non_exhaustive()
    }
}
