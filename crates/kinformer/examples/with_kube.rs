//! Use together with kube: both crates have methods for names, labels and versions, and both are imported here. The
//! program ends by itself.
//!
//! `cargo run -p kinformer --example with_kube` needs no cluster. With `-- KUBECONFIG`, or the variable `$KUBECONFIG`,
//! it creates and deletes the config map `example-settings` in the namespace `default` of that cluster.
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::prelude::*;
use kube_client::Api;
use kube_client::api::{DeleteParams, PostParams};
use kube_core::{Resource, ResourceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = common::Cluster::connect([]).await?;
    let factory = SharedInformerFactory::builder(cluster.client.clone()).labels("example=with_kube").build();
    let maps = factory.core().v1().config_maps();
    let mut events = maps.stream()?;
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;

    // kube returns the written object as the plain type; its methods come from `ResourceExt`.
    let mut map = ConfigMap::default();
    map.meta_mut().name = Some("example-settings".to_owned());
    map.labels_mut().insert("example".to_owned(), "with_kube".to_owned());
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let created = api.create(&PostParams::default(), &map).await?;
    println!("created {}: UID {:?}, labels {:?}", created.name_any(), created.uid(), created.labels());
    let version = ResourceVersion::from(created.resource_version().unwrap_or_default());

    // A stored object has inherent methods that decode nothing.
    maps.wait_for(("default", "example-settings"), &version).await?;
    let stored: Packed<ConfigMap> = maps.lister().namespace("default").get(&created.name_any())?;
    println!("stored {}: UID {:?}, label {:?}", stored.name(), stored.uid(), stored.label("example"));
    assert_eq!(stored.resource_version(), version);
    assert_eq!(
        (stored.uid(), stored.namespace()),
        (created.uid().as_deref(), created.namespace().as_deref())
    );

    // The decoded object is the plain type again.
    let decoded = stored.decode()?;
    assert_eq!((decoded.name_any().as_str(), decoded.labels()), (stored.name(), created.labels()));
    assert_eq!(decoded.namespace().as_deref(), stored.namespace());

    for map in maps.snapshot()?.iter() {
        println!("{} in {:?}", map.name(), map.decode()?.namespace());
    }
    // Every event has a key.
    println!("event: {:?}", events.next().await.map(|event| event.key().to_string()));
    api.delete("example-settings", &DeleteParams::default()).await?;
    factory.shutdown().await?;
    cluster.stop().await;
    Ok(())
}
