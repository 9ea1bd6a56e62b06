//! The cluster of the examples: that of a kubeconfig, or an API server in this process with some objects.
//!
//! `cargo run -p kinformer-kube --example NAME -- KUBECONFIG` reads the cluster of this file, as does the variable
//! `$KUBECONFIG`. The objects of such a cluster are not changed.
#![allow(clippy::print_stdout, unreachable_pub, dead_code, reason = "a part of example programs")]

use std::error::Error;

use kinformer_apiserver::ApiServer;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::json;

/// A cluster, and its server if that is embedded.
pub struct Cluster {
    pub client: Client,
    server: Option<ApiServer>,
}

impl Cluster {
    /// Connects to the cluster of a kubeconfig, or starts a server with three config maps.
    pub async fn connect() -> Result<Self, Box<dyn Error>> {
        let kubeconfig = std::env::args_os().nth(1).or_else(|| std::env::var_os("KUBECONFIG"));
        if let Some(kubeconfig) = kubeconfig {
            println!("using the cluster of {}", kubeconfig.display());
            let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            return Ok(Self { client: kinformer_kube::client(config)?, server: None });
        }
        let server = ApiServer::builder().start().await?;
        println!("using an API server in this process; name a kubeconfig for a cluster");
        for n in 0..3 {
            server.create(map(&format!("settings-{n}"), "first"))?;
        }
        Ok(Self { client: kinformer_kube::client(server.config()?)?, server: Some(server) })
    }

    /// Creates, updates and deletes one object each on the embedded server. Returns how many have changed: none on
    /// another cluster.
    pub fn change_objects(&self) -> Result<usize, Box<dyn Error>> {
        let Some(server) = &self.server else { return Ok(0) };
        server.create(map("settings-3", "first"))?;
        server.update(map("settings-0", "second"))?;
        server.delete("v1", "ConfigMap", "default", "settings-1")?;
        Ok(3)
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
