//! Moments in the life of a processor, real time, and the clock of a runtime that a test has paused.

use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::time::Instant;

/// A moment in the life of a processor.
#[derive(Clone, Copy)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn now(epoch: Instant) -> Self {
        Self(epoch.elapsed().as_nanos() as u64 + 1)
    }

    /// Nanoseconds since the epoch and one more, so that 0 is no moment.
    pub(crate) fn nanos(self) -> u64 {
        self.0
    }
}

/// The time that threads are blocked for is real, whatever the clock of a runtime says.
pub(crate) fn real() -> std::time::Instant {
    #[expect(clippy::disallowed_methods, reason = "blocked threads block in real time")]
    let now = std::time::Instant::now();
    now
}

/// Keeps a paused clock from advancing by itself.
pub(crate) struct Held {
    _released: Sender<()>,
}

/// tokio advances a paused clock whenever its runtime has nothing to do, and does not count threads of others: time
/// would run away while a callback runs. A blocking task of the runtime's own keeps it from that. Costs some readings of
/// the clock if it is not paused, as it is outside of tests.
pub(crate) fn hold_if_paused() -> Option<Held> {
    is_paused().then(|| {
        let (_released, wait): (_, Receiver<()>) = channel();
        tokio::task::spawn_blocking(move || {
            // Until the other end is dropped.
            let _ = wait.recv();
        });
        Held { _released }
    })
}

/// A paused clock stands still while real time passes.
fn is_paused() -> bool {
    let before = Instant::now();
    let began = real();
    while real() <= began {}
    Instant::now() == before
}
