//! What a server did to its objects, and whether what an informer told can be explained by it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::{Line, Told};

/// Something that happened to one object on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// It was written, at this version.
    Written(u64),
    /// It was deleted, between the versions around.
    Deleted {
        /// Whether it was written once more before, to say that it is going; pods are.
        gracefully: bool,
    },
}

/// A resource and a key.
type Name = (String, String);

/// All that happened to the objects of one writer.
#[derive(Clone, Debug, Default)]
pub struct History {
    changes: BTreeMap<Name, Vec<Change>>,
}

/// An event that the server's history does not explain.
#[derive(Debug)]
pub struct Unexplained {
    resource: String,
    key: String,
    why: String,
    told: Vec<Line>,
    history: Vec<Change>,
}

impl fmt::Display for Unexplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}: {}", self.resource, self.key, self.why)?;
        writeln!(f, "  the server: {:?}", self.history)?;
        write!(f, "  told:")?;
        for line in &self.told {
            write!(f, "\n    {}", shown(line))?;
        }
        Ok(())
    }
}

impl std::error::Error for Unexplained {}

impl History {
    /// An object has been written.
    pub fn written(&mut self, resource: &str, key: &str, version: u64) {
        self.of(resource, key).push(Change::Written(version));
    }

    /// An object has been deleted.
    pub fn deleted(&mut self, resource: &str, key: &str) {
        self.of(resource, key).push(Change::Deleted { gracefully: resource == "pods" });
    }

    /// The version of an object that is there.
    pub fn version(&self, resource: &str, key: &str) -> Option<u64> {
        match self.changes.get(&(resource.to_owned(), key.to_owned()))?.last()? {
            Change::Written(version) => Some(*version),
            Change::Deleted { .. } => None,
        }
    }

    /// How many objects of a resource there are.
    pub fn count(&self, resource: &str) -> usize {
        let changes = self.changes.iter().filter(|((of, _), _)| of == resource);
        changes.filter(|(_, changes)| matches!(changes.last(), Some(Change::Written(_)))).count()
    }

    fn of(&mut self, resource: &str, key: &str) -> &mut Vec<Change> {
        self.changes.entry((resource.to_owned(), key.to_owned())).or_default()
    }

    /// Checks the lines of an informer that ran until it had caught up: for each object, what was told is states of
    /// the server in its order, each event follows from the one before, and the last state is the server's.
    ///
    /// An informer may miss states, and a deletion with what follows it, when it was cut off. It is told so as an
    /// update. Objects of others are left out.
    ///
    /// Gives how many updates told a state again that was known.
    ///
    /// # Errors
    /// The first object of which that is not so.
    pub fn explain(&self, lines: &[Line]) -> Result<usize, Box<Unexplained>> {
        let mut told: HashMap<Name, Vec<(bool, &Line)>> = HashMap::new();
        let mut synced: Vec<&str> = Vec::new();
        for line in lines {
            if let Line::Synced { resource, .. } = line {
                synced.push(resource);
            }
            let Some(of) = line.told() else { continue };
            let is_synced = synced.contains(&of.resource.as_str());
            told.entry((of.resource.clone(), of.key.clone())).or_default().push((is_synced, line));
        }
        let mut again = 0;
        for (name, history) in &self.changes {
            let told = told.remove(name).unwrap_or_default();
            again += explain(history, &told).map_err(|why| {
                Box::new(Unexplained {
                    resource: name.0.clone(),
                    key: name.1.clone(),
                    why,
                    told: told.iter().map(|(_, line)| (*line).clone()).collect(),
                    history: history.clone(),
                })
            })?;
        }
        Ok(again)
    }

    /// Of what is told of this writer's objects, each object's events by themselves, in order.
    pub fn by_object<'a>(&self, lines: &'a [Line]) -> BTreeMap<(&'a str, &'a str), Vec<&'a Line>> {
        let mut objects: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (line, told) in lines.iter().filter_map(|line| Some((line, line.told()?))) {
            if self.changes.contains_key(&(told.resource.clone(), told.key.clone())) {
                objects.entry((told.resource.as_str(), told.key.as_str())).or_default().push(line);
            }
        }
        objects
    }
}

