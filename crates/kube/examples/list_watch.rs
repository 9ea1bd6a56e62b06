//! A list followed by a watch, without a reflector. The program ends by itself.
//!
//! `cargo run -p kinformer-kube --example list_watch`
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_core::Object;
use kinformer_kube::KubeListerWatcher;
use kinformer_reflector::{ListOptions, ListerWatcher, WatchEvent, WatchOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = common::Cluster::connect().await?;
    let maps = KubeListerWatcher::<ConfigMap>::new(cluster.client.clone()).namespace("default");

    let list = maps.list(ListOptions::at_version("")).await?;
    println!("{} objects at version {}", list.objects.len(), list.resource_version);

    // The server ends the watch after this time.
    let mut watch = maps.watch(WatchOptions::from(list.resource_version, Duration::from_secs(1))).await?;
    cluster.change_objects()?;
    while let Some(event) = watch.next().await {
        match event? {
            WatchEvent::Added(map) => println!("added {}", map.key()),
            WatchEvent::Modified(map) => {
                println!("modified {} to version {}", map.key(), map.resource_version());
            }
            WatchEvent::Deleted(map) => println!("deleted {}", map.key()),
            other => println!("{other:?}"),
        }
    }
    cluster.stop().await;
    Ok(())
}
