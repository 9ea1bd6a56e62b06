//! The state machine: the order of the steps, and the steps of a list.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use kinformer_core::internal::contain;
use kinformer_core::{Delta, Error, Object, PartialErrors, Replacement, ResourceVersion, Sink};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::backoff::{RunningBackoff, after, lengthened};
use crate::consistency;
use crate::contained::panicked;
use crate::initial_list::InitialList;
use crate::options::ConsistencyCheck;
use crate::pager::{FullList, PAGE_SIZE, Pager};
use crate::probe::{Probing, went_back};
use crate::request_limit::RequestWindow;
use crate::spans::{self, ListKind};
use crate::state::{Shared, count};
use crate::stream::{Next, OpenWatch, Waker};
use crate::unreadable::{broken, take_unreadable};
use crate::{
    Exchange, Failure, ListOptions, ListerWatcher, NextRequest, Recovery, ReflectorOptions, ReflectorState,
    SourceError, StopReason, VersionMatch, WatchEvent, WatchListMode, WatchListSupport, WatchOptions,
};

/// The number of watches or watch-lists in a row that fail without an event, or watch-lists that do not complete, after
/// which the reflector lists. Errors that prove that no
/// request was processed (connection refused, 429) do not count: they are retried forever.
pub(crate) const FRUITLESS_TRIES: u32 = 5;
/// From this many failures in a row, every failure is logged as a warning.
const WARN_FROM: u32 = 3;
/// Longer than any wait, and short enough to be added to any instant.
pub(crate) const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) struct Machine<T: Object, S> {
    pub(crate) source: Arc<dyn ListerWatcher<T>>,
    pub(crate) sink: S,
    /// Replaces objects of lists and watch-lists by the equal ones that the sink has already, which saves their memory.
    exchange: Exchange<T>,
    pub(crate) options: ReflectorOptions,
    pub(crate) shared: Arc<Shared>,
    pub(crate) cancel: CancellationToken,
    backoff: RunningBackoff,
    /// The backoff of healing lists, separate so that they do not lengthen the delays of watches that fail meanwhile.
    healing: RunningBackoff,
    /// The last version: the sink has everything up to it.
    pub(crate) version: ResourceVersion,
    /// Whether the server no longer has `version`: the next list requests the newest.
    pub(crate) version_unavailable: bool,
    /// The version that the last watch requested when it ended as expired.
    pub(crate) expired_at: Option<ResourceVersion>,
    /// Whether the source paged a list at version `0`: it then has no cache from which it could read a list in one
    /// piece.
    paged: bool,
    /// The number of consecutive watches that delivered nothing and watch-lists that did not complete.
    pub(crate) fruitless: u32,
    pub(crate) failures: u32,
    /// The times of the first and the last of a series of internal errors.
    pub(crate) internal_errors: Option<(Instant, Instant)>,
    resync_at: Option<Instant>,
    /// Whether the last watch-list failed with an error that does not say whether the server lacks watch-lists or fails
    /// in general: if the plain list that follows succeeds, watch-lists are refused.
    watch_list_suspect: bool,
    synced: bool,
    requests: RequestWindow,
    pub(crate) probing: Probing,
    /// The number of consecutive watches that ended at once without an error.
    pub(crate) very_short: u32,
    /// Whether the next watch continues an earlier one.
    pub(crate) is_restart: bool,
    /// The version after which the last watch had an unreadable event.
    pub(crate) broken_at: Option<ResourceVersion>,
    /// The time of the next list, if the last one was incomplete.
    pub(crate) relist_at: Option<Instant>,
    /// The span of the current list or watch.
    pub(crate) span: Span,
}

pub(crate) enum Step<T: Object> {
    /// A watch-list where it is possible, else a list.
    Sync,
    List,
    /// A healing list: it follows an incomplete list and may be complete.
    Heal,
    /// `Some` continues a watch-list that is open already.
    Watch(Option<OpenWatch<T>>),
    BackOff {
        delay: Duration,
        next: NextRequest,
    },
}

/// The purpose of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The watch cannot continue from its last version.
    Sync,
    /// The last list was incomplete. The watch can continue from its last version.
    Heal,
}

fn next_delay(backoff: &mut RunningBackoff) -> Duration {
    // The delays may come from a user's iterator.
    contain(|| backoff.next_delay(Instant::now())).unwrap_or(Duration::from_secs(1))
}

