//! A watch, without a list before it and without a reflector.
//!
//! A watch-list begins with all objects, as additions, and a bookmark ends them; the changes follow on the same connection.
//! Each event has a version. A watch that ends is continued by a new one from the last version: no event is missed, and
//! none is delivered twice. A version that is too old is refused as expired; then only a list helps, which is what a
//! reflector does. The program ends by itself.
//!
//! `cargo run -p kinformer-kube --example watch`
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_core::{Object, ResourceVersion};
use kinformer_kube::{KubeListerWatcher, KubeObject};
use kinformer_reflector::{ListerWatcher, WatchEvent, WatchOptions};

/// After this time the server ends a watch, which happens here on a cluster without changes.
const TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = common::Cluster::connect().await?;
    let maps = KubeListerWatcher::<ConfigMap>::new(cluster.client.clone()).namespace("default");

    println!("# all objects, then the changes");
    let mut watch = maps.watch(WatchOptions::from("", TIMEOUT).with_initial_events()).await?;
    let mut last = ResourceVersion::UNSET;
    while let Some(event) = watch.try_next().await? {
        print(&event);
        match event {
            WatchEvent::Bookmark { version, initial_events_end: true } => {
                last = version;
                cluster.change_objects()?; // the next event
            }
            WatchEvent::Added(map) if !last.is_unset() => {
                last = map.resource_version();
                break; // the connection is closed before the other changes are delivered
            }
            _ => {}
        }
    }
    drop(watch);

    println!("# the changes since then, by another watch");
    let mut watch = maps.watch(WatchOptions::from(last, TIMEOUT)).await?;
    while let Some(event) = watch.try_next().await? {
        print(&event);
        if matches!(event, WatchEvent::Deleted(_)) {
            break;
        }
    }
    cluster.stop().await;
    Ok(())
}

fn print(event: &WatchEvent<KubeObject<ConfigMap>>) {
    match event {
        WatchEvent::Added(map) => println!("added {}", map.key()),
        WatchEvent::Modified(map) => println!("modified {}: {:?}", map.key(), map.0.data),
        WatchEvent::Deleted(map) => println!("deleted {}", map.key()),
        WatchEvent::Bookmark { initial_events_end: true, .. } => println!("end of the initial events"),
        WatchEvent::Bookmark { .. } => println!("bookmark: the watch has reached a version"),
        other => println!("{other:?}"),
    }
}
