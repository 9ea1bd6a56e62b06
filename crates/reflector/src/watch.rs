//! The steps of a watch: opening it, forwarding its events, and choosing the recovery after its end.

use std::pin::pin;
use std::time::Duration;

use kinformer_core::internal::try_accessors;
use kinformer_core::{Delta, Error, Object, ResourceVersion, Sink, Tombstone};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::backoff::lengthened;
use crate::contained::contained;
use crate::machine::{FOREVER, FRUITLESS_TRIES, Machine, SinkOutcome, Step};
use crate::probe::{Probe, ProbeEvent, Probing, went_back};
use crate::spans;
use crate::state::count;
use crate::stream::{GuardedStream, Next, OpenWatch, Waker};
use crate::unreadable::broken;
use crate::{
    EventType, NextRequest, Recovery, ReflectorState, SourceError, StopReason, WatchEvent, WatchOptions,
};

/// A watch that ends sooner and delivered nothing new counts as very short.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// The longest delay before a watch is reopened that ended without an error. The delay is random, so that the clients
/// of a restarted server do not all return together.
const REOPEN_WITHIN: Duration = Duration::from_millis(500);
/// The tolerance for the end of a watch: the source measures its duration in whole seconds and from another moment.
const TIMEOUT_GRAIN: Duration = Duration::from_secs(1);
/// The time without an internal error after which a new series of internal errors starts.
const INTERNAL_ERRORS_FORGOTTEN: Duration = Duration::from_secs(60);

/// The end of a watch.
enum End {
    /// The source ended the stream without an error.
    Closed,
    Failed(SourceError),
    /// The sink had no room for an event, which must be delivered again.
    NoRoom(Error),
    /// The sink failed to resync; the watch itself did not fail.
    Resync(SourceError),
    /// The sink panicked; its contents are unknown.
    SinkPanicked(SourceError),
    /// The last list was incomplete, and the next one is due.
    RelistDue,
}

