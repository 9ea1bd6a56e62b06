//! Reads a watch: waits for the next event, the cancellation, an alarm, or a probe.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures::stream::CatchUnwind;
use futures::{FutureExt, StreamExt};
use kinformer_core::Object;
use kinformer_core::internal::yield_now;
use tokio::time::{Instant, Sleep, timeout_at};
use tokio_util::sync::WaitForCancellationFuture;

use crate::backoff::FOREVER;
use crate::contained::{contained, panicked};
use crate::probe::{Probe, ProbeEvent};
use crate::{ListerWatcher, SourceError, StopReason, WatchEvent, WatchOptions, WatchStream};

/// An open watch.
pub(crate) struct OpenWatch<T> {
    pub(crate) stream: GuardedStream<T>,
    /// The time of the request.
    pub(crate) started: Instant,
    /// The requested duration, after which the source should end the watch.
    pub(crate) timeout: Duration,
    /// The stall timeout: the longest acceptable silence, and duration of a watch.
    pub(crate) silence_limit: Duration,
    /// The time by which the source should have ended the watch.
    pub(crate) ends_by: Instant,
    pub(crate) last_received: Instant,
}

impl<T: Object> OpenWatch<T> {
    /// Requests a watch.
    ///
    /// # Errors
    /// The error of the source, or [`SourceError::WatchStalled`] without an answer by the deadline or in the time in
    /// which an open watch may be silent.
    pub(crate) async fn open(
        source: &dyn ListerWatcher<T>,
        options: WatchOptions,
        stall_margin: Duration,
        deadline: Instant,
    ) -> Result<Self, SourceError> {
        let started = Instant::now();
        let timeout = options.timeout;
        let silence_limit = timeout.saturating_add(stall_margin).min(FOREVER);
        let request = contained("watch", async { source.watch(options).await });
        // A server may withhold even the head of its answer until the first event.
        let answer = timeout_at(deadline.min(started + silence_limit), request).await;
        let stream =
            answer.unwrap_or_else(|_| Err(SourceError::WatchStalled { silent: started.elapsed() }))?;
        Ok(Self {
            stream: GuardedStream::new(stream),
            started,
            timeout,
            silence_limit,
            ends_by: started + silence_limit,
            last_received: Instant::now(),
        })
    }

    /// Excludes a time in which the source was not read: it counts neither as its silence nor as a part of the watch.
    pub(crate) fn not_read_for(&mut self, time: Duration) {
        self.ends_by += time;
        self.last_received += time;
    }

    /// Returns the error of a watch from which nothing was received for this time.
    pub(crate) fn stalled(&self, limit: Duration) -> Option<SourceError> {
        let silent = self.last_received.elapsed();
        (silent >= limit).then_some(SourceError::WatchStalled { silent })
    }
}

/// Returns a random duration for a watch, so that a thousand watches that started together do not end together.
///
/// Follows client-go 0.37 (`minWatchTimeout`, `maxWatchTimeout`).
pub(crate) fn watch_timeout(min: Duration) -> Duration {
    min.min(FOREVER).mul_f64(1.0 + fastrand::f64())
}

/// A stream that converts panics to errors.
pub(crate) struct GuardedStream<T>(CatchUnwind<AssertUnwindSafe<WatchStream<T>>>);

impl<T> GuardedStream<T> {
    pub(crate) fn new(stream: WatchStream<T>) -> Self {
        // After a panic the stream is never polled again.
        Self(AssertUnwindSafe(stream).catch_unwind())
    }

    pub(crate) async fn next(&mut self) -> Option<Result<WatchEvent<T>, SourceError>> {
        self.0.next().await.map(|item| item.unwrap_or_else(|panic| Err(panicked("watch", panic))))
    }
}

pub(crate) enum Next<T> {
    Item {
        item: Option<Result<WatchEvent<T>, SourceError>>,
        /// Whether the item was not ready at once.
        waited: bool,
    },
    Alarm,
    Probe(ProbeEvent),
}

/// The number of ready events that are taken in a row without checking the clock and the cancellation.
const BURST: u32 = 128;

pub(crate) struct Waker<'a, 'c> {
    cancelled: Pin<&'a mut WaitForCancellationFuture<'c>>,
    alarm: Pin<&'a mut Sleep>,
    burst: u32,
    /// The request for the newest version, polled beside the watch.
    pub(crate) probe: Option<Probe>,
}

impl<'a, 'c> Waker<'a, 'c> {
    pub(crate) fn new(
        cancelled: Pin<&'a mut WaitForCancellationFuture<'c>>,
        alarm: Pin<&'a mut Sleep>,
    ) -> Self {
        Self { cancelled, alarm, burst: 0, probe: None }
    }

    pub(crate) fn set_alarm(&mut self, time: Instant) {
        self.alarm.as_mut().reset(time);
    }

    pub(crate) fn alarm(&self) -> Instant {
        self.alarm.deadline()
    }

    pub(crate) async fn next<T>(&mut self, stream: &mut GuardedStream<T>) -> Result<Next<T>, StopReason> {
        self.burst += 1;
        if self.burst < BURST {
            if let Some(item) = stream.next().now_or_never() {
                return Ok(Next::Item { item, waited: false });
            }
        } else {
            // A source that always has an event ready must not monopolize its thread.
            yield_now().await;
        }
        self.burst = 0;
        tokio::select! {
            biased;
            () = self.cancelled.as_mut() => Err(StopReason::Cancelled),
            () = self.alarm.as_mut() => Ok(Next::Alarm),
            event = finished(&mut self.probe) => Ok(Next::Probe(event)),
            item = stream.next() => Ok(Next::Item { item, waited: true }),
        }
    }
}

/// Waits for the probe, if there is one, and removes it.
pub(crate) async fn finished(probe: &mut Option<Probe>) -> ProbeEvent {
    let event = match probe {
        Some(probe) => probe.await,
        None => std::future::pending().await,
    };
    *probe = None;
    event
}
