//! The events of a handler.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio::time::{Duration, Instant};

use super::{passes, version_of};
use crate::record::{Objects, Record};
use crate::state::State;

/// An event of a handler, reduced to what the checks need.
#[derive(Clone, Debug)]
pub(crate) enum Received {
    /// An addition.
    Added(State),
    /// An update from one state to another.
    Updated(State, State),
    /// A deletion.
    Deleted,
    /// The object left the scope.
    Left,
}

/// What one handler has received: its own copy of the objects.
#[derive(Debug, Default)]
pub(crate) struct HandlerView {
    objects: Objects,
    rules: Rules,
    revision: u64,
    has_live_events: bool,
    has_synced: bool,
    is_removed: bool,
    /// The keys of the objects that it has received.
    received: BTreeSet<String>,
    resynced: BTreeMap<String, Resyncs>,
}

/// The resyncs of one object.
#[derive(Debug)]
struct Resyncs {
    count: u128,
    last: Instant,
}

/// What depends on the form of a handler.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// The resync period and the time of the addition, if it has a period.
    pub resyncs: Option<(Duration, Instant)>,
    /// Whether it has the filter [`passes`].
    pub is_filtered: bool,
    /// Whether its events keep their order: its buffer does not coalesce.
    pub in_order: bool,
    /// Whether its initial list has only objects of lists: it was added before the start of the informer, whose queue does
    /// not merge events.
    pub has_initial_list: bool,
    /// Whether it was added after the informer had synced.
    pub is_late: bool,
}

impl HandlerView {
    /// Creates the view of a handler that has received nothing.
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Checks the place of an event among the others. `initial` is whether it belongs to the initial list.
    ///
    /// # Errors
    /// The handler was removed, the revision went back, an event of the initial list comes too late, or a resync is too
    /// early or for a handler without a period. `listed` is the newest version of a list that the server has sent.
    pub(crate) fn check_place(
        &mut self,
        history: Record<'_>,
        key: &str,
        event: &Received,
        initial: bool,
        listed: u64,
        revision: u64,
    ) -> Result<(), String> {
        if self.is_removed {
            return Err(format!("received {key} after its removal"));
        }
        if self.rules.in_order && revision < self.revision {
            return Err(format!("{key} goes back from revision {} to {revision}", self.revision));
        }
        self.revision = self.revision.max(revision);
        if initial && self.has_synced {
            return Err(format!("{key} is of the initial list, but the handler has synced"));
        }
        if initial && self.has_live_events && self.rules.is_late && self.rules.in_order {
            return Err(format!("{key} is of the initial list, but comes after a live event"));
        }
        if let Received::Added(new) = event
            && initial
            && self.rules.has_initial_list
            && self.rules.in_order
            && version_of(new) > listed
        {
            return Err(format!("{key} is newer than all lists, but of the initial list"));
        }
        self.has_live_events |= !initial;
        match event {
            // Nothing else has two equal states, except, without order, a way to another state and back to a restored one.
            Received::Updated(old, new) if old == new => {
                self.resynced(key, !self.rules.in_order && history.recurs(key, new))
            }
            _ => Ok(()),
        }
    }

    /// An object was resynced; or perhaps not, if it may have come back to the same state.
    fn resynced(&mut self, key: &str, may_be_back: bool) -> Result<(), String> {
        let last = Instant::now();
        let resyncs = self.resynced.entry(key.to_owned()).or_insert(Resyncs { count: 0, last });
        resyncs.last = last;
        if may_be_back {
            return Ok(());
        }
        let Some((period, added)) = self.rules.resyncs else {
            return Err(format!("resynced {key} without a period"));
        };
        resyncs.count += 1;
        // A slow handler receives a resync late, but no handler receives one before it is due.
        let most = added.elapsed().as_nanos() / period.as_nanos().max(1);
        match resyncs.count <= most {
            true => Ok(()),
            false => Err(format!("resynced {key} {} times in {:?}", resyncs.count, added.elapsed())),
        }
    }

