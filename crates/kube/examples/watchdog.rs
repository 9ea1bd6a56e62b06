//! A simple informer made by hand: list and watch into a DeltaFIFO, out of it into a store, and a word about each
//! change on the way. Ends by itself.
//!
//! `cargo run -p kinformer-kube --example watchdog`

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

    let mut alive = false;
    // What is quiet for two seconds has ended, as far as this example goes.
    while let Ok(popped) = tokio::time::timeout(Duration::from_secs(2), queue.pop()).await {
        let mut popped = popped?;
        let applied = store.apply(popped.take());
        for change in &applied.changes {
            let kind = change.delta.delta_type();
            let key = change.key().map(|key| key.to_string()).unwrap_or_default();
            match (&change.old, change.new_state()) {
                (None, Some(_)) => println!("{kind}: {key} is new"),
                (Some(_), Some(_)) => println!("{kind}: {key} was there before"),
                (Some(_), None) => println!("{kind}: {key} is gone"),
                (None, None) => println!("{kind}: {key} was never there"),
            }
        }
        applied.report.into_result()?;
        drop(popped);
        if queue.has_synced() && !alive {
            println!("synced with {} objects", store.len());
            alive = true;
            cluster.live()?;
        }
    }
    cancel.cancel();
    running.await?;
    println!("{} objects in the end", store.len());
    cluster.stop().await;
    Ok(())
}
