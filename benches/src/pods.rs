//! The objects, and an indexer with them.
#![expect(clippy::indexing_slicing, reason = "fixtures: every index is modulo the length")]

use std::sync::Arc;

use kinformer_core::{KeyRef, Object, ResourceVersion};
use kinformer_store::{IndexFunction, Indexer};

use crate::names::NAMES_OF_500;

/// A small object, so that the bookkeeping dominates the measurement.
#[derive(Debug)]
pub struct Pod {
    pub(crate) key: Arc<str>,
    values: [u32; INDEXES],
    version: u64,
}

/// The largest number of indexes: by namespace, by 1 of 500 nodes, of 50 apps, of 5 phases.
pub const INDEXES: usize = 4;

const NAMESPACE: &str = "default";

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        key(&self.key)
    }

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::number(self.version)
    }
}

impl Pod {
    /// A value of the object, so that a walk has to read it.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the value of one index.
    pub(crate) fn value(&self, index: usize) -> &'static str {
        const NAMES: &[&str] = &NAMES_OF_500;
        let value = self.values.get(index).copied().unwrap_or_default();
        NAMES.get(value as usize).copied().unwrap_or(NAMESPACE)
    }
}

/// Parses one of [`keys`].
pub fn key(text: &str) -> KeyRef<'_> {
    KeyRef::new(NAMESPACE, text.get(NAMESPACE.len() + 1..).unwrap_or_default())
}

/// Deterministic keys such as `default/xkqz…`, with 20 letters each, like the pods of a deployment.
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

/// Object number `i` in a version.
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

/// Visits the numbers below `n` in a cache-unfriendly order.
pub fn pick(i: usize, n: usize) -> usize {
    (i * 104_729 + 7) % n
}

/// The name of an index.
pub fn index_name(index: usize) -> &'static str {
    ["namespace", "node", "app", "phase"][index]
}

/// Creates an empty indexer.
pub fn indexer(indexes: usize) -> Indexer<Pod> {
    let mut builder = Indexer::builder();
    for index in 0..indexes {
        let function = IndexFunction::new(move |pod: &Arc<Pod>, values| values.push(pod.value(index)));
        builder = builder.index(index_name(index), function);
    }
    builder.build().unwrap_or_default()
}

/// Creates an indexer with these objects.
pub fn filled(keys: &[Arc<str>], indexes: usize) -> Indexer<Pod> {
    let store = indexer(indexes);
    (0..keys.len()).for_each(|i| drop(store.add(pod(keys, i, 0))));
    store
}
