//! A load test: many objects, watches and writes, all in this process over loopback.
//!
//! `cargo run --release -p kinformer-apiserver --example load -- --pods 100000 --watchers 50 --rate 5000`

#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use kinformer_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval};

#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 100_000)]
    pods: usize,
    #[arg(long, default_value_t = 50)]
    watchers: u64,
    /// Writes per second; 0 for no limit
    #[arg(long, default_value_t = 5_000)]
    rate: u64,
    #[arg(long, default_value_t = 50_000)]
    writes: u64,
    /// ReplicaSets that own the pods, and are deleted with them in the end; 0 for none
    #[arg(long, default_value_t = 1)]
    owners: usize,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "an example from its start to its end")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let started = Instant::now();
    let server = Arc::new(ApiServer::builder().history(100_000).start().await?);
    println!("start: {:?}", started.elapsed());

    let owners = replica_sets(&server, arguments.owners)?;
    let started = Instant::now();
    for number in 0..arguments.pods {
        server.create(owned(pod(number, 0), &owners, number))?;
    }
    let per_write = started.elapsed() / u32::try_from(arguments.pods.max(1))?;
    println!("{} pods written in {:?} ({per_write:?} each)", arguments.pods, started.elapsed());

    let started = Instant::now();
    let bytes = list(&server).await?;
    println!("list over HTTP: {} MiB in {:?}", bytes >> 20, started.elapsed());

    let seen = Arc::new(AtomicU64::new(0));
    let mut watchers = Vec::new();
    for _ in 0..arguments.watchers {
        watchers.push(tokio::spawn(watch(
            server.address(),
            server.version(),
            arguments.writes,
            seen.clone(),
        )));
    }
    while server.metrics().open_watches < arguments.watchers {
        tokio::task::yield_now().await;
    }

    let cpu = cpu_seconds();
    let started = Instant::now();
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let per_tick = if arguments.rate == 0 { 64 } else { (arguments.rate / 1000).max(1) };
    let mut written = 0;
    while written < arguments.writes {
        if arguments.rate == 0 {
            tokio::task::yield_now().await;
        } else {
            ticks.tick().await;
        }
        for _ in 0..per_tick.min(arguments.writes - written) {
            let number = usize::try_from(written)? % arguments.pods.max(1);
            server.update(owned(pod(number, written + 1), &owners, number))?;
            written += 1;
        }
    }
    let wrote = started.elapsed();
    for watcher in watchers {
        watcher.await??;
    }
    let all = started.elapsed();
    let events = seen.load(Ordering::Acquire);
    println!(
        "{written} writes in {wrote:?} ({:.0}/s); {events} events at {} watchers, the last {:?} after the last write \
         ({:.0} events/s); {:.1} s of CPU; {} left behind",
        written as f64 / wrote.as_secs_f64(),
        arguments.watchers,
        all.saturating_sub(wrote),
        events as f64 / all.as_secs_f64(),
        cpu_seconds() - cpu,
        server.metrics().watches_overtaken,
    );
    if arguments.owners > 0 {
        let started = Instant::now();
        for number in 0..arguments.owners {
            server.delete("apps/v1", "ReplicaSet", "default", &format!("rs-{number}"))?;
        }
        println!("owners deleted in {:?}; {} pods left", started.elapsed(), server.count("v1", "Pod")?);
    }
    Ok(())
}

/// Creates the owners, and returns the references to them.
fn replica_sets(server: &ApiServer, owners: usize) -> Result<Vec<Value>, kinformer_apiserver::Error> {
    let create = |number: usize| {
        let name = format!("rs-{number}");
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let uid = server.create(set)?.pointer("/metadata/uid").cloned();
        Ok(
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": true,
            "blockOwnerDeletion": true}),
        )
    };
    (0..owners).map(create).collect()
}

/// Adds one of the owners, if there are any.
fn owned(mut pod: Value, owners: &[Value], number: usize) -> Value {
    let owner = number.checked_rem(owners.len()).and_then(|index| owners.get(index));
    if let (Some(owner), Some(metadata)) = (owner, pod.get_mut("metadata").and_then(Value::as_object_mut)) {
        metadata.insert("ownerReferences".into(), json!([owner]));
    }
    pod
}

async fn list(server: &ApiServer) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect(server.address()).await?;
    stream.write_all(b"GET /api/v1/pods HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
    let (mut total, mut buffer) = (0, vec![0; 256 * 1024]);
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(total),
            read => total += read,
        }
    }
}

/// Counts the events of a watch by their line ends, up to the given number.
async fn watch(
    address: std::net::SocketAddr,
    version: u64,
    expected: u64,
    seen: Arc<AtomicU64>,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /api/v1/pods?watch=1&resourceVersion={version} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let (mut count, mut buffer) = (0, vec![0; 256 * 1024]);
    let mut last = 0;
    while count < expected {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        // Every event ends with "}}\n"; HTTP chunks end with "\r\n".
        let mut events = 0;
        for byte in buffer.iter().take(read) {
            events += u64::from(*byte == b'\n' && last == b'}');
            last = *byte;
        }
        count += events;
        seen.fetch_add(events, Ordering::AcqRel);
    }
    Ok(())
}

/// CPU time of this process from `/proc`; 0 on other systems.
fn cpu_seconds() -> f64 {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return 0.0 };
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

fn pod(number: usize, generation: u64) -> Value {
    let name = format!("web-{number:06}");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web", "shard": (number % 16).to_string()},
            "annotations": {"example.com/write": generation.to_string()}},
        "spec": {"nodeName": format!("node-{}", number % 100), "serviceAccountName": "default",
            "containers": [{"name": "app", "image": "registry.example.com/web:1.0",
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": "POD_NAME", "value": name}, {"name": "LEVEL", "value": "info"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}}]},
        "status": {"phase": "Running", "podIP": "10.1.2.3", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}],
            "containerStatuses": [{"name": "app", "ready": true, "restartCount": 0,
                "image": "registry.example.com/web:1.0", "imageID": "registry.example.com/web@sha256:0123"}]},
    })
}