/// The outcome of giving a delta to the sink.
pub(crate) enum SinkOutcome {
    /// The sink applied the delta.
    Applied,
    /// The delta was left out and reported. It is not given again.
    LeftOut,
    /// The sink is unchanged. The delta may be given again.
    NoRoom(Error),
    /// The delta was not applied, and the watch must end.
    Refused(SourceError),
    /// The sink panicked; its state is unknown.
    Panicked(SourceError),
}

impl<T: Object, S: Sink<T>> Machine<T, S> {
    pub(crate) fn new(
        source: Arc<dyn ListerWatcher<T>>,
        sink: S,
        exchange: Exchange<T>,
        options: ReflectorOptions,
        shared: Arc<Shared>,
        cancel: CancellationToken,
    ) -> Self {
        let budget = source.probe_budget().cloned().unwrap_or_default();
        Self {
            source,
            sink,
            exchange,
            requests: RequestWindow::new(options.request_limit),
            probing: Probing::new(budget),
            very_short: 0,
            backoff: options.backoff.start(),
            healing: options.backoff.start(),
            options,
            shared,
            cancel,
            version: ResourceVersion::UNSET,
            version_unavailable: false,
            expired_at: None,
            paged: false,
            fruitless: 0,
            failures: 0,
            internal_errors: None,
            resync_at: None,
            watch_list_suspect: false,
            synced: false,
            is_restart: false,
            broken_at: None,
            relist_at: None,
            span: Span::none(),
        }
    }

    pub(crate) async fn run(&mut self) -> StopReason {
        let mut step = Step::Sync;
        loop {
            if self.cancel.is_cancelled() {
                return StopReason::Cancelled;
            }
            // A list in progress satisfies the request.
            let may_relist = matches!(step, Step::Watch(_) | Step::BackOff { next: NextRequest::Watch, .. });
            let shared = self.shared.clone();
            let next = tokio::select! {
                biased;
                error = shared.relist_requested(), if may_relist => Ok(Ok(self.fail(error, Recovery::Relist))),
                // A panic of user code here affects no state but that of the sink.
                next = AssertUnwindSafe(self.advance(step)).catch_unwind() => next,
            };
            step = match next {
                Ok(Ok(step)) => step,
                Ok(Err(reason)) => return reason,
                Err(panic) => self.fail(panicked("reflector", panic), Recovery::Relist),
            };
            self.span = Span::none();
        }
    }

    async fn advance(&mut self, step: Step<T>) -> Result<Step<T>, StopReason> {
        match step {
            Step::Watch(None) if self.relist_is_due() => return Ok(Step::Heal),
            Step::Sync | Step::List | Step::Heal => self.admit(NextRequest::List).await?,
            Step::Watch(None) => self.admit(NextRequest::Watch).await?,
            Step::Watch(Some(_)) | Step::BackOff { .. } => {}
        }
        let step = match step {
            Step::Sync if !self.may_watch_list() => Step::List,
            step => step,
        };
        self.span = self.span_of(&step);
        let span = self.span.clone();
        self.perform(step).instrument(span).await
    }

    /// Creates the span of a step; none for a delay.
    fn span_of(&self, step: &Step<T>) -> Span {
        let reflector = &*self.shared.name;
        match step {
            Step::Sync => spans::list(reflector, ListKind::WatchList, self.synced),
            Step::List | Step::Heal => spans::list(reflector, ListKind::List, self.synced),
            Step::Watch(_) => spans::watch(reflector, &self.version),
            Step::BackOff { .. } => Span::none(),
        }
    }

    async fn perform(&mut self, step: Step<T>) -> Result<Step<T>, StopReason> {
        match step {
            Step::Sync => self.watch_list().await,
            Step::List => self.list(Purpose::Sync).await,
            Step::Heal => self.list(Purpose::Heal).await,
            Step::Watch(open) => self.watch(open).await,
            Step::BackOff { delay, next } => {
                self.back_off(delay, next).await?;
                Ok(match next {
                    NextRequest::List => Step::Sync,
                    NextRequest::Watch => Step::Watch(None),
                })
            }
        }
    }

