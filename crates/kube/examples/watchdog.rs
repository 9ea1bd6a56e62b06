//! A simple informer by hand: a reflector fills a DeltaFIFO, and a loop applies its deltas to a store and prints each change.
//!
//! The queue knows the objects of the store. The store is written first, and the `Popped` is dropped after that: until then
//! its deltas count as in flight, so that a list that arrives meanwhile takes them into account. The program ends by itself.
//!
//! `cargo run -p kinformer-kube --example watchdog`
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_core::Object;
use kinformer_delta_fifo::{DeltaFifo, Popped};
use kinformer_kube::{KubeListerWatcher, KubeObject};
use kinformer_reflector::Reflector;
use kinformer_store::Indexer;
use tokio_util::sync::CancellationToken;

type Map = KubeObject<ConfigMap>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = common::Cluster::connect().await?;
    let store: Arc<Indexer<Map>> = Arc::new(Indexer::new());
    let queue = DeltaFifo::builder().known_objects(store.clone()).build();

    let source = KubeListerWatcher::new(cluster.client.clone()).namespace("default");
    let reflector = Reflector::new("watchdog", source, queue.clone());
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));

    while !queue.has_synced() {
        apply(&store, queue.pop().await?)?;
    }
    println!("synced with {} objects", store.len());
    for _ in 0..cluster.change_objects()? {
        apply(&store, queue.pop().await?)?;
    }
    cancel.cancel();
    let reason = running.await?;
    println!("stopped: {reason:?}; the store has {} objects:", store.len());
    for map in store.snapshot().ordered() {
        println!("  {}", map.key());
    }
    cluster.stop().await;
    Ok(())
}

/// Applies the deltas of one object to the store, and prints what they have changed.
fn apply(store: &Indexer<Map>, mut popped: Popped<Map>) -> Result<(), Box<dyn std::error::Error>> {
    let applied = store.apply(popped.take());
    for change in &applied.changes {
        let kind = change.delta.delta_type();
        let key = change.key().map(|key| key.to_string()).unwrap_or_default();
        match (&change.old, change.new_state()) {
            (None, Some(_)) => println!("{kind}: {key} was added"),
            (Some(_), Some(_)) => println!("{kind}: {key} was updated"),
            (Some(_), None) => println!("{kind}: {key} was deleted"),
            (None, None) => println!("{kind}: {key} was not stored"),
        }
    }
    applied.errors.into_result()?;
    Ok(()) // drops the `Popped`
}
