//! Two reflectors fill a DeltaFIFO each: one without and one with known objects.
//!
//! A reflector lists and watches, and passes both on as deltas. A list becomes a `Replaced` for each of its objects. What
//! is missing from it must have been deleted, but the queue can only notice that if it knows which objects its consumer
//! has: then it delivers a tombstone, with the last known state. A resync delivers a `Sync` for each known object. The
//! program ends by itself.
//!
//! `cargo run -p kinformer-kube --example reflector`
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_core::{Delta, Object};
use kinformer_delta_fifo::DeltaFifo;
use kinformer_kube::{KubeListerWatcher, KubeObject};
use kinformer_reflector::Reflector;
use kinformer_store::Indexer;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

type Map = KubeObject<ConfigMap>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = common::Cluster::connect().await?;
    let unknown = DeltaFifo::new();
    let store: Arc<Indexer<Map>> = Arc::new(Indexer::new());
    let known = DeltaFifo::builder().known_objects(store.clone()).build();

    println!("# the first list");
    reflect(&cluster, &unknown, &known, &store).await?;
    // Without a reflector: their watches do not deliver these changes.
    cluster.change_objects()?;
    println!("# the next list, after changes that no watch has delivered");
    reflect(&cluster, &unknown, &known, &store).await?;

    println!("# a resync");
    unknown.resync()?;
    println!("without known objects: {} deltas", unknown.depth());
    known.resync()?;
    print("with known objects", &known, Some(&store))?;
    cluster.stop().await;
    Ok(())
}

/// Runs a reflector for each queue until their first lists are delivered.
async fn reflect(
    cluster: &common::Cluster,
    unknown: &DeltaFifo<Map>,
    known: &DeltaFifo<Map>,
    store: &Indexer<Map>,
) -> Result<(), Box<dyn std::error::Error>> {
    let (cancel, mut running) = (CancellationToken::new(), JoinSet::new());
    for queue in [unknown, known] {
        let source = KubeListerWatcher::<ConfigMap>::new(cluster.client.clone()).namespace("default");
        let reflector = Reflector::new("config maps", source, queue.clone());
        let handle = reflector.handle();
        running.spawn(reflector.run(cancel.clone()));
        handle.wait_for_sync().await?; // the queue has the list
    }
    print("without known objects", unknown, None)?;
    print("with known objects", known, Some(store))?;
    cancel.cancel();
    running.join_all().await; // their watches are closed
    Ok(())
}

/// Prints all deltas of a queue, and applies them to the store that it knows.
fn print(
    title: &str,
    queue: &DeltaFifo<Map>,
    store: Option<&Indexer<Map>>,
) -> Result<(), Box<dyn std::error::Error>> {
    println!("{title}:");
    while let Some(mut popped) = queue.try_pop()? {
        for delta in popped.deltas() {
            println!("  {}", text(delta));
        }
        if let Some(store) = store {
            store.apply(popped.take()).errors.into_result()?;
        }
        // The `Popped` is dropped: its object is processed, and the store has it.
    }
    Ok(())
}

fn text(delta: &Delta<Map>) -> String {
    let kind = delta.delta_type();
    let data = |map: &Map| {
        format!("{kind} {} {:?}", map.key(), map.0.data.as_ref().and_then(|data| data.get("key")))
    };
    match delta {
        Delta::Deleted(tombstone) if tombstone.is_final_state_unknown() => {
            let last = tombstone.object().map(|map| data(map)).unwrap_or_default();
            format!("{last}: a tombstone with the last known state, the final state is unknown")
        }
        delta => delta.object().map_or_else(|| kind.to_string(), |map| data(map)),
    }
}
