//! Informers of a custom resource without a Rust type, and of metadata only. The program ends by itself.
//!
//! `cargo run -p kinformer --example dynamic` needs no cluster. With `-- KUBECONFIG`, or the variable `$KUBECONFIG`, it
//! defines the kind `ExampleCronTab` on that cluster, creates three objects in the namespace `default`, and deletes all of
//! it at the end.
#![allow(clippy::print_stdout, reason = "an example program prints")]
#![allow(clippy::indexing_slicing, reason = "indexing a JSON value returns null for a missing field")]

mod common;

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinformer::{Added, Event, Informer, Packed, SharedInformerFactory, conditions};
use kube_client::Api;
use kube_client::api::{DeleteParams, PostParams};
use kube_core::gvk::GroupVersionKind;
use kube_core::{ApiResource, DynamicObject};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

const DEFINITION: &str = "examplecrontabs.kinformer.example.com";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = common::Cluster::connect([]).await?;
    let client = cluster.client.clone();
    let factory = SharedInformerFactory::builder(client.clone()).labels("example=dynamic").build();

    let definitions = factory.informer::<CustomResourceDefinition>();
    factory.start()?;
    let definition_api: Api<CustomResourceDefinition> = Api::all(client.clone());
    create(&definition_api, definition()).await?;
    definitions.wait_for_condition(DEFINITION, |it| it.is_some_and(conditions::is_crd_established)).await?;

    let kind = GroupVersionKind::gvk("kinformer.example.com", "v1", "ExampleCronTab");
    let tabs = timeout(Duration::from_secs(30), discover(&factory, &kind)).await??;
    let mut events = tabs.stream()?;
    // Only metadata (names, labels, annotations, owners) is fetched and stored.
    let maps = factory.metadata::<ConfigMap>();

    let tab_api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind));
    let map_api: Api<ConfigMap> = Api::namespaced(client, "default");
    create(&tab_api, tab("example-nightly", "0 0 * * *")).await?;
    create(&map_api, json!({"metadata": metadata("example-big"), "data": {"key": "not fetched"}})).await?;
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;
    print(events.next().await);
    for map in maps.snapshot()?.list() {
        println!("metadata of {}", map.name());
    }

    let hourly = create(&tab_api, tab("example-hourly", "0 * * * *")).await?;
    let version = hourly.metadata.resource_version.unwrap_or_default();
    tabs.wait_for(("default", "example-hourly"), &version.into()).await?;
    println!("{} cron tabs", tabs.snapshot()?.len());
    print(events.next().await);

    map_api.delete("example-big", &DeleteParams::default()).await?;
    definition_api.delete(DEFINITION, &DeleteParams::default()).await?; // with the objects of the kind
    definitions.wait_for_condition(DEFINITION, |it| it.is_none()).await?;
    factory.shutdown().await?;
    cluster.stop().await;
    Ok(())
}

/// Discovers the kind on the server; `for_resource` does the same by resource. The server may serve a kind only some time
/// after its definition is established.
async fn discover(
    factory: &SharedInformerFactory,
    kind: &GroupVersionKind,
) -> Result<Informer<DynamicObject>, kinformer::Error> {
    loop {
        match factory.for_kind(kind).await {
            Err(kinformer::Error::Discovery { .. }) => sleep(Duration::from_millis(100)).await,
            found => return found,
        }
    }
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
        Event::Left(_) => println!("left {}", event.key()),
    }
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<K, Box<dyn Error>>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    Ok(api.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
}

fn definition() -> Value {
    json!({
        "metadata": metadata(DEFINITION),
        "spec": {
            "group": "kinformer.example.com", "scope": "Namespaced",
            "names": {"plural": "examplecrontabs", "singular": "examplecrontab", "kind": "ExampleCronTab"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

fn tab(name: &str, cron: &str) -> Value {
    json!({
        "apiVersion": "kinformer.example.com/v1", "kind": "ExampleCronTab",
        "metadata": metadata(name), "spec": {"cron": cron},
    })
}

/// The factory selects the objects by this label.
fn metadata(name: &str) -> Value {
    json!({"name": name, "labels": {"example": "dynamic"}})
}
