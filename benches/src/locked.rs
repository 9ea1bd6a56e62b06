//! The baseline: a lock around hash maps.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::pods::{Pod, pod};

/// The baseline store: a lock around hash maps.
#[derive(Default)]
pub struct Locked {
    state: RwLock<Maps>,
    indexes: usize,
}

#[derive(Default)]
struct Maps {
    objects: HashMap<String, Arc<Pod>>,
    indexes: Vec<HashMap<String, HashSet<String>>>,
}

impl Locked {
    /// Creates an empty store.
    pub fn new(indexes: usize) -> Self {
        let maps = Maps { objects: HashMap::new(), indexes: (0..indexes).map(|_| HashMap::new()).collect() };
        Self { state: RwLock::new(maps), indexes }
    }

    /// Creates a store with these objects.
    pub fn filled(keys: &[Arc<str>], indexes: usize) -> Self {
        let store = Self::new(indexes);
        (0..keys.len()).for_each(|i| store.update(pod(keys, i, 0)));
        store
    }

    /// Stores an object.
    pub fn update(&self, pod: Arc<Pod>) {
        let mut state = self.state.write();
        let key = pod.key.to_string();
        let old = state.objects.insert(key.clone(), pod.clone());
        for index in 0..self.indexes {
            let (before, now) = (old.as_ref().map(|old| old.value(index)), pod.value(index));
            if before == Some(now) {
                continue;
            }
            if let Some(before) = before {
                state.unlink(index, before, &key);
            }
            if let Some(values) = state.indexes.get_mut(index) {
                values.entry(now.to_owned()).or_default().insert(key.clone());
            }
        }
    }

    /// Removes an object.
    pub fn delete(&self, key: &str) {
        let mut state = self.state.write();
        if let Some(old) = state.objects.remove(key) {
            (0..self.indexes).for_each(|index| state.unlink(index, old.value(index), key));
        }
    }

    /// Returns one object.
    pub fn get(&self, key: &str) -> Option<Arc<Pod>> {
        self.state.read().objects.get(key).cloned()
    }

    /// Returns all objects.
    pub fn list(&self) -> Vec<Arc<Pod>> {
        self.state.read().objects.values().cloned().collect()
    }

    /// Visits the objects with an index value by reference, under the lock.
    pub fn visit(&self, index: usize, value: &str, mut visit: impl FnMut(&Arc<Pod>)) {
        let state = self.state.read();
        let keys = state.indexes.get(index).and_then(|values| values.get(value)).into_iter().flatten();
        keys.filter_map(|key| state.objects.get(key)).for_each(&mut visit);
    }
}

impl Maps {
    fn unlink(&mut self, index: usize, value: &str, key: &str) {
        let Some(values) = self.indexes.get_mut(index) else { return };
        if let Some(keys) = values.get_mut(value) {
            keys.remove(key);
            if keys.is_empty() {
                values.remove(value);
            }
        }
    }
}
