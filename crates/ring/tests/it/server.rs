//! A model of the API server: Leases with preconditions, and the resource version.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinformer_ring::{Change, Member, Object, Table, Target, View, Write, WriteResult};

/// The Leases of one ring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Server {
    pub version: u64,
    pub table: Option<Object<Table>>,
    pub members: BTreeMap<Arc<str>, Object<Member>>,
}

impl Server {
    /// Applies a write if its precondition is met.
    pub fn write(&mut self, write: &Write) -> WriteResult {
        let current = match &write.target {
            Target::Table => self.table.as_ref().map(|found| (found.uid.clone(), found.version)),
            Target::Member(name) => self.members.get(name).map(|found| (found.uid.clone(), found.version)),
        };
        if current != write.precondition {
            return WriteResult::Conflict;
        }
        self.version += 1;
        let version = self.version;
        let uid = current.map_or_else(|| format!("u{version}").into(), |(uid, _)| uid);
        match (&write.target, &write.change) {
            (Target::Table, Change::Table(table)) => {
                self.table = Some(Object { uid: uid.clone(), version, content: table.clone() });
            }
            (Target::Member(name), Change::Member(member)) => {
                let object = Object { uid: uid.clone(), version, content: member.clone() };
                self.members.insert(name.clone(), object);
            }
            (Target::Table, Change::Delete) => self.table = None,
            (Target::Member(name), Change::Delete) => {
                self.members.remove(name);
            }
            (target, change) => panic!("{target:?} is written as {change:?}"),
        }
        WriteResult::Applied { uid, version }
    }

    /// The Leases as a list returns them.
    pub fn view(&self) -> View {
        View {
            version: self.version,
            table: self.table.as_ref().map(|found| Object {
                uid: found.uid.clone(),
                version: found.version,
                content: Ok(found.content.clone()),
            }),
            members: self
                .members
                .iter()
                .map(|(name, found)| {
                    let (uid, version) = (found.uid.clone(), found.version);
                    (name.clone(), Object { uid, version, content: Ok(found.content.clone()) })
                })
                .collect(),
        }
    }
}
