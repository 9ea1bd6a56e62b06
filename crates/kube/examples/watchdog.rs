//! A simple informer without the shared-informer crate: a reflector fills a DeltaFIFO, a loop applies its deltas to a
//! store and prints each change. The program ends by itself.
//!
//! `cargo run -p kinformer-kube --example watchdog`
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_delta_fifo::DeltaFifo;
use kinformer_kube::{KubeListerWatcher, KubeObject};
use kinformer_reflector::Reflector;
use kinformer_store::Indexer;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = common::Cluster::connect().await?;
    let store: Arc<Indexer<KubeObject<ConfigMap>>> = Arc::new(Indexer::new());
    let queue = DeltaFifo::builder().known_objects(store.clone()).build();

    let source = KubeListerWatcher::new(cluster.client.clone()).namespace("default");
    let reflector = Reflector::new("watchdog", source, queue.clone());
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));

    let mut changed = false;
    // This example ends after two seconds without a change.
    while let Ok(popped) = tokio::time::timeout(Duration::from_secs(2), queue.pop()).await {
        let mut popped = popped?;
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
        drop(popped);
        if queue.has_synced() && !changed {
            println!("synced with {} objects", store.len());
            changed = true;
            cluster.change_objects()?;
        }
    }
    cancel.cancel();
    running.await?;
    println!("{} objects in the end", store.len());
    cluster.stop().await;
    Ok(())
}
