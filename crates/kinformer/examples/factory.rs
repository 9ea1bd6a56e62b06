//! An informer of pods with a handler and a lister: the program in docs/informers.md. It ends by itself.
//!
//! `cargo run -p kinformer --example factory`
#![allow(clippy::print_stdout, reason = "an example program prints")]
#![allow(clippy::indexing_slicing, reason = "indexing a JSON value returns null for a missing field")]

use kinformer::SharedInformerFactory;
use kinformer_apiserver::ApiServer;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::builder().start().await?; // a cluster in this process
    let config = server.config()?; // for a real cluster: kinformer::kube_client::Config::infer().await?
    let factory = SharedInformerFactory::new(kinformer::client(config)?);

    let pods = factory.core().v1().pods();
    pods.handler().for_each(|event| println!("event: {}", event.key()))?;
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?; // every wait has a variant with a deadline

    let meta = json!({"name": "web-0", "namespace": "default", "labels": {"app": "web"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": "node-1"}});
    let written = server.create(pod)?;
    let version = written["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    pods.wait_for(("default", "web-0"), &version.into()).await?; // the store now includes this write

    for pod in pods.lister().namespace("default").list(&"app in (web, api), !canary".parse()?)? {
        let node = pod.decode()?.spec.as_ref().and_then(|spec| spec.node_name.clone()); // decoded when it is read
        println!("{} is on {node:?}", pod.key());
    }
    factory.shutdown().await?; // ends all its tasks
    Ok(())
}
