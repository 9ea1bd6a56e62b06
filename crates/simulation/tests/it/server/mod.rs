//! The model API server, through kube-client and through kinformer-kube.

mod faults;
mod lists;
mod watches;

use futures::TryStreamExt as _;
use http::Request;
use http_body_util::BodyExt as _;
use kinformer_simulation::server::{Cluster, Key, Options, Server};
use kube_client::Client;
use kube_client::client::Body;
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

const MAPS: &str = "/api/v1/configmaps";

/// Longer than any response of these tests takes in simulated time.
const PATIENCE: Duration = Duration::from_secs(3_600);

fn key(name: &str) -> Key {
    Key::new("configmaps", "default", name)
}

/// Writes objects, one version for each: 2, 3, ...
fn cluster(names: &[&str]) -> Cluster {
    let cluster = Cluster::new();
    for name in names {
        put(&cluster, name, "1");
    }
    cluster
}

fn put(cluster: &Cluster, name: &str, value: &str) -> u64 {
    cluster.put(key(name), json!({"data": {"value": value}}))
}

fn server(cluster: &Cluster) -> Server {
    Server::new(cluster, 7, Options::default())
}

async fn send(client: &Client, query: &str) -> http::Response<Body> {
    let request = Request::get(format!("{MAPS}?{query}")).body(Body::empty()).unwrap();
    timeout(PATIENCE, client.send(request)).await.unwrap().unwrap()
}

async fn get(server: &Server, query: &str) -> (u16, Value) {
    let response = send(&Client::new(server.clone(), "default"), query).await;
    let status = response.status().as_u16();
    let body = timeout(PATIENCE, response.into_body().collect()).await.unwrap().unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// Returns the chunks of a response, which ends.
async fn chunks(server: &Server, query: &str) -> Vec<String> {
    let response = send(&Client::new(server.clone(), "default"), query).await;
    let chunks =
        response.into_body().into_data_stream().map_ok(|chunk| String::from_utf8(chunk.to_vec()).unwrap());
    timeout(PATIENCE, chunks.try_collect()).await.unwrap().unwrap()
}

/// Returns the events of a watch, which ends, in a short form.
async fn events(server: &Server, query: &str) -> Vec<String> {
    let text = chunks(server, query).await.concat();
    text.lines().map(|line| event(&serde_json::from_str(line).unwrap())).collect()
}

fn event(event: &Value) -> String {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or("-").to_owned();
    match event["object"]["kind"].as_str() {
        Some("Status") => format!("{} {}", text("/type"), event["object"]["code"]),
        _ => {
            let end = event.pointer("/object/metadata/annotations/k8s.io~1initial-events-end").is_some();
            let (name, version) = (text("/object/metadata/name"), text("/object/metadata/resourceVersion"));
            format!("{} {name} {version}{}", text("/type"), if end { " end" } else { "" })
        }
    }
}

/// Returns the version of a list and the names in it.
fn listed(list: &Value) -> (String, Vec<String>) {
    let names = list["items"].as_array().unwrap().iter();
    let names = names.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    (list["metadata"]["resourceVersion"].as_str().unwrap().to_owned(), names)
}
