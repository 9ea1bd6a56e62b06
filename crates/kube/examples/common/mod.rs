//! The cluster of the examples: the one of `$KUBECONFIG`, else an API server in this process with some objects.

#![allow(clippy::print_stderr, clippy::print_stdout, unreachable_pub, reason = "a part of example programs")]

use std::error::Error;

use kinformer_apiserver::ApiServer;
use kube_client::{Client, Config};
use serde_json::json;

/// A cluster, and its server if that is embedded.
pub struct Cluster {
    pub client: Client,
    server: Option<ApiServer>,
}

impl Cluster {
    /// Connects to the cluster of `$KUBECONFIG`, or starts an embedded one.
    pub async fn connect() -> Result<Self, Box<dyn Error>> {
        if std::env::var_os("KUBECONFIG").is_some() {
            println!("using the cluster of $KUBECONFIG");
            return Ok(Self { client: kinformer_kube::client(Config::infer().await?)?, server: None });
        }
        let server = ApiServer::builder().start().await?;
        println!("using an embedded API server at {}; set KUBECONFIG for a real cluster", server.url());
        for n in 0..3 {
            server.create(map(&format!("settings-{n}"), "first"))?;
        }
        Ok(Self { client: kinformer_kube::client(server.config()?)?, server: Some(server) })
    }

    /// Creates, updates and deletes one object each on an embedded server. Does nothing on a real cluster.
    pub fn change_objects(&self) -> Result<(), Box<dyn Error>> {
        if let Some(server) = &self.server {
            server.create(map("settings-3", "first"))?;
            server.update(map("settings-0", "second"))?;
            server.delete("v1", "ConfigMap", "default", "settings-1")?;
        }
        Ok(())
    }

    /// Stops the embedded server.
    pub async fn stop(self) {
        if let Some(server) = self.server {
            server.shutdown().await;
        }
    }
}

fn map(name: &str, value: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"key": value},
    })
}
