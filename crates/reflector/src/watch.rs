//! The watch: opening it, passing its events on, and what follows when it ends.

use std::pin::pin;
use std::time::Duration;

use kinformer_core::internal::ask;
use kinformer_core::{Delta, Error, Object, ResourceVersion, Sink, Tombstone};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::backoff::lengthened;
use crate::contained::contained;
use crate::machine::{FOREVER, FRUITLESS_TRIES, Given, Machine, Step};
use crate::probe::{Probe, ProbeEvent, Probing, went_back};
use crate::state::count;
use crate::stream::{GuardedStream, Next, OpenWatch, Waker};
use crate::unreadable::broken;
use crate::{
    EventType, NextRequest, Recovery, ReflectorState, SourceError, StopReason, WatchEvent, WatchOptions,
};

/// A watch that ends sooner and brought nothing new is no watch.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// A watch that ends in good order is opened again within this time: not at once, or all clients of a server that is
/// restarted would come back together.
const REOPEN_WITHIN: Duration = Duration::from_millis(500);
/// The source counts the time of a watch in whole seconds and from another moment on.
const TIMEOUT_GRAIN: Duration = Duration::from_secs(1);
/// After this long without one, internal errors count from the first again.
const INTERNAL_ERRORS_FORGOTTEN: Duration = Duration::from_secs(60);

/// How a watch ended.
enum End {
    /// In good order.
    Closed,
    Failed(SourceError),
    /// The sink had no room for an event that is to come again.
    NoRoom(Error),
    /// The sink could not resync; the watch itself was fine.
    Resync(SourceError),
    /// What the sink holds is not known.
    SinkPanicked(SourceError),
    /// The last list was incomplete, and it is time for another one.
    RelistDue,
}

