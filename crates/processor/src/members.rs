//! The members of a processor, and whether it has started or stopped. Apart from the rest of
//! `Listeners`, so that the model checker can check it.

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

    /// Adds a member under its id; returns it if the processor has stopped. `joined` receives the phase while nothing can
    /// start or stop.
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

    /// Starts, and passes the members so far to `begin`. Returns the phase if it was started before.
    pub(crate) fn start<R>(&self, begin: impl FnOnce(&mut BTreeMap<u64, M>) -> R) -> Result<R, Phase> {
        let mut state = self.state.lock();
        let (phase, members) = &mut *state;
        if *phase != Phase::NotStarted {
            return Err(*phase);
        }
        *phase = Phase::Running;
        Ok(begin(members))
    }

    /// Stops, and returns the members; any other member was refused, or had left.
    pub(crate) fn stop(&self) -> Vec<M> {
        let mut state = self.state.lock();
        state.0 = Phase::Stopped;
        std::mem::take(&mut state.1).into_values().collect()
    }

    /// Stops as [`Self::stop`] does, if it has not started.
    pub(crate) fn stop_unstarted(&self) -> Option<Vec<M>> {
        let mut state = self.state.lock();
        if state.0 != Phase::NotStarted {
            return None;
        }
        state.0 = Phase::Stopped;
        Some(std::mem::take(&mut state.1).into_values().collect())
    }

    /// Takes out the member with this id, if there is one and `chosen` returns true. O(log n).
    pub(crate) fn leave(&self, id: u64, chosen: impl FnOnce(&M) -> bool) -> Option<M> {
        let mut state = self.state.lock();
        if state.1.get(&id).is_some_and(chosen) { state.1.remove(&id) } else { None }
    }

    /// Reads all of them, in the order of their ids.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&BTreeMap<u64, M>) -> R) -> R {
        read(&self.state.lock().1)
    }
}
