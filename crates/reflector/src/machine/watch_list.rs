//! The step of a watch-list: a watch that starts with the events of the initial list.

use std::pin::pin;
use std::time::Duration;

use kinformer_core::internal::contain;
use kinformer_core::{Object, Replacement, Sink};
use tokio::time::{Instant, sleep_until};

use crate::initial_list::{InitialList, Rejected};
use crate::machine::{FOREVER, Machine, Step};
use crate::state::count;
use crate::stream::{Next, OpenWatch, Waker};
use crate::unidentified::unidentified_event;
use crate::{
    Recovery, ReflectorState, SourceError, StopReason, WatchEvent, WatchListMode, WatchListSupport,
    WatchOptions,
};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    pub(super) fn may_watch_list(&self) -> bool {
        match self.options.watch_list {
            WatchListMode::Off => false,
            WatchListMode::Always => true,
            // A list is due because of an unidentified object. A watch-list that ends at that object again would delay it.
            WatchListMode::Auto if self.repetition.due_at().is_some() || self.shared.is_not_watchable() => {
                false
            }
            WatchListMode::Auto => self.source.watch_list_support().is_some_and(|s| !s.is_refused()),
        }
    }

    pub(super) async fn watch_list(&mut self) -> Result<Step<T>, StopReason> {
        count(&self.shared.counters.watch_lists);
        if self.synced {
            count(&self.shared.counters.relists);
        }
        let version = self.version.of_watch_list();
        self.shared.set_state(ReflectorState::WatchListing { resource_version: version.clone() });
        let started = Instant::now();
        let deadline = started + self.options.watch_list_deadline.min(FOREVER);
        let options = WatchOptions::from(version.clone(), self.watch_timeout()).with_initial_events();
        let error = match self.open(options, deadline).await? {
            Ok(open) => match self.receive_initial_list(open, deadline).await? {
                Ok((list, mut open)) => {
                    let found = &list.resource_version;
                    match self.source_versions.check_list(
                        &version,
                        self.version.known(),
                        found,
                        &list.objects,
                    ) {
                        Ok(()) => {
                            self.attempts.watch_list_succeeded();
                            if !list.is_complete() {
                                self.list_is_incomplete(list.unidentified, Vec::new());
                            }
                            let before = Instant::now();
                            let next = self.replace(list).await?;
                            open.not_read_for(before.elapsed());
                            return Ok(next.unwrap_or(Step::Watch(Some(open))));
                        }
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            },
            Err(SourceError::WatchStalled { silent }) => {
                SourceError::WatchListStalled { events: 0, after: silent }
            }
            Err(error) => error,
        };
        Ok(self.watch_list_failed(error))
    }

    /// Receives the initial events up to the bookmark that ends them.
    async fn receive_initial_list(
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
        let mut list = InitialList::new();
        let mut events = 0_u64;
        loop {
            let event = match waker.next(&mut open.stream).await? {
                Next::Item { item: Some(Ok(event)), waited } => {
                    if waited {
                        open.last_received = Instant::now();
                    }
                    event
                }
                Next::Item { item: Some(Err(error)), .. } => return Ok(Err(error)),
                Next::Item { item: None, .. } => {
                    return Ok(Err(SourceError::WatchListIncomplete { events, after: started.elapsed() }));
                }
                Next::Alarm => {
                    let now = Instant::now();
                    if now >= deadline || now >= open.last_received + max_silence {
                        return Ok(Err(SourceError::WatchListStalled { events, after: now - started }));
                    }
                    waker.set_alarm(deadline.min(open.last_received + max_silence));
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
                    if let Err(error) = self.add_to_list(&mut list, event) {
                        return Ok(Err(error));
                    }
                }
            }
        }
    }

    /// Adds one of the initial events to the list.
    ///
    /// # Errors
    /// The event is unidentified, or user code panicked.
    fn add_to_list(&self, list: &mut InitialList<T>, event: WatchEvent<T>) -> Result<(), SourceError> {
        let event = match event {
            WatchEvent::Added(object) => WatchEvent::Added(self.exchange.apply(object)),
            event => event,
        };
        if let WatchEvent::Undecodable(error) = &event {
            count(&self.shared.counters.decode_errors);
            if let Some(error) = unidentified_event(error) {
                return Err(error);
            }
            self.report_skipped(SourceError::Undecodable(error.clone()));
        }
        match contain(|| list.apply(event)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Rejected::Panicked(source))) => {
                self.report_skipped(SourceError::Panic { operation: "key", source });
                Ok(())
            }
            Ok(Err(Rejected::Invalid(error))) => {
                Err(SourceError::UnidentifiedEvent { source: Box::new(error) })
            }
            Err(source) => Err(SourceError::Panic { operation: "watch-list", source }),
        }
    }

    fn watch_list_failed(&mut self, error: SourceError) -> Step<T> {
        if error.is_version_unavailable() && self.version.set_unavailable() {
            self.report(error, Recovery::Relist, Duration::ZERO);
            return Step::WatchListOrList;
        }
        if self.options.watch_list == WatchListMode::Always {
            return self.fail(error, Recovery::Relist);
        }
        if matches!(error, SourceError::UnidentifiedEvent { .. }) {
            if self.after_unidentified_event() == Recovery::Rewatch {
                return self.fail(error, Recovery::Relist);
            }
            self.report(error, Recovery::FallBackToList, Duration::ZERO);
            return Step::List;
        }
        // This says nothing about watch-lists of other resources.
        if error.is_denied() || matches!(error, SourceError::ListInsteadOfWatch { .. }) {
            self.report(error, Recovery::FallBackToList, Duration::ZERO);
            self.shared.set_not_watchable(true);
            return Step::List;
        }
        let ended_early = matches!(error, SourceError::WatchListIncomplete { .. });
        let silent = matches!(error, SourceError::WatchListStalled { .. });
        let decided = error.is_watch_list_unsupported() || silent;
        let unlimited = error.is_connection_refused() || error.is_too_many_requests();
        if unlimited {
            return self.fail(error, Recovery::Relist);
        }
        if decided {
            self.refuse_watch_list();
        } else if !error.is_not_found() {
            self.attempts.watch_list_failed();
            // As in client-go, an answer leads to a list at once, which may succeed where watch-lists fail.
            let is_passing = error.is_unanswered() || error.retry_after().is_some();
            if (ended_early || is_passing) && !self.attempts.watch_lists_fail() {
                return self.fail(error, Recovery::Relist);
            }
            if is_passing {
                // The list that follows says nothing about watch-lists.
                self.attempts.forget_watch_lists();
            }
        }
        self.report(error, Recovery::FallBackToList, Duration::ZERO);
        Step::List
    }

    pub(super) fn refuse_watch_list(&mut self) {
        self.attempts.forget_watch_lists();
        tracing::info!("watch-lists fail or are not supported; using lists from now on");
        if let Some(support) = self.source.watch_list_support() {
            WatchListSupport::refuse(support);
        }
    }
}