/// What a watch was asked for and what it has brought.
struct Progress {
    /// From which version.
    asked: ResourceVersion,
    /// After how long it was to end.
    timeout: Duration,
    events: u64,
    /// The last version has moved.
    moved: bool,
    /// Events are past those for the state that was there at the start, which come in no order.
    past_initial: bool,
}

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Random, so that a thousand watches that began together do not end together.
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
        // A server may keep even the head of its answer back until there is an event.
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
            Progress { asked: from.clone(), timeout, events: 0, moved: false, past_initial: true };
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
                self.pass_on(open, &mut progress).await?
            }
            Err(SourceError::WatchStalled { .. }) if self.relist_is_due() => End::RelistDue,
            Err(error) => End::Failed(error),
        };
        self.is_restart = true;
        self.after(end, started.elapsed(), &progress).await
    }

    /// Passes the events on until the watch ends. The stream is closed then.
    async fn pass_on(&mut self, mut open: OpenWatch<T>, progress: &mut Progress) -> Result<End, StopReason> {
        let cancel = self.cancel.clone();
        let mut heard = Instant::now();
        let limit = open.silence_limit;
        let alarm = |machine: &Self, heard: Instant, probe: &Option<Probe>| {
            let probe_at = if probe.is_some() { None } else { machine.probe_at() };
            [machine.resync_at(), machine.relist_at, probe_at]
                .into_iter()
                .flatten()
                .fold(heard + limit, Instant::min)
        };
        let first_alarm = alarm(self, heard, &None);
        let (cancelled, first_alarm) = (pin!(cancel.cancelled()), pin!(sleep_until(first_alarm)));
        let mut waker = Waker::new(cancelled, first_alarm);
        loop {
            if !self.has_room() {
                self.wait_for_room().await?;
                // The source was not read meanwhile: its silence was ours.
                heard = Instant::now();
                self.probing.received(heard);
            }
            match waker.next(&mut open.stream).await? {
                Next::Item { item, waited } => {
                    if waited {
                        heard = Instant::now();
                    }
                    if matches!(item, Some(Ok(_))) {
                        self.probing.received(heard);
                    }
                    match item {
                        None => return Ok(End::Closed),
                        Some(Err(error)) => return Ok(End::Failed(error)),
                        Some(Ok(event)) => match self.apply(event, progress)? {
                            Given::Done | Given::LeftOut => {}
                            Given::NoRoom(full) => return Ok(End::NoRoom(full)),
                            Given::Refused(error) => return Ok(End::Failed(error)),
                            Given::Panicked(error) => return Ok(End::SinkPanicked(error)),
                        },
                    }
                }
                Next::Alarm => {
                    let silent = heard.elapsed();
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
                    // A resync may have waited for the sink.
                    let waited = before.elapsed();
                    heard += waited;
                    self.probing.received_later(waited);
                    if waker.probe.is_none() && self.probe_at().is_some_and(|due| due <= Instant::now()) {
                        waker.probe = Some(self.probing.admission());
                    }
                    let next = alarm(self, heard, &waker.probe);
                    debug_assert!(next > waker.alarm(), "an alarm that does not move would be a tight loop");
                    waker.set_alarm(next);
                }
                Next::Probe(event) => {
                    if let Some(error) = self.probed(event, &mut waker.probe) {
                        return Ok(End::Failed(error));
                    }
                    waker.set_alarm(alarm(self, heard, &waker.probe));
                }
            }
        }
    }

    /// An error if the versions of the source have gone back.
    fn probed(&mut self, event: ProbeEvent, probe: &mut Option<Probe>) -> Option<SourceError> {
        match event {
            ProbeEvent::Admitted => {
                let now = Instant::now();
                // It may have waited for long, and the source have spoken since.
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

    /// Passes one event on. The version moves only when the sink has it.
    fn apply(&mut self, event: WatchEvent<T>, progress: &mut Progress) -> Result<Given, StopReason> {
        count(&self.shared.counters.events);
        progress.events = progress.events.saturating_add(1);
        let may_be_initial = match &event {
            WatchEvent::Added(_) => true,
            WatchEvent::Undecodable(error) => error.event_type.is_none_or(|event| event == EventType::Added),
            _ => false,
        };
        let version = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                match ask(|| object.resource_version()) {
                    Ok(version) => version,
                    // As of an object that does not decode: what is known of it stays.
                    Err(source) => {
                        self.report_skipped(SourceError::Panic { operation: "resource_version", source });
                        return Ok(Given::LeftOut);
                    }
                }
            }
            WatchEvent::Bookmark { version, .. } => version.clone(),
            // What cannot be read proves nothing.
            WatchEvent::Undecodable(error) if broken(error).is_some() => ResourceVersion::UNSET,
            WatchEvent::Undecodable(error) => error.resource_version.clone(),
            WatchEvent::Unexpected { resource_version, .. } => resource_version.clone(),
        };
        // Nothing is below the version of a watch that begins with the state there is: that is none or 0.
        if let Some(error) = went_back(&progress.asked, &version) {
            return Ok(Given::Refused(error));
        }
        let mut given = match event {
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
                    return Ok(Given::Refused(broken));
                }
                let given = match (&error.key, error.event_type) {
                    // That it is gone is all there is to know of it.
                    (Some(key), Some(EventType::Deleted)) => {
                        let tombstone = Tombstone::final_state_unknown(key.clone(), None);
                        self.give("delete", Delta::Deleted(tombstone))?
                    }
                    _ => Given::LeftOut,
                };
                self.report_skipped(SourceError::Undecodable(error));
                // A deletion without a state does not say its version.
                if matches!(given, Given::Done) { Given::LeftOut } else { given }
            }
            WatchEvent::Unexpected { what, .. } => {
                self.unexpected(what);
                Given::LeftOut
            }
        };
        progress.past_initial |= !may_be_initial;
        if matches!(given, Given::LeftOut) && progress.past_initial && !version.is_unset() {
            // The sink has no object of this version, and is to reach it all the same.
            given = self.give_bookmark(version.clone())?;
        }
        if matches!(given, Given::Done | Given::LeftOut) && progress.past_initial {
            progress.moved |= self.move_to(version);
        }
        Ok(given)
    }

    fn give_bookmark(&self, version: ResourceVersion) -> Result<Given, StopReason> {
        self.give("bookmark", Delta::bookmark(version))
    }

    /// Whether that is anywhere else. Never back: what has been seen would come again.
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
        let brought = progress.moved || (progress.events > 0 && self.version.is_unset());
        // One that failed after a while has not shown life by that: a connection takes its time to fail.
        let alive = brought || (matches!(end, End::Closed) && lasted >= VERY_SHORT);
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

    /// A list only where watching again would not do.
    fn recovery(&mut self, error: &SourceError) -> Recovery {
        if error.is_expired() {
            // A list at that version would bring us to where we are: this time the newest is asked for.
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
            // Not the API: no watch of it is going to be one.
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

    /// Nothing says that this version is bad, but it is not tried for ever.
    fn rewatch_or_relist(&mut self) -> Recovery {
        self.fruitless = self.fruitless.saturating_add(1);
        if self.fruitless < FRUITLESS_TRIES {
            return Recovery::Rewatch;
        }
        self.fruitless = 0;
        Recovery::Relist
    }
}
