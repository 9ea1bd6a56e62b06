//! Who takes part, and whether it has begun or ended.

use std::collections::BTreeMap;

use crate::sync::Mutex;

/// Where a processor is in its life. It goes through these once, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    NotStarted,
    Running,
    Stopped,
}

/// The members, under the lock that decides between those who join and the end.
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

    /// Takes a member in under an id of its own, unless it is too late; gives it back then. `joined` is told the phase
    /// while nothing can start or stop.
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

    /// Begins, if that has not happened; shows the members so far to `begin`. Else says where things are.
    pub(crate) fn start<R>(&self, begin: impl FnOnce(&mut BTreeMap<u64, M>) -> R) -> Result<R, Phase> {
        let mut state = self.state.lock();
        let (phase, members) = &mut *state;
        if *phase != Phase::NotStarted {
            return Err(*phase);
        }
        *phase = Phase::Running;
        Ok(begin(members))
    }

    /// Ends for good. Whoever is not among what this returns was refused, or had left.
    pub(crate) fn stop(&self) -> Vec<M> {
        let mut state = self.state.lock();
        state.0 = Phase::Stopped;
        std::mem::take(&mut state.1).into_values().collect()
    }

    /// Ends for good if nothing has begun, as [`Self::stop`] does.
    pub(crate) fn stop_unstarted(&self) -> Option<Vec<M>> {
        let mut state = self.state.lock();
        if state.0 != Phase::NotStarted {
            return None;
        }
        state.0 = Phase::Stopped;
        Some(std::mem::take(&mut state.1).into_values().collect())
    }

    /// Takes out the member with this id, if it is there and `chosen` agrees. O(log n).
    pub(crate) fn leave(&self, id: u64, chosen: impl FnOnce(&M) -> bool) -> Option<M> {
        let mut state = self.state.lock();
        if state.1.get(&id).is_some_and(chosen) { state.1.remove(&id) } else { None }
    }

    /// Looks at all of them, in the order of their ids.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&BTreeMap<u64, M>) -> R) -> R {
        look(&self.state.lock().1)
    }
}