    /// Waits until the limit on requests admits another one, and counts that request.
    async fn admit(&mut self, next: NextRequest) -> Result<(), StopReason> {
        while let Some(wait) =
            self.requests.free_at().and_then(|free| free.checked_duration_since(Instant::now()))
            && !wait.is_zero()
        {
            let delayed = count(&self.shared.counters.requests_put_off);
            let delay = lengthened(wait, wait / 4);
            if delayed.is_power_of_two() {
                let reflector = &*self.shared.name;
                tracing::warn!(reflector, ?next, ?delay, delayed, "limit on requests reached");
            }
            self.back_off(delay, next).await?;
        }
        self.requests.start(Instant::now());
        Ok(())
    }

    /// Returns whether the newest version may be requested now. If so, counts the request.
    pub(crate) fn admit_probe(&mut self, now: Instant) -> bool {
        let free = self.requests.free_at().is_none_or(|free| free <= now);
        if free {
            count(&self.shared.counters.version_probes);
            self.requests.start(now);
        }
        free
    }

    /// Returns the time at which the newest version is requested if the source stays silent.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        let due = self.probing.due_at(&self.version)?;
        Some(self.requests.free_at().map_or(due, |free| free.max(due)))
    }

    fn may_watch_list(&self) -> bool {
        match self.options.watch_list {
            WatchListMode::Off => false,
            WatchListMode::Always => true,
            // A list is due because an item could not be read. A watch-list that ends at that item again would delay it.
            WatchListMode::Auto if self.relist_at.is_some() => false,
            WatchListMode::Auto => self.source.watch_list_support().is_some_and(|s| !s.is_refused()),
        }
    }

    // ---- list ----

    async fn list(&mut self, purpose: Purpose) -> Result<Step<T>, StopReason> {
        if self.synced {
            count(&self.shared.counters.relists);
        }
        // Follows client-go 1.37 (`relistResourceVersion`).
        let version = if self.version_unavailable {
            ResourceVersion::UNSET
        } else if self.version.is_unset() {
            ResourceVersion::number(0)
        } else {
            self.version.clone()
        };
        let any_state = version == ResourceVersion::number(0);
        let limit = match self.options.page_size {
            Some(size) => Some(size),
            None if self.paged || any_state || version.is_unset() => Some(PAGE_SIZE),
            None => None,
        };
        self.shared.set_state(ReflectorState::Listing { resource_version: version.clone(), pages: 0 });
        let pager = self.pager();
        let requested = version.clone();
        let list =
            self.or_cancel(pager.list(ListOptions { limit, ..ListOptions::at_version(version) })).await?;
        let older = |list: &FullList<T>| went_back(&requested, &list.resource_version);
        let list = list.and_then(|list| older(&list).map_or(Ok(list), Err));
        let mut list = match list.and_then(|list| self.has_version(&list.resource_version).map(|()| list)) {
            Ok(list) => list,
            Err(error) if purpose == Purpose::Heal => return Ok(self.healing_failed(error)),
            Err(error) => return Ok(self.list_failed(error)),
        };
        self.paged |= any_state && list.paged;
        if self.watch_list_suspect {
            self.refuse_watch_list();
        }
        let (unreadable, first) = take_unreadable(&mut list);
        self.shared.counters.decode_errors.fetch_add(unreadable as u64, Ordering::Relaxed);
        let undelivered: Vec<_> = list.undecodable.iter().filter_map(|e| e.key.clone()).collect();
        for error in list.undecodable {
            count(&self.shared.counters.decode_errors);
            self.report_skipped(SourceError::Undecodable(error));
        }
        if unreadable > 0 {
            // Before the list is applied, so that the reflector is never seen synced but not degraded.
            self.degrade(unreadable, first);
        }
        // A second incomplete list adds nothing to the events of the watch, and applying it would lose the deletions
        // between the last event and the list. But a watch cannot continue from a version that the server does not
        // have.
        let can_continue =
            !self.version.is_unset() && went_back(&self.version, &list.resource_version).is_none();
        let is_applied = unreadable == 0 || purpose == Purpose::Sync || !can_continue;
        if is_applied {
            let replacement = Replacement::new(list.objects, list.resource_version);
            let replacement = replacement.undelivered(undelivered).unreadable(unreadable);
            if let Some(failed) = self.replace(replacement).await? {
                return Ok(failed);
            }
        }
        Ok(Step::Watch(None))
    }

    fn pager(&self) -> Pager<'_, T> {
        let Self { source, shared, options, exchange, .. } = self;
        Pager { source: &**source, shared, options, exchange }
    }

    /// Checks that a list has a version if an earlier one had.
    fn has_version(&self, version: &ResourceVersion) -> Result<(), SourceError> {
        match version.is_unset() && !self.version.is_unset() {
            true => Err(SourceError::MissingVersion { last: self.version.clone() }),
            false => Ok(()),
        }
    }

    fn list_failed(&mut self, error: SourceError) -> Step<T> {
        self.watch_list_suspect = false;
        if error.is_version_unavailable() && !self.version_unavailable {
            self.version_unavailable = true;
            self.report(error, Recovery::Relist, Duration::ZERO);
            return Step::List;
        }
        self.fail(error, Recovery::Relist)
    }

    /// Replaces the content of the sink by a list, complete or not. Returns the next step only if that failed.
    async fn replace(&mut self, list: Replacement<T>) -> Result<Option<Step<T>>, StopReason> {
        // Read before the source can complete another list, such as that of the consistency check.
        let list = list.epoch(self.source.list_epoch());
        if self.options.consistency_check == ConsistencyCheck::On {
            self.check_consistency(&list).await?;
        }
        self.wait_for_room().await?;
        let (version, is_complete) = (list.resource_version.clone(), list.is_complete());
        let objects = list.objects.len();
        drop(self.shared.take_relist_request());
        let deltas = Delta::ReplacedAll(Box::new(list)).into();
        match contain(|| self.sink.apply(deltas)) {
            Ok(Ok(errors)) => self.report_errors("replace", errors),
            Ok(Err(Error::Closed)) => return Err(StopReason::SinkClosed),
            Ok(Err(source)) => {
                count(&self.shared.counters.sink_problems);
                let error = SourceError::Sink { operation: "replace", source };
                return Ok(Some(self.fail(error, Recovery::Relist)));
            }
            Err(source) => {
                let error = SourceError::Panic { operation: "replace", source };
                return Ok(Some(self.fail(error, Recovery::Relist)));
            }
        }
        count(&self.shared.counters.replaces);
        spans::listed(&self.span, objects, &version);
        self.version = version.clone();
        self.version_unavailable = false;
        self.probing.listed();
        self.is_restart = false;
        self.shared.set_version(version);
        if is_complete {
            self.heal();
        }
        if !self.synced {
            self.synced = true;
            self.arm_resync();
            self.shared.set_synced();
        }
        Ok(None)
    }

    async fn check_consistency(&mut self, list: &Replacement<T>) -> Result<(), StopReason> {
        let version = &list.resource_version;
        if version.is_unset() || *version == ResourceVersion::number(0) {
            return Ok(());
        }
        self.admit(NextRequest::List).await?;
        let exact = ListOptions {
            version_match: Some(VersionMatch::Exact),
            ..ListOptions::at_version(version.clone())
        };
        let pager = self.pager();
        let difference = match self.or_cancel(pager.list(exact)).await? {
            Ok(second) => consistency::compare(list, &second),
            // The version may have expired. The check is then impossible, which is reported.
            Err(error) => Err(error),
        };
        if let Err(error) = difference {
            self.report_skipped(error);
        }
        Ok(())
    }

    // ---- watch-list ----

    async fn watch_list(&mut self) -> Result<Step<T>, StopReason> {
        count(&self.shared.counters.watch_lists);
        if self.synced {
            count(&self.shared.counters.relists);
        }
        let version = if self.version_unavailable { ResourceVersion::UNSET } else { self.version.clone() };
        self.shared.set_state(ReflectorState::WatchListing { resource_version: version.clone() });
        let started = Instant::now();
        let deadline = started + self.options.watch_list_deadline.min(FOREVER);
        let options = WatchOptions::from(version.clone(), self.watch_timeout()).with_initial_events();
        let error = match self.open(options, deadline).await? {
            Ok(open) => match self.gather(open, deadline).await? {
                Ok((list, open)) => match self
                    .has_version(&list.resource_version)
                    .and_then(|()| went_back(&version, &list.resource_version).map_or(Ok(()), Err))
                {
                    Ok(()) => {
                        self.fruitless = 0;
                        if !list.is_complete() {
                            self.degrade(list.unreadable, Vec::new());
                        }
                        return Ok(self.replace(list).await?.unwrap_or(Step::Watch(Some(open))));
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            },
            Err(SourceError::WatchStalled { silent }) => {
                SourceError::WatchListStalled { events: 0, after: silent }
            }
            Err(error) => error,
        };
        Ok(self.watch_list_failed(error))
    }

    /// Gathers the initial events up to the bookmark that ends them.
    async fn gather(
        &mut self,
        mut open: OpenWatch<T>,
        deadline: Instant,
    ) -> Result<Result<(Replacement<T>, OpenWatch<T>), SourceError>, StopReason> {
        let started = Instant::now();
        let max_silence = self.options.watch_list_deadline.min(FOREVER) / 4;
        let cancel = self.cancel.clone();
        let cancelled = pin!(cancel.cancelled());
        let alarm = pin!(sleep_until(deadline.min(started + max_silence)));
        let mut waker = Waker::new(cancelled, alarm);
        let mut last_received = started;
        let mut list = InitialList::new();
        let mut events = 0_u64;
        loop {
            let event = match waker.next(&mut open.stream).await? {
                Next::Item { item: Some(Ok(event)), waited } => {
                    if waited {
                        last_received = Instant::now();
                    }
                    event
                }
                Next::Item { item: Some(Err(error)), .. } => return Ok(Err(error)),
                Next::Item { item: None, .. } => {
                    return Ok(Err(SourceError::WatchListIncomplete { events, after: started.elapsed() }));
                }
                Next::Alarm => {
                    let now = Instant::now();
                    if now >= deadline || now >= last_received + max_silence {
                        return Ok(Err(SourceError::WatchListStalled { events, after: now - started }));
                    }
                    waker.set_alarm(deadline.min(last_received + max_silence));
                    continue;
                }
                // No probe starts before the list is complete.
                Next::Probe(_) => continue,
            };
            events = events.saturating_add(1);
            count(&self.shared.counters.events);
            match event {
                WatchEvent::Bookmark { version, initial_events_end } => {
                    count(&self.shared.counters.bookmarks);
                    if initial_events_end {
                        return Ok(Ok((list.finish(version), open)));
                    }
                }
                WatchEvent::Unexpected { what, .. } => self.unexpected(what),
                event => {
                    let event = match event {
                        WatchEvent::Added(object) => WatchEvent::Added(self.exchange.apply(object)),
                        event => event,
                    };
                    if let WatchEvent::Undecodable(error) = &event {
                        count(&self.shared.counters.decode_errors);
                        if let Some(error) = broken(error) {
                            return Ok(Err(error));
                        }
                        self.report_skipped(SourceError::Undecodable(error.clone()));
                    }
                    if let Some(source) = list.leave_out(&event) {
                        self.report_skipped(SourceError::Panic { operation: "key", source });
                        continue;
                    }
                    match contain(|| list.apply(event)) {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => {
                            return Ok(Err(SourceError::BrokenEvent { source: Box::new(error) }));
                        }
                        Err(source) => {
                            return Ok(Err(SourceError::Panic { operation: "watch-list", source }));
                        }
                    }
                }
            }
        }
    }

    fn watch_list_failed(&mut self, error: SourceError) -> Step<T> {
        if error.is_version_unavailable() && !self.version_unavailable {
            self.version_unavailable = true;
            self.report(error, Recovery::Relist, Duration::ZERO);
            return Step::Sync;
        }
        if self.options.watch_list == WatchListMode::Always {
            return self.fail(error, Recovery::Relist);
        }
        if matches!(error, SourceError::BrokenEvent { .. }) {
            if self.after_broken_event() == Recovery::Rewatch {
                return self.fail(error, Recovery::Relist);
            }
            self.report(error, Recovery::FallBackToList, Duration::ZERO);
            return Step::List;
        }
        let ended_early = matches!(error, SourceError::WatchListIncomplete { .. });
        let silent = matches!(error, SourceError::WatchListStalled { .. });
        let decided = error.is_watch_list_unsupported() || silent;
        let unlimited = error.is_connection_refused() || error.is_too_many_requests();
        if unlimited {
            return self.fail(error, Recovery::Relist);
        }
        if !decided && (ended_early || error.is_retryable() || error.is_internal()) {
            self.fruitless = self.fruitless.saturating_add(1);
            if self.fruitless < FRUITLESS_TRIES {
                return self.fail(error, Recovery::Relist);
            }
        }
        self.fruitless = 0;
        if decided {
            self.refuse_watch_list();
        } else {
            self.watch_list_suspect = true;
        }
        self.report(error, Recovery::FallBackToList, Duration::ZERO);
        Step::List
    }

    fn refuse_watch_list(&mut self) {
        self.watch_list_suspect = false;
        tracing::info!("watch-lists fail or are not supported; using lists from now on");
        if let Some(support) = self.source.watch_list_support() {
            WatchListSupport::refuse(support);
        }
    }

    // ---- waiting ----

    async fn back_off(&mut self, delay: Duration, next: NextRequest) -> Result<(), StopReason> {
        self.shared.set_state(ReflectorState::BackingOff { next, delay, failures: self.failures });
        let until = Instant::now() + delay.min(FOREVER);
        loop {
            let wake = self.resync_at.map_or(until, |resync| resync.min(until));
            self.or_cancel(sleep_until(wake)).await?;
            if Instant::now() >= until {
                break;
            }
            if let Some(error) = self.resync_if_due().await? {
                self.report_skipped(error);
            }
        }
        Ok(())
    }

    pub(crate) async fn or_cancel<F: Future>(&self, work: F) -> Result<F::Output, StopReason> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(StopReason::Cancelled),
            output = work => Ok(output),
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        // After a panic, the delta is applied: a sink that panics there too is reported.
        contain(|| self.sink.is_ready()).unwrap_or(true)
    }

    pub(crate) async fn wait_for_room(&self) -> Result<(), StopReason> {
        if self.has_room() {
            return Ok(());
        }
        let state = self.shared.set_state(ReflectorState::WaitingForSink);
        let ready = AssertUnwindSafe(async { self.sink.ready().await }).catch_unwind();
        let _ = self.or_cancel(ready).await?;
        self.shared.set_state(state);
        Ok(())
    }

    // ---- resync ----

    fn arm_resync(&mut self) {
        self.resync_at = self.options.resync_period.map(|period| Instant::now() + period.min(FOREVER));
    }

    pub(crate) fn resync_at(&self) -> Option<Instant> {
        self.resync_at
    }

    /// Resyncs if the period is over. Returns the error of the sink, if there is one.
    pub(crate) async fn resync_if_due(&mut self) -> Result<Option<SourceError>, StopReason> {
        if self.resync_at.is_none_or(|due| Instant::now() < due) {
            return Ok(None);
        }
        let wanted = self.options.take_due_resyncs.as_ref().map_or(Ok(true), |take| contain(|| take()));
        let error = match wanted {
            Ok(true) => {
                self.wait_for_room().await?;
                match contain(|| self.sink.apply(Delta::SyncAll.into())) {
                    Ok(Ok(errors)) => {
                        self.report_errors("resync", errors);
                        count(&self.shared.counters.resyncs);
                        None
                    }
                    Ok(Err(Error::Closed)) => return Err(StopReason::SinkClosed),
                    Ok(Err(source)) => Some(SourceError::Sink { operation: "resync", source }),
                    Err(source) => Some(SourceError::Panic { operation: "resync", source }),
                }
            }
            Ok(false) => None,
            Err(source) => {
                self.report_skipped(SourceError::Panic { operation: "take_due_resyncs", source });
                None
            }
        };
        self.arm_resync();
        Ok(error)
    }

    // ---- sink ----

    pub(crate) fn give(&self, operation: &'static str, delta: Delta<T>) -> Result<SinkOutcome, StopReason> {
        let errors = match contain(|| self.sink.apply(delta.into())) {
            Ok(Ok(errors)) => errors,
            Ok(Err(Error::Closed)) => return Err(StopReason::SinkClosed),
            Ok(Err(full @ Error::Full { .. })) => return Ok(SinkOutcome::NoRoom(full)),
            Ok(Err(source)) => {
                count(&self.shared.counters.sink_problems);
                self.report_skipped(SourceError::Sink { operation, source });
                return Ok(SinkOutcome::LeftOut);
            }
            Err(source) => return Ok(SinkOutcome::Panicked(SourceError::Panic { operation, source })),
        };
        let left_out = errors.errors().iter().any(|problem| problem.left_out);
        // A delta without a valid key may concern any object.
        let without_key = errors.errors().iter().find_map(|problem| match &problem.error {
            Error::Key(error) => Some(error.clone()),
            _ => None,
        });
        if let Some(error) = without_key {
            return Ok(SinkOutcome::Refused(SourceError::BrokenEvent { source: Box::new(error) }));
        }
        self.report_errors(operation, errors);
        Ok(if left_out { SinkOutcome::LeftOut } else { SinkOutcome::Applied })
    }

    fn report_errors(&self, operation: &'static str, errors: PartialErrors) {
        for problem in errors {
            count(&self.shared.counters.sink_problems);
            self.report_skipped(SourceError::Sink { operation, source: problem.error });
        }
    }

    // ---- failures ----

    /// Counts and reports a failure. Returns the step that waits before the next request.
    pub(crate) fn fail(&mut self, error: SourceError, recovery: Recovery) -> Step<T> {
        self.failures = self.failures.saturating_add(1);
        self.shared.counters.consecutive_failures.store(self.failures.into(), Ordering::Relaxed);
        let delay = self.next_delay_after(&error);
        self.report(error, recovery, delay);
        let next = if recovery == Recovery::Rewatch { NextRequest::Watch } else { NextRequest::List };
        Step::BackOff { delay, next }
    }

    fn next_delay_after(&mut self, error: &SourceError) -> Duration {
        after(error, next_delay(&mut self.backoff))
    }

    /// Returns the delay before the next healing list, after an incomplete list or after this error.
    pub(crate) fn next_healing_delay(&mut self, error: Option<&SourceError>) -> Duration {
        let delay = next_delay(&mut self.healing);
        error.map_or(delay, |error| after(error, delay))
    }

    /// Resets the counts of failures, because a watch has delivered something or lasted.
    pub(crate) fn recovered(&mut self) {
        self.fruitless = 0;
        if self.failures >= WARN_FROM {
            tracing::info!(failures = self.failures, "recovered");
        }
        self.failures = 0;
        self.shared.counters.consecutive_failures.store(0, Ordering::Relaxed);
    }

    /// Counts, logs and delivers the error that ended a list or watch.
    pub(crate) fn report(&self, error: impl Into<Arc<SourceError>>, recovery: Recovery, delay: Duration) {
        let error = error.into();
        spans::failed(&self.span, &error);
        count(&self.shared.counters.failures);
        if matches!(*error, SourceError::VersionsWentBack { .. }) {
            count(&self.shared.counters.versions_went_back);
        }
        let (reflector, failures) = (&*self.shared.name, self.failures);
        let harmless = error.is_expired() || error.is_retryable() || recovery == Recovery::FallBackToList;
        if failures >= WARN_FROM || !harmless {
            tracing::warn!(reflector, %error, ?recovery, ?delay, failures, "list or watch failed");
        } else {
            tracing::debug!(reflector, %error, ?recovery, ?delay, failures, "list or watch failed");
        }
        self.deliver_error(error, recovery, delay);
    }

    /// Logs and delivers an error that ends neither a list nor a watch, such as that of one object. There may be very
    /// many: the error hook gets all; the log gets a warning for each power of two and each 1,000th, and the others at
    /// debug level.
    pub(crate) fn report_skipped(&self, error: SourceError) {
        let so_far = self.shared.skipped.fetch_add(1, Ordering::Relaxed) + 1;
        let reflector = &*self.shared.name;
        if so_far.is_power_of_two() || so_far.is_multiple_of(1000) {
            tracing::warn!(reflector, %error, so_far, "error reported; the reflector continues");
        } else {
            tracing::debug!(reflector, %error, so_far, "error reported; the reflector continues");
        }
        self.deliver_error(error, Recovery::Skip, Duration::ZERO);
    }

    pub(crate) fn unexpected(&self, what: String) {
        count(&self.shared.counters.unexpected_events);
        self.report_skipped(SourceError::Unexpected { what });
    }

    /// Stores the last error and passes it to the error hook.
    fn deliver_error(&self, error: impl Into<Arc<SourceError>>, recovery: Recovery, delay: Duration) {
        let error = error.into();
        self.shared.set_error(error.clone());
        if let Some(hook) = &self.options.error_hook {
            let reflector = &*self.shared.name;
            let failure = Failure { reflector, error: &error, recovery, delay, failures: self.failures };
            if let Err(panic) = contain(|| hook(&failure)) {
                tracing::error!(reflector, %panic, "error hook panicked");
            }
        }
    }
}
