//! What processes may do that share objects out: who reconciles and writes which object, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kinformer::ShardField;
use kinformer_controller::kinformer_ring::{MemberId, Params, Table};
use parking_lot::Mutex;
use serde_json::Value;

use crate::server::{Change, Cluster, Key};
use crate::state::{State as Object, field, text_of};
use crate::trace::Recorder;

/// The name of the ring, and of the Lease with its table.
pub(crate) const RING: &str = "ring";

/// The namespace of the Leases.
pub(crate) const NAMESPACE: &str = "default";

/// The judge of a world. Clones share it.
#[derive(Clone)]
pub(crate) struct Judge {
    pub(crate) recorder: Recorder,
    pub(crate) cluster: Cluster,
    pub(crate) params: Params,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The number of changes that were read.
    read: usize,
    /// The owners of the slots by the table, or by the last one that was readable.
    owners: Vec<Option<MemberId>>,
    /// The running reconciliations of each UID, with their processes; those of a stopped process are not running.
    active: BTreeMap<String, (u64, Arc<str>)>,
    stopped: BTreeSet<Arc<str>>,
    number: u64,
    /// Which process has reconciled an object last, by UID, and the value that it has read.
    last: BTreeMap<String, (Arc<str>, String)>,
    /// The version of the last write of a process, by UID.
    written: BTreeMap<String, (String, u64)>,
    /// The UIDs that each key has had.
    uids: BTreeMap<String, Vec<String>>,
    /// The keys whose deletion was reconciled, with the process.
    missing: Vec<(Arc<str>, String)>,
}

/// A reconciliation that runs.
pub(crate) struct Active {
    judge: Judge,
    uid: String,
    number: u64,
    run: Arc<str>,
}

impl Judge {
    pub(crate) fn new(recorder: &Recorder, cluster: &Cluster, params: &Params) -> Self {
        let owners = vec![None; usize::from(params.slots)];
        let state = Arc::new(Mutex::new(State { owners, ..State::default() }));
        Self { recorder: recorder.clone(), cluster: cluster.clone(), params: params.clone(), state }
    }

    pub(crate) fn violation(&self, what: impl std::fmt::Display) {
        self.recorder.violation(what);
    }

    /// The value of the hashed field of an object.
    pub(crate) fn hashed<'a>(&self, namespace: &'a str, uid: &'a str) -> &'a str {
        match self.params.field {
            ShardField::Namespace => namespace,
            ShardField::Uid => uid,
        }
    }

    /// Reads the changes since the last call: the table, and the writes of the processes (K-25b, Y-07b).
    pub(crate) fn read(&self) {
        let mut problems = Vec::new();
        self.cluster.read(|history| {
            let mut state = self.state.lock();
            let read = std::mem::replace(&mut state.read, history.changes().len());
            for change in history.changes().get(read..).unwrap_or_default() {
                match change.key.plural.as_str() {
                    "leases" if change.key.name == RING => state.read_table(change),
                    "configmaps" => problems.extend(self.read_map(&mut state, change)),
                    _ => {}
                }
            }
        });
        problems.into_iter().for_each(|problem| self.violation(problem));
    }

    fn read_map(&self, state: &mut State, change: &Change) -> Option<String> {
        let after = change.after.as_ref()?;
        let uid = text_of(after, ["metadata", "uid"])?;
        let uids = state.uids.entry(change.key.path()).or_default();
        if uids.last().is_none_or(|last| last != uid) {
            uids.push(uid.to_owned());
        }
        let annotation =
            |object: &Object, name| text_of(object, ["metadata", "annotations", name]).map(str::to_owned);
        let (by, member) = (annotation(after, "by")?, annotation(after, "member")?);
        if change.before.as_ref().is_some_and(|before| {
            field(before, ["metadata", "annotations"]) == field(after, ["metadata", "annotations"])
        }) {
            return None; // a write of others
        }
        let slot = self.params.slot_of(self.hashed(&change.key.namespace, uid));
        state.written.insert(uid.to_owned(), (by.clone(), change.version));
        let owner = state.owners.get(usize::from(slot))?.as_ref();
        let is_owner = owner.is_some_and(|owner| owner.to_string() == member);
        (!is_owner).then(|| {
            format!(
                "{by} ({member}) writes {} {uid} at {}, whose owner is {owner:?}",
                change.key, change.version
            )
        })
    }

