//! The step of a list.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kinformer_core::{Object, Replacement, ResourceVersion, Sink};

use crate::history::went_back;
use crate::machine::{Machine, Step};
use crate::pager::{FullList, PAGE_SIZE, Pager};
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
        let version = self.version.of_list();
        let any_state = version == ResourceVersion::number(0);
        // A repetition holds up the watch.
        let repeats = reason == ListReason::NoWatchPossible;
        let mut list = match self.request_list(version.clone(), repeats).await? {
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
        self.version.note_list(version, &list.resource_version);
        self.paged |= any_state && list.paged;
        if self.attempts.watch_lists_fail() {
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
            !self.version.get().is_unset() && went_back(self.version.get(), &list.resource_version).is_none();
        let is_applied = unidentified == 0 || reason == ListReason::NoWatchPossible || !can_continue;
        if is_applied {
            let replacement = Replacement::new(list.objects, list.resource_version);
            let replacement = replacement.undelivered(undelivered).unidentified(unidentified);
            if let Some(failed) = self.replace(replacement).await? {
                return Ok(failed);
            }
            self.attempts.listed();
        }
        Ok(Step::Watch(None))
    }

    /// Requests a list, page by page, and checks its version.
    async fn request_list(
        &mut self,
        version: ResourceVersion,
        repeats: bool,
    ) -> Result<Result<FullList<T>, SourceError>, StopReason> {
        let any_state = version == ResourceVersion::number(0);
        let limit = match self.options.page_size {
            Some(size) => Some(size),
            None if self.paged || any_state || version.is_unset() => Some(PAGE_SIZE),
            None => None,
        };
        self.shared.set_state(ReflectorState::Listing { resource_version: version.clone(), pages: 0 });
        let requested = version.clone();
        let list = self.all_pages(ListOptions { limit, ..ListOptions::at_version(version) }, repeats).await?;
        Ok(list.and_then(|list| {
            let found = &list.resource_version;
            self.source_versions.check_list(&requested, self.version.known(), found, &list.objects)?;
            Ok(list)
        }))
    }

    /// Requests all pages of a list and counts them; `repeats` if a page that fails is requested again. A list in one piece follows pages that are not those of one list.
    pub(super) async fn all_pages(
        &mut self,
        first: ListOptions<T>,
        repeats: bool,
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
            repeats: repeats.then(|| self.report_of_pages()),
        };
        let mut listed = self.or_cancel(pager.merged(received)).await?;
        self.requests.delay_lists(listed.as_ref().err());
        if listed.as_ref().is_err_and(SourceError::needs_one_piece) {
            // The pages count as one request, and this is another one.
            self.admit(NextRequest::List).await?;
            let resource_version = version.clone();
            self.shared.set_state(ReflectorState::Listing { resource_version, pages: 0 });
            listed = self.or_cancel(pager.in_one_piece(received)).await?;
            self.requests.delay_lists(listed.as_ref().err());
        }
        Ok(listed)
    }

    fn list_failed(&mut self, error: SourceError) -> Step<T> {
        self.attempts.forget_watch_lists();
        if error.is_version_unavailable() && self.version.set_unavailable() {
            self.report(error, Recovery::Relist, Duration::ZERO);
            return Step::List;
        }
        self.fail(error, Recovery::Relist)
    }
}
