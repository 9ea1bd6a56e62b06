//! Telling a handler, one event after the other.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use kinformer_core::{Object, contain, panic_error};
use tokio::runtime::Handle;

use crate::event::Event;
use crate::handler::{AsyncEventHandler, EventHandler};
use crate::inbox::Next;
use crate::source::{Panicked, Source};
use crate::threads;

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

/// A handler and what it receives. In this order: a handler has been dropped when its listener is done.
pub(crate) struct Runner<T: Object, H> {
    pub(crate) handler: H,
    pub(crate) source: Source<T>,
}

impl<T: Object, H> Runner<T, H> {
    /// Drops the handler, then says that it is done.
    fn end(self) {
        discard(&self.source.listener.name, self.handler);
    }
}

/// A handler that may block: on a thread for it while there is something to tell.
pub(crate) async fn blocking<T: Object, H: EventHandler<T>>(mut runner: Runner<T, H>) {
    let runtime = Handle::current();
    while !runner.source.listener.is_stopped() {
        let listener = runner.source.listener.clone();
        let turn = threads::run(&listener, &runtime, move |turn| {
            let end = tell(&mut runner, || turn.goes_on());
            (runner, end)
        });
        let end;
        match turn.await {
            Some(back) => (runner, end) = back,
            // It panicked outside of all that is contained, and was dropped.
            None => return,
        }
        after_turn(&mut runner.source, end).await;
    }
    runner.end();
}

/// A handler that never blocks: on the runtime's own thread.
pub(crate) async fn inline<T: Object, H: EventHandler<T>>(mut runner: Runner<T, H>) {
    while !runner.source.listener.is_stopped() {
        let mut left = AT_ONCE;
        let end = tell(&mut runner, || {
            left -= 1;
            left > 0
        });
        after_turn(&mut runner.source, end).await;
    }
    runner.end();
}

/// A handler whose callbacks are futures.
pub(crate) async fn asynchronous<T: Object, H: AsyncEventHandler<T>>(mut runner: Runner<T, H>) {
    let Runner { handler, source } = &mut runner;
    'turns: while !source.listener.is_stopped() {
        for _ in 0..AT_ONCE {
            if source.listener.is_stopped() {
                continue 'turns;
            }
            let event = match next(source, |event| Ok(event.clone())) {
                Ok(Next::Empty) => {
                    after_turn(source, End::Empty).await;
                    continue 'turns;
                }
                Ok(Next::Passed) => continue,
                Ok(Next::Told(event)) => event,
                Err(panicked) => {
                    report(source, &panicked);
                    after_turn(source, End::Panicked).await;
                    continue 'turns;
                }
            };
            source.rest();
            source.listener.busy.store(true, Ordering::Relaxed);
            let same = event.clone();
            let told = AssertUnwindSafe(async { handler.on_event(event).await }).catch_unwind().await;
            source.listener.busy.store(false, Ordering::Relaxed);
            let told = told.map_err(|panic| Panicked::over(&same, panic_error(panic)));
            same.drop_contained();
            if let Err(panicked) = told {
                report(source, &panicked);
                after_turn(source, End::Panicked).await;
                continue 'turns;
            }
            source.listener.has_told();
        }
        after_turn(source, End::Pause).await;
    }
    runner.end();
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

/// Tells one event after the other, until there is none or `goes_on` says that it is enough.
fn tell<T: Object, H: EventHandler<T>>(
    Runner { handler, source }: &mut Runner<T, H>,
    mut goes_on: impl FnMut() -> bool,
) -> End {
    let listener = source.listener.clone();
    listener.busy.store(true, Ordering::Relaxed);
    let mut end = End::Pause;
    while !listener.is_stopped() {
        match next(source, |event| Panicked::catch(event, || handler.on_event(event))) {
            Ok(Next::Empty) => {
                end = End::Empty;
                break;
            }
            Ok(Next::Passed) => {}
            Ok(Next::Told(())) => listener.has_told(),
            Err(panicked) => {
                report(source, &panicked);
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

/// As [`Source::next_with`]; whatever else of the user's panics there is contained as well.
pub(crate) fn next<T: Object, R>(
    source: &mut Source<T>,
    tell: impl FnOnce(&Event<Arc<T>>) -> Result<R, Panicked>,
) -> Result<Next<R>, Panicked> {
    contain(|| source.next_with(tell))
        .unwrap_or_else(|error| Err(Panicked { key: "unknown".to_owned(), error }))
}

pub(crate) fn report<T: Object>(source: &Source<T>, Panicked { key, error }: &Panicked) {
    source.listener.panics.fetch_add(1, Ordering::Relaxed);
    tracing::error!(
        handler = %source.listener.name, key, %error, continues_after = ?AFTER_PANIC,
        "a handler panicked; this event is skipped for it",
    );
}

/// Drops a handler, or what has it in it. The handler is the user's, and so is its end.
pub(crate) fn discard<H>(name: &str, handler: H) {
    if let Err(error) = contain(|| drop(handler)) {
        tracing::error!(handler = %name, %error, "a handler panicked when it was dropped");
    }
}
