//! Replaces the contents of the sink by a list.

use std::sync::atomic::Ordering;

use kinformer_core::internal::contain;
use kinformer_core::{Delta, Error, Object, ObjectName, Replacement, ResourceVersion, Sink};

use crate::machine::{Machine, Step};
use crate::options::ConsistencyCheck;
use crate::ports::consistency;
use crate::spans;
use crate::state::count;
use crate::{ListOptions, NextRequest, Recovery, SourceError, StopReason, VersionMatch};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Replaces the content of the sink by a list, complete or not. Returns the next step only if that failed.
    pub(super) async fn replace(&mut self, list: Replacement<T>) -> Result<Option<Step<T>>, StopReason> {
        if self.options.consistency_check == ConsistencyCheck::On {
            self.check_consistency(&list).await?;
        }
        self.wait_for_room().await?;
        let (version, is_complete) = (list.resource_version.clone(), list.is_complete());
        let objects = list.objects.len();
        let mut left_out = list.undelivered.clone();
        let unidentified;
        drop(self.shared.take_relist_request());
        self.check_version_of_list(&version);
        let deltas = Delta::ReplacedAll(Box::new(list)).into();
        match contain(|| self.sink.apply(deltas)) {
            Ok(Ok(errors)) => {
                unidentified =
                    errors.errors().iter().filter(|problem| is_unidentified(&problem.error)).count();
                left_out.extend(self.report_errors("replace", errors));
            }
            Ok(Err(Error::Closed)) => return Err(StopReason::SinkClosed),
            Ok(Err(source)) => {
                count(&self.shared.counters.sink_errors);
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
        let counted = self.shared.counters.versions_went_back.load(Ordering::Relaxed);
        self.version.set_listed(version.clone(), counted);
        self.attempts.note_current();
        self.probing.listed();
        self.is_restart = false;
        self.shared.set_version(version);
        match is_complete {
            // The sink could not read a key that the reflector could, and has deleted nothing.
            true if unidentified > 0 => self.list_is_incomplete(unidentified, Vec::new()),
            true => self.list_is_complete(),
            false => {}
        }
        self.repetition.listed_without(left_out, self.version.get());
        if !self.synced {
            self.synced = true;
            self.schedule_resync();
            self.shared.set_synced();
        }
        Ok(None)
    }

    /// Reports a list whose version is below the last one. A server that lacks the last version may say so before anything
    /// else shows that it has gone back.
    fn check_version_of_list(&mut self, version: &ResourceVersion) {
        let counted = self.shared.counters.versions_went_back.load(Ordering::Relaxed);
        if !self.source_versions.has_unrelated_lists()
            && let Some(error) = self.version.went_back_at_list(version, counted)
        {
            count(&self.shared.counters.versions_went_back);
            self.report_skipped(error);
        }
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
        let difference = match self.all_pages(exact, false).await? {
            Ok(second) => consistency::compare(list, &second),
            // The version may have expired. The check is then impossible, which is reported.
            Err(error) => Err(error),
        };
        if let Err(error) = difference {
            self.report_skipped(error);
        }
        Ok(())
    }
}

/// Returns whether the accessors of an object panicked before its key was known.
fn is_unidentified(error: &Error) -> bool {
    matches!(error, Error::Accessor { object: ObjectName::Index(_), .. })
}
