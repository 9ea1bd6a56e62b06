//! The Leases of other processes: which have expired, and how they are closed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::state::Machine;
use crate::member::{InvalidMember, Member, MemberId, MemberPhase};
use crate::view::{Change, Output, Target, Write};

type Parsed = Result<Member, InvalidMember>;

impl Machine {
    /// Notes for how long each Lease has been seen in its version, the table too.
    pub(super) fn note_ages(&mut self) {
        let Some(view) = &self.view else { return };
        let members = view.members.iter();
        let mut seen: BTreeMap<MemberId, Option<u64>> = members
            .map(|(identity, found)| (MemberId::new(identity, &found.uid), Some(found.version)))
            .collect();
        if let Some(Ok(table)) = view.table.as_ref().map(|table| &table.content) {
            for owner in table.slots.iter().filter_map(|slot| slot.owner.as_ref()) {
                if !seen.contains_key(owner) {
                    seen.insert(owner.clone(), None);
                }
            }
        }
        let with_age = |(id, version): (MemberId, Option<u64>)| match self.seen.get(&id) {
            Some((known, age)) if *known == version => (id, (version, *age)),
            _ => (id, (version, Duration::ZERO)),
        };
        let seen = seen.into_iter().map(with_age).collect();
        self.seen = seen;
        self.table_age = view.table.as_ref().map(|table| match &self.table_age {
            Some((uid, age)) if *uid == table.uid => (table.uid.clone(), *age),
            _ => (table.uid.clone(), Duration::ZERO),
        });
    }

    /// The Leases of the others that have not been closed.
    pub(super) fn present_others(&self) -> impl Iterator<Item = (MemberId, &Parsed)> {
        let own = self.id();
        let members = self.view.iter().flat_map(|view| &view.members);
        members
            .map(|(identity, found)| (MemberId::new(identity, &found.uid), &found.content))
            .filter(move |(id, member)| Some(id) != own.as_ref() && !is_gone(member))
    }

    /// For how long a Lease must be unchanged before it has expired. A Lease in which somebody has written a shorter duration
    /// lasts as long as the ring's parameters say.
    fn wait(&self, member: Option<&Parsed>) -> Duration {
        let params = &self.config.params;
        let own = member.and_then(|member| member.as_ref().ok()).map(|member| member.lease_duration);
        params.lease_duration.max(own.unwrap_or_default()).saturating_add(params.skew)
    }

    /// The longest such time of all Leases.
    pub(super) fn longest_wait(&self) -> Duration {
        let others = self.present_others().map(|(_, member)| self.wait(Some(member)));
        others.max().unwrap_or_default().max(self.wait(None))
    }

    pub(super) fn wait_for(&self, id: &MemberId) -> Option<Duration> {
        let found = self.view.as_ref()?.members.get(id.identity());
        Some(self.wait(found.map(|found| &found.content)))
    }

    /// Whether a member owns nothing any more, whatever the table says: its Lease has been closed, or has not existed for so
    /// long that it would have expired.
    pub(super) fn is_dead(&self, id: &MemberId) -> bool {
        match self.seen.get(id) {
            Some((None, age)) => *age >= self.longest_wait(),
            Some((Some(_), _)) => {
                let found = self.view.as_ref().and_then(|view| view.members.get(id.identity()));
                found.is_some_and(|found| is_gone(&found.content))
            }
            None => false,
        }
    }

    /// However it has ended: the view that shows it may arrive later.
    pub(super) fn on_other_written(&mut self) {
        self.other_write = (None, self.config.retry_period);
    }

    /// Closes the Leases that have expired, and deletes those that were closed and are not in the table.
    pub(super) fn maintain_others(&mut self, outputs: &mut Vec<Output>) {
        if self.other_write.0.is_some() || !self.other_write.1.is_zero() || self.has_left {
            return;
        }
        let Some((identity, precondition, change)) = self.next_closing() else { return };
        let target = Target::Member(identity.clone());
        outputs.push(Output::Write(Write { target, precondition: Some(precondition), change }));
        self.other_write.0 = Some(identity);
    }

    #[expect(clippy::type_complexity, reason = "the parts of one write")]
    fn next_closing(&self) -> Option<(Arc<str>, (Arc<str>, u64), Change)> {
        let (view, own) = (self.view.as_ref()?, self.id());
        view.members.iter().find_map(|(identity, found)| {
            let id = MemberId::new(identity, &found.uid);
            if Some(&id) == own.as_ref() || (self.lease.sent.is_some() && *identity == self.config.identity) {
                return None;
            }
            let (_, age) = self.seen.get(&id)?;
            let is_expired = *age >= self.wait(Some(&found.content));
            let change = if is_gone(&found.content) {
                let is_named = self.table().is_some_and(|table| table.content.has_owner(&id));
                let is_old = is_expired || *identity == self.config.identity;
                (is_old && !is_named).then_some(Change::Delete)?
            } else {
                is_expired
                    .then(|| Change::Member(closed(&found.content, self.config.params.lease_duration)))?
            };
            Some((identity.clone(), (found.uid.clone(), found.version), change))
        })
    }
}

fn is_gone(member: &Parsed) -> bool {
    member.as_ref().is_ok_and(|member| member.phase == MemberPhase::Gone)
}

fn closed(member: &Parsed, lease_duration: Duration) -> Member {
    match member {
        Ok(member) => Member { phase: MemberPhase::Gone, ..member.clone() },
        Err(_) => Member {
            incarnation: "unknown".into(),
            weight: 1,
            lease_duration,
            follows: None,
            phase: MemberPhase::Gone,
        },
    }
}
