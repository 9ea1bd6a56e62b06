//! The changes of a server's objects, and the check whether an informer's events can be explained by them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::{Line, ObjectEvent};

/// A change of one object on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The object was written, at this version.
    Written(u64),
    /// The object was deleted, between the versions of its neighbours.
    Deleted {
        /// Whether the object was first written once more to mark the deletion, as pods are.
        gracefully: bool,
    },
}

/// A resource and a key.
type Name = (String, String);

/// All changes of the objects of one writer.
#[derive(Clone, Debug, Default)]
pub struct History {
    changes: BTreeMap<Name, Vec<Change>>,
}

/// Events that the server's history does not explain.
#[derive(Debug)]
pub struct Unexplained {
    resource: String,
    key: String,
    why: String,
    events: Vec<Line>,
    history: Vec<Change>,
}

impl fmt::Display for Unexplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}: {}", self.resource, self.key, self.why)?;
        writeln!(f, "  the server: {:?}", self.history)?;
        write!(f, "  delivered:")?;
        for line in &self.events {
            write!(f, "\n    {}", describe(line))?;
        }
        Ok(())
    }
}

impl std::error::Error for Unexplained {}

impl History {
    /// Records a write of an object.
    pub fn written(&mut self, resource: &str, key: &str, version: u64) {
        self.of(resource, key).push(Change::Written(version));
    }

    /// Records the deletion of an object.
    pub fn deleted(&mut self, resource: &str, key: &str) {
        self.of(resource, key).push(Change::Deleted { gracefully: resource == "pods" });
    }

    /// Returns the version of an object, if it exists.
    pub fn version(&self, resource: &str, key: &str) -> Option<u64> {
        match self.changes.get(&(resource.to_owned(), key.to_owned()))?.last()? {
            Change::Written(version) => Some(*version),
            Change::Deleted { .. } => None,
        }
    }

    /// Returns the number of objects of a resource.
    pub fn count(&self, resource: &str) -> usize {
        let changes = self.changes.iter().filter(|((of, _), _)| of == resource);
        changes.filter(|(_, changes)| matches!(changes.last(), Some(Change::Written(_)))).count()
    }

    fn of(&mut self, resource: &str, key: &str) -> &mut Vec<Change> {
        self.changes.entry((resource.to_owned(), key.to_owned())).or_default()
    }

    /// Checks the lines of an informer that ran until it had caught up. For each object, the delivered states must be
    /// states of the server in their order, each event must follow from the previous one, and the last state must be
    /// the server's.
    ///
    /// An informer may miss states while it is disconnected, and a deletion together with what follows it; the latter
    /// is delivered as an update. Objects of other writers are ignored.
    ///
    /// Returns the number of updates that delivered a known state again.
    ///
    /// # Errors
    /// The first object that violates this.
    pub fn explain(&self, lines: &[Line]) -> Result<usize, Box<Unexplained>> {
        let mut events: HashMap<Name, Vec<(bool, &Line)>> = HashMap::new();
        let mut synced: Vec<&str> = Vec::new();
        for line in lines {
            if let Line::Synced { resource, .. } = line {
                synced.push(resource);
            }
            let Some(event) = line.object_event() else { continue };
            let is_synced = synced.contains(&event.resource.as_str());
            events.entry((event.resource.clone(), event.key.clone())).or_default().push((is_synced, line));
        }
        let mut again = 0;
        for (name, history) in &self.changes {
            let events = events.remove(name).unwrap_or_default();
            again += explain(history, &events).map_err(|why| {
                Box::new(Unexplained {
                    resource: name.0.clone(),
                    key: name.1.clone(),
                    why,
                    events: events.iter().map(|(_, line)| (*line).clone()).collect(),
                    history: history.clone(),
                })
            })?;
        }
        Ok(again)
    }

