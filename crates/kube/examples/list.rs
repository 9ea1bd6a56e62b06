//! Four ways to list: everything in one answer, page by page, by a selector, and metadata only.
//!
//! A list is one state of the cluster, and its version says which one: a watch continues from there. Pages are parts of
//! the same state, and a `Pager` reads them one by one, so that a large list is never in memory as a whole. A selector is
//! evaluated by the server. Objects that cannot be decoded do not fail the list; they are listed apart. The program ends
//! by itself.
//!
//! `cargo run -p kinformer-kube --example list`
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use std::num::NonZeroU32;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_core::Object;
use kinformer_kube::KubeListerWatcher;
use kinformer_reflector::{ListOptions, ListerWatcher, Pager};
use kube_core::ApiResource;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = common::Cluster::connect().await?;
    let maps = KubeListerWatcher::<ConfigMap>::new(cluster.client.clone()).namespace("default");

    println!("# all objects, of the newest state");
    let list = maps.list(ListOptions::at_version("")).await?;
    for map in &list.objects {
        println!("{}: {:?}", map.key(), map.0.data); // a KubeObject wraps the object
    }
    println!("{} objects, {} undecodable", list.objects.len(), list.undecodable.len());

    println!("# in pages of two, as a stream");
    let two = NonZeroU32::new(2).ok_or("not a page size")?;
    let mut pages = Pager::new(maps.clone()).page_size(two).pages();
    while let Some(page) = pages.try_next().await? {
        let keys: Vec<String> = page.objects.iter().map(|map| map.key().to_string()).collect();
        println!("a page: {}", keys.join(", "));
    }

    println!("# by hand: each answer has the token of the next page, of the same state");
    let mut options = ListOptions::at_version("");
    options.limit = Some(two);
    let first = maps.list(options.clone()).await?;
    cluster.change_objects()?; // the second page does not show these changes
    options.continue_token = first.continue_token;
    let second = maps.list(options).await?;
    println!("{} objects, then {}", first.objects.len(), second.objects.len());
    println!("of one version: {}", first.resource_version == second.resource_version);

    println!("# by a selector");
    let selected = maps.clone().fields("metadata.name=settings-3");
    for map in selected.list(ListOptions::at_version("")).await?.objects {
        println!("{}", map.key());
    }

    println!("# metadata only: the server does not send the data");
    let resource = ApiResource::erase::<ConfigMap>(&());
    let metadata = KubeListerWatcher::packed_metadata(cluster.client.clone(), resource).namespace("default");
    for map in metadata.list(ListOptions::at_version("")).await?.objects {
        println!("{}: metadata only: {}", map.key(), map.is_metadata_only());
    }

    cluster.stop().await;
    Ok(())
}
