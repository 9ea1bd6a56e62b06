//! Which slots this process releases, and to whom it and others hand slots over.

use std::collections::BTreeSet;
use std::time::Duration;

use super::ownership::push;
use super::state::{Machine, Phase};
use crate::assignment::{Holder, assign};
use crate::config::MAX_RANGES;
use crate::member::{MemberId, MemberPhase};
use crate::slots::Slots;
use crate::table::{Slot, Table};
use crate::view::Output;

/// How many processes release slots at the same time. Their writes of the table wait for each other, and meanwhile the slots have
/// no owner.
const RELEASING: usize = 4;

/// How long a process waits for others to release slots before it does so itself, from the last change of the table on.
pub(super) const TURN: Duration = Duration::from_secs(2);

impl Machine {
    /// Releases slots that others should own, and writes the new owners of slots that are free into the table.
    pub(super) fn move_slots(&mut self, outputs: &mut Vec<Output>) {
        if self.lease.valid_for.is_zero() && !self.is_leaving {
            return;
        }
        let (Some(table), Some(own)) = (self.followed_table(), self.id()) else { return };
        let (members, weights) = self.receivers();
        let slots = table.content.slots.iter().zip(0u16..);
        let holders: Vec<Holder> = slots.map(|(slot, number)| self.holder(slot, number, &members)).collect();
        let owners = assign(&holders, &weights, MAX_RANGES);
        let turn_in = self.turn_in(&holders, &owners, members.binary_search(&own).ok());
        let is_turn = turn_in.is_none_or(|time| time.is_zero());
        let owners: Vec<Option<&MemberId>> =
            owners.into_iter().map(|owner| owner.and_then(|index| members.get(index))).collect();
        let is_own = |slot: u16| owners.get(usize::from(slot)).copied().flatten() == Some(&own);

        let released = self.numbers(|slot, phase| {
            matches!(phase, Phase::Listing(_) | Phase::Acting)
                && (self.is_leaving || (is_turn && !is_own(slot)))
        });
        let can_resume = self.table_write.in_flight.is_none() && !self.has_unresolved_write();
        let resumed =
            self.numbers(|slot, phase| can_resume && is_own(slot) && matches!(phase, Phase::Drained(_)));
        let next = self.next_table(table.content, &own, &owners);
        let (uid, version) = (table.uid.clone(), table.version);
        if let Some(next) = next {
            self.write_table(Some((uid, version)), Some(next), outputs);
        }
        self.turn_in = turn_in;
        self.mine.extend(released.iter().map(|slot| (slot, Phase::Draining)));
        push(outputs, released, |slots| Output::Release { slots });
        self.own(resumed.iter().map(|slot| (slot, None)).collect(), outputs);
    }

    /// After how long this process may release slots that others should own; `None` if it need not wait for the processes that
    /// are before it in their order and release slots too.
    fn turn_in(&self, holders: &[Holder], owners: &[Option<usize>], own: Option<usize>) -> Option<Duration> {
        let changes = holders.iter().zip(owners);
        let releasing: BTreeSet<usize> = changes
            .filter_map(|(holder, owner)| match holder {
                Holder::Owned(index) if *owner != Some(*index) => Some(*index),
                _ => None,
            })
            .collect();
        let own = own.filter(|own| releasing.contains(own))?;
        (releasing.range(..own).count() >= RELEASING).then(|| self.turn_in.unwrap_or(TURN))
    }

    /// The processes that can own slots, in order, and their weights.
    fn receivers(&self) -> (Vec<MemberId>, Vec<u32>) {
        let followed = self.followed_table().map(|table| table.uid);
        let members = self.view.iter().flat_map(|view| &view.members);
        let receiving = members.filter_map(|(identity, found)| {
            let (id, member) = (MemberId::new(identity, &found.uid), found.content.as_ref().ok()?);
            let is_leaving = self.is_leaving && Some(&id) == self.id().as_ref();
            let receives = member.phase == MemberPhase::Joined && member.follows == followed && !is_leaving;
            receives.then_some((id, member.weight))
        });
        receiving.unzip()
    }

    /// The holder of a slot, as far as this process can change it. Slots that it is releasing are free.
    fn holder(&self, slot: &Slot, number: u16, members: &[MemberId]) -> Holder {
        let Some(owner) = &slot.owner else { return Holder::Free };
        match self.mine.get(&number) {
            Some(Phase::Draining | Phase::Drained(_)) => Holder::Free,
            Some(Phase::Listing(_) | Phase::Acting | Phase::Stopped) if self.is_leaving => Holder::Frozen,
            _ => match members.binary_search(owner) {
                Ok(index) => Holder::Owned(index),
                Err(_) if self.is_dead(owner) => Holder::Free,
                Err(_) => Holder::Frozen,
            },
        }
    }

    /// The table with the changes that this process can make now, if there are any. Only released slots of this process, and
    /// slots that nothing owns any more, get another owner.
    fn next_table(&self, table: &Table, own: &MemberId, owners: &[Option<&MemberId>]) -> Option<Table> {
        // others that do not know yet that this process leaves would give the slots back
        let is_announced = self.lease.written.as_ref().is_some_and(|own| own.phase != MemberPhase::Joined);
        if self.is_leaving && !is_announced {
            return None;
        }
        let mut next = table.clone();
        for ((slot, number), owner) in next.slots.iter_mut().zip(0u16..).zip(owners) {
            let released = match (self.mine.get(&number), &slot.owner) {
                (Some(Phase::Drained(version)), Some(owner)) if owner == own => *version,
                (Some(_), _) => continue,
                (None, None) => slot.released,
                (None, Some(owner)) if self.is_dead(owner) => None,
                (None, Some(_)) => continue,
            };
            let owner = owner.cloned();
            if owner != slot.owner && (owner.is_some() || self.is_leaving) {
                *slot = Slot { owner, released };
            }
        }
        if next == *table && !self.has_unresolved_write() {
            return None;
        }
        next.serial = next.serial.wrapping_add(1);
        Some(next)
    }

    /// The slots that this process owns and may process, as long as [`Self::valid_for`] is not over.
    #[must_use]
    pub fn owned(&self) -> Slots {
        self.numbers(|_, phase| phase.is_active())
    }
}
