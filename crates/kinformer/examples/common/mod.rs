//! A cluster for the examples: that of `$KUBECONFIG`, or an API server in this process with a few pods in it.

#![allow(unreachable_pub, dead_code, reason = "each example uses some of it")]

use std::error::Error;

use kinformer_apiserver::ApiServer;
use kube_client::{Client, Config};
use serde_json::json;

/// A cluster, and the server if it is ours.
pub struct Cluster {
    pub client: Client,
    pub server: Option<ApiServer>,
}

/// Says which cluster it is.
pub async fn cluster() -> Result<Cluster, Box<dyn Error>> {
    if std::env::var_os("KUBECONFIG").is_some() {
        println!("using the cluster of $KUBECONFIG");
        return Ok(Cluster { client: kinformer::client(Config::infer().await?)?, server: None });
    }
    let server = ApiServer::builder().start().await?;
    println!("using an embedded API server at {}; set KUBECONFIG for a real cluster", server.url());
    for (name, app, node) in [("web-0", "web", "a"), ("web-1", "web", "b"), ("job-0", "job", "a")] {
        server.create(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": app}]},
        }))?;
    }
    Ok(Cluster { client: kinformer::client(server.config()?)?, server: Some(server) })
}
