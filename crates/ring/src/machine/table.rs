//! The writes of the table.

use std::time::Duration;

use super::state::Machine;
use crate::member::{MemberId, Uid};
use crate::table::{Slot, Table, TableError};
use crate::view::{Change, Object, Output, Target, View, Write, WriteResult};

impl Machine {
    /// Sends a write of the table, or its deletion, unless one is in flight or failed just now.
    pub(super) fn write_table(
        &mut self,
        precondition: Option<(Uid, u64)>,
        content: Option<Table>,
        outputs: &mut Vec<Output>,
    ) {
        let writes = &mut self.table_write;
        if writes.in_flight.is_some() || !writes.retry_in.is_zero() {
            return;
        }
        writes.in_flight = Some((precondition.as_ref().map(|(_, version)| *version), content.clone()));
        let change = content.map_or(Change::Delete, Change::Table);
        outputs.push(Output::Write(Write { target: Target::Table, precondition, change }));
    }

    pub(super) fn on_table_written(&mut self, result: WriteResult) {
        let Some((required, content)) = self.table_write.in_flight.take() else { return };
        match (result, content) {
            (WriteResult::Applied { uid, version }, Some(content)) => {
                let Some(view) = &mut self.view else { return };
                if view.version < version {
                    view.table = Some(Object { uid, version, content: Ok(content) });
                    self.note_ages();
                }
            }
            (result, content) => {
                let is_create = required.is_none() && content.is_some();
                self.table_write.is_hidden = is_create && result == WriteResult::Conflict;
                self.table_write.unresolved = required;
                self.table_write.retry_in = self.config.retry_period;
            }
        }
        let view = self.view.as_ref();
        let is_new = |view: &View| view.table.as_ref().map(|table| table.version) != required;
        if view.is_some_and(is_new) && required.is_some() {
            // a view has shown the newer table already
            self.table_write.retry_in = Duration::ZERO;
        }
    }

    /// Creates the table if there is none. Deletes one that is damaged, and one with other parameters that no process follows
    /// any more. Removes a closed Lease from it whose name this process needs.
    pub(super) fn maintain_table(&mut self, outputs: &mut Vec<Output>) {
        let Some(view) = &self.view else { return };
        if self.is_leaving {
            return;
        }
        let Some(table) = &view.table else {
            return self.write_table(None, Some(Table::new(self.config.params.clone())), outputs);
        };
        let is_superfluous = match &table.content {
            Err(TableError::Damaged(_)) => true,
            Ok(content) if content.params == self.config.params => false,
            Ok(_) | Err(TableError::Format(_)) => self.is_abandoned(&table.uid),
        };
        if is_superfluous {
            let precondition = Some((table.uid.clone(), table.version));
            self.write_table(precondition, None, outputs);
        } else if let Some(next) = self.without_predecessor() {
            let precondition = Some((table.uid.clone(), table.version));
            self.write_table(precondition, Some(next), outputs);
        }
    }

    /// The table without the closed Lease of this process's identity, which can be deleted then. If there is another process,
    /// it may be faster.
    fn without_predecessor(&self) -> Option<Table> {
        let identity = &self.config.identity;
        let found = self.view.as_ref()?.members.get(identity)?;
        let id = MemberId::new(identity, &found.uid);
        let mut next = self.usable_table()?.content.clone();
        if self.lease.object.is_some() || !self.is_dead(&id) || !next.has_owner(&id) {
            return None;
        }
        next.slots
            .iter_mut()
            .filter(|slot| slot.owner.as_ref() == Some(&id))
            .for_each(|slot| *slot = Slot::default());
        next.serial = next.serial.wrapping_add(1);
        Some(next)
    }

    /// Whether no process follows the table, and none is joining it.
    fn is_abandoned(&self, table: &Uid) -> bool {
        let is_old = self.table_age.as_ref().is_some_and(|(_, age)| *age >= self.longest_wait());
        let mut others = self.present_others();
        is_old
            && others
                .all(|(_, member)| member.as_ref().is_ok_and(|member| member.follows.as_ref() != Some(table)))
    }
}
