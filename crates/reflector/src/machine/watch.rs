//! The step of a watch: it opens the watch and passes the events on until the watch ends.

use std::pin::pin;
use std::time::Duration;

use kinformer_core::{Object, ResourceVersion, Sink};
use tokio::time::{Instant, sleep_until};

use crate::history::{Sign, is_alive_after, went_back};
use crate::machine::apply::Progress;
use crate::machine::recovery::WatchEnd;
use crate::machine::sink::SinkOutcome;
use crate::machine::{FOREVER, Machine, Step};
use crate::probe::{Probe, ProbeEvent, Probing};
use crate::spans;
use crate::state::count;
use crate::stream::{Next, OpenWatch, Waker};
use crate::{ReflectorState, SourceError, StopReason, WatchOptions};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    pub(super) async fn watch(&mut self, open: Option<OpenWatch<T>>) -> Result<Step<T>, StopReason> {
        self.report_ignored_signs();
        let from = self.version.get().clone();
        let timeout = open.as_ref().map_or_else(|| self.watch_timeout(), |open| open.timeout);
        let mut progress =
            Progress { requested: from.clone(), timeout, events: 0, moved: false, past_initial: true };
        let started = open.as_ref().map_or_else(Instant::now, |open| open.started);
        let open = match open {
            Some(open) => Ok(open),
            None => {
                count(&self.shared.counters.watches);
                if self.is_restart {
                    count(&self.shared.counters.watch_restarts);
                }
                progress.past_initial = !from.is_unset() && from != ResourceVersion::number(0);
                self.shared.set_state(ReflectorState::Connecting { resource_version: from.clone() });
                let options = WatchOptions::from(from.clone(), timeout);
                self.open(options, self.repetition.due_at().unwrap_or(started + FOREVER)).await?
            }
        };
        let end = match open {
            Ok(open) => {
                self.shared.set_not_watchable(false);
                self.shared.set_state(ReflectorState::Watching { resource_version: from });
                let opened = Instant::now();
                let end = self.forward(open, &mut progress).await;
                self.requests.watched(opened.elapsed());
                if is_alive_after(opened.elapsed()) {
                    self.attempts.watch_was_alive();
                }
                spans::watched(&self.span, progress.events);
                end?
            }
            Err(SourceError::WatchStalled { .. }) if self.repetition.time_has_come() => WatchEnd::RepeatDue,
            Err(error) => WatchEnd::Failed(error),
        };
        self.is_restart = true;
        self.step_after(end, started.elapsed(), &progress).await
    }

    /// Forwards events to the sink until the watch ends, then closes the stream.
    async fn forward(
        &mut self,
        mut open: OpenWatch<T>,
        progress: &mut Progress,
    ) -> Result<WatchEnd, StopReason> {
        let cancel = self.cancel.clone();
        let first_alarm = self.next_alarm(open.ends_by, false);
        let (cancelled, first_alarm) = (pin!(cancel.cancelled()), pin!(sleep_until(first_alarm)));
        let mut waker = Waker::new(cancelled, first_alarm);
        loop {
            match self.next(&mut waker, &mut open).await? {
                Next::Item { item, waited } => {
                    if waited {
                        open.last_received = Instant::now();
                    }
                    if matches!(item, Some(Ok(_))) {
                        self.probing.received(open.last_received);
                    }
                    match item {
                        None => return Ok(WatchEnd::Closed),
                        Some(Err(error)) => return Ok(WatchEnd::Failed(error)),
                        Some(Ok(event)) => match self.apply(event, progress).await? {
                            SinkOutcome::Applied | SinkOutcome::LeftOut => {}
                            SinkOutcome::NoRoom(full) => return Ok(WatchEnd::NoRoom(full)),
                            SinkOutcome::Refused(error) => return Ok(WatchEnd::Failed(error)),
                            SinkOutcome::Panicked(error) => return Ok(WatchEnd::SinkPanicked(error)),
                        },
                    }
                    // The event may have been left out, which leads to a list.
                    if let Some(repeat_at) = self.repetition.due_at().filter(|at| *at < waker.alarm()) {
                        waker.set_alarm(repeat_at);
                    }
                }
                Next::Alarm => {
                    if let Some(end) = self.alarm(&mut waker, &mut open).await? {
                        return Ok(end);
                    }
                }
                Next::Probe(event) => {
                    if let Some(error) = self.probe_event(event, &mut waker.probe) {
                        return Ok(WatchEnd::Failed(error));
                    }
                    waker.set_alarm(self.next_alarm(open.ends_by, waker.probe.is_some()));
                }
            }
        }
    }

    /// Waits until the sink has room, then for an event or the next alarm; in both cases for the probe too.
    async fn next(
        &mut self,
        waker: &mut Waker<'_, '_>,
        open: &mut OpenWatch<T>,
    ) -> Result<Next<T>, StopReason> {
        while !self.has_room() {
            let before = Instant::now();
            let event = self.wait_for_room_or(&mut waker.probe).await?;
            self.not_read_for(before.elapsed(), open);
            if let Some(event) = event {
                return Ok(Next::Probe(event));
            }
        }
        waker.next(&mut open.stream).await
    }

    /// Excludes a time in which the sink had no room.
    fn not_read_for(&mut self, time: Duration, open: &mut OpenWatch<T>) {
        open.not_read_for(time);
        self.probing.received_later(time);
    }

    /// Returns the time of the next alarm of a watch: it should have ended, or a resync, the repetition of a list or a
    /// probe is due.
    fn next_alarm(&self, ends_by: Instant, is_probing: bool) -> Instant {
        let probe_at = if is_probing { None } else { self.probe_at() };
        [self.resync_at(), self.repetition.due_at(), probe_at]
            .into_iter()
            .flatten()
            .fold(ends_by, Instant::min)
    }

    /// Handles an alarm and sets the next one, or returns the end of the watch.
    async fn alarm(
        &mut self,
        waker: &mut Waker<'_, '_>,
        open: &mut OpenWatch<T>,
    ) -> Result<Option<WatchEnd>, StopReason> {
        if Instant::now() >= open.ends_by
            && let Some(end) = self.should_have_ended(open)
        {
            return Ok(Some(end));
        }
        if self.repeat_is_due() {
            return Ok(Some(WatchEnd::RepeatDue));
        }
        let before = Instant::now();
        if let Some(error) = self.resync_if_due().await? {
            return Ok(Some(WatchEnd::Resync(error)));
        }
        // The resync may have waited for the sink.
        self.not_read_for(before.elapsed(), open);
        if waker.probe.is_none() && self.probe_at().is_some_and(|due| due <= Instant::now()) {
            waker.probe = Some(self.probing.admission());
        }
        let next = self.next_alarm(open.ends_by, waker.probe.is_some());
        debug_assert!(next > waker.alarm(), "an alarm that does not move causes a tight loop");
        waker.set_alarm(next);
        Ok(None)
    }

    /// Ends a watch that the source should have ended, unless deletions could be lost before the next watch.
    fn should_have_ended(&self, open: &mut OpenWatch<T>) -> Option<WatchEnd> {
        let is_continuous = self.source_versions.is_continuous();
        let limit = if is_continuous { self.options.stall_margin } else { open.silence_limit };
        match open.stalled(limit) {
            Some(error) => Some(WatchEnd::Failed(error)),
            None if is_continuous => Some(WatchEnd::Closed),
            None => {
                open.ends_by = open.last_received + open.silence_limit;
                None
            }
        }
    }

    /// Handles the progress of a probe. Returns an error if the versions of the source have gone back.
    fn probe_event(&mut self, event: ProbeEvent, probe: &mut Option<Probe>) -> Option<SourceError> {
        match event {
            ProbeEvent::Admitted => {
                let now = Instant::now();
                // The admission may have taken long, and the source may have sent something since.
                if self.probe_at().is_some_and(|due| due <= now) && self.admit_probe(now) {
                    *probe = Some(Probing::ask(self.source.clone(), self.version.get().clone()));
                }
                None
            }
            ProbeEvent::Answered { known, newest } => {
                self.probing.completed(&newest);
                match newest {
                    Ok(newest) => newest
                        .and_then(|newest| went_back(&known, &newest))
                        .filter(|_| self.source_versions.alarm(Sign::Newest)),
                    Err(error) => {
                        count(&self.shared.counters.version_probe_errors);
                        self.report_skipped(error);
                        None
                    }
                }
            }
        }
    }
}