/// The request and the progress of a watch.
struct Progress {
    /// The version after which the watch was requested.
    requested: ResourceVersion,
    /// The requested duration.
    timeout: Duration,
    events: u64,
    /// Whether the last version has moved.
    moved: bool,
    /// Whether the initial events are over. They describe the state at the start, in no particular order.
    past_initial: bool,
}

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Returns a random duration for a watch, so that a thousand watches that started together do not end together.
    ///
    /// Follows client-go 1.37 (`minWatchTimeout`, `maxWatchTimeout`).
    pub(crate) fn watch_timeout(&self) -> Duration {
        self.options.min_watch_timeout.min(FOREVER).mul_f64(1.0 + fastrand::f64())
    }

    pub(crate) async fn open(
        &self,
        options: WatchOptions,
        deadline: Instant,
    ) -> Result<Result<OpenWatch<T>, SourceError>, StopReason> {
        let started = Instant::now();
        let timeout = options.timeout;
        let silence_limit = options.timeout.saturating_add(self.options.stall_margin).min(FOREVER);
        let request = contained("watch", async { self.source.watch(options).await });
        // A server may withhold even the head of its answer until the first event.
        let deadline = deadline.min(started + silence_limit);
        let answer = self.or_cancel(timeout_at(deadline, request)).await?;
        let answer = answer.unwrap_or_else(|_| Err(SourceError::WatchStalled { silent: started.elapsed() }));
        Ok(answer.map(|stream| OpenWatch {
            stream: GuardedStream::new(stream),
            started,
            timeout,
            silence_limit,
        }))
    }

    pub(crate) async fn watch(&mut self, open: Option<OpenWatch<T>>) -> Result<Step<T>, StopReason> {
        let from = self.version.clone();
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
                self.open(options, self.relist_at.unwrap_or(started + FOREVER)).await?
            }
        };
        let end = match open {
            Ok(open) => {
                self.shared.set_state(ReflectorState::Watching { resource_version: from });
                let end = self.forward(open, &mut progress).await;
                spans::watched(&self.span, progress.events);
                end?
            }
            Err(SourceError::WatchStalled { .. }) if self.relist_is_due() => End::RelistDue,
            Err(error) => End::Failed(error),
        };
        self.is_restart = true;
        self.after(end, started.elapsed(), &progress).await
    }

    /// Forwards events to the sink until the watch ends, then closes the stream.
    async fn forward(&mut self, mut open: OpenWatch<T>, progress: &mut Progress) -> Result<End, StopReason> {
        let cancel = self.cancel.clone();
        let mut last_received = Instant::now();
        let limit = open.silence_limit;
        let alarm = |machine: &Self, last_received: Instant, probe: &Option<Probe>| {
            let probe_at = if probe.is_some() { None } else { machine.probe_at() };
            [machine.resync_at(), machine.relist_at, probe_at]
                .into_iter()
                .flatten()
                .fold(last_received + limit, Instant::min)
        };
        let first_alarm = alarm(self, last_received, &None);
        let (cancelled, first_alarm) = (pin!(cancel.cancelled()), pin!(sleep_until(first_alarm)));
        let mut waker = Waker::new(cancelled, first_alarm);
        loop {
            if !self.has_room() {
                self.wait_for_room().await?;
                // The source was not read meanwhile, so this time does not count as its silence.
                last_received = Instant::now();
                self.probing.received(last_received);
            }
            match waker.next(&mut open.stream).await? {
                Next::Item { item, waited } => {
                    if waited {
                        last_received = Instant::now();
                    }
                    if matches!(item, Some(Ok(_))) {
                        self.probing.received(last_received);
                    }
                    match item {
                        None => return Ok(End::Closed),
                        Some(Err(error)) => return Ok(End::Failed(error)),
                        Some(Ok(event)) => match self.apply(event, progress)? {
                            SinkOutcome::Applied | SinkOutcome::LeftOut => {}
                            SinkOutcome::NoRoom(full) => return Ok(End::NoRoom(full)),
                            SinkOutcome::Refused(error) => return Ok(End::Failed(error)),
                            SinkOutcome::Panicked(error) => return Ok(End::SinkPanicked(error)),
                        },
                    }
                }
                Next::Alarm => {
                    let silent = last_received.elapsed();
                    if silent >= limit {
                        return Ok(End::Failed(SourceError::WatchStalled { silent }));
                    }
                    if self.relist_is_due() {
                        return Ok(End::RelistDue);
                    }
                    let before = Instant::now();
                    if let Some(error) = self.resync_if_due().await? {
                        return Ok(End::Resync(error));
                    }
                    // The resync may have waited for the sink.
                    let waited = before.elapsed();
                    last_received += waited;
                    self.probing.received_later(waited);
                    if waker.probe.is_none() && self.probe_at().is_some_and(|due| due <= Instant::now()) {
                        waker.probe = Some(self.probing.admission());
                    }
                    let next = alarm(self, last_received, &waker.probe);
                    debug_assert!(next > waker.alarm(), "an alarm that does not move causes a tight loop");
                    waker.set_alarm(next);
                }
                Next::Probe(event) => {
                    if let Some(error) = self.probed(event, &mut waker.probe) {
                        return Ok(End::Failed(error));
                    }
                    waker.set_alarm(alarm(self, last_received, &waker.probe));
                }
            }
        }
    }

    /// Handles the progress of a probe. Returns an error if the versions of the source have gone back.
    fn probed(&mut self, event: ProbeEvent, probe: &mut Option<Probe>) -> Option<SourceError> {
        match event {
            ProbeEvent::Admitted => {
                let now = Instant::now();
                // The admission may have taken long, and the source may have sent something since.
                if self.probe_at().is_some_and(|due| due <= now) && self.admit_probe(now) {
                    *probe = Some(Probing::ask(self.source.clone(), self.version.clone()));
                }
                None
            }
            ProbeEvent::Answered { known, newest } => {
                self.probing.answered(&newest);
                match newest {
                    Ok(newest) => newest.and_then(|newest| went_back(&known, &newest)),
                    Err(error) => {
                        count(&self.shared.counters.version_probe_errors);
                        self.report_skipped(error);
                        None
                    }
                }
            }
        }
    }

    /// Gives one event to the sink. The last version moves only after the sink has taken it.
    fn apply(&mut self, event: WatchEvent<T>, progress: &mut Progress) -> Result<SinkOutcome, StopReason> {
        count(&self.shared.counters.events);
        progress.events = progress.events.saturating_add(1);
        let may_be_initial = match &event {
            WatchEvent::Added(_) => true,
            WatchEvent::Undecodable(error) => error.event_type.is_none_or(|event| event == EventType::Added),
            _ => false,
        };
        let version = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                match try_accessors(|| object.resource_version()) {
                    Ok(version) => version,
                    // As with an object that does not decode, its known state stays.
                    Err(source) => {
                        self.report_skipped(SourceError::Panic { operation: "resource_version", source });
                        return Ok(SinkOutcome::LeftOut);
                    }
                }
            }
            WatchEvent::Bookmark { version, .. } => version.clone(),
            // An unreadable event proves nothing about versions.
            WatchEvent::Undecodable(error) if broken(error).is_some() => ResourceVersion::UNSET,
            WatchEvent::Undecodable(error) => error.resource_version.clone(),
            WatchEvent::Unexpected { resource_version, .. } => resource_version.clone(),
        };
        // A watch with initial events was requested at no version or at 0, and no version is below these.
        if let Some(error) = went_back(&progress.requested, &version) {
            return Ok(SinkOutcome::Refused(error));
        }
        let mut outcome = match event {
            WatchEvent::Added(object) => self.give("add", Delta::Added(object))?,
            WatchEvent::Modified(object) => self.give("update", Delta::Updated(object))?,
            WatchEvent::Deleted(object) => {
                self.give("delete", Delta::Deleted(Tombstone::FinalState(object)))?
            }
            WatchEvent::Bookmark { .. } => {
                count(&self.shared.counters.bookmarks);
                self.give_bookmark(version.clone())?
            }
            WatchEvent::Undecodable(error) => {
                count(&self.shared.counters.decode_errors);
                if let Some(broken) = broken(&error) {
                    return Ok(SinkOutcome::Refused(broken));
                }
                let outcome = match (&error.key, error.event_type) {
                    // A deletion needs no state.
                    (Some(key), Some(EventType::Deleted)) => {
                        let tombstone = Tombstone::final_state_unknown(key.clone(), None);
                        self.give("delete", Delta::Deleted(tombstone))?
                    }
                    _ => SinkOutcome::LeftOut,
                };
                self.report_skipped(SourceError::Undecodable(error));
                // A tombstone without a state carries no version: a bookmark must follow.
                if matches!(outcome, SinkOutcome::Applied) { SinkOutcome::LeftOut } else { outcome }
            }
            WatchEvent::Unexpected { what, .. } => {
                self.unexpected(what);
                SinkOutcome::LeftOut
            }
        };
        progress.past_initial |= !may_be_initial;
        if matches!(outcome, SinkOutcome::LeftOut) && progress.past_initial && !version.is_unset() {
            // The sink received no object of this version but must reach the version.
            outcome = self.give_bookmark(version.clone())?;
        }
        if matches!(outcome, SinkOutcome::Applied | SinkOutcome::LeftOut) && progress.past_initial {
            progress.moved |= self.move_to(version);
        }
        Ok(outcome)
    }

    fn give_bookmark(&self, version: ResourceVersion) -> Result<SinkOutcome, StopReason> {
        self.give("bookmark", Delta::bookmark(version))
    }

    /// Advances the last version and returns whether it moved. It never moves back: the next watch would deliver events
    /// again.
    fn move_to(&mut self, version: ResourceVersion) -> bool {
        let back = self.version.compare(&version).is_some_and(std::cmp::Ordering::is_ge);
        if version.is_unset() || back {
            return false;
        }
        self.version = version.clone();
        self.shared.set_version(version);
        true
    }

    async fn after(
        &mut self,
        end: End,
        lasted: Duration,
        progress: &Progress,
    ) -> Result<Step<T>, StopReason> {
        let delivered = progress.moved || (progress.events > 0 && self.version.is_unset());
        // A failed watch does not count as alive for its duration: a connection may take long to fail.
        let alive = delivered || (matches!(end, End::Closed) && lasted >= VERY_SHORT);
        if alive {
            self.recovered();
        }
        let very_short = matches!(end, End::Closed) && lasted < VERY_SHORT;
        self.very_short = if very_short { self.very_short.saturating_add(1) } else { 0 };
        let in_time = matches!(end, End::Closed) && lasted + TIMEOUT_GRAIN >= progress.timeout;
        if !in_time && matches!(end, End::Closed | End::Failed(_)) {
            self.probing.want();
        }
        Ok(match end {
            End::Closed if alive && self.very_short < FRUITLESS_TRIES => {
                Step::BackOff { delay: lengthened(Duration::ZERO, REOPEN_WITHIN), next: NextRequest::Watch }
            }
            End::Closed => {
                count(&self.shared.counters.very_short_watches);
                let recovery = if alive { Recovery::Rewatch } else { self.rewatch_or_relist() };
                self.fail(SourceError::VeryShortWatch { lasted, events: progress.events }, recovery)
            }
            End::NoRoom(source) => {
                self.wait_for_room().await?;
                self.fail(SourceError::Sink { operation: "watch", source }, Recovery::Rewatch)
            }
            End::Resync(error) => self.fail(error, Recovery::Rewatch),
            End::SinkPanicked(error) => self.fail(error, Recovery::Relist),
            End::RelistDue => Step::Heal,
            End::Failed(error) => {
                if matches!(error, SourceError::WatchStalled { .. }) {
                    count(&self.shared.counters.stalled_watches);
                }
                let recovery = self.recovery(&error);
                self.fail(error, recovery)
            }
        })
    }

    /// Chooses the recovery from an error: a list only if another watch cannot repair it.
    fn recovery(&mut self, error: &SourceError) -> Recovery {
        if error.is_expired() {
            // After a second expiry at one version, a list at that version could return the same version again: the
            // newest state is requested instead.
            self.version_unavailable |= self.expired_at.as_ref() == Some(&self.version);
            self.expired_at = Some(self.version.clone());
            return Recovery::Relist;
        }
        if error.is_too_large_resource_version() || matches!(error, SourceError::VersionsWentBack { .. }) {
            self.version_unavailable = true;
            return Recovery::Relist;
        }
        match error {
            SourceError::BrokenEvent { .. } => return self.after_broken_event(),
            // The answer does not come from the API: another watch would fail as well.
            SourceError::ContentType { .. } => return Recovery::Relist,
            _ => {}
        }
        let status = error.status();
        let not_found = status.is_some_and(|status| status.code == 404 || status.reason == "NotFound");
        if error.is_store_read_error() || not_found {
            return Recovery::Relist;
        }
        if error.is_connection_refused() || error.is_too_many_requests() {
            return Recovery::Rewatch;
        }
        if error.is_internal() {
            return self.after_internal_error();
        }
        self.rewatch_or_relist()
    }

    /// Watches again within the window after the first internal error, then relists.
    ///
    /// Follows client-go 1.37 (`RetryWithDeadline`).
    fn after_internal_error(&mut self) -> Recovery {
        let now = Instant::now();
        let recent = self.internal_errors.filter(|(_, last)| now - *last < INTERNAL_ERRORS_FORGOTTEN);
        let first = recent.map_or(now, |(first, _)| first);
        let window = self.options.internal_error_window;
        if !window.is_zero() && now - first <= window {
            self.internal_errors = Some((first, now));
            return Recovery::Rewatch;
        }
        self.internal_errors = None;
        Recovery::Relist
    }

    /// Watches again, because the version may still be valid, and relists after several fruitless watches.
    fn rewatch_or_relist(&mut self) -> Recovery {
        self.fruitless = self.fruitless.saturating_add(1);
        if self.fruitless < FRUITLESS_TRIES {
            return Recovery::Rewatch;
        }
        self.fruitless = 0;
        Recovery::Relist
    }
}
