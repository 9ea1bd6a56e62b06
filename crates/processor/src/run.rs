//! Delivers events to handlers with synchronous callbacks, one at a time.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kinformer_core::Object;
use kinformer_core::internal::yield_now;
use tokio::runtime::Handle;

use crate::contained::drop_handler;
use crate::delivery::{Delivery, PAUSE_AFTER_PANIC, Panicked, Step, YIELD_AFTER};
use crate::handler::EventHandler;
use crate::threads;

/// The reason for the end of a turn.
enum End {
    /// There is no undelivered event.
    Empty,
    /// There may be more events.
    Yield,
    Panicked,
}

/// A handler and its events, in this order: the handler is dropped before its listener is done.
struct RunningHandler<T: Object, H> {
    handler: H,
    delivery: Delivery<T>,
}

impl<T: Object, H> RunningHandler<T, H> {
    /// Drops the handler, then marks its listener as done.
    fn end(self) {
        drop_handler(&self.delivery.listener.name, self.handler);
    }
}

/// Runs a handler that may block, on a thread of the pool while there are events.
pub(crate) async fn blocking<T: Object, H: EventHandler<Arc<T>>>(handler: H, delivery: Delivery<T>) {
    let mut running = RunningHandler { handler, delivery };
    let runtime = Handle::current();
    while !running.delivery.listener.is_stopped() {
        let listener = running.delivery.listener.clone();
        let turn = threads::run(&listener, &runtime, move |turn| {
            let end = deliver(&mut running, || turn.may_continue());
            (running, end)
        });
        let end;
        match turn.await {
            Some(returned) => (running, end) = returned,
            // The turn panicked outside of the contained user code, and was dropped.
            None => return,
        }
        after_turn(&mut running.delivery, end).await;
    }
    running.end();
}

/// Runs a handler that never blocks, on the runtime's own threads.
pub(crate) async fn inline<T: Object, H: EventHandler<Arc<T>>>(handler: H, delivery: Delivery<T>) {
    let mut running = RunningHandler { handler, delivery };
    while !running.delivery.listener.is_stopped() {
        let mut left = YIELD_AFTER;
        let end = deliver(&mut running, || {
            left -= 1;
            left > 0
        });
        after_turn(&mut running.delivery, end).await;
    }
    running.end();
}

/// Waits before the next turn, depending on the end of the last one.
async fn after_turn<T: Object>(delivery: &mut Delivery<T>, end: End) {
    delivery.drop_previous();
    match end {
        End::Empty => poll_fn(|context| delivery.poll_ready(context)).await,
        End::Yield => yield_now().await,
        End::Panicked => {
            // The order does not matter: either arm ends the pause.
            tokio::select! {
                biased;
                () = delivery.listener.stop.cancelled() => {}
                () = tokio::time::sleep(PAUSE_AFTER_PANIC) => {}
            }
        }
    }
}

/// Delivers events until there are none or `may_continue` returns `false`.
fn deliver<T: Object, H: EventHandler<Arc<T>>>(
    RunningHandler { handler, delivery }: &mut RunningHandler<T, H>,
    mut may_continue: impl FnMut() -> bool,
) -> End {
    let listener = delivery.listener.clone();
    listener.busy.store(true, Ordering::Relaxed);
    let mut end = End::Yield;
    while !listener.is_stopped() {
        match delivery.next(|event| Panicked::catch(event, || handler.on_event(event))) {
            Ok(Step::Empty) => {
                end = End::Empty;
                break;
            }
            Ok(Step::Skipped) => {}
            Ok(Step::Delivered(())) => listener.count_delivered(),
            Err(panicked) => {
                delivery.report(&panicked);
                end = End::Panicked;
                break;
            }
        }
        if !may_continue() {
            break;
        }
    }
    listener.busy.store(false, Ordering::Relaxed);
    end
}
