//! A pollable feed of events, used by streams and asynchronous handlers.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use kinformer_core::internal::contain_async;
use kinformer_core::{BoxError, Object};
use tokio::time::Sleep;

use crate::contained::drop_handler;
use crate::delivery::{Delivery, PAUSE_AFTER_PANIC, Panicked, Step, YIELD_AFTER};
use crate::event::Event;
use crate::handler::AsyncEventHandler;

/// A pollable feed of the events of one handler.
pub(crate) struct EventFeed<T> {
    delivery: Delivery<T>,
    /// The number of events that may still be processed before the task yields.
    left: usize,
    consumer: Consumer,
}

enum Consumer {
    /// An event counts as delivered when the stream returns it.
    Stream,
    /// An event counts as delivered when its callback ends. After a panic there is a pause.
    Handler { pause: Option<Pin<Box<Sleep>>> },
}

/// Runs a handler whose callbacks are futures. Allocates nothing for an event.
pub(crate) async fn deliver_async<T: Object, H: AsyncEventHandler<Arc<T>>>(
    handler: H,
    delivery: Delivery<T>,
) {
    // Dropped in the reverse order: the handler before the feed, which marks its listener as done.
    let mut feed = EventFeed::new(delivery, Consumer::Handler { pause: None });
    let mut handler = handler;
    while let Some(event) = poll_fn(|context| feed.poll_next(context)).await {
        let copy = event.clone();
        feed.begin();
        let outcome = contain_async(async { handler.on_event(event).await }).await;
        feed.end(copy, outcome);
    }
    drop_handler(&feed.delivery.listener.name, handler);
}

impl<T: Object> EventFeed<T> {
    /// Creates the feed of a stream. An event counts as processed when the feed is polled for the next one.
    pub(crate) fn of_stream(delivery: Delivery<T>) -> Self {
        Self::new(delivery, Consumer::Stream)
    }

    fn new(delivery: Delivery<T>, consumer: Consumer) -> Self {
        Self { delivery, left: YIELD_AFTER, consumer }
    }

    /// Returns the next event; `None` after the handler was removed or its processor has stopped.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event<Arc<T>>>> {
        loop {
            ready!(self.poll_pause(context));
            if self.delivery.listener.is_stopped() {
                return Poll::Ready(None);
            }
            if self.left == 0 {
                self.left = YIELD_AFTER;
                self.delivery.drop_previous();
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.delivery.next(|event| Ok(event.clone())) {
                Ok(Step::Delivered(event)) => {
                    self.delivery.drop_previous();
                    if let Consumer::Stream = self.consumer {
                        self.delivery.listener.count_delivered();
                        self.left = YIELD_AFTER;
                    }
                    return Poll::Ready(Some(event));
                }
                Ok(Step::Skipped) => self.left -= 1,
                Ok(Step::Empty) if self.delivery.is_closed() => return Poll::Ready(None),
                Ok(Step::Empty) => {
                    self.left = YIELD_AFTER;
                    self.delivery.drop_previous();
                    ready!(self.delivery.poll_ready(context));
                }
                Err(panicked) => self.panicked(&panicked),
            }
        }
    }

    /// Records the start of a callback. The watchdog monitors it until [`Self::end`] is called.
    fn begin(&mut self) {
        self.delivery.listener.busy.store(true, Ordering::Relaxed);
    }

    /// Records the end of the callback for this event: counts the event as delivered, or reports the panic.
    fn end(&mut self, event: Event<Arc<T>>, outcome: Result<(), BoxError>) {
        self.delivery.listener.busy.store(false, Ordering::Relaxed);
        self.left = self.left.saturating_sub(1);
        match outcome {
            Ok(()) => {
                event.drop_contained();
                self.delivery.listener.count_delivered();
            }
            Err(error) => {
                let panicked = Panicked::of_event(&event, error);
                event.drop_contained();
                self.panicked(&panicked);
            }
        }
    }

    fn panicked(&mut self, panicked: &Panicked) {
        self.delivery.report(panicked);
        if let Consumer::Handler { pause } = &mut self.consumer {
            *pause = Some(Box::pin(tokio::time::sleep(PAUSE_AFTER_PANIC)));
        }
    }

    /// Ready when the pause is over or the listener must stop.
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Consumer::Handler { pause } = &mut self.consumer else { return Poll::Ready(()) };
        if let Some(sleep) = pause
            && sleep.as_mut().poll(context).is_pending()
        {
            ready!(self.delivery.poll_stopped(context));
        }
        *pause = None;
        Poll::Ready(())
    }
}
