//! A list followed by a watch, without a reflector: what a reflector does when nothing fails.
//!
//! The watch begins at the version of the list, so that no change between the two is missed. The program ends by itself.
//!
//! `cargo run -p kinformer-kube --example list_watch`
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_core::Object;
use kinformer_kube::KubeListerWatcher;
use kinformer_reflector::{ListOptions, ListerWatcher, WatchEvent, WatchOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = common::Cluster::connect().await?;
    let maps = KubeListerWatcher::<ConfigMap>::new(cluster.client.clone()).namespace("default");

    let list = maps.list(ListOptions::at_version("")).await?;
    println!("listed {} objects at version {}", list.objects.len(), list.resource_version);

    let changes = cluster.change_objects()?; // before the watch, which delivers them nevertheless
    // The server ends the watch after this time.
    let mut watch = maps.watch(WatchOptions::from(list.resource_version, Duration::from_secs(10))).await?;
    for _ in 0..changes {
        match watch.try_next().await?.ok_or("the watch has ended")? {
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
