//! The step of a list.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kinformer_core::{Object, Replacement, ResourceVersion, Sink};
use tokio::time::Instant;

use crate::backoff::retry_after;
use crate::machine::{MAX_TRIES_WITHOUT_PROGRESS, Machine, Step};
use crate::pager::{FullList, PAGE_SIZE, Pager};
use crate::source_versions::went_back;
use crate::state::count;
use crate::unidentified::take_unidentified;
use crate::{List, ListOptions, NextRequest, Recovery, ReflectorState, SourceError, StopReason};

/// The reason of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListReason {
    /// There is no version yet, or no watch can continue from it.
    NoWatchPossible,
    /// The last list was incomplete, or objects were left out. The watch can continue from its last version.
    RepeatIncomplete,
}

impl<T: Object, S: Sink<T>> Machine<T, S> {
    pub(super) async fn list(&mut self, reason: ListReason) -> Result<Step<T>, StopReason> {
        if self.synced {
            count(&self.shared.counters.relists);
        }
        let version = self.list_version();
        let any_state = version == ResourceVersion::number(0);
        let mut list = match self.request_list(version.clone()).await? {
            Ok(list) => list,
            Err(error) if reason == ListReason::RepeatIncomplete => {
                return Ok(self.repeated_list_failed(error));
            }
            Err(error) => {
                let failed = self.list_failed(error);
                return Ok(self.delete_if_not_served().await?.unwrap_or(failed));
            }
        };
        self.is_served();
        if list.resource_version == version {
            self.repeated_at = Some(version);
        }
        self.paged |= any_state && list.paged;
        if self.failed_watch_lists >= MAX_TRIES_WITHOUT_PROGRESS {
            self.refuse_watch_list();
        }
        let (unidentified, first) = take_unidentified(&mut list);
        self.shared.counters.decode_errors.fetch_add(unidentified as u64, Ordering::Relaxed);
        let undelivered: Vec<_> = list.undecodable.iter().filter_map(|e| e.key.clone()).collect();
        for error in list.undecodable {
            count(&self.shared.counters.decode_errors);
            self.report_skipped(SourceError::Undecodable(error));
        }
        if unidentified > 0 {
            // Before the list is applied, so that the reflector is never seen synced without reporting it.
            self.list_is_incomplete(unidentified, first);
        }
        // A second incomplete list adds nothing to the events of the watch, and applying it would lose the deletions
        // between the last event and the list. But a watch cannot continue from a version that the server does not
        // have.
        let can_continue =
            !self.version.is_unset() && went_back(&self.version, &list.resource_version).is_none();
        let is_applied = unidentified == 0 || reason == ListReason::NoWatchPossible || !can_continue;
        if is_applied {
            let replacement = Replacement::new(list.objects, list.resource_version);
            let replacement = replacement.undelivered(undelivered).unidentified(unidentified);
            if let Some(failed) = self.replace(replacement).await? {
                return Ok(failed);
            }
            self.lists_without_watch = self.lists_without_watch.saturating_add(1);
        }
        Ok(Step::Watch(None))
    }

    /// Returns the version that a list requests: `0` for any state, unset for the newest.
    ///
    /// Follows client-go 0.37 (`relistResourceVersion`).
    fn list_version(&self) -> ResourceVersion {
        if self.version_unavailable {
            ResourceVersion::UNSET
        } else if self.version.is_unset() {
            ResourceVersion::number(0)
        } else {
            self.version.clone()
        }
    }

    /// Requests a list, page by page, and checks its version.
    async fn request_list(
        &mut self,
        version: ResourceVersion,
    ) -> Result<Result<FullList<T>, SourceError>, StopReason> {
        let any_state = version == ResourceVersion::number(0);
        let limit = match self.options.page_size {
            Some(size) => Some(size),
            None if self.paged || any_state || version.is_unset() => Some(PAGE_SIZE),
            None => None,
        };
        self.shared.set_state(ReflectorState::Listing { resource_version: version.clone(), pages: 0 });
        let requested = version.clone();
        let list = self.all_pages(ListOptions { limit, ..ListOptions::at_version(version) }).await?;
        Ok(list.and_then(|list| {
            let found = &list.resource_version;
            self.source_versions.check_list(&requested, &self.version, found, &list.objects)?;
            Ok(list)
        }))
    }

    /// Requests all pages of a list and counts them. A list in one piece follows pages that are not those of one list.
    pub(super) async fn all_pages(
        &mut self,
        first: ListOptions<T>,
    ) -> Result<Result<FullList<T>, SourceError>, StopReason> {
        count(&self.shared.counters.lists);
        let (version, shared) = (first.resource_version.clone(), self.shared.clone());
        let received = |page: &List<T>, pages| {
            count(&shared.counters.pages);
            if page.continue_token.is_some() {
                let resource_version = version.clone();
                shared.set_state(ReflectorState::Listing { resource_version, pages });
            }
        };
        let pager = Pager {
            source: self.source.clone(),
            first: first.with_exchange(self.exchange.clone()),
            page_timeout: self.options.list_timeout,
            prefetch: 0,
        };
        let mut listed = self.or_cancel(pager.merged(received)).await?;
        self.delay_lists_after(&listed);
        if listed.as_ref().is_err_and(SourceError::needs_one_piece) {
            // The pages count as one request, and this is another one.
            self.admit(NextRequest::List).await?;
            let resource_version = version.clone();
            self.shared.set_state(ReflectorState::Listing { resource_version, pages: 0 });
            listed = self.or_cancel(pager.in_one_piece(received)).await?;
            self.delay_lists_after(&listed);
        }
        Ok(listed)
    }

    /// Delays the next list by the `Retry-After` of the last one.
    fn delay_lists_after(&mut self, listed: &Result<FullList<T>, SourceError>) {
        self.lists_not_before = listed.as_ref().err().map(|error| Instant::now() + retry_after(error));
    }

    fn list_failed(&mut self, error: SourceError) -> Step<T> {
        self.failed_watch_lists = 0;
        if error.is_version_unavailable() && !self.version_unavailable {
            self.version_unavailable = true;
            self.report(error, Recovery::Relist, Duration::ZERO);
            return Step::List;
        }
        self.fail(error, Recovery::Relist)
    }
}
