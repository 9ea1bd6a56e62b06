//! The Lease of this process: joining, renewals, and its end.

use std::sync::Arc;
use std::time::Duration;

use super::plan::TURN;
use super::state::{Machine, Phase};
use crate::member::{Member, MemberPhase, Uid};
use crate::view::{Change, Object, Output, Target, View, Write, WriteResult};

impl Machine {
    pub(super) fn on_view(&mut self, mut view: View) {
        if let Some(known) = self.view.take() {
            if known.version > view.version {
                self.view = Some(known);
                return;
            }
            let table_version = |view: &View| view.table.as_ref().map(|table| table.version);
            if table_version(&known) != table_version(&view) {
                self.table_write.retry_in = Duration::ZERO;
                self.turn_in = self.turn_in.map(|_| TURN);
            }
            // written by this process, after the view was read
            if table_version(&known).is_some_and(|version| version > view.version) {
                view.table = known.table;
            }
        }
        self.table_write.is_hidden &= view.table.is_none();
        self.view = Some(view);
        self.note_ages();
        self.note_own_lease();
    }

    /// Compares the Lease with the view: whether it is lost, and which renewals the view shows.
    pub(super) fn note_own_lease(&mut self) {
        let Some(view) = &self.view else { return };
        let found = view.members.get(&self.config.identity);
        let is_gone = |found: &Object<Result<Member, _>>| matches!(&found.content, Ok(member) if member.phase == MemberPhase::Gone);
        self.lease.is_hidden &= found.is_none();
        match (&self.lease.object, found) {
            (Some((uid, version)), Some(found)) if found.uid == *uid => {
                if is_gone(found) {
                    return self.lose_lease();
                }
                if found.version > *version {
                    self.lease.object = Some((uid.clone(), found.version));
                    self.lease.retry_in = Duration::ZERO;
                }
                self.confirm();
            }
            (Some((_, version)), _) if *version <= view.version => self.lose_lease(),
            (None, Some(found)) if !is_gone(found) && self.is_own_start(found) => {
                self.lease.object = Some((found.uid.clone(), found.version));
                self.lease.written = None;
                self.lease.renew_in = Duration::ZERO;
                self.lease.retry_in = Duration::ZERO;
            }
            _ => {}
        }
    }

    /// Counts the renewals that the view shows: the table in it is at least as new as each of them.
    fn confirm(&mut self) {
        let Some(view) = &self.view else { return };
        let deadline = self.config.params.renew_deadline;
        for (version, age) in &self.lease.unseen {
            if *version <= view.version {
                self.lease.valid_for = self.lease.valid_for.max(deadline.saturating_sub(*age));
            }
        }
        self.lease.unseen.retain(|(version, _)| *version > view.version);
    }

    /// Whether the Lease was created by this process, after it has lost the last one.
    fn is_own_start<E>(&self, found: &Object<Result<Member, E>>) -> bool {
        found.content.as_ref().is_ok_and(|member| member.incarnation == self.incarnation())
    }

    fn incarnation(&self) -> Arc<str> {
        format!("{}.{}", self.config.incarnation, self.lease.lost).into()
    }

    fn lose_lease(&mut self) {
        let lease = &mut self.lease;
        (lease.object, lease.written) = (None, None);
        lease.unseen.clear();
        (lease.valid_for, lease.renew_in, lease.retry_in) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        lease.lost += 1;
    }

    pub(super) fn on_lease_written(&mut self, result: WriteResult) {
        let Some((member, age)) = self.lease.sent.take() else { return };
        match result {
            WriteResult::Applied { uid, version } => {
                let is_lost = member.incarnation != self.incarnation();
                self.has_left = member.phase == MemberPhase::Gone;
                if is_lost {
                    return;
                }
                let known = self.lease.object.as_ref().map_or(0, |(_, version)| *version);
                self.lease.object = Some((uid, version.max(known)));
                self.lease.followed = member.follows.clone().or(self.lease.followed.take());
                self.lease.written = Some(member);
                self.lease.unseen.push((version, age));
            }
            WriteResult::Conflict => {
                self.lease.is_hidden = self.lease.object.is_none();
                self.lease.retry_in = self.config.retry_period;
            }
            WriteResult::Unknown => self.lease.retry_in = self.config.retry_period,
        }
        self.note_own_lease();
    }

    /// Writes the Lease if it does not exist, is to be renewed, or does not say what it should.
    pub(super) fn renew(&mut self, outputs: &mut Vec<Output>) {
        if self.has_left {
            outputs.push(Output::Left);
            return;
        }
        let Some(view) = &self.view else { return };
        let lease = &self.lease;
        if lease.sent.is_some() || !lease.retry_in.is_zero() {
            return;
        }
        let member = self.own_member();
        let found = view.members.get(&self.config.identity);
        if lease.object.is_none() {
            if self.is_leaving {
                self.has_left = true;
                outputs.push(Output::Left);
                return;
            }
            if found.is_some() || (view.table.is_some() && self.usable_table().is_none()) {
                return;
            }
        } else {
            let is_edited = |found: &Object<Result<Member, _>>| {
                Some(found.version) == lease.object.as_ref().map(|(_, version)| *version)
                    && found.content.as_ref().ok() != lease.written.as_ref()
            };
            let is_due = lease.renew_in.is_zero() || lease.written.as_ref() != Some(&member);
            if !is_due && !found.is_some_and(is_edited) {
                return;
            }
        }
        let target = Target::Member(self.config.identity.clone());
        let change = Change::Member(member.clone());
        outputs.push(Output::Write(Write { target, precondition: lease.object.clone(), change }));
        self.lease.sent = Some((member, Duration::ZERO));
        self.lease.renew_in = self.config.renew_period;
    }

    /// What the Lease should say.
    fn own_member(&self) -> Member {
        let written = self.lease.written.as_ref();
        let phase = match self.is_leaving {
            true if self.has_handed_over() => MemberPhase::Gone,
            true => MemberPhase::Leaving,
            false => MemberPhase::Joined,
        };
        Member {
            incarnation: self.incarnation(),
            weight: self.config.weight,
            lease_duration: self.config.params.lease_duration,
            follows: self.followable().or_else(|| written.and_then(|written| written.follows.clone())),
            phase,
        }
    }

    /// Whether a process that leaves owns no slots any more.
    fn has_handed_over(&self) -> bool {
        let is_known =
            self.lease.written.as_ref().is_some_and(|written| written.phase != MemberPhase::Joined);
        is_known
            && self.table_write.in_flight.is_none()
            && self.mine.values().all(|phase| *phase == Phase::Stopped)
    }

    /// The table that this process may follow. Processes that follow another one, such as one that was deleted, may not know
    /// yet that it is gone: this process waits until their Leases would have expired.
    pub(super) fn followable(&self) -> Option<Uid> {
        let uid = self.usable_table()?.uid;
        let (_, age) = self.table_age.as_ref()?;
        let mut others = self.present_others();
        let is_settled = others.all(|(_, member)| {
            member.as_ref().is_ok_and(|member| member.follows.as_ref().is_none_or(|follows| *follows == uid))
        });
        let is_first = self.lease.followed.as_ref().is_none_or(|followed| *followed == uid);
        ((is_settled && is_first) || *age >= self.longest_wait()).then_some(uid)
    }
}
