//! An informer with a slow handler, and the page that shows it.
//!
//! `cargo run -p kinformer-serve --example slow_handler` prints the address of the page, and runs until Ctrl-C. The handler
//! `audit` of the pods needs three seconds for each event, while the handler `cache` has no delay.

#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{Added, Event, Packed, SharedInformerFactory};
use kinformer_apiserver::ApiServer;
use kinformer_serve::Server;
use serde_json::{Value, json};

#[tokio::main]
#[expect(clippy::too_many_lines, reason = "an example from its start to its end")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = ApiServer::builder().start().await?;
    for number in 0..12 {
        cluster.create(node(number, 0))?;
        cluster.create(deployment(number, 3))?;
        cluster.create(secret(number))?;
    }
    for number in 0..240 {
        cluster.create(pod(number, "Running", 0))?;
    }

    let client = kinformer::client(cluster.config()?)?;
    let factory = SharedInformerFactory::new(client.clone());
    let pods = factory.core().v1().pods();
    let nodes = factory.core().v1().nodes();
    let deployments = factory.apps().v1().deployments();
    let secrets = factory.core().v1().secrets();
    pods.index_by_field("node", &["spec", "nodeName"])?;
    pods.index("app", |pod, values| {
        pod.label("app").into_iter().for_each(|app| values.push(app));
        Ok(())
    })?;
    let _cache = pods.handler().name("cache").for_each(|_event| {})?;
    let _audit = pods.handler().name("audit").for_each_async(|event: Event<Packed<Pod>>| async move {
        // As a request to a slow server, for each event after the initial list.
        if !matches!(event, Event::Added(Added { in_initial_list: true, .. })) {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    })?;
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;

    let server = Server::builder()
        .informer(&pods)
        .informer(&nodes)
        .informer(&deployments)
        .informer(&secrets)
        .client(client)
        .listen(([127, 0, 0, 1], 0).into())
        .bind()
        .await?;
    println!("{}", server.url());
    let _server = server.spawn();

    let mut ticks = tokio::time::interval(Duration::from_millis(400));
    for tick in 0_u64.. {
        ticks.tick().await;
        for step in 0..1 + tick % 4 {
            let number = (tick * 7 + step * 31) % 24 * 7;
            let phase = if (tick + step) % 3 == 0 { "Pending" } else { "Running" };
            cluster.update(pod(number, phase, tick / 40))?;
        }
        if tick % 3 == 0 {
            cluster.update(node(tick / 3 % 12, tick))?;
        }
        if tick % 7 == 0 {
            cluster.update(deployment(tick / 7 % 12, 2 + tick / 84 % 2))?;
        }
        match tick % 20 {
            4 => drop(cluster.create(pod(1000 + tick / 20, "Pending", 0))?),
            14 => drop(cluster.delete("v1", "Pod", "default", &name(1000 + tick / 20))?),
            _ => {}
        }
    }
    Ok(())
}

const APPS: [&str; 5] = ["web", "api", "worker", "ingest", "billing"];

fn app(number: u64) -> &'static str {
    APPS.get((number % 5) as usize).copied().unwrap_or("web")
}

fn name(number: u64) -> String {
    format!("{}-{:05x}", app(number), number.wrapping_mul(40_503) & 0xf_ffff)
}

fn pod(number: u64, phase: &str, release: u64) -> Value {
    let ready = if phase == "Running" { "True" } else { "False" };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name(number), "labels": {"app": app(number)}},
        "spec": {
            "nodeName": format!("node-{}", number % 12),
            "restartPolicy": "Always",
            "containers": [{"name": "main", "image": format!("registry.example.com/{}:1.4.{release}", app(number))}],
        },
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
    })
}

fn node(number: u64, heartbeat: u64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": format!("node-{number}"), "labels": {"kubernetes.io/os": "linux"}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "message": format!("heartbeat {heartbeat}")}]},
    })
}

fn deployment(number: u64, ready: u64) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": "default", "name": format!("{}-{number}", app(number))},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": app(number)}},
            "template": {
                "metadata": {"labels": {"app": app(number)}},
                "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1.4.0"}]},
            },
        },
        "status": {"readyReplicas": ready},
    })
}

fn secret(number: u64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": "default", "name": format!("token-{number}")},
        "data": {"token": "aGVsbG8="},
    })
}
