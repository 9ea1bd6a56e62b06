//! Pods, kept in memory and told of as they change: the program of the README. Ends by itself.
//!
//! `cargo run -p kinformer --example factory`
#![allow(clippy::indexing_slicing, reason = "JSON gives null for what is not there")]

use kinformer::SharedInformerFactory;
use kinformer_apiserver::ApiServer;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::builder().start().await?; // a cluster in this process
    let config = server.config()?; // one of your own: kube_client::Config::infer().await?
    let factory = SharedInformerFactory::new(kinformer::client(config)?);

    let pods = factory.core().v1().pods();
    pods.handler().for_each(|event| println!("told of {}", event.key()))?;
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?; // each wait has a form with a deadline

    let meta = json!({"name": "web-0", "namespace": "default", "labels": {"app": "web"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": "node-1"}});
    let written = server.create(pod)?;
    let version = written["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    pods.wait_for(("default", "web-0"), &version.into()).await?; // from now on the store has what was written

    for pod in pods.lister().namespace("default").list(&"app in (web, api), !canary".parse()?) {
        let node = pod.decode()?.spec.as_ref().and_then(|spec| spec.node_name.clone()); // decoded when it is read
        println!("{} is on {node:?}", pod.key());
    }
    factory.shutdown().await?; // none of its tasks is left
    Ok(())
}
