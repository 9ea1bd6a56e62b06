//! A DeltaFIFO of an own type, without Kubernetes: what accumulates, what a list replaces, and what known objects add.
//!
//! The program ends by itself.
//!
//! `cargo run -p kinformer-delta-fifo --example delta_fifo`
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::collections::BTreeMap;
use std::sync::Arc;

use kinformer_core::{Delta, KeyRef, KnownObjects, Object, ObjectKey, Replacement};
use kinformer_delta_fifo::{DeltaFifo, Popped, RealFifo};
use parking_lot::Mutex;

struct Pod {
    name: String,
    value: u32,
}

/// The key function: two states with the same key are states of the same object.
impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new("default", &self.name)
    }
}

fn pod(name: &str, value: u32) -> Pod {
    Pod { name: name.to_owned(), value }
}

fn list(pods: Vec<Pod>) -> Replacement<Pod> {
    Replacement::new(pods.into_iter().map(Arc::new).collect(), "1")
}

/// The consumer's store, which the queue queries when it receives a list.
#[derive(Default)]
struct Stored(Mutex<BTreeMap<String, Arc<Pod>>>);

impl KnownObjects<Pod> for Stored {
    fn keys(&self) -> Vec<ObjectKey> {
        self.0.lock().keys().filter_map(|key| key.parse().ok()).collect()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<Pod>> {
        self.0.lock().get(&key.to_string()).cloned()
    }
}

impl Stored {
    fn apply(&self, delta: &Delta<Pod>) {
        let Some(key) = delta.key() else { return };
        let mut stored = self.0.lock();
        match delta {
            Delta::Deleted(_) => drop(stored.remove(&key.to_string())),
            other => drop(other.object().map(|pod| stored.insert(key.to_string(), pod.clone()))),
        }
    }
}

fn print(popped: &Popped<Pod>) {
    let deltas = popped.iter().map(|delta| match (delta.object(), delta.key()) {
        (Some(pod), Some(key)) => format!("{} {key} value={}", delta.delta_type(), pod.value),
        (None, Some(key)) => format!("{} {key}", delta.delta_type()),
        (_, None) => delta.delta_type().to_string(),
    });
    let initial = if popped.in_initial_list() { "  (initial list)" } else { "" };
    println!("  pop: [{}]{initial}", deltas.collect::<Vec<_>>().join(", "));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("# DeltaFIFO without known objects: the deltas of a key accumulate in one place");
    let queue = DeltaFifo::new();
    queue.add(pod("web", 1))?.into_result()?;
    queue.update(pod("web", 2))?.into_result()?;
    queue.add(pod("db", 1))?.into_result()?;
    queue.delete(pod("web", 2))?.into_result()?;
    while let Some(popped) = queue.try_pop()? {
        print(&popped);
    }

    println!("# Replace without known objects: only queued objects are detected as deleted");
    queue.add(pod("queued", 1))?.into_result()?;
    queue.replace(list(vec![pod("web", 3)]))?.into_result()?;
    while let Some(popped) = queue.try_pop()? {
        print(&popped);
    }

    println!("# Replace with known objects: every object missing from the list is detected as deleted");
    let stored = Arc::new(Stored::default());
    let queue = DeltaFifo::builder().known_objects(stored.clone()).build();
    for list in [list(vec![pod("web", 1), pod("db", 1)]), list(vec![pod("web", 2)])] {
        queue.replace(list)?.into_result()?;
        while let Some(popped) = queue.try_pop()? {
            print(&popped);
            popped.iter().for_each(|delta| stored.apply(delta));
        }
    }

    println!("# Resync: re-delivers every known object");
    queue.resync()?;
    while let Some(popped) = queue.try_pop()? {
        print(&popped);
    }

    println!("# RealFIFO: all deltas in order of arrival, popped in batches of distinct keys");
    let queue = RealFifo::new();
    queue.replace(list(vec![pod("web", 1)]))?.into_result()?;
    queue.update(pod("web", 2))?.into_result()?;
    queue.add(pod("db", 1))?.into_result()?;
    queue.update(pod("web", 3))?.into_result()?;
    queue.bookmark("7")?;
    queue.close();
    while let Ok(Some(popped)) = queue.try_pop_batch(1000) {
        print(&popped);
    }
    println!("closed and drained: {:?}", queue.try_pop().err());
    Ok(())
}
