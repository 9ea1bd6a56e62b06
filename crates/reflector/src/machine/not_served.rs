//! A resource that the source does not serve (404), such as one whose CustomResourceDefinition was deleted.

use std::sync::Arc;
use std::time::Duration;

use kinformer_core::{Object, Replacement, Sink};

use crate::history::{DELETED_AFTER, NotServed};
use crate::machine::{Machine, Step};
use crate::{SourceError, StopReason};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Records whether the source serves the resource, by the error that ended a list or watch.
    pub(super) fn failed_with(&mut self, error: SourceError) -> Arc<SourceError> {
        if !error.is_not_found() {
            self.is_served();
            return Arc::new(error);
        }
        let lasted = self.not_served.get_or_insert_with(NotServed::starting_now).lasted();
        let error = Arc::new(match error {
            SourceError::Status(status) => SourceError::NotServed { status, lasted },
            error => error,
        });
        self.shared.set_not_served(Some(error.clone()));
        error
    }

    /// Records that the last answer was not a 404.
    pub(super) fn is_served(&mut self) {
        if self.not_served.take().is_some() {
            self.shared.set_not_served(None);
        }
    }

    /// Returns the shortest delay before the next request.
    pub(super) fn shortest_delay(&self) -> Duration {
        self.not_served.as_ref().map_or(Duration::ZERO, NotServed::shortest_delay)
    }

    /// Deletes all objects if each answer has been a 404 for long enough. Returns the next step only if that failed.
    pub(super) async fn delete_if_not_served(&mut self) -> Result<Option<Step<T>>, StopReason> {
        if !self.synced || !self.not_served.as_mut().is_some_and(NotServed::take_due_deletion) {
            return Ok(None);
        }
        let reflector = &*self.shared.name;
        tracing::warn!(reflector, after = ?DELETED_AFTER, "resource is not served; deleting its objects");
        self.replace(Replacement::new(Vec::new(), self.version.get().clone())).await
    }
}
