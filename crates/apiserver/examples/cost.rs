//! What the managers of fields cost: writes, memory and responses of pods with `managedFields`, beside the same pods
//! without.
//!
//! `cargo run --release -p kinformer-apiserver --example cost -- --pods 2000`
//!
//! Pods that the in-process API creates have no managers, and clients that change them record none. So the same requests
//! over loopback are measured with managers and without, in one run. Allocations are those of the server and of its
//! small client.

#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::alloc::System;
use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kinformer_apiserver::{ApiServer, ProtobufAnswers, Validation};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Failure = Box<dyn std::error::Error>;

#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 2_000)]
    pods: usize,
    /// Only this kind of write, for a profiler: create, put, patch or apply
    #[arg(long)]
    only: Option<String>,
}

/// A kind of write: method, media type, and whether the path names the pod.
#[derive(Clone, Copy)]
struct Write {
    name: &'static str,
    method: &'static str,
    media_type: &'static str,
    named: bool,
    /// The first pod that is written.
    first: usize,
    generation: u64,
}

const JSON: &str = "application/json";
const PATCH: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A name of a write, and its method and media type.
const CHANGES: [(&str, &str, &str); 3] =
    [("put", "PUT", JSON), ("patch", "PATCH", PATCH), ("apply", "PATCH", APPLY)];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let (pods, selected) =
        (arguments.pods, |name: &str| arguments.only.as_deref().is_none_or(|only| only == name));
    let (region, started) = (Region::new(ALLOCATOR), Instant::now());
    let server =
        ApiServer::builder().history(1).kubernetes(38).protobuf(ProtobufAnswers::Offered).start().await?;
    println!("a server starts in {:.1?} and keeps {} kB", started.elapsed(), kept(&region) / 1_000);
    let mut client = Client::connect(&server).await?;

    let region = Region::new(ALLOCATOR);
    for number in 0..pods {
        server.create(pod(number, 0))?;
    }
    let unmanaged = kept(&region) / pods.max(1);
    let region = Region::new(ALLOCATOR);
    let create =
        Write { name: "create", method: "POST", media_type: JSON, named: false, first: pods, generation: 0 };
    let created = client.measure(create, pods).await?;
    let managed = kept(&region) / pods.max(1);
    println!(
        "{} bytes of JSON for a pod; it keeps {unmanaged} bytes without managers, {managed} with one: {:.2}",
        pod(0, 0).to_string().len(),
        managed as f64 / unmanaged as f64
    );
    println!("{:<10} {:>12} {:>12} {:>10}", "", "allocations", "bytes", "time");
    created.print("create");
    let changes = CHANGES.into_iter().filter(|(name, ..)| selected(name));
    for (generation, (name, method, media_type)) in (1..).zip(changes) {
        let mut change = Write { name, method, media_type, named: true, first: 0, generation };
        let without = (name != "apply").then_some(client.measure(change, pods).await?);
        change.first = pods;
        let with = client.measure(change, pods).await?;
        if let Some(without) = without {
            without.print(&format!("{name}, none"));
            println!(
                "{:<10} {:>12.2} {:>12.2} {:>10.2}",
                "ratio",
                with.allocations / without.allocations,
                with.bytes / without.bytes,
                with.time.as_secs_f64() / without.time.as_secs_f64()
            );
        }
        with.print(name);
    }
    for media_type in [JSON, "application/vnd.kubernetes.protobuf"] {
        let [with, without] = client.size(media_type, pods).await?;
        println!("{media_type}: {with} bytes for a pod, {without} without managedFields");
    }
    validation(pods).await
}

/// What defaults and validation of a pod cost, beside the decoding of its JSON.
async fn validation(pods: usize) -> Result<(), Failure> {
    let mut creates = [Duration::ZERO; 2];
    for (time, validation) in creates.iter_mut().zip([Validation::Off, Validation::On]) {
        let server = ApiServer::builder().history(1).kubernetes(38).validation(validation).start().await?;
        *time = median((0..pods).map(|number| {
            let pod = pod(number, 0);
            let started = Instant::now();
            server.create(pod).map(|_| started.elapsed())
        }))?;
    }
    let text = pod(0, 0).to_string();
    let decoding = median((0..pods).map(|_| {
        let started = Instant::now();
        serde_json::from_str::<Pod>(&text).map(|_| started.elapsed())
    }))?;
    let [without, with] = creates;
    println!(
        "defaults and validation of a pod: {:.0?}; decoding: {decoding:.0?}; ratio {:.2}",
        with.saturating_sub(without),
        with.saturating_sub(without).as_secs_f64() / decoding.as_secs_f64()
    );
    Ok(())
}

