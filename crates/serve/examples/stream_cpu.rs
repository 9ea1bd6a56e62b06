//! The CPU time of the server for a change, with one open stream of events and with 60.
//!
//! `cargo run --release -p kinformer-serve --example stream_cpu` prints the user-mode CPU time of the server's process for
//! each change, of a pod and of a large config map, and the ratio. The API server, the writes and the readers of the streams
//! are in other processes. For comparison, it also measures a bare server of hyper, which writes the bytes of a pod's
//! change to its streams and does nothing else. Linux only: it reads `/proc`.

#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::convert::Infallible;
use std::error::Error;
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinformer::SharedInformerFactory;
use kinformer::kube_client::{Client, Config};
use kinformer_apiserver::ApiServer;
use kinformer_serve::Server;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::interval;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const STREAMS: usize = 60;
/// The changes of a pod, and the time between two of them.
const PODS: (usize, Duration) = (3000, Duration::from_millis(10));
/// The bytes of the event of a pod's change.
const EVENT: usize = 420;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["serve", url] => serve(url).await,
        ["bare"] => bare().await,
        ["read", address, streams, changes] => read(address, streams.parse()?, changes.parse()?).await,
        _ => compare().await,
    }
}

async fn compare() -> Result<()> {
    for (name, object, changes, each) in [
        ("a pod", pod as fn(usize) -> Value, PODS.0, PODS.1),
        ("a config map of 200 kB and 4,000 keys", config_map, 300, Duration::from_millis(100)),
    ] {
        print(name, changes, async |streams| measure(object, changes, each, streams).await).await?;
    }
    print("bytes of a bare server", PODS.0, measure_bare).await
}

async fn print(name: &str, changes: usize, measure: impl AsyncFn(usize) -> Result<f64>) -> Result<()> {
    let mut used = Vec::new();
    for streams in [1, STREAMS] {
        let time = measure(streams).await?;
        println!(
            "{name}, {streams} streams: {:.3} ms of user-mode CPU for each of {changes} changes",
            time * 1e3
        );
        used.push(time);
    }
    if let [one, many] = used.as_slice() {
        println!("{name}: {:.2} times that of one stream", many / one);
    }
    Ok(())
}

/// Returns the seconds of user-mode CPU for each change.
async fn measure(object: fn(usize) -> Value, changes: usize, each: Duration, streams: usize) -> Result<f64> {
    let cluster = ApiServer::builder().start().await?;
    cluster.create(object(0))?;
    let (server, address) = child(&["serve", &cluster.url()]).await?;
    let (mut reader, _) = child(&["read", &address, &streams.to_string(), &changes.to_string()]).await?;
    let before = user_seconds(&server)?;
    let mut pace = interval(each);
    for number in 1..=changes {
        pace.tick().await;
        cluster.update(object(number))?;
    }
    reader.wait().await?;
    let after = user_seconds(&server)?;
    drop((server, reader));
    cluster.shutdown().await;
    Ok((after - before) / changes as f64)
}

/// As [`measure`], of the bare server.
async fn measure_bare(streams: usize) -> Result<f64> {
    let (server, address) = child(&["bare"]).await?;
    let (mut reader, _) = child(&["read", &address, &streams.to_string(), &PODS.0.to_string()]).await?;
    let before = user_seconds(&server)?;
    reader.wait().await?;
    Ok((user_seconds(&server)? - before) / PODS.0 as f64)
}

/// Starts this program again, and returns its first line.
async fn child(arguments: &[&str]) -> Result<(Child, String)> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.args(arguments).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let line = lines.next_line().await?.ok_or("no line")?;
    Ok((child, line))
}

async fn serve(url: &str) -> Result<()> {
    let client = Client::try_from(Config::new(url.parse()?))?;
    let factory = SharedInformerFactory::new(client);
    let (pods, config_maps) = (factory.informer::<Pod>(), factory.informer::<ConfigMap>());
    let builder = Server::builder().informer(&pods).informer(&config_maps);
    let server = builder.listen(([127, 0, 0, 1], 0).into()).bind().await?.spawn();
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;
    println!("{}", server.local_addr());
    std::future::pending().await
}

/// Serves streams of the bytes of a pod's changes, by hyper alone.
async fn bare() -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?);
    let event = Bytes::from(format!("event: change\ndata: {}\n\n", "x".repeat(EVENT)));
    let (changed, changes) = watch::channel(());
    tokio::spawn(async move {
        let mut pace = interval(PODS.1);
        loop {
            pace.tick().await;
            changed.send_replace(());
        }
    });
    loop {
        let (connection, _) = listener.accept().await?;
        connection.set_nodelay(true)?;
        let (changes, event) = (changes.clone(), event.clone());
        let service = service_fn(move |_| {
            let event = event.clone();
            let frames = stream::unfold(changes.clone(), move |mut changes| {
                let event = event.clone();
                async move {
                    changes.changed().await.ok()?;
                    Some((Ok::<_, Infallible>(Frame::data(event)), changes))
                }
            });
            std::future::ready(Ok::<_, Infallible>(Response::new(StreamBody::new(frames))))
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), service));
    }
}

/// Reads streams until each has had all changes.
async fn read(address: &str, streams: usize, changes: usize) -> Result<()> {
    let mut open = Vec::new();
    for _ in 0..streams {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
        stream.read_u8().await?;
        open.push(stream);
    }
    println!("ready");
    let read = open.into_iter().map(async |stream| -> Result<()> {
        let mut lines = BufReader::new(stream).split(b'\n');
        let mut had = 0;
        while had < changes {
            let line = lines.next_segment().await?.ok_or("the stream has ended")?;
            had += usize::from(line == b"event: change");
            if line == b"event: gap" {
                return Err("a stream has a gap".into());
            }
        }
        Ok(())
    });
    futures::future::try_join_all(read).await.map(drop)
}

/// The user-mode CPU time of a process.
fn user_seconds(of: &Child) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", of.id().ok_or("it has ended")?))?;
    // After the name, which may contain spaces; in hundredths of a second.
    let field = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(11));
    Ok(field.ok_or("no field")?.parse::<f64>()? / 100.0)
}

fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"},
            "annotations": {"example.com/notes": "x".repeat(500)}},
        "spec": {"nodeName": "node-1", "restartPolicy": "Always", "containers": [
            {"name": "web", "image": "example.com/web:1", "args": ["--port=80", "--log-level=info"],
                "env": (0..20).map(|i| json!({"name": format!("V{i}"), "value": i.to_string()})).collect::<Vec<_>>()}]},
        "status": {"phase": "Running", "message": number.to_string(), "conditions": [
            {"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]},
    })
}

fn config_map(number: usize) -> Value {
    let data: serde_json::Map<_, _> =
        (0..4000).map(|i| (format!("key-{i}"), json!(format!("{number} {}", "x".repeat(30))))).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large", "namespace": "default"}, "data": data})
}
