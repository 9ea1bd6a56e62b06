//! Pods, kept in memory and told of as they change. Ends by itself.
//!
//! `cargo run -p kinformer --example factory`; with a cluster of your own: `KUBECONFIG=… cargo run …`

use k8s_openapi::api::core::v1::Pod;
use kinformer::{Event, LabelSelector, SharedInformerFactory};

mod common;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = common::cluster().await?;

    let factory = SharedInformerFactory::new(cluster.client.clone());
    let pods = factory.core().v1().pods();
    let handler = pods.informer().handler().named("printer").for_each(|event: &Event<Pod>| match event {
        Event::Added { object, .. } => println!("added   {:?}", object.metadata.name),
        Event::Updated { new, .. } => println!("updated {:?}", new.metadata.name),
        Event::Deleted(tombstone) => println!("deleted {}", tombstone.key()),
    })?;

    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;
    handler.synced().await?;

    let web: LabelSelector = "app in (web, api), !canary".parse()?;
    for pod in pods.lister().namespace("default").list(&web) {
        println!(
            "{:?} runs on {:?}",
            pod.metadata.name,
            pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref())
        );
    }

    factory.shutdown().await?;
    Ok(())
}
