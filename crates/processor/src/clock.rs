//! The clocks: moments relative to the creation of a processor, real time, and a runtime's clock paused by a test.

use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::time::Instant;

/// A time relative to the creation of a processor.
#[derive(Clone, Copy)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn now(epoch: Instant) -> Self {
        Self(epoch.elapsed().as_nanos() as u64 + 1)
    }

    /// Returns the nanoseconds since the epoch plus one, so that 0 can mean no moment.
    pub(crate) fn nanos(self) -> u64 {
        self.0
    }
}

/// Returns the real time: blocked threads do not follow a runtime's paused clock.
pub(crate) fn real() -> std::time::Instant {
    #[expect(clippy::disallowed_methods, reason = "blocked threads block in real time")]
    let now = std::time::Instant::now();
    now
}

/// Prevents a paused clock from advancing by itself.
pub(crate) struct ClockHold {
    _released: Sender<()>,
}

/// Prevents a paused clock from advancing until the result is dropped; returns `None` if the clock is not paused, and
/// without the feature `test-util`.
///
/// tokio advances a paused clock whenever its runtime is idle, and does not know about other threads: the time would
/// jump while a callback runs. A blocking task of the runtime prevents that.
pub(crate) fn hold_if_paused() -> Option<ClockHold> {
    (cfg!(feature = "test-util") && is_paused()).then(|| {
        let (_released, wait): (_, Receiver<()>) = channel();
        tokio::task::spawn_blocking(move || {
            // Until the other end is dropped.
            let _ = wait.recv();
        });
        ClockHold { _released }
    })
}

/// Returns whether the runtime's clock is paused: it then does not advance while real time passes.
fn is_paused() -> bool {
    let before = Instant::now();
    let start = real();
    while real() <= start {}
    Instant::now() == before
}