/// Walks along the server's history as the events tell it. Gives how many told a known state again.
fn explain(history: &[Change], told: &[(bool, &Line)]) -> Result<usize, String> {
    // Where in the history the informer is, and the version it knows.
    let mut at = 0;
    let mut known = None;
    let mut again = 0;
    for (synced, line) in told {
        let Some(event) = line.told() else { continue };
        let shown = shown(line);
        if event.initial && *synced {
            return Err(format!("{shown}: in the first list, after that was told"));
        }
        let version = version(event).ok_or(format!("{shown}: without a version"))?;
        let written = || {
            let later = history.iter().enumerate().skip(at);
            let mut same = later.filter(|(_, change)| **change == Change::Written(version));
            let place = same.next().map(|(place, _)| place + 1);
            let marked = || deletion(history, at, Some(version), true).map(|place| place - 1);
            place.or_else(marked).ok_or(format!("{shown}: no later state of the server"))
        };
        match line {
            Line::Add(_) => {
                if known.is_some() {
                    return Err(format!("{shown}: it was known already"));
                }
                at = written()?;
                known = Some(version);
            }
            Line::Update(_) => {
                let old = event.old_resource_version.as_deref().and_then(|old| old.parse().ok());
                if known.is_none() || old != known {
                    return Err(format!("{shown}: the state before was {known:?}"));
                }
                if old == Some(version) {
                    again += 1;
                } else {
                    at = written()?;
                    known = Some(version);
                }
            }
            Line::Delete(_) => {
                let before = known.take().ok_or(format!("{shown}: it was not known"))?;
                let gone = if event.final_state_unknown {
                    if version != before {
                        return Err(format!("{shown}: the last state known was {before}"));
                    }
                    deletion(history, at, None, false)
                } else {
                    deletion(history, at, Some(version), false)
                };
                at = gone.ok_or(format!("{shown}: the server did not delete it then"))?;
            }
            Line::Synced { .. } | Line::Stopped(_) => {}
        }
    }
    let last = match history.last() {
        Some(Change::Written(version)) => Some(*version),
        Some(Change::Deleted { .. }) | None => None,
    };
    if known == last {
        Ok(again)
    } else {
        Err(format!("the last state told is {known:?}, the server's {last:?}"))
    }
}

/// The place behind the deletion that happened at a version, or behind the first one.
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

fn version(told: &Told) -> Option<u64> {
    told.resource_version.as_deref()?.parse().ok()
}

fn shown(line: &Line) -> String {
    let (what, told) = match line {
        Line::Add(told) if told.initial => ("initial add", told),
        Line::Add(told) => ("add", told),
        Line::Update(told) => ("update", told),
        Line::Delete(told) if told.final_state_unknown => ("delete, final state unknown,", told),
        Line::Delete(told) => ("delete", told),
        Line::Synced { .. } | Line::Stopped(_) => return format!("{line:?}"),
    };
    let of = |version: &Option<String>| version.clone().unwrap_or_else(|| "none".into());
    match &told.old_resource_version {
        Some(old) => format!("{what} {} was {old}", of(&told.resource_version)),
        None => format!("{what} {}", of(&told.resource_version)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

    use super::*;

    fn told(event: &str, version: u64, old: Option<u64>, unknown: bool) -> Line {
        let line = serde_json::json!({"event": event, "resource": "nodes", "key": "a/b",
            "resourceVersion": version.to_string(), "oldResourceVersion": old.map(|old| old.to_string()),
            "initial": false, "finalStateUnknown": unknown});
        serde_json::from_value(line).unwrap()
    }

    fn add(version: u64) -> Line {
        told("add", version, None, false)
    }
    fn update(old: u64, version: u64) -> Line {
        told("update", version, Some(old), false)
    }
    fn delete(version: u64) -> Line {
        told("delete", version, None, false)
    }
    fn lost(version: u64) -> Line {
        told("delete", version, None, true)
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
    fn what_the_server_did_is_explained() {
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
    fn what_it_did_not_is_not() {
        for (lines, why) in [
            (vec![], "the last state told"),
            (vec![add(9)], "the last state told"),
            (vec![add(2)], "no later state"),
            (vec![add(1), add(11)], "known already"),
            (vec![add(3), update(3, 1)], "no later state"),
            (vec![add(1), update(3, 11)], "the state before"),
            (vec![update(9, 11)], "the state before"),
            (vec![add(1), delete(4), add(11)], "did not delete it then"),
            (vec![add(1), delete(10), add(11)], "did not delete it then"),
            (vec![add(1), lost(3), add(11)], "the last state known"),
            (vec![add(9), lost(9), add(11)], "did not delete it then"),
            (vec![delete(6), add(11)], "it was not known"),
            (vec![add(5), delete(6), add(9), update(9, 11), delete(12)], "did not delete it then"),
        ] {
            let problem = history().explain(&lines).unwrap_err().to_string();
            assert!(problem.contains(why), "{lines:?}: {problem}");
        }
    }

    #[test]
    fn a_pod_is_told_that_it_goes() {
        let mut lines = vec![add(5), update(5, 6), delete(7), add(11)];
        assert!(history().explain(&lines).is_err());
        for line in &mut lines {
            if let Line::Add(told) | Line::Update(told) | Line::Delete(told) = line {
                told.resource = "pods".into();
            }
        }
        history_of("pods").explain(&lines).unwrap();
    }

    #[test]
    fn the_first_list_is_not_told_late() {
        let mut late = add(11);
        if let Line::Add(told) = &mut late {
            told.initial = true;
        }
        let synced = Line::Synced { resource: "nodes".into(), count: 1 };
        history().explain(&[late.clone(), synced.clone()]).unwrap();
        let problem = history().explain(&[synced, late]).unwrap_err().to_string();
        assert!(problem.contains("after that was told"), "{problem}");
    }
}
