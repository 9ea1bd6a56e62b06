//! Delivering to a handler whose callbacks are functions, one event after the other.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kinformer_core::Object;
use tokio::runtime::Handle;

use crate::contained::drop_handler;
use crate::delivery::{AFTER_PANIC, AT_ONCE, Delivery, Panicked, Step};
use crate::handler::EventHandler;
use crate::threads;

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
        drop_handler(&self.delivery.listener.name, self.handler);
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
                delivery.report(&panicked);
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
