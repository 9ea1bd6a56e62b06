//! The members and the phase of a processor. Separate from the rest of `Listeners`, so that the model checker can check
//! them.

use std::collections::BTreeMap;

use crate::sync::Mutex;

/// The phases of a processor, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    NotStarted,
    Running,
    Stopped,
}

/// The members, under the lock that orders joining, start and stop.
pub(crate) struct Members<M> {
    state: Mutex<(Phase, BTreeMap<u64, M>)>,
}

impl<M> Members<M> {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new((Phase::NotStarted, BTreeMap::new())) }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().0
    }

    /// Adds a member under its id. Calls `joined` with the phase under the lock, so that the phase cannot change
    /// meanwhile.
    ///
    /// # Errors
    /// Returns the member if the processor has stopped.
    pub(crate) fn join(&self, id: u64, mut member: M, joined: impl FnOnce(&mut M, Phase)) -> Result<(), M> {
        let mut state = self.state.lock();
        let (phase, members) = &mut *state;
        if *phase == Phase::Stopped {
            drop(state);
            return Err(member);
        }
        joined(&mut member, *phase);
        members.insert(id, member);
        Ok(())
    }

    /// Starts the processor, and passes the members to `begin` under the lock.
    ///
    /// # Errors
    /// Returns the phase if the processor was started or stopped before.
    pub(crate) fn start<R>(&self, begin: impl FnOnce(&mut BTreeMap<u64, M>) -> R) -> Result<R, Phase> {
        let mut state = self.state.lock();
        let (phase, members) = &mut *state;
        if *phase != Phase::NotStarted {
            return Err(*phase);
        }
        *phase = Phase::Running;
        Ok(begin(members))
    }

    /// Stops the processor and returns its members. Later members are refused.
    pub(crate) fn stop(&self) -> Vec<M> {
        let mut state = self.state.lock();
        state.0 = Phase::Stopped;
        std::mem::take(&mut state.1).into_values().collect()
    }

    /// Stops the processor as [`Self::stop`], if it has not started; else returns `None`.
    pub(crate) fn stop_unstarted(&self) -> Option<Vec<M>> {
        let mut state = self.state.lock();
        if state.0 != Phase::NotStarted {
            return None;
        }
        state.0 = Phase::Stopped;
        Some(std::mem::take(&mut state.1).into_values().collect())
    }

    /// Removes the member with this id if `chosen` returns `true` for it. O(log n).
    pub(crate) fn leave(&self, id: u64, chosen: impl FnOnce(&M) -> bool) -> Option<M> {
        let mut state = self.state.lock();
        if state.1.get(&id).is_some_and(chosen) { state.1.remove(&id) } else { None }
    }

    /// Reads all members, in the order of their ids, under the lock.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&BTreeMap<u64, M>) -> R) -> R {
        read(&self.state.lock().1)
    }
}
