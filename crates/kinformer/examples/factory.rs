//! An informer of pods with a handler, a lister, and a read of an own write: the program in docs/informers.md. It ends by
//! itself.
//!
//! `cargo run -p kinformer --example factory` needs no cluster. With `-- KUBECONFIG`, or the variable `$KUBECONFIG`, it
//! creates and deletes the pod `example-web` in the namespace `default` of that cluster, for a node that does not
//! exist.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use k8s_openapi::api::core::v1::Pod;
use kinformer::SharedInformerFactory;
use kinformer::kube_client::api::{Api, DeleteParams, PostParams};
use kinformer::kube_client::config::{Config, KubeConfigOptions, Kubeconfig};
use kinformer_apiserver::ApiServer;
use serde_json::json;
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::builder().start().await?; // a cluster in this process, unless another one is named
    let config = match std::env::args().nth(1).or_else(|| std::env::var("KUBECONFIG").ok()) {
        Some(file) => {
            Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &KubeConfigOptions::default())
                .await?
        }
        None => server.config()?,
    };
    let client = kinformer::client(config)?;
    let factory = SharedInformerFactory::builder(client.clone()).labels("example=factory").build();

    let pods = factory.core().v1().pods();
    let (keys, mut changed) = mpsc::channel(100);
    pods.handler().for_each(move |event| _ = keys.try_send(event.key().to_string()))?; // on a thread of its own
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?; // every wait has a variant with a deadline

    let meta = json!({"name": "example-web", "labels": {"app": "web", "example": "factory"}});
    let spec = json!({"nodeName": "example-node", "containers": [{"name": "web", "image": "none"}]});
    let pod: Pod = serde_json::from_value(json!({"metadata": meta, "spec": spec}))?;
    let api: Api<Pod> = Api::namespaced(client, "default");
    let written = api.create(&PostParams::default(), &pod).await?;
    let version = written.metadata.resource_version.unwrap_or_default();
    pods.wait_for(("default", "example-web"), &version.into()).await?; // the store now includes this write

    for pod in pods.lister().namespace("default").list(&"app in (web, api), !canary".parse()?)? {
        let node = pod.decode()?.spec.as_ref().and_then(|spec| spec.node_name.clone()); // decoded when it is read
        println!("{} is on {node:?}", pod.key());
    }
    println!("event: {}", changed.recv().await.ok_or("the handler has ended")?);
    api.delete("example-web", &DeleteParams::default().grace_period(0)).await?;
    factory.shutdown().await?; // ends all its tasks
    Ok(())
}
