//! What the benches share: objects, an indexer over them, and the baseline.
//!
//! Every figure is a ratio against the baseline measured in the same run: a lock around hash maps, laid out as
//! client-go 1.37 does it (`threadSafeMap`: a map of objects, and for each index a map of values to sets of
//! keys; a list looks up each key under the lock).

#![expect(clippy::indexing_slicing, reason = "fixtures: every index is modulo the length")]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kinformer_core::{KeyRef, Object, ResourceVersion};
use kinformer_store::{IndexFunction, Indexer};
use parking_lot::RwLock;

/// A small object, so that what is measured is the bookkeeping.
#[derive(Debug)]
pub struct Pod {
    key: Arc<str>,
    values: [u32; INDEXES],
    version: u64,
}

/// How many indexes there are at most: by namespace, by 1 of 500 nodes, of 50 apps, of 5 phases.
pub const INDEXES: usize = 4;

const NAMESPACE: &str = "default";

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new(NAMESPACE, self.key.get(NAMESPACE.len() + 1..).unwrap_or_default())
    }

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::number(self.version)
    }
}

impl Pod {
    /// A number out of the object, so that a walk has to touch it.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The value of one index.
    fn value(&self, index: usize) -> &'static str {
        const NAMES: &[&str] = &NAMES_OF_500;
        let value = self.values.get(index).copied().unwrap_or_default();
        NAMES.get(value as usize).copied().unwrap_or(NAMESPACE)
    }
}

/// Deterministic keys such as `default/xkqz…`, 20 letters each, as a deployment names its pods.
pub fn keys(n: usize) -> Vec<Arc<str>> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b"bcdfghjklmnpqrst"[(state >> 20) as usize % 16])
    };
    (0..n)
        .map(|_| {
            format!("{NAMESPACE}/{}", std::iter::repeat_with(&mut letter).take(20).collect::<String>()).into()
        })
        .collect()
}

/// The object number `i` in a version.
pub fn pod(keys: &[Arc<str>], i: usize, version: u64) -> Arc<Pod> {
    let (i, key) = (i % keys.len(), keys[i % keys.len()].clone());
    let n = i as u32;
    Arc::new(Pod { key, values: [0, n % 500, n % 50, n % 5], version })
}

/// The same object on another node, in another app and phase.
pub fn moved(keys: &[Arc<str>], i: usize, version: u64) -> Arc<Pod> {
    let key = keys[i % keys.len()].clone();
    let n = (i as u32).wrapping_add(version as u32);
    Arc::new(Pod { key, values: [0, n % 500, n % 50, n % 5], version })
}

/// Visits the numbers below `n` in an order that caches do not like.
pub fn pick(i: usize, n: usize) -> usize {
    (i * 104_729 + 7) % n
}

/// The name of an index.
pub fn index_name(index: usize) -> &'static str {
    ["namespace", "node", "app", "phase"][index]
}

/// Ours, empty.
pub fn indexer(indexes: usize) -> Indexer<Pod> {
    let mut builder = Indexer::builder();
    for index in 0..indexes {
        let function = IndexFunction::new(move |pod: &Pod, values| values.push(pod.value(index)));
        builder = builder.index(index_name(index), function);
    }
    builder.build().unwrap_or_default()
}

/// Ours with the objects in it.
pub fn filled(keys: &[Arc<str>], indexes: usize) -> Indexer<Pod> {
    let store = indexer(indexes);
    (0..keys.len()).for_each(|i| drop(store.add(pod(keys, i, 0))));
    store
}

/// A lock around hash maps.
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
    /// Empty.
    pub fn new(indexes: usize) -> Self {
        let maps = Maps { objects: HashMap::new(), indexes: (0..indexes).map(|_| HashMap::new()).collect() };
        Self { state: RwLock::new(maps), indexes }
    }

    /// With the objects in it.
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

    /// One object.
    pub fn get(&self, key: &str) -> Option<Arc<Pod>> {
        self.state.read().objects.get(key).cloned()
    }

    /// All objects.
    pub fn list(&self) -> Vec<Arc<Pod>> {
        self.state.read().objects.values().cloned().collect()
    }

    /// The objects under a value of an index, by reference, under the lock.
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

/// Index values are string constants, so that an index function costs what it does in life: no formatting.
const NAMES_OF_500: [&str; 500] = names();

const fn names() -> [&'static str; 500] {
    const DIGITS: &[u8; 1500] = &digits();
    let mut names = [""; 500];
    let mut i = 0;
    while i < 500 {
        let (_, rest) = DIGITS.split_at(i * 3);
        let (name, _) = rest.split_at(3);
        names[i] = match std::str::from_utf8(name) {
            Ok(name) => name,
            Err(_) => "",
        };
        i += 1;
    }
    names
}

const fn digits() -> [u8; 1500] {
    let mut digits = [b'0'; 1500];
    let mut i = 0;
    while i < 500 {
        digits[i * 3] += (i / 100) as u8;
        digits[i * 3 + 1] += (i / 10 % 10) as u8;
        digits[i * 3 + 2] += (i % 10) as u8;
        i += 1;
    }
    digits
}