    /// Returns the events of this writer's objects, grouped by object, in order.
    pub fn by_object<'a>(&self, lines: &'a [Line]) -> BTreeMap<(&'a str, &'a str), Vec<&'a Line>> {
        let mut objects: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (line, event) in lines.iter().filter_map(|line| Some((line, line.object_event()?))) {
            if self.changes.contains_key(&(event.resource.clone(), event.key.clone())) {
                objects.entry((event.resource.as_str(), event.key.as_str())).or_default().push(line);
            }
        }
        objects
    }
}

/// Follows the server's history along the events. Returns the number of updates that delivered a known state again.
fn explain(history: &[Change], events: &[(bool, &Line)]) -> Result<usize, String> {
    // The position of the informer in the history, and the version that it knows.
    let mut position = 0;
    let mut known = None;
    let mut again = 0;
    for (synced, line) in events {
        let Some(event) = line.object_event() else { continue };
        let described = describe(line);
        if event.initial && *synced {
            return Err(format!("{described}: in the initial list, after its end"));
        }
        let version = version(event).ok_or(format!("{described}: without a version"))?;
        let written = || {
            written(history, position, version).ok_or(format!("{described}: no later state of the server"))
        };
        match line {
            Line::Add(_) => {
                if known.is_some() {
                    return Err(format!("{described}: the object was already known"));
                }
                (position, known) = (written()?, Some(version));
            }
            Line::Update(_) => {
                let old = event.old_resource_version.as_deref().and_then(|old| old.parse().ok());
                if known.is_none() || old != known {
                    return Err(format!("{described}: the state before was {known:?}"));
                }
                match old == Some(version) {
                    true => again += 1,
                    false => (position, known) = (written()?, Some(version)),
                }
            }
            Line::Delete(_) => {
                let before = known.take().ok_or(format!("{described}: the object was not known"))?;
                if event.final_state_unknown && version != before {
                    return Err(format!("{described}: the last known state was {before}"));
                }
                let gone =
                    deletion(history, position, (!event.final_state_unknown).then_some(version), false);
                position = gone.ok_or(format!("{described}: the server did not delete it then"))?;
            }
            Line::Synced { .. } | Line::Stopped(_) => {}
        }
    }
    let last = match history.last() {
        Some(Change::Written(version)) => Some(*version),
        Some(Change::Deleted { .. }) | None => None,
    };
    match known == last {
        true => Ok(again),
        false => Err(format!("the last delivered state is {known:?}, the server's {last:?}")),
    }
}

/// Returns the position after the write at a version, or after the mark of a deletion at this version.
fn written(history: &[Change], from: usize, version: u64) -> Option<usize> {
    let later = history.iter().enumerate().skip(from);
    let mut same = later.filter(|(_, change)| **change == Change::Written(version));
    let place = same.next().map(|(place, _)| place + 1);
    place.or_else(|| deletion(history, from, Some(version), true).map(|place| place - 1))
}

/// Returns the position after the deletion at a version, or after the first deletion.
fn deletion(history: &[Change], from: usize, version: Option<u64>, gracefully: bool) -> Option<usize> {
    let mut newest = 0;
    for (place, change) in history.iter().enumerate() {
        match change {
            Change::Written(written) => newest = *written,
            Change::Deleted { .. } if place < from => {}
            Change::Deleted { gracefully: marked } => {
                let next = history.iter().skip(place).find_map(|change| match change {
                    Change::Written(written) => Some(*written),
                    Change::Deleted { .. } => None,
                });
                let fits = |version| newest < version && next.is_none_or(|next| version < next);
                if version.is_none_or(fits) && (*marked || !gracefully) {
                    return Some(place + 1);
                }
            }
        }
    }
    None
}

fn version(event: &ObjectEvent) -> Option<u64> {
    event.resource_version.as_deref()?.parse().ok()
}

