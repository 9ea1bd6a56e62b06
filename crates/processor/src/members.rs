//! Who takes part, and whether it has begun or ended.

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
    state: Mutex<(Phase, Vec<M>)>,
}

impl<M> Members<M> {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new((Phase::NotStarted, Vec::new())) }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().0
    }

    /// Takes a member in, unless it is too late; gives it back then. `joined` is told the phase while nothing can
    /// start or stop.
    pub(crate) fn join(&self, mut member: M, joined: impl FnOnce(&mut M, Phase)) -> Result<(), M> {
        let mut state = self.state.lock();
        let (phase, members) = &mut *state;
        if *phase == Phase::Stopped {
            drop(state);
            return Err(member);
        }
        joined(&mut member, *phase);
        members.push(member);
        Ok(())
    }

    /// Begins, if that has not happened; shows the members so far to `begin`. Else says where things are.
    pub(crate) fn start<R>(&self, begin: impl FnOnce(&mut [M]) -> R) -> Result<R, Phase> {
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
        std::mem::take(&mut state.1)
    }

    /// Ends for good if nothing has begun, as [`Self::stop`] does.
    pub(crate) fn stop_unstarted(&self) -> Option<Vec<M>> {
        let mut state = self.state.lock();
        if state.0 != Phase::NotStarted {
            return None;
        }
        state.0 = Phase::Stopped;
        Some(std::mem::take(&mut state.1))
    }

    /// Takes out whom `chosen` chooses, if anyone.
    pub(crate) fn leave(&self, chosen: impl Fn(&M) -> bool) -> Option<M> {
        let mut state = self.state.lock();
        let position = state.1.iter().position(chosen)?;
        Some(state.1.remove(position))
    }

    /// Looks at all of them.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&[M]) -> R) -> R {
        look(&self.state.lock().1)
    }
}
