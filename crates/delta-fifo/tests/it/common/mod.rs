//! Shared by the queue tests: an object, the text form of deltas, and a consumer.

pub mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;

use kinformer_core::{
    Delta, Error, KeyRef, KnownObjects, Object, ObjectKey, PartialErrors, Replacement, ResourceVersion,
    Tombstone,
};
use kinformer_delta_fifo::{Popped, Queue};
use parking_lot::Mutex;

/// Single deltas by client-go's names, on any queue.
pub trait WriteOne<T: Object> {
    fn one(&self, delta: Delta<T>) -> Result<PartialErrors, Error>;

    fn add(&self, object: Arc<T>) -> Result<PartialErrors, Error> {
        self.one(Delta::Added(object))
    }

    fn update(&self, object: Arc<T>) -> Result<PartialErrors, Error> {
        self.one(Delta::Updated(object))
    }

    fn delete(&self, tombstone: Tombstone<Arc<T>>) -> Result<PartialErrors, Error> {
        self.one(Delta::Deleted(tombstone))
    }

    fn replace(&self, list: Replacement<T>) -> Result<PartialErrors, Error>;

    fn resync(&self) -> Result<(), Error> {
        self.one(Delta::SyncAll).map(drop)
    }
}

impl<T: Object> WriteOne<T> for dyn Queue<T> + '_ {
    fn one(&self, delta: Delta<T>) -> Result<PartialErrors, Error> {
        self.apply(delta.into())?.require_applied()
    }

    fn replace(&self, list: Replacement<T>) -> Result<PartialErrors, Error> {
        self.apply(Delta::ReplacedAll(Box::new(list)).into())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    pub name: String,
    pub value: u32,
}

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(&self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        match self.value {
            0 => ResourceVersion::UNSET,
            value => ResourceVersion::number(value.into()),
        }
    }
}

pub fn pod(name: &str, value: u32) -> Arc<Pod> {
    Arc::new(Pod { name: name.into(), value })
}

pub fn unknown(name: &str, last_known: Option<Arc<Pod>>) -> Tombstone<Arc<Pod>> {
    Tombstone::final_state_unknown(name.parse().unwrap(), last_known)
}

pub fn list(pods: &[(&str, u32)]) -> Replacement<Pod> {
    Replacement::new(pods.iter().map(|(name, value)| pod(name, *value)).collect(), "1")
}

/// A delta as text: `Added a=1`, `Deleted a=1`, `Deleted ?a=1`, `Deleted ?a`, `ReplacedAll a=1 b=2 @1`.
pub fn text(delta: &Delta<Pod>) -> String {
    let state = |pod: &Arc<Pod>| format!("{}={}", pod.name, pod.value);
    let kind = delta.delta_type();
    match delta {
        Delta::Deleted(Tombstone::FinalStateUnknown(missed)) => match &missed.last_known {
            Some(pod) => format!("{kind} ?{}", state(pod)),
            None => format!("{kind} ?{}", missed.key),
        },
        Delta::ReplacedAll(all) => {
            let pods: Vec<_> = all.objects.iter().map(state).collect();
            format!("{kind} {} @{}", pods.join(" "), all.resource_version)
        }
        Delta::Bookmark { resource_version: version, .. } => format!("{kind} @{version}"),
        Delta::SyncAll => kind.to_string(),
        other => format!("{kind} {}", state(other.object().unwrap())),
    }
}

pub fn texts(popped: &Popped<Pod>) -> Vec<String> {
    popped.deltas().iter().map(text).collect()
}

/// A consumer: the map that it builds from the deltas, and the events of its handlers.
#[derive(Default)]
pub struct Consumer {
    pub store: Mutex<BTreeMap<String, Arc<Pod>>>,
    pub events: Mutex<Vec<(String, String)>>,
}

impl Consumer {
    fn event(&self, name: &str, event: String) {
        self.events.lock().push((name.to_owned(), event));
    }

    fn set(&self, pod: &Arc<Pod>, event: &str) {
        let old = self.store.lock().insert(pod.name.clone(), pod.clone());
        let event = match (old, event) {
            (None, _) => format!("add {}", pod.value),
            (Some(old), event) => format!("{event} {}>{}", old.value, pod.value),
        };
        self.event(&pod.name, event);
    }

    fn delete(&self, name: &str) {
        if let Some(old) = self.store.lock().remove(name) {
            self.event(name, format!("delete {}", old.value));
        }
    }

    /// Applies one delta as a controller does.
    pub fn apply(&self, delta: &Delta<Pod>) {
        match delta {
            Delta::Added(pod) | Delta::Updated(pod) | Delta::Replaced(pod) => self.set(pod, "update"),
            Delta::Sync(pod) => {
                let stored = self.store.lock().get(&pod.name).cloned();
                assert!(
                    stored.as_ref().is_none_or(|stored| Arc::ptr_eq(stored, pod)),
                    "a stale copy of {} was queued again: {stored:?}",
                    pod.name
                );
                self.set(pod, "sync");
            }
            Delta::Deleted(tombstone) => self.delete(tombstone.key().name()),
            Delta::ReplacedAll(all) => {
                let kept = |name: &str| {
                    all.objects.iter().any(|pod| pod.name == name)
                        || all.undelivered.iter().any(|key| key.name() == name)
                        || !all.is_complete()
                };
                let missing: Vec<_> = self.store.lock().keys().filter(|name| !kept(name)).cloned().collect();
                missing.iter().for_each(|name| self.delete(name));
                all.objects.iter().for_each(|pod| self.set(pod, "update"));
            }
            Delta::SyncAll => {
                let all: Vec<_> = self.store.lock().values().cloned().collect();
                all.iter().for_each(|pod| self.set(pod, "sync"));
            }
            Delta::Bookmark { .. } => {}
            other => panic!("a new kind of delta: {other:?}"),
        }
    }

    pub fn process(&self, popped: Popped<Pod>) {
        popped.deltas().iter().for_each(|delta| self.apply(delta));
    }

    pub fn state(&self) -> BTreeMap<String, u32> {
        self.store.lock().iter().map(|(name, pod)| (name.clone(), pod.value)).collect()
    }
}

impl KnownObjects<Pod> for Consumer {
    fn keys(&self) -> Vec<ObjectKey> {
        self.store.lock().keys().map(|name| name.parse().unwrap()).collect()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<Pod>> {
        self.store.lock().get(key.name()).cloned()
    }
}
