//! The controller on an API server in this process.

use kinformer_apiserver::ApiServer;
use kinformer_controller::kinformer::k8s_openapi::api::core::v1::ConfigMap;
use kinformer_controller::kinformer::{self, Packed, SharedInformerFactory};
use kinformer_controller::{CancellationToken, Manager};
use serde_json::json;

fn has_text(greeting: Option<&Packed<ConfigMap>>, text: &str) -> bool {
    let greeting = greeting.and_then(|greeting| greeting.decode().ok());
    greeting.is_some_and(|greeting| greeting.data.as_ref().is_some_and(|data| data["text"] == text))
}

#[tokio::test]
async fn greetings_are_kept() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::builder().start().await?;
    let factory = SharedInformerFactory::new(kinformer::client(server.config()?)?);
    let config_maps = factory.informer::<ConfigMap>();
    let shutdown = CancellationToken::new();
    let manager = Manager::new().add({{crate_name}}::controller(&factory))?;
    let running = tokio::spawn(manager.run(shutdown.clone()));

    let map = |name: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map", "namespace": "default"},
            "data": {"greet": name}})
    };
    server.create(map("World"))?;
    let greeting = "default/map-greeting";
    config_maps.wait_for_condition(greeting, |map| has_text(map, "Hello, World!")).await?;
    server.update(map("Rust"))?;
    config_maps.wait_for_condition(greeting, |map| has_text(map, "Hello, Rust!")).await?;
    let before = server.delete("v1", "ConfigMap", "default", "map-greeting")?;
    let uid = before["metadata"]["uid"].as_str().unwrap_or_default();
    let is_new = |map: Option<&Packed<ConfigMap>>| map.is_some_and(|map| map.uid() != Some(uid));
    config_maps.wait_for_condition(greeting, is_new).await?;

    shutdown.cancel();
    running.await??;
    factory.shutdown().await?;
    server.shutdown().await;
    Ok(())
}
