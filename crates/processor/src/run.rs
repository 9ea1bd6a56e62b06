//! Delivering to a handler, one event after the other.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use kinformer_core::Object;
use kinformer_core::internal::{contain, panic_error};
use tokio::runtime::Handle;

use crate::delivery::{Delivery, Panicked, Step};
use crate::feed::EventFeed;
use crate::handler::{AsyncEventHandler, EventHandler};
use crate::threads;

/// How long a handler receives nothing after a panic, as upstream.
pub(crate) const AFTER_PANIC: Duration = Duration::from_secs(1);

/// How many events are delivered before other tasks may use the thread.
pub(crate) const AT_ONCE: usize = 128;

/// Why a run of events has ended.
enum End {
    /// No event waits.
    Empty,
    /// There may be more.
    Pause,
    Panicked,
}

/// A handler and its events. In this order: a handler has been dropped when its listener is done.
struct Both<T: Object, H> {
    handler: H,
    delivery: Delivery<T>,
}

impl<T: Object, H> Both<T, H> {
    /// Drops the handler, then marks its listener as done.
    fn end(self) {
        drop_contained(&self.delivery.listener.name, self.handler);
    }
}

/// Runs a handler that may block: on a thread for that while there are events.
pub(crate) async fn blocking<T: Object, H: EventHandler<Arc<T>>>(handler: H, delivery: Delivery<T>) {
    let mut both = Both { handler, delivery };
    let runtime = Handle::current();
    while !both.delivery.listener.is_stopped() {
        let listener = both.delivery.listener.clone();
        let turn = threads::run(&listener, &runtime, move |turn| {
            let end = deliver(&mut both, || turn.goes_on());
            (both, end)
        });
        let end;
        match turn.await {
            Some(back) => (both, end) = back,
            // It panicked outside of all that is contained, and was dropped.
            None => return,
        }
        after_turn(&mut both.delivery, end).await;
    }
    both.end();
}

/// Runs a handler that never blocks: on the runtime's own thread.
pub(crate) async fn inline<T: Object, H: EventHandler<Arc<T>>>(handler: H, delivery: Delivery<T>) {
    let mut both = Both { handler, delivery };
    while !both.delivery.listener.is_stopped() {
        let mut left = AT_ONCE;
        let end = deliver(&mut both, || {
            left -= 1;
            left > 0
        });
        after_turn(&mut both.delivery, end).await;
    }
    both.end();
}

/// Runs a handler whose callbacks are futures, until its feed ends. Allocates nothing for an event.
pub async fn deliver_async<T: Object, H: AsyncEventHandler<Arc<T>>>(feed: EventFeed<T>, handler: H) {
    // Dropped in the reverse order: the handler before the feed, which marks its listener as done.
    let mut feed = feed;
    let mut handler = handler;
    while let Some(event) = feed.next().await {
        let same = event.clone();
        feed.begin();
        let outcome = AssertUnwindSafe(async { handler.on_event(event).await }).catch_unwind().await;
        feed.end(same, outcome.map_err(panic_error));
    }
    feed.drop_contained(handler);
}

/// Waits before the next turn, as the end of the last one demands.
async fn after_turn<T: Object>(delivery: &mut Delivery<T>, end: End) {
    delivery.rest();
    match end {
        End::Empty => poll_fn(|context| delivery.poll_ready(context)).await,
        End::Pause => tokio::task::yield_now().await,
        End::Panicked => {
            tokio::select! {
                () = tokio::time::sleep(AFTER_PANIC) => {}
                () = delivery.listener.stop.cancelled() => {}
            }
        }
    }
}

/// Delivers one event after the other, until none waits or `goes_on` returns false.
fn deliver<T: Object, H: EventHandler<Arc<T>>>(
    Both { handler, delivery }: &mut Both<T, H>,
    mut goes_on: impl FnMut() -> bool,
) -> End {
    let listener = delivery.listener.clone();
    listener.busy.store(true, Ordering::Relaxed);
    let mut end = End::Pause;
    while !listener.is_stopped() {
        match delivery.next(|event| Panicked::catch(event, || handler.on_event(event))) {
            Ok(Step::Empty) => {
                end = End::Empty;
                break;
            }
            Ok(Step::Skipped) => {}
            Ok(Step::Delivered(())) => listener.has_delivered(),
            Err(panicked) => {
                report(delivery, &panicked);
                end = End::Panicked;
                break;
            }
        }
        if !goes_on() {
            break;
        }
    }
    listener.busy.store(false, Ordering::Relaxed);
    end
}

/// Counts and logs a panic.
pub(crate) fn report<T: Object>(delivery: &Delivery<T>, Panicked { key, error }: &Panicked) {
    delivery.listener.panics.fetch_add(1, Ordering::Relaxed);
    tracing::error!(
        handler = %delivery.listener.name, key, %error, continues_after = ?AFTER_PANIC,
        "handler panicked; skipping event",
    );
}

/// Drops a handler, or what contains it. The handler is the user's, and so is its `Drop`.
pub(crate) fn drop_contained<H>(name: &str, handler: H) {
    if let Err(error) = contain(|| drop(handler)) {
        tracing::error!(handler = %name, %error, "handler panicked when it was dropped");
    }
}
