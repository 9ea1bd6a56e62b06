//! The slots that this process owns: from the table to the outputs.

use std::collections::BTreeMap;
use std::time::Duration;

use super::state::{Machine, Phase};
use crate::slots::Slots;
use crate::view::{ListFrom, Output, StopReason};

impl Machine {
    /// Ends the ownership of slots that another process may own soon.
    pub(super) fn stop(&mut self, outputs: &mut Vec<Output>) {
        self.stop_changed(outputs);
        let reason = if self.lease.object.is_none() {
            StopReason::LeaseLost
        } else if self.followed_table().is_none() {
            StopReason::TableLost
        } else if self.lease.valid_for == Duration::ZERO {
            StopReason::NotRenewed
        } else {
            return;
        };
        let active: Slots = self.numbers(|_, phase| phase.is_active());
        if reason == StopReason::NotRenewed {
            for phase in self.mine.values_mut().filter(|phase| phase.is_active()) {
                *phase = Phase::Stopped;
            }
        } else {
            self.mine.clear();
        }
        push(outputs, active, |slots| Output::Stop { slots, reason });
    }

    /// Ends the ownership of slots that the table gives to others.
    fn stop_changed(&mut self, outputs: &mut Vec<Output>) {
        let (Some(table), Some(own)) = (self.followed_table(), self.id()) else { return };
        let is_own = |slot: u16| {
            let slot = table.content.slots.get(usize::from(slot));
            slot.is_some_and(|slot| slot.owner.as_ref() == Some(&own))
        };
        let taken: Vec<u16> = self.mine.keys().copied().filter(|slot| !is_own(*slot)).collect();
        let phases = taken.iter().filter_map(|slot| Some((*slot, self.mine.remove(slot)?)));
        let active: Slots = phases.filter(|(_, phase)| phase.is_active()).map(|(slot, _)| slot).collect();
        push(outputs, active, |slots| Output::Stop { slots, reason: StopReason::TableChanged });
    }

    /// Begins the ownership of slots that the table gives to this process.
    pub(super) fn note_owned(&mut self, outputs: &mut Vec<Output>) {
        if self.lease.valid_for == Duration::ZERO {
            return;
        }
        let (Some(table), Some(own)) = (self.followed_table(), self.id()) else { return };
        let mut begun: Vec<(u16, Option<u64>)> = Vec::new();
        let mut passed: Vec<(u16, Option<u64>)> = Vec::new();
        for (slot, number) in table.content.slots.iter().zip(0u16..) {
            match self.mine.get(&number) {
                _ if slot.owner.as_ref() != Some(&own) => {}
                None if self.is_leaving => passed.push((number, slot.released)),
                None => begun.push((number, slot.released)),
                Some(Phase::Stopped) if self.is_leaving => passed.push((number, None)),
                // since the last stop objects may have changed
                Some(Phase::Stopped) => begun.push((number, None)),
                Some(_) => {}
            }
        }
        self.mine.extend(passed.into_iter().map(|(slot, released)| (slot, Phase::Drained(released))));
        self.own(begun, outputs);
    }

    pub(super) fn own(&mut self, slots: Vec<(u16, Option<u64>)>, outputs: &mut Vec<Output>) {
        let mut lists: BTreeMap<Option<u64>, Vec<u16>> = BTreeMap::new();
        for (slot, released) in slots {
            self.mine.insert(slot, Phase::Listing(released));
            lists.entry(released).or_default().push(slot);
        }
        for (released, slots) in lists {
            let list = released.map_or(ListFrom::Latest, ListFrom::AtLeast);
            outputs.push(Output::Own { slots: slots.into_iter().collect(), list });
        }
    }

    /// A list at an older version than required is requested again.
    pub(super) fn on_listed(&mut self, slots: &Slots, version: u64, outputs: &mut Vec<Output>) {
        let mut again = Vec::new();
        for slot in slots.iter() {
            match self.mine.get_mut(&slot) {
                Some(Phase::Listing(Some(required))) if version < *required => {
                    again.push((slot, Some(*required)))
                }
                Some(phase @ Phase::Listing(_)) => *phase = Phase::Acting,
                _ => {}
            }
        }
        self.own(again, outputs);
    }

    pub(super) fn on_drained(&mut self, slots: &Slots, version: Option<u64>) {
        for slot in slots.iter() {
            if let Some(phase @ Phase::Draining) = self.mine.get_mut(&slot) {
                *phase = Phase::Drained(version);
            }
        }
    }

    pub(super) fn numbers(&self, filter: impl Fn(u16, Phase) -> bool) -> Slots {
        self.mine.iter().filter(|(slot, phase)| filter(**slot, **phase)).map(|(slot, _)| *slot).collect()
    }
}

/// Adds an output for slots, unless there are none.
pub(super) fn push(outputs: &mut Vec<Output>, slots: Slots, output: impl Fn(Slots) -> Output) {
    if !slots.is_empty() {
        outputs.push(output(slots));
    }
}
