//! The checks: every event and every state of the store must be explained by the history of the server.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::time::Instant;

/// The objects of one resource by key.
pub(crate) type Objects = BTreeMap<String, Value>;

/// A change in the history of a server.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The version of the change. Higher than those of all earlier changes.
    pub version: u64,
    /// The key of the object.
    pub key: String,
    /// The new state of the object; `None` if it was deleted.
    pub state: Option<Value>,
}

/// Returns the objects at a version.
pub(crate) fn objects_at(history: &[Change], version: u64) -> Objects {
    let mut objects = BTreeMap::new();
    for change in history.iter().take_while(|change| change.version <= version) {
        match &change.state {
            Some(state) => _ = objects.insert(&change.key, state),
            None => _ = objects.remove(&change.key),
        }
    }
    objects.into_iter().map(|(key, state)| (key.clone(), state.clone())).collect()
}

/// Returns the version of an object.
pub(crate) fn version_of(object: &Value) -> u64 {
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// An event of a handler, reduced to what the checks need.
#[derive(Clone, Debug)]
pub(crate) enum Received {
    /// An addition.
    Added(Value),
    /// An update from one state to another.
    Updated(Value, Value),
    /// A deletion.
    Deleted,
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
    resynced: BTreeMap<String, Instant>,
}

/// What depends on the form of a handler.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// Whether it has a resync period.
    pub resyncs: bool,
    /// Whether its events keep their order: its buffer does not coalesce.
    pub in_order: bool,
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
    /// The handler was removed, the revision went back, an event of the initial list comes too late, or a resync is for a
    /// handler without a period.
    pub(crate) fn check_place(
        &mut self,
        key: &str,
        event: &Received,
        initial: bool,
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
        self.has_live_events |= !initial;
        match event {
            // No state of the server has another state's version, so nothing else has two equal states.
            Received::Updated(old, new) if old == new => {
                self.resynced.insert(key.to_owned(), Instant::now());
                if self.rules.resyncs { Ok(()) } else { Err(format!("resynced {key} without a period")) }
            }
            _ => Ok(()),
        }
    }

    /// The handler has synced: it has received its initial list.
    pub(crate) fn synced(&mut self) {
        self.has_synced = true;
    }

    /// The handler was removed: it receives nothing more.
    pub(crate) fn removed(&mut self) {
        self.is_removed = true;
    }

    /// Checks that the handler has received each object by a resync since a time.
    ///
    /// # Errors
    /// An object was not resynced.
    pub(crate) fn check_resynced(&self, since: Instant) -> Result<(), String> {
        let missing =
            self.objects.keys().find(|key| self.resynced.get(*key).is_none_or(|time| *time < since));
        missing.map_or(Ok(()), |key| Err(format!("{key} was not resynced")))
    }

    /// Applies an event.
    ///
    /// # Errors
    /// The event does not follow from the earlier ones, or the history has no such state.
    pub(crate) fn apply(&mut self, history: &[Change], key: &str, event: Received) -> Result<(), String> {
        let known = self.objects.get(key);
        let new = match (event, known) {
            (Received::Added(new), None) => Some(new),
            (Received::Added(_), Some(_)) => return Err(format!("added {key}, which it has")),
            (Received::Updated(..), None) => return Err(format!("updated {key}, which it does not have")),
            (Received::Updated(old, _), Some(known)) if old != *known => {
                return Err(format!("updated {key} from {old}, but it has {known}"));
            }
            (Received::Updated(_, new), Some(known)) => {
                if version_of(&new) < version_of(known) {
                    return Err(format!("updated {key} back from {known} to {new}"));
                }
                Some(new)
            }
            (Received::Deleted, None) => return Err(format!("deleted {key}, which it does not have")),
            (Received::Deleted, Some(known)) => {
                let after = |change: &&Change| change.version > version_of(known);
                let mut later = history.iter().filter(after);
                if !later.any(|change| change.key == key && change.state.is_none()) {
                    return Err(format!("deleted {key}, which the server has not deleted since {known}"));
                }
                None
            }
        };
        match new {
            Some(new) => {
                check_state(history, key, &new)?;
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

fn check_state(history: &[Change], key: &str, state: &Value) -> Result<(), String> {
    let mut states = history.iter().filter(|change| change.key == key);
    match states.any(|change| change.state.as_ref() == Some(state)) {
        true => Ok(()),
        false => Err(format!("{key} never had the state {state}")),
    }
}

/// Checks the final state that a deletion carries.
///
/// # Errors
/// The object never had this content.
pub(crate) fn check_final(history: &[Change], key: &str, last: &Value) -> Result<(), String> {
    // The version of an observed deletion is its own.
    let content = |object: &Value| {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        (uid, object.get("data").cloned())
    };
    let mut states = history.iter().filter(|change| change.key == key).filter_map(|c| c.state.as_ref());
    match states.any(|state| content(state) == content(last)) {
        true => Ok(()),
        false => Err(format!("{key} was deleted with the state {last}, which it never had")),
    }
}

/// Checks the state of an object in a store that has reached a version.
///
/// # Errors
/// The state is older than that version.
pub(crate) fn check_reached(
    history: &[Change],
    key: &str,
    version: u64,
    stored: Option<&Value>,
) -> Result<(), String> {
    let mut changes = history.iter().filter(|change| change.key == key);
    let at = changes.clone().take_while(|change| change.version <= version).last();
    let at = at.and_then(|change| change.state.as_ref());
    let reached = match (at, stored) {
        (_, Some(stored)) => at.is_some_and(|at| at == stored) || version_of(stored) > version,
        (None, None) => true,
        (Some(_), None) => changes.any(|change| change.version > version && change.state.is_none()),
    };
    if reached { Ok(()) } else { Err(format!("version {version} is reached, but {key} is {stored:?}")) }
}

/// The versions that a store has shown, by the prefix of the keys of each part.
#[derive(Debug, Default)]
pub(crate) struct StoreView {
    versions: BTreeMap<String, u64>,
    /// Whether objects may be newer than the version: a queue without atomic lists pops parts of a list.
    pub(crate) may_be_ahead: bool,
}

impl StoreView {
    /// Checks a snapshot of the store at the version of each part, which is `None` before the first list of the part.
    ///
    /// # Errors
    /// A version went back, or the objects are not those of the server at these versions.
    pub(crate) fn check(
        &mut self,
        history: &[Change],
        versions: &[(String, Option<u64>)],
        objects: &Objects,
    ) -> Result<(), String> {
        let mut expected = Objects::new();
        for (prefix, version) in versions {
            let before = self.versions.entry(prefix.clone()).or_default();
            let version = version.unwrap_or_default();
            if version < *before {
                return Err(format!("the store went back from version {before} to {version}"));
            }
            *before = version;
            let of_part = objects_at(history, version).into_iter().filter(|(key, _)| key.starts_with(prefix));
            expected.extend(of_part);
            let later =
                history.iter().filter(|change| change.version > version && change.key.starts_with(prefix));
            for change in later.filter(|_| self.may_be_ahead) {
                if objects.get(&change.key) == change.state.as_ref() {
                    match &change.state {
                        Some(state) => _ = expected.insert(change.key.clone(), state.clone()),
                        None => _ = expected.remove(&change.key),
                    }
                }
            }
        }
        difference("the store", objects, &format!("the server at versions {versions:?}"), &expected)
    }
}

/// Compares two sets of objects.
///
/// # Errors
/// They differ: names the keys.
pub(crate) fn difference(one: &str, ones: &Objects, other: &str, others: &Objects) -> Result<(), String> {
    let keys: std::collections::BTreeSet<_> = ones.keys().chain(others.keys()).collect();
    let differ: Vec<_> = keys.into_iter().filter(|key| ones.get(*key) != others.get(*key)).collect();
    if differ.is_empty() { Ok(()) } else { Err(format!("{one} and {other} differ in {differ:?}")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(version: u64) -> Value {
        json!({"metadata": {"resourceVersion": version.to_string()}})
    }

    /// `a` is created, updated and deleted; `b` is created.
    fn history() -> Vec<Change> {
        let change = |version, key: &str, exists| Change {
            version,
            key: key.into(),
            state: if exists { Some(object(version)) } else { None },
        };
        vec![change(1, "a", true), change(2, "a", true), change(3, "b", true), change(4, "a", false)]
    }

    /// Applies events, and returns the error of the last one.
    fn error(events: impl IntoIterator<Item = (&'static str, Received)>) -> String {
        let mut view = HandlerView::default();
        let mut last = Ok(());
        for (key, event) in events {
            assert_eq!(last, Ok(()));
            last = view.apply(&history(), key, event);
        }
        last.err().unwrap_or_default()
    }

    /// Events that follow from the history are accepted, also if states are left out.
    #[test]
    fn explained_events() {
        let updated = Received::Updated(object(1), object(2));
        assert_eq!(error([("a", Received::Added(object(1))), ("a", updated), ("a", Received::Deleted)]), "");
        assert_eq!(error([("a", Received::Added(object(1))), ("a", Received::Deleted)]), "");
        assert_eq!(
            error([("b", Received::Added(object(3))), ("b", Received::Updated(object(3), object(3)))]),
            ""
        );
    }

    /// Each event that does not follow from the history is an error.
    #[test]
    fn unexplained_events() {
        let added = || ("a", Received::Added(object(2)));
        let last = |event| error([added(), ("a", event)]);
        assert!(last(Received::Added(object(2))).contains("which it has"));
        assert!(last(Received::Updated(object(1), object(2))).contains("but it has"));
        assert!(last(Received::Updated(object(2), object(1))).contains("back"));
        assert!(last(Received::Updated(object(2), object(9))).contains("never had the state"));
        assert!(error([("a", Received::Deleted)]).contains("does not have"));
        assert!(error([("a", Received::Updated(object(1), object(2)))]).contains("does not have"));
        assert!(error([("b", Received::Added(object(1)))]).contains("never had the state"));
        assert!(
            error([("b", Received::Added(object(3))), ("b", Received::Deleted)]).contains("has not deleted")
        );
    }

    /// A store is at a version of the server, and at no earlier one than before.
    #[test]
    fn states_of_the_store() {
        let history = history();
        let mut view = StoreView::default();
        let at = |version| [(String::new(), version)];
        assert_eq!(view.check(&history, &at(None), &Objects::new()), Ok(()));
        assert_eq!(view.check(&history, &at(Some(3)), &objects_at(&history, 3)), Ok(()));
        assert!(
            view.check(&history, &at(Some(3)), &objects_at(&history, 4)).unwrap_err().contains("[\"a\"]")
        );
        assert!(view.check(&history, &at(Some(2)), &objects_at(&history, 2)).unwrap_err().contains("back"));
        assert!(view.check(&history, &at(None), &Objects::new()).is_err());
    }
}
