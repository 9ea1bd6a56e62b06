//! The order of the steps.

use kinformer_core::internal::contain_async;
use kinformer_core::{Object, Sink};
use tracing::{Instrument as _, Span};

use crate::machine::list::ListReason;
use crate::machine::{Machine, Step};
use crate::spans::{self, ListKind};
use crate::{NextRequest, Recovery, SourceError, StopReason};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    pub(crate) async fn run(&mut self) -> StopReason {
        let mut step = Step::WatchListOrList;
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
                next = contain_async(self.advance(step)) => next,
            };
            step = match next {
                Ok(Ok(step)) => step,
                Ok(Err(reason)) => return reason,
                Err(source) => {
                    self.fail(SourceError::Panic { operation: "reflector", source }, Recovery::Relist)
                }
            };
            self.span = Span::none();
        }
    }

    async fn advance(&mut self, step: Step<T>) -> Result<Step<T>, StopReason> {
        match step {
            Step::Watch(None) if self.repeat_is_due() => return Ok(Step::RepeatIncompleteList),
            Step::WatchListOrList | Step::List | Step::RepeatIncompleteList => {
                self.admit(NextRequest::List).await?
            }
            Step::Watch(None) => self.admit(NextRequest::Watch).await?,
            Step::Watch(Some(_)) | Step::BackOff { .. } => {}
        }
        let step = match step {
            Step::WatchListOrList if !self.may_watch_list() => Step::List,
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
            Step::WatchListOrList => spans::list(reflector, ListKind::WatchList, self.synced),
            Step::List | Step::RepeatIncompleteList => spans::list(reflector, ListKind::List, self.synced),
            Step::Watch(_) => spans::watch(reflector, self.version.get()),
            Step::BackOff { .. } => Span::none(),
        }
    }

    async fn perform(&mut self, step: Step<T>) -> Result<Step<T>, StopReason> {
        match step {
            Step::WatchListOrList => self.watch_list().await,
            Step::List => self.list(ListReason::NoWatchPossible).await,
            Step::RepeatIncompleteList => self.list(ListReason::RepeatIncomplete).await,
            Step::Watch(open) => self.watch(open).await,
            Step::BackOff { delay, next } => {
                self.back_off(delay, next).await?;
                Ok(match next {
                    // One request is enough to find that the resource is served again.
                    NextRequest::List if self.not_served.is_some() => Step::List,
                    NextRequest::List => Step::WatchListOrList,
                    NextRequest::Watch => Step::Watch(None),
                })
            }
        }
    }
}
