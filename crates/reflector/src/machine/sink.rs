//! Delivers single deltas to the sink.

use kinformer_core::internal::contain;
use kinformer_core::{Delta, Error, Object, ObjectKey, ObjectName, PartialErrors, Sink};

use crate::machine::Machine;
use crate::state::count;
use crate::{SourceError, StopReason};

/// The outcome of delivering a delta to the sink.
pub(super) enum SinkOutcome {
    /// The sink applied the delta.
    Applied,
    /// The delta was left out and reported. It is not delivered again.
    LeftOut,
    /// The sink is unchanged. The delta may be delivered again.
    NoRoom(Error),
    /// The delta was not applied, and the watch must end.
    Refused(SourceError),
    /// The sink panicked; its state is unknown.
    Panicked(SourceError),
}

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Delivers a delta to the sink.
    pub(super) fn deliver(
        &mut self,
        operation: &'static str,
        delta: Delta<T>,
    ) -> Result<SinkOutcome, StopReason> {
        let errors = match contain(|| self.sink.apply(delta.into())) {
            Ok(Ok(errors)) => errors,
            Ok(Err(Error::Closed)) => return Err(StopReason::SinkClosed),
            Ok(Err(full @ Error::Full { .. })) => return Ok(SinkOutcome::NoRoom(full)),
            Ok(Err(source)) => {
                count(&self.shared.counters.sink_errors);
                self.report_skipped(SourceError::Sink { operation, source });
                return Ok(SinkOutcome::LeftOut);
            }
            Err(source) => return Ok(SinkOutcome::Panicked(SourceError::Panic { operation, source })),
        };
        let left_out = errors.errors().iter().any(|problem| problem.left_out);
        // A delta without a valid key may concern any object.
        let without_key = errors.errors().iter().find_map(|problem| match &problem.error {
            Error::Key { source, .. } => Some(source.clone()),
            _ => None,
        });
        if let Some(error) = without_key {
            return Ok(SinkOutcome::Refused(SourceError::UnidentifiedEvent { source: Box::new(error) }));
        }
        for key in self.report_errors(operation, errors) {
            self.leave_out(key);
        }
        Ok(if left_out { SinkOutcome::LeftOut } else { SinkOutcome::Applied })
    }

    /// Counts and reports the errors of single objects. Returns the keys of those that were left out because user code
    /// failed.
    pub(super) fn report_errors(&self, operation: &'static str, errors: PartialErrors) -> Vec<ObjectKey> {
        let mut left_out = Vec::new();
        for problem in errors {
            count(&self.shared.counters.sink_errors);
            if let (true, error @ (Error::Transform { .. } | Error::Accessor { .. })) =
                (problem.left_out, &problem.error)
            {
                left_out.extend(error.object().and_then(ObjectName::key));
            }
            self.report_skipped(SourceError::Sink { operation, source: problem.error });
        }
        left_out
    }
}
