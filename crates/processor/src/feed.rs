//! Events to be polled for: what streams and asynchronous handlers are made of.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use futures::FutureExt as _;
use kinformer_core::internal::panic_error;
use kinformer_core::{BoxError, Object};
use tokio::time::Sleep;

use crate::contained::drop_handler;
use crate::delivery::{AFTER_PANIC, AT_ONCE, Delivery, Panicked, Step};
use crate::event::Event;
use crate::handler::AsyncEventHandler;

/// The events of one handler, to be polled for.
pub(crate) struct EventFeed<T> {
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

/// Runs a handler whose callbacks are futures. Allocates nothing for an event.
pub(crate) async fn deliver_async<T: Object, H: AsyncEventHandler<Arc<T>>>(
    handler: H,
    delivery: Delivery<T>,
) {
    // Dropped in the reverse order: the handler before the feed, which marks its listener as done.
    let mut feed = EventFeed::new(delivery, Taker::Handler { pause: None });
    let mut handler = handler;
    while let Some(event) = poll_fn(|context| feed.poll_next(context)).await {
        let same = event.clone();
        feed.begin();
        let outcome = AssertUnwindSafe(async { handler.on_event(event).await }).catch_unwind().await;
        feed.end(same, outcome.map_err(panic_error));
    }
    drop_handler(&feed.delivery.listener.name, handler);
}

impl<T: Object> EventFeed<T> {
    /// The feed of a stream, whose events are processed when the next one is polled for.
    pub(crate) fn of_stream(delivery: Delivery<T>) -> Self {
        Self::new(delivery, Taker::Stream)
    }

    fn new(delivery: Delivery<T>, taker: Taker) -> Self {
        Self { delivery, left: AT_ONCE, taker }
    }

    /// The next event; `None` when the handler was removed or its processor has stopped, and again after that.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event<Arc<T>>>> {
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

    /// A callback begins. It is watched until [`Self::end`] is called.
    fn begin(&mut self) {
        self.delivery.listener.busy.store(true, Ordering::Relaxed);
    }

    /// The callback for this event has ended, and the event counts as delivered; or it has panicked.
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

    fn panicked(&mut self, panicked: &Panicked) {
        self.delivery.report(panicked);
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