    /// Checks that a handler that has synced has received these objects, which were stored when it was added.
    ///
    /// # Errors
    /// An object was not received, although it was not deleted and has not left.
    pub(crate) fn check_synced(
        &self,
        history: Record<'_>,
        joined: &Objects,
        may_have_left: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        let missing = joined.iter().find(|(key, state)| {
            self.keeps(state)
                && !self.received.contains(*key)
                && !self.is_deleted_after(history, key, state)
                && !may_have_left(key)
        });
        missing.map_or(Ok(()), |(key, _)| Err(format!("has synced, but has not received {key}")))
    }

    /// Whether an object was deleted after it had a state, or had a state that the filter drops.
    fn is_deleted_after(&self, history: Record<'_>, key: &str, state: &State) -> bool {
        history.since(key, state).any(|change| change.after.as_ref().is_none_or(|after| !self.keeps(after)))
    }

    /// Whether the handler receives objects in this state.
    fn keeps(&self, state: &Value) -> bool {
        !self.rules.is_filtered || passes(state)
    }

    /// Returns those of these objects that the handler receives.
    pub(crate) fn kept(&self, objects: &Objects) -> Objects {
        objects
            .iter()
            .filter(|(_, state)| self.keeps(state))
            .map(|(key, state)| (key.clone(), state.clone()))
            .collect()
    }

    /// The handler has synced: it has received its initial list.
    pub(crate) fn synced(&mut self) {
        self.has_synced = true;
    }

    /// The handler was removed: it receives nothing more.
    pub(crate) fn removed(&mut self) {
        self.is_removed = true;
    }

    /// Whether the events keep their order.
    pub(crate) fn is_in_order(&self) -> bool {
        self.rules.in_order
    }

    /// Whether the removal has ended.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed
    }

    /// Checks that the handler has received each object by a resync since a time.
    ///
    /// # Errors
    /// An object was not resynced.
    pub(crate) fn check_resynced(&self, since: Instant) -> Result<(), String> {
        let missing = self
            .objects
            .keys()
            .find(|key| self.resynced.get(*key).is_none_or(|resyncs| resyncs.last < since));
        missing.map_or(Ok(()), |key| Err(format!("{key} was not resynced")))
    }

    /// Applies an event.
    ///
    /// # Errors
    /// The event does not follow from the earlier ones, or the history has no such state.
    pub(crate) fn apply(&mut self, history: Record<'_>, key: &str, event: Received) -> Result<(), String> {
        let known = self.objects.get(key);
        let new = match (event, known) {
            (Received::Added(new), None) => Some(new),
            (Received::Added(_), Some(_)) => return Err(format!("added {key}, which it has")),
            (Received::Updated(..), None) => return Err(format!("updated {key}, which it does not have")),
            (Received::Updated(old, _), Some(known)) if old != *known => {
                return Err(format!("updated {key} from {old}, but it has {known}"));
            }
            (Received::Updated(_, new), Some(known)) => {
                if history.goes_back(key, known, &new) {
                    return Err(format!("updated {key} back from {known} to {new}"));
                }
                Some(new)
            }
            (Received::Left, None) => return Err(format!("left {key}, which it does not have")),
            (Received::Left, Some(_)) => None,
            (Received::Deleted, None) => return Err(format!("deleted {key}, which it does not have")),
            (Received::Deleted, Some(known)) => {
                if !self.is_deleted_after(history, key, known) {
                    return Err(format!("deleted {key}, which the server has not deleted since {known}"));
                }
                None
            }
        };
        match new {
            Some(new) => {
                check_state(history, key, &new)?;
                if !self.keeps(&new) {
                    return Err(format!("received {key} with the state {new}, which the filter drops"));
                }
                self.received.insert(key.to_owned());
                self.objects.insert(key.to_owned(), new);
            }
            None => _ = self.objects.remove(key),
        }
        Ok(())
    }

    /// The objects that the handler knows.
    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }
}

fn check_state(history: Record<'_>, key: &str, state: &State) -> Result<(), String> {
    match history.states_of(key).any(|known| known == state) {
        true => Ok(()),
        false => Err(format!("{key} never had the state {state}")),
    }
}
