//! The protocol of one process, as a state machine.

mod lease;
mod others;
mod ownership;
mod plan;
mod state;
mod status;
mod table;

use std::time::Duration;

pub use state::Machine;
pub use status::{Problem, Status};

use crate::view::{Input, Output, Target};

impl Machine {
    /// Informs the process of an input, and returns what it should do, in this order.
    ///
    /// `elapsed` is the time since the last step, by a clock that cannot be set and that counts the time during which the
    /// computer is suspended. If it is not the first step after a pause, the outputs of the last step count as done when that
    /// step was: a write is sent, a stop has happened.
    pub fn step(&mut self, elapsed: Duration, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        if self.has_left {
            return outputs;
        }
        self.advance(elapsed);
        // first: a process that was paused must not handle the input as an owner
        self.stop(&mut outputs);
        match input {
            Input::Tick => {}
            Input::View(view) => self.on_view(view),
            Input::Written { target: Target::Table, result } => self.on_table_written(result),
            Input::Written { target: Target::Member(identity), result } => {
                if self.other_write.0.as_ref() == Some(&identity) {
                    self.on_other_written();
                } else {
                    self.on_lease_written(result);
                }
            }
            Input::Listed { slots, version } => self.on_listed(&slots, version, &mut outputs),
            Input::Drained { slots, version } => self.on_drained(&slots, version),
            Input::Leave => self.is_leaving = true,
        }
        self.stop(&mut outputs);
        self.note_owned(&mut outputs);
        self.move_slots(&mut outputs);
        self.maintain_table(&mut outputs);
        self.renew(&mut outputs);
        self.maintain_others(&mut outputs);
        outputs
    }

    /// For how long from the last step on this process may process objects of the slots that it owns. After this time it
    /// must not, also if it has had no further step: compare it with the clock before each write.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.lease.valid_for
    }

    /// Within which time from the last step on the next one must follow, at the latest.
    #[must_use]
    pub fn next_step_in(&self) -> Duration {
        let lease = &self.lease;
        let wait = self.longest_wait();
        let ages =
            self.seen.values().map(|(_, age)| *age).chain(self.table_age.as_ref().map(|(_, age)| *age));
        let mut times: Vec<Duration> = ages.map(|age| wait.saturating_sub(age)).collect();
        times.extend(
            self.seen.iter().filter_map(|(id, (_, age))| Some(self.wait_for(id)?.saturating_sub(*age))),
        );
        times.extend([lease.valid_for, lease.renew_in.max(lease.retry_in)]);
        times.extend([lease.retry_in, self.table_write.retry_in, self.other_write.1]);
        times.extend(self.turn_in);
        let next = times.into_iter().filter(|time| !time.is_zero()).min();
        next.unwrap_or(self.config.renew_period).min(self.config.renew_period)
    }
}
