//! Informers of a custom resource without a Rust type, and of metadata only. The program ends by itself.
//!
//! `cargo run --example dynamic`
#![allow(clippy::print_stdout, reason = "an example program prints")]
#![allow(clippy::indexing_slicing, reason = "indexing a JSON value returns null for a missing field")]

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{Added, Event, Packed, SharedInformerFactory};
use kinformer_apiserver::ApiServer;
use kube_core::DynamicObject;
use kube_core::gvk::GroupVersionKind;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::builder().start().await?;
    define_cron_tabs(&server)?;
    server.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "big", "namespace": "default"}, "data": {"key": "not fetched"},
    }))?;
    let factory = SharedInformerFactory::new(kinformer::client(server.config()?)?);

    // Discovers the kind on the server; for_resource does the same by resource.
    let kind = GroupVersionKind::gvk("stable.example.com", "v1", "CronTab");
    let tabs = factory.for_kind(&kind).await?;
    let mut events = tabs.stream()?;
    // Only metadata (names, labels, annotations, owners) is fetched and stored.
    let maps = factory.metadata::<ConfigMap>();

    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;
    print(events.next().await);
    for map in maps.snapshot()?.list() {
        println!("metadata of {}", map.name());
    }

    let hourly = server.create(tab("hourly", "0 * * * *"))?;
    let version = hourly["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    tabs.wait_for(("default", "hourly"), &version.into()).await?;
    println!("{} cron tabs", tabs.snapshot()?.len());
    print(events.next().await);

    factory.shutdown().await?;
    server.shutdown().await;
    Ok(())
}

/// Prints an event of an object whose fields are known only at run time.
fn print(event: Option<Event<Packed<DynamicObject>>>) {
    let Some(event) = event else { return };
    let tab = event.object().and_then(|tab| tab.decode().ok());
    let spec = tab.map(|tab| tab.data["spec"].to_string()).unwrap_or_default();
    match event {
        Event::Added(Added { in_initial_list: true, .. }) => println!("found {}: {spec}", event.key()),
        Event::Added(_) => println!("added {}: {spec}", event.key()),
        Event::Updated(_) => println!("updated {}: {spec}", event.key()),
        Event::Deleted(_) => println!("deleted {}", event.key()),
        _ => {}
    }
}

fn define_cron_tabs(server: &ApiServer) -> Result<(), kinformer_apiserver::Error> {
    server.create(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }))?;
    server.create(tab("nightly", "0 0 * * *")).map(drop)
}

fn tab(name: &str, cron: &str) -> serde_json::Value {
    json!({
        "apiVersion": "stable.example.com/v1", "kind": "CronTab",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"cron": cron},
    })
}
