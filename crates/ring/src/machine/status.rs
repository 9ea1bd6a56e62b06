//! The state of a process for people.

use std::sync::Arc;

use super::state::Machine;
use crate::config::Params;
use crate::member::{MemberId, MemberPhase};
use crate::slots::Slots;
use crate::table::TableError;

/// What a process of a ring does, read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The member that the process is, if it has a Lease.
    pub id: Option<MemberId>,
    /// The slots that it owns.
    pub owned: Slots,
    /// The slots that no process owns, as far as this one knows: those without an owner, and those of owners that have left,
    /// or whose Lease does not exist.
    pub unowned: Slots,
    /// What prevents the process from owning its share, if something does.
    pub problem: Option<Problem>,
}

/// What prevents a process from owning its share of the slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The Leases have not been read yet.
    #[error("the leases of the ring have not been read yet")]
    NotRead,
    /// The ring has other parameters. The process joins when no process with these is left.
    #[error("the ring has other parameters: {theirs}; this process has {ours}")]
    ParametersDiffer {
        /// The parameters of the table.
        theirs: Box<Params>,
        /// The parameters of this process.
        ours: Box<Params>,
    },
    /// The table cannot be read. A damaged one is replaced.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The table exists, but the reads do not have it: its label is missing.
    #[error("the table exists, but no read has it: its label may be missing")]
    TableHidden,
    /// A Lease with the identity of this process exists, and this process has not written it. It waits until the Lease has
    /// expired.
    #[error("another process has the identity {0:?}, or had it until its lease expires")]
    IdentityInUse(Arc<str>),
    /// The Lease of this process exists, but the reads do not have it: its label is missing.
    #[error("a lease of the identity {0:?} exists, but no read has it: its label may be missing")]
    LeaseHidden(Arc<str>),
    /// The table is new, and processes may still follow the one before. They are waited for until their Leases would have
    /// expired.
    #[error("the table is new: waiting for processes that may follow the one before")]
    TableIsNew,
    /// The Lease was not written yet, or not renewed in time, or no read has shown it.
    #[error("the lease is not renewed, or no read shows the renewal")]
    NotRenewed,
}

impl Machine {
    /// Returns the state of the process for people.
    #[must_use]
    pub fn status(&self) -> Status {
        Status { id: self.id(), owned: self.owned(), unowned: self.unowned(), problem: self.problem() }
    }

    fn unowned(&self) -> Slots {
        let members = self.view.iter().flat_map(|view| &view.members);
        let present: Vec<MemberId> = members
            .filter(|(_, found)| {
                !found.content.as_ref().is_ok_and(|member| member.phase == MemberPhase::Gone)
            })
            .map(|(identity, found)| MemberId::new(identity, &found.uid))
            .collect();
        let slots = self.table().map(|table| table.content.slots.iter().zip(0u16..));
        let is_unowned =
            |owner: &Option<MemberId>| owner.as_ref().is_none_or(|owner| !present.contains(owner));
        slots
            .into_iter()
            .flatten()
            .filter(|(slot, _)| is_unowned(&slot.owner))
            .map(|(_, number)| number)
            .collect()
    }

    fn problem(&self) -> Option<Problem> {
        let Some(view) = &self.view else { return Some(Problem::NotRead) };
        let (identity, ours) = (&self.config.identity, &self.config.params);
        match view.table.as_ref().map(|table| &table.content) {
            Some(Err(error)) => return Some(error.clone().into()),
            Some(Ok(table)) if table.params != *ours => {
                let (theirs, ours) = (Box::new(table.params.clone()), Box::new(ours.clone()));
                return Some(Problem::ParametersDiffer { theirs, ours });
            }
            None if self.table_write.is_hidden => return Some(Problem::TableHidden),
            _ => {}
        }
        if self.lease.object.is_none() && view.members.contains_key(identity) {
            Some(Problem::IdentityInUse(identity.clone()))
        } else if self.lease.is_hidden {
            Some(Problem::LeaseHidden(identity.clone()))
        } else if self.usable_table().is_some()
            && self.followable().is_none()
            && self.followed_table().is_none()
        {
            Some(Problem::TableIsNew)
        } else if self.followed_table().is_none() || self.lease.valid_for.is_zero() {
            Some(Problem::NotRenewed)
        } else {
            None
        }
    }
}
