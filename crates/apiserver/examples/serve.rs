//! Runs a Kubernetes API server on a loopback port until Ctrl-C.
//!
//! `cargo run -p kinformer-apiserver --example serve -- --load pods=1000`

#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::net::SocketAddr;

use clap::Parser;
use kinformer_apiserver::{ApiServer, FaultHeader, NamespaceLifecycle, ProtobufAnswers};
use serde_json::json;

#[derive(Parser)]
#[command(about = "An in-memory Kubernetes API server for development and tests")]
struct Arguments {
    /// Loopback address to listen on. Port 0 picks a free port
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Bearer token that requests must carry
    #[arg(long)]
    token: Option<String>,
    /// Objects to create at start
    #[arg(long, value_name = "pods=N", value_parser = pods)]
    load: Option<usize>,
    /// Number of events kept per resource
    #[arg(long, default_value_t = 10_000)]
    history: usize,
    /// Allow fault injection by the header X-Kinformer-Fault
    #[arg(long)]
    fault_header: bool,
    /// Respond in protobuf to clients that prefer it
    #[arg(long)]
    protobuf: bool,
    /// Create missing namespaces instead of rejecting their objects
    #[arg(long)]
    create_namespaces: bool,
    /// File to write a kubeconfig to
    #[arg(long)]
    kubeconfig: Option<std::path::PathBuf>,
}

fn pods(text: &str) -> Result<usize, String> {
    let number = text.strip_prefix("pods=").ok_or("expected pods=N")?;
    number.parse().map_err(|error| format!("{number}: {error}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let mut builder = ApiServer::builder().listen(arguments.listen).history(arguments.history);
    if let Some(token) = &arguments.token {
        builder = builder.token(token);
    }
    if arguments.fault_header {
        builder = builder.fault_header(FaultHeader::Honoured);
    }
    if arguments.protobuf {
        builder = builder.protobuf(ProtobufAnswers::Offered);
    }
    if arguments.create_namespaces {
        builder = builder.namespace_lifecycle(NamespaceLifecycle::AutoCreate);
    }
    let server = builder.start().await?;
    for number in 0..arguments.load.unwrap_or(0) {
        server.create(pod(number))?;
    }
    if let Some(path) = &arguments.kubeconfig {
        let mut file = std::fs::File::create(path)?;
        // The file may contain the token.
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        std::io::Write::write_all(&mut file, server.kubeconfig().as_bytes())?;
    }
    // The token itself is not printed, since output may be logged.
    let token = arguments.token.map_or("", |_| " --token TOKEN");
    println!("listening on {}", server.url());
    println!("kubectl --server {}{token} get pods -A", server.url());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}

/// A pod as created by a controller and updated by a kubelet.
fn pod(number: usize) -> serde_json::Value {
    let name = format!("web-{number:06}");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default",
            "labels": {"app": "web", "shard": format!("{}", number % 16), "pod-template-hash": "5d4f8c7b9"},
            "annotations": {"example.com/revision": "1"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f8c7b9",
                "uid": "6f1c1f8e-8b4b-4a58-9c52-1f4e7a1f0c11", "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "nodeName": format!("node-{}", number % 100),
            "serviceAccountName": "default", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "containers": [{
                "name": "app", "image": "registry.example.com/web:1.0",
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": "POD_NAME", "value": name}, {"name": "LEVEL", "value": "info"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            }],
        },
        "status": {
            "phase": "Running", "hostIP": format!("10.0.0.{}", number % 100),
            "podIP": format!("10.{}.{}.{}", 1 + number / 65536, number / 256 % 256, number % 256),
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ],
            "containerStatuses": [{
                "name": "app", "ready": true, "restartCount": 0, "started": true,
                "image": "registry.example.com/web:1.0", "imageID": "registry.example.com/web@sha256:0123",
                "containerID": "containerd://0123456789abcdef",
                "state": {"running": {"startedAt": "2026-01-01T00:00:04Z"}},
            }],
        },
    })
}