    /// The owner of each slot by the table.
    pub(crate) fn owners(&self) -> Vec<Option<MemberId>> {
        self.state.lock().owners.clone()
    }

    /// Nothing of this process runs from now on, or it runs again.
    pub(crate) fn set_stopped(&self, run: &Arc<str>, is_stopped: bool) {
        let mut state = self.state.lock();
        match is_stopped {
            true => state.stopped.insert(run.clone()),
            false => state.stopped.remove(run),
        };
    }

    /// A process reconciles an object as it was at a version (K-25b).
    pub(crate) fn begin(&self, run: &Arc<str>, uid: &str, version: u64, is_owned: bool) -> Active {
        self.recorder.note(run, format_args!("reconciles {uid} as of {version}"));
        self.read();
        let mut state = self.state.lock();
        state.number += 1;
        let number = state.number;
        let other = state.active.insert(uid.to_owned(), (number, run.clone()));
        let other = other.filter(|(_, other)| !state.stopped.contains(other));
        let written = state.written.get(uid).filter(|(by, at)| **by != **run && *at > version).cloned();
        drop(state);
        if let Some((_, other)) = other {
            self.violation(format_args!("{uid} is reconciled by {other} and {run}"));
        }
        if let Some((by, at)) = written {
            self.violation(format_args!(
                "{run} reconciles {uid} as of {version}, but {by} has written it at {at}"
            ));
        }
        if !is_owned {
            self.violation(format_args!("{run} reconciles {uid}, which it does not own"));
        }
        Active { judge: self.clone(), uid: uid.to_owned(), number, run: run.clone() }
    }

    /// A process reconciles the deletion of an object (K-25g). `owns` says whether it owns a value now.
    pub(crate) fn missing(
        &self,
        run: &Arc<str>,
        (namespace, name): (&str, &str),
        owns: impl Fn(&str) -> bool,
    ) {
        self.read();
        let key = format!("{namespace}/{name}");
        let mut state = self.state.lock();
        let uids = state.uids.get(&key);
        let was_here = uids.is_some_and(|uids| uids.iter().any(|uid| owns(self.hashed(namespace, uid))));
        state.missing.push((run.clone(), key.clone()));
        drop(state);
        if !was_here {
            self.violation(format_args!("{run} misses {key}, which it has not had"));
        }
    }

    /// Takes the deletions that were reconciled.
    pub(crate) fn take_missing(&self) -> BTreeSet<(Arc<str>, String)> {
        std::mem::take(&mut self.state.lock().missing).into_iter().collect()
    }

    /// Which process has reconciled an object last, and the value that it has read.
    pub(crate) fn last(&self, uid: &str) -> Option<(Arc<str>, String)> {
        self.state.lock().last.get(uid).cloned()
    }
}

impl State {
    fn read_table(&mut self, change: &Change) {
        let annotations = change.after.as_ref().and_then(|lease| field(lease, ["metadata", "annotations"]));
        let annotations = annotations.and_then(Value::as_object).into_iter().flatten();
        let annotations =
            annotations.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
        // While there is none, the owners are those of the last one.
        let Ok(table) = Table::parse(&annotations.collect()) else { return };
        for (owner, slot) in self.owners.iter_mut().zip(table.slots()) {
            if slot.owner.is_some() {
                owner.clone_from(&slot.owner);
            }
        }
    }
}

impl Active {
    /// The reconciliation goes on after an await (K-25b, K-25c).
    pub(crate) fn goes_on(&self) {
        let Self { judge, uid, number, run } = self;
        let other = judge.state.lock().active.get(uid).filter(|(now, _)| now != number).cloned();
        if let Some((_, other)) = other {
            judge.violation(format_args!("{run} goes on to reconcile {uid} after {other} has begun"));
        }
    }

    /// The reconciliation has been successful, with this value.
    pub(crate) fn succeeded(&self, value: String) {
        self.judge.state.lock().last.insert(self.uid.clone(), (self.run.clone(), value));
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let mut state = self.judge.state.lock();
        if state.active.get(&self.uid).is_some_and(|(number, _)| *number == self.number) {
            state.active.remove(&self.uid);
        }
    }
}

/// The Lease with the table.
pub(crate) fn table_key() -> Key {
    Key::new("leases", NAMESPACE, RING)
}
