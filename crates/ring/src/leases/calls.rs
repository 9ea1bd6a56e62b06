//! The calls of [`Shards`] that are in progress.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::task::{AbortHandle, Id, JoinSet};

use super::shards::Shards;
use crate::slots::Slots;
use crate::view::{Input, ListFrom, StopReason};

/// The name of the function of [`Shards`] that has panicked.
pub(crate) struct Panicked(pub(crate) &'static str);

/// The tasks that list or drain slots. Dropping it aborts them.
pub(crate) struct Calls<S> {
    shards: Arc<S>,
    tasks: JoinSet<Done>,
    calls: HashMap<Id, Call>,
}

/// A call, and those of its slots that are still in question.
struct Call {
    function: &'static str,
    slots: Slots,
    task: AbortHandle,
}

enum Done {
    Listed(u64),
    Drained(Option<u64>),
}

impl<S: Shards> Calls<S> {
    pub(crate) fn new(shards: Arc<S>) -> Self {
        Self { shards, tasks: JoinSet::new(), calls: HashMap::new() }
    }

    pub(crate) fn own(&mut self, slots: Slots, list: ListFrom) -> Result<(), Panicked> {
        let shards = &self.shards;
        let listed = contained("own", || shards.own(slots.clone(), list))?;
        self.spawn("own", slots, async { Done::Listed(listed.await) });
        Ok(())
    }

    pub(crate) fn release(&mut self, slots: Slots) -> Result<(), Panicked> {
        self.forget(&slots);
        let shards = &self.shards;
        let drained = contained("release", || shards.release(slots.clone()))?;
        self.spawn("release", slots, async { Done::Drained(drained.await) });
        Ok(())
    }

    pub(crate) fn stop(&mut self, slots: Slots, reason: StopReason) -> Result<(), Panicked> {
        self.forget(&slots);
        contained("stop", || self.shards.stop(slots, reason))
    }

    fn spawn(
        &mut self,
        function: &'static str,
        slots: Slots,
        call: impl Future<Output = Done> + Send + 'static,
    ) {
        let task = self.tasks.spawn(call);
        self.calls.insert(task.id(), Call { function, slots, task });
    }

    /// These slots are not in question any more. A call without slots is dropped.
    fn forget(&mut self, slots: &Slots) {
        self.calls.retain(|_, call| {
            call.slots = call.slots.without(slots);
            if call.slots.is_empty() {
                call.task.abort();
            }
            !call.slots.is_empty()
        });
    }

    /// Waits for the end of a call. Does not end while there is none.
    ///
    /// # Cancel safety
    /// No end of a call is lost.
    pub(crate) async fn next(&mut self) -> Result<Input, Panicked> {
        loop {
            let Some(ended) = self.tasks.join_next_with_id().await else {
                return std::future::pending().await;
            };
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            // A call that was dropped is unknown.
            let Some(Call { function, slots, .. }) = self.calls.remove(&id) else { continue };
            return match ended {
                Ok((_, Done::Listed(version))) => Ok(Input::Listed { slots, version }),
                Ok((_, Done::Drained(version))) => Ok(Input::Drained { slots, version }),
                Err(_) => Err(Panicked(function)),
            };
        }
    }
}

fn contained<T>(function: &'static str, call: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| Panicked(function))
}
