//! Telling a handler, one event after the other.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use kinformer_core::{BoxError, Object, contain};

use crate::event::Event;
use crate::handler::{AsyncEventHandler, EventHandler};
use crate::source::Source;

/// How long a handler that has panicked is left alone, as upstream.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// How many events are told before others may use the thread.
const AT_ONCE: usize = 128;

/// Why a run of events has ended.
enum End {
    /// There is no more now.
    Empty,
    /// There may be more.
    Pause,
    Panicked,
}

/// A handler that may block: on a thread for it while there is something to tell.
pub(crate) async fn blocking<T: Object, H: EventHandler<T>>(mut source: Source<T>, mut handler: H) {
    while !source.listener.is_stopped() {
        let turn = tokio::task::spawn_blocking(move || {
            let end = tell(&mut source, &mut handler, usize::MAX);
            (source, handler, end)
        });
        let end;
        match turn.await {
            Ok(back) => (source, handler, end) = back,
            // The runtime is shutting down.
            Err(_) => return,
        }
        after_turn(&mut source, end).await;
    }
    drop_handler(&source, handler);
}

/// A handler that never blocks: on the runtime's own thread.
pub(crate) async fn inline<T: Object, H: EventHandler<T>>(mut source: Source<T>, mut handler: H) {
    while !source.listener.is_stopped() {
        let end = tell(&mut source, &mut handler, AT_ONCE);
        after_turn(&mut source, end).await;
    }
    drop_handler(&source, handler);
}

/// A handler whose callbacks are futures.
pub(crate) async fn asynchronous<T: Object, H: AsyncEventHandler<T>>(mut source: Source<T>, mut handler: H) {
    'turns: while !source.listener.is_stopped() {
        for _ in 0..AT_ONCE {
            if source.listener.is_stopped() {
                continue 'turns;
            }
            let next = match contain(|| source.next_with(Event::clone)) {
                Ok(None) => {
                    after_turn(&mut source, End::Empty).await;
                    continue 'turns;
                }
                Ok(Some(None)) => continue,
                Ok(Some(Some(event))) => event,
                Err(error) => {
                    panicked(&source, "", &error);
                    after_turn(&mut source, End::Panicked).await;
                    continue 'turns;
                }
            };
            source.listener.busy.store(true, Ordering::Relaxed);
            let key = next.key().to_string();
            let told = AssertUnwindSafe(async { handler.on_event(next).await }).catch_unwind().await;
            source.listener.busy.store(false, Ordering::Relaxed);
            if let Err(panic) = told {
                // Only to put its message into words as everywhere.
                let Err(error) = contain(|| std::panic::resume_unwind(panic));
                panicked(&source, &key, &error);
                after_turn(&mut source, End::Panicked).await;
                continue 'turns;
            }
            source.listener.has_told();
        }
        after_turn(&mut source, End::Pause).await;
    }
    drop_handler(&source, handler);
}

/// What there is to wait for before the next turn.
async fn after_turn<T: Object>(source: &mut Source<T>, end: End) {
    match end {
        End::Empty => source.wait().await,
        End::Pause => tokio::task::yield_now().await,
        End::Panicked => {
            tokio::select! {
                () = tokio::time::sleep(AFTER_PANIC) => {}
                () = source.listener.stop.cancelled() => {}
            }
        }
    }
}

fn tell<T: Object, H: EventHandler<T>>(source: &mut Source<T>, handler: &mut H, max: usize) -> End {
    let listener = source.listener.clone();
    listener.busy.store(true, Ordering::Relaxed);
    let mut end = End::Pause;
    for _ in 0..max {
        if listener.is_stopped() {
            break;
        }
        // The inner one names the object; the outer one is for what the source drops, and for the filter.
        let next = contain(|| {
            source.next_with(|event| {
                contain(|| handler.on_event(event)).map_err(|error| (event.key().to_string(), error))
            })
        });
        match next {
            Ok(None) => {
                end = End::Empty;
                break;
            }
            Ok(Some(None)) => {}
            Ok(Some(Some(Ok(())))) => listener.has_told(),
            Ok(Some(Some(Err((key, error))))) => {
                panicked(source, &key, &error);
                end = End::Panicked;
                break;
            }
            Err(error) => {
                panicked(source, "", &error);
                end = End::Panicked;
                break;
            }
        }
    }
    listener.busy.store(false, Ordering::Relaxed);
    end
}

fn panicked<T: Object>(source: &Source<T>, key: &str, error: &BoxError) {
    source.listener.panics.fetch_add(1, Ordering::Relaxed);
    tracing::error!(
        handler = %source.listener.name, key, %error, continues_after = ?AFTER_PANIC,
        "a handler panicked; this event is skipped for it",
    );
}

/// The handler is the user's, and so is its end.
fn drop_handler<T: Object, H>(source: &Source<T>, handler: H) {
    if let Err(error) = contain(|| drop(handler)) {
        tracing::error!(handler = %source.listener.name, %error, "a handler panicked when it was dropped");
    }
}
