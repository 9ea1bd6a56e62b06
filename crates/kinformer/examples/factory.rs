//! An informer of pods with a handler, a lister, and a read of an own write: the program in docs/informers.md. It ends by
//! itself.
//!
//! `cargo run --example factory`
#![allow(clippy::print_stdout, reason = "an example program prints")]
#![allow(clippy::indexing_slicing, reason = "indexing a JSON value returns null for a missing field")]

use kinformer::SharedInformerFactory;
use kinformer_apiserver::ApiServer;
use serde_json::json;
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::builder().start().await?; // a cluster in this process
    let config = server.config()?; // for a real cluster: kinformer::kube_client::Config::infer().await?
    let factory = SharedInformerFactory::new(kinformer::client(config)?);

    let pods = factory.core().v1().pods();
    let (keys, mut changed) = mpsc::channel(100);
    pods.handler().for_each(move |event| _ = keys.try_send(event.key().to_string()))?; // on a thread of its own
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
    println!("event: {}", changed.recv().await.ok_or("the handler has ended")?);
    factory.shutdown().await?; // ends all its tasks
    Ok(())
}