fn describe(line: &Line) -> String {
    let (what, event) = match line {
        Line::Add(event) if event.initial => ("initial add", event),
        Line::Add(event) => ("add", event),
        Line::Update(event) => ("update", event),
        Line::Delete(event) if event.final_state_unknown => ("delete, final state unknown,", event),
        Line::Delete(event) => ("delete", event),
        Line::Synced { .. } | Line::Stopped(_) => return format!("{line:?}"),
    };
    let of = |version: &Option<String>| version.clone().unwrap_or_else(|| "none".into());
    match &event.old_resource_version {
        Some(old) => format!("{what} {} was {old}", of(&event.resource_version)),
        None => format!("{what} {}", of(&event.resource_version)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

    use super::*;

    fn object_event(event: &str, version: u64, old: Option<u64>, unknown: bool) -> Line {
        let line = serde_json::json!({"event": event, "resource": "nodes", "key": "a/b",
            "resourceVersion": version.to_string(), "oldResourceVersion": old.map(|old| old.to_string()),
            "initial": false, "finalStateUnknown": unknown});
        serde_json::from_value(line).unwrap()
    }

    fn add(version: u64) -> Line {
        object_event("add", version, None, false)
    }
    fn update(old: u64, version: u64) -> Line {
        object_event("update", version, Some(old), false)
    }
    fn delete(version: u64) -> Line {
        object_event("delete", version, None, false)
    }
    fn lost(version: u64) -> Line {
        object_event("delete", version, None, true)
    }

    /// Written at 1, 3, 5; deleted; written at 9, 11.
    fn history() -> History {
        history_of("nodes")
    }

    fn history_of(resource: &str) -> History {
        let mut history = History::default();
        for version in [1, 3, 5] {
            history.written(resource, "a/b", version);
        }
        history.deleted(resource, "a/b");
        for version in [9, 11] {
            history.written(resource, "a/b", version);
        }
        history
    }

    #[test]
    fn changes_of_the_server_are_explained() {
        assert_eq!(history().explain(&[add(11), update(11, 11), update(11, 11)]).unwrap(), 2);
        for lines in [
            vec![add(1), update(1, 3), update(3, 5), delete(6), add(9), update(9, 11)],
            vec![add(5), delete(7), add(11)],
            vec![add(3), lost(3), add(11)],
            vec![add(1), update(1, 11)],
            vec![add(11)],
        ] {
            assert_eq!(history().explain(&lines).unwrap(), 0);
        }
    }

    #[test]
    fn impossible_events_are_not_explained() {
        for (lines, why) in [
            (vec![], "the last delivered state"),
            (vec![add(9)], "the last delivered state"),
            (vec![add(2)], "no later state"),
            (vec![add(1), add(11)], "already known"),
            (vec![add(3), update(3, 1)], "no later state"),
            (vec![add(1), update(3, 11)], "the state before"),
            (vec![update(9, 11)], "the state before"),
            (vec![add(1), delete(4), add(11)], "did not delete it then"),
            (vec![add(1), delete(10), add(11)], "did not delete it then"),
            (vec![add(1), lost(3), add(11)], "the last known state"),
            (vec![add(9), lost(9), add(11)], "did not delete it then"),
            (vec![delete(6), add(11)], "was not known"),
            (vec![add(5), delete(6), add(9), update(9, 11), delete(12)], "did not delete it then"),
        ] {
            let problem = history().explain(&lines).unwrap_err().to_string();
            assert!(problem.contains(why), "{lines:?}: {problem}");
        }
    }

    #[test]
    fn the_mark_of_a_deleted_pod_is_an_update() {
        let mut lines = vec![add(5), update(5, 6), delete(7), add(11)];
        assert!(history().explain(&lines).is_err());
        for line in &mut lines {
            if let Line::Add(event) | Line::Update(event) | Line::Delete(event) = line {
                event.resource = "pods".into();
            }
        }
        history_of("pods").explain(&lines).unwrap();
    }

    #[test]
    fn the_initial_list_is_not_delivered_late() {
        let mut late = add(11);
        if let Line::Add(events) = &mut late {
            events.initial = true;
        }
        let synced = Line::Synced { resource: "nodes".into(), count: 1 };
        history().explain(&[late.clone(), synced.clone()]).unwrap();
        let problem = history().explain(&[synced, late]).unwrap_err().to_string();
        assert!(problem.contains("after its end"), "{problem}");
    }
}
