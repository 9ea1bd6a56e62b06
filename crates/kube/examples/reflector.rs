//! A reflector that keeps a store equal to a cluster. The program ends by itself.
//!
//! `cargo run -p kinformer-kube --example reflector`
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_core::Object;
use kinformer_kube::{KubeListerWatcher, KubeObject};
use kinformer_reflector::Reflector;
use kinformer_store::{IndexFunction, Indexer, NAMESPACE_INDEX};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = common::Cluster::connect().await?;
    let store = Indexer::builder().index(NAMESPACE_INDEX, IndexFunction::by_namespace()).build()?;
    let store: Arc<Indexer<KubeObject<ConfigMap>>> = Arc::new(store);
    let reflector =
        Reflector::new("config-maps", KubeListerWatcher::new(cluster.client.clone()), store.clone());
    let (handle, cancel) = (reflector.handle(), CancellationToken::new());
    let running = tokio::spawn(reflector.run(cancel.clone()));

    tokio::time::timeout(Duration::from_secs(30), handle.wait_for_sync()).await??;
    println!(
        "synced: {} config maps in namespace default",
        store.snapshot().index_len(NAMESPACE_INDEX, "default")?
    );

    cluster.change_objects()?;
    // Waits a second for changes; a controller would use handlers instead.
    let waited = tokio::time::timeout(Duration::from_secs(1), handle.stopped()).await;
    println!("{}", if waited.is_err() { "after a second:" } else { "the reflector has stopped:" });
    for map in store.snapshot().ordered_in("default") {
        println!("  {} at version {}", map.key(), map.resource_version());
    }
    println!("{:?}", handle.metrics());
    cancel.cancel();
    running.await?;
    cluster.stop().await;
    Ok(())
}