fn median<E>(times: impl Iterator<Item = Result<Duration, E>>) -> Result<Duration, E> {
    let mut times = times.collect::<Result<Vec<_>, _>>()?;
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

/// Bytes that have been allocated and not freed.
fn kept(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

/// The cost of one request, on average; the median of its time.
struct Cost {
    allocations: f64,
    bytes: f64,
    time: Duration,
}

impl Cost {
    fn print(&self, name: &str) {
        println!("{name:<10} {:>12.0} {:>12.0} {:>10.0?}", self.allocations, self.bytes, self.time);
    }
}

struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Client {
    async fn connect(server: &ApiServer) -> Result<Self, Failure> {
        let stream = TcpStream::connect(server.address()).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::with_capacity(64 * 1024) })
    }

    async fn measure(&mut self, write: Write, pods: usize) -> Result<Cost, Failure> {
        let requests: Vec<Vec<u8>> =
            (write.first..write.first + pods).map(|number| request(write, number)).collect();
        let mut times = Vec::with_capacity(pods);
        let region = Region::new(ALLOCATOR);
        for request in &requests {
            let started = Instant::now();
            self.send(request).await.map_err(|error| format!("{}: {error}", write.name))?;
            times.push(started.elapsed());
        }
        let change = region.change();
        times.sort_unstable();
        Ok(Cost {
            allocations: (change.allocations + change.reallocations) as f64 / pods as f64,
            bytes: change.bytes_allocated as f64 / pods as f64,
            time: times.get(pods / 2).copied().unwrap_or_default(),
        })
    }

    /// Returns the bytes of a pod, and of one without managed fields.
    async fn size(&mut self, media_type: &str, number: usize) -> Result<[usize; 2], Failure> {
        let mut sizes = [0; 2];
        for (size, drop) in sizes.iter_mut().zip(["", ";drop=metadata.managedFields"]) {
            let request = format!(
                "GET /api/v1/namespaces/default/pods/web-{number:06} HTTP/1.1\r\nhost: localhost\r\n\
                 accept: {media_type}{drop}\r\n\r\n"
            );
            self.send(request.as_bytes()).await?;
            let head = self.answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0);
            *size = self.answer.len() - head - 4;
        }
        Ok(sizes)
    }

    /// Sends a request and reads its answer, which must be a success.
    async fn send(&mut self, request: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err("the connection has ended".into());
            }
            if let Some(end) = self.answer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = std::str::from_utf8(self.answer.get(..end).unwrap_or_default())?;
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.ok_or("no content-length")?.trim().parse()?;
                if self.answer.len() < end + 4 + length {
                    continue;
                }
                if head.starts_with("HTTP/1.1 20") {
                    return Ok(());
                }
                return Err(String::from_utf8_lossy(&self.answer).into());
            }
        }
    }
}

fn request(write: Write, number: usize) -> Vec<u8> {
    let body = pod(number, write.generation).to_string();
    let name = if write.named { format!("/web-{number:06}") } else { String::new() };
    format!(
        "{} /api/v1/namespaces/default/pods{name}?fieldManager=cost&force=true HTTP/1.1\r\nhost: localhost\r\n\
         content-type: {}\r\ncontent-length: {}\r\n\r\n{body}",
        write.method,
        write.media_type,
        body.len()
    )
    .replace("&force=true", if write.media_type == APPLY { "&force=true" } else { "" })
    .into_bytes()
}

/// A pod of a Deployment, which differs from others by its name, and from its other states by an annotation.
fn pod(number: usize, generation: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("web-{number:06}"), "namespace": "default",
            "labels": {"app": "web", "shard": (number % 16).to_string()},
            "annotations": {"example.com/write": generation.to_string()}},
        "spec": {"nodeName": format!("node-{}", number % 100), "serviceAccountName": "default",
            "containers": [{"name": "app", "image": "registry.example.com/web:1.0",
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": "POD_NAME", "value": "web"}, {"name": "LEVEL", "value": "info"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}]}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300}],
            "volumes": [{"name": "config", "configMap": {"name": "web"}}]},
    })
}
