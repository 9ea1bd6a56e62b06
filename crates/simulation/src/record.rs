//! The history of one resource, as the judge reads it: that of the server, with keys as informers write them.

use std::collections::BTreeMap;

use crate::server::{Change, History};
use crate::state::State;

/// The objects of one resource by key.
pub(crate) type Objects = BTreeMap<String, State>;

/// A resource in the history of the cluster.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    history: &'a History,
    plural: &'a str,
}

impl<'a> Record<'a> {
    pub(crate) fn new(history: &'a History, plural: &'a str) -> Self {
        Self { history, plural }
    }

    /// The changes of the resource, in the order of time.
    pub(crate) fn changes(self) -> impl DoubleEndedIterator<Item = &'a Change> {
        self.history.changes().iter().filter(move |change| change.key.plural == self.plural)
    }

    /// The changes of an object, in the order of time.
    pub(crate) fn of(self, key: &str) -> impl DoubleEndedIterator<Item = &'a Change> {
        self.history.changes_of(self.plural, key).map(|(_, change)| change)
    }

    /// The changes of an object from the first one to a state on, in the order of time.
    pub(crate) fn since(self, key: &str, state: &State) -> impl Iterator<Item = &'a Change> {
        self.of(key).skip_while(move |change| change.after.as_ref() != Some(state))
    }

    /// Returns the states of an object, in the order of time.
    pub(crate) fn states_of(self, key: &str) -> impl Iterator<Item = &'a State> {
        self.of(key).filter_map(|change| change.after.as_ref())
    }

    /// How many times a backup was restored.
    pub(crate) fn restores(self) -> usize {
        self.history.restores()
    }

    /// The newest version.
    pub(crate) fn newest_version(self) -> u64 {
        self.history.newest()
    }

    /// Returns the newest objects.
    pub(crate) fn newest(self) -> Objects {
        self.objects_at(self.restores(), u64::MAX)
    }

    /// Returns the objects at a version after some restored backups.
    pub(crate) fn objects_at(self, restores: usize, version: u64) -> Objects {
        let objects = self.history.objects_after(self.history.position(restores, version)).into_iter();
        let objects = objects.filter(|(key, _)| key.plural == self.plural);
        objects.map(|(key, object)| (key.path(), State::clone(object))).collect()
    }

    /// Returns an object at a version after some restored backups.
    pub(crate) fn object_at(self, restores: usize, version: u64, key: &str) -> Option<&'a State> {
        let position = self.history.position(restores, version);
        let mut changes = self.history.changes_of(self.plural, key).rev();
        changes.find(|(index, _)| *index < position)?.1.after.as_ref()
    }

    /// Returns the changes after a version that followed some restored backups, in the order of time.
    pub(crate) fn changes_after(self, restores: usize, version: u64) -> impl Iterator<Item = &'a Change> {
        let changes = self.history.changes().iter().skip(self.history.position(restores, version));
        changes.filter(move |change| change.key.plural == self.plural)
    }

    /// Whether a restored backup brought back a state of an object.
    pub(crate) fn recurs(self, key: &str, state: &State) -> bool {
        self.states_of(key).filter(|known| *known == state).count() > 1
    }

    /// Whether an object had a state before it had another one for the last time.
    pub(crate) fn had_before(self, key: &str, state: &State, other: &State) -> bool {
        let mut earlier = self.of(key).rev().skip_while(|change| change.after.as_ref() != Some(other));
        earlier.any(|change| change.after.as_ref() == Some(state))
    }

    /// Whether an object had a state only before another one.
    pub(crate) fn goes_back(self, key: &str, from: &State, to: &State) -> bool {
        self.states_of(key).any(|state| state == to)
            && !self.since(key, from).any(|change| change.after.as_ref() == Some(to))
    }
}
