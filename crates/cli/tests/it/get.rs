//! `kinformer get`: objects and indexes.

use crate::common::{pod, run, server, server_with_protobuf};
use kinformer_apiserver::ApiServer;
use serde_json::{Value, json};

async fn with_pods() -> ApiServer {
    let server = server(2).await;
    let mut elsewhere = pod("other", "x");
    elsewhere["spec"]["nodeName"] = "node-2".into();
    server.create(elsewhere).unwrap();
    server
}

async fn rows(server: &ApiServer, line: &str) -> Vec<Vec<String>> {
    let ended = run(&format!("get {line} --server {}", server.url())).await;
    ended.code(0);
    let row = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    ended.stdout.lines().map(row).collect()
}

#[tokio::test]
async fn objects_are_listed_in_order() {
    let server = with_pods().await;
    let rows = rows(&server, "pods -A").await;
    assert_eq!(rows[0], ["NAMESPACE", "NAME", "PHASE", "NODE", "AGE"]);
    let names: Vec<&str> = rows[1..].iter().map(|row| row[1].as_str()).collect();
    assert_eq!(names, ["p0", "p1", "x"]);
    assert_eq!(self::rows(&server, "pods -n other").await.len(), 2);
    assert_eq!(self::rows(&server, "ns").await.len(), 6);
}

#[tokio::test]
async fn one_object_is_found_by_its_key() {
    let server = with_pods().await;
    for line in ["po p1", "pod default/p1", "pods p1 -n default", "pods.v1. p1 -A"] {
        let rows = rows(&server, line).await;
        assert_eq!((rows.len(), rows[1][1].as_str()), (2, "p1"), "{line}");
    }
    assert_eq!(rows(&server, "pods other/x").await[1][0], "other");
    assert_eq!(rows(&server, "namespaces other").await[1][0], "other");

    let url = server.url();
    run(&format!("get pods missing --server {url}")).await.code(1).stderr_has("pods \"missing\" not found");
    run(&format!("get pods x --server {url}")).await.code(1).stderr_has("not found");
    run(&format!("get pods a/b/c --server {url}")).await.code(2).stderr_has("more than one '/'");
    run(&format!("get pods other/x -n default --server {url}")).await.code(2).stderr_has("not in namespace");
}

#[tokio::test]
async fn json_is_the_whole_object() {
    let server = with_pods().await;
    let ended = run(&format!("get pods other/x -o json --server {}", server.url())).await;
    ended.code(0);
    let lines = ended.json();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["spec"]["nodeName"], "node-2");
    assert_eq!(lines[0]["kind"], "Pod");
    assert_eq!(Some(lines[0].clone()), server.get("v1", "Pod", "other", "x").unwrap());
}

#[tokio::test]
async fn indexes_can_be_queried_and_listed() {
    let server = with_pods().await;
    assert_eq!(rows(&server, "pods -A --index node=node-1").await.len(), 3);
    assert_eq!(rows(&server, "pods -A --index label=app=web").await.len(), 4);
    assert_eq!(rows(&server, "pods -A --index namespace=other").await.len(), 2);
    let none = run(&format!("get pods -A --index node=nowhere --server {}", server.url())).await;
    none.code(0).stderr_has("no pods found");
    assert_eq!(none.stdout, "");
    let listed = rows(&server, "pods -A --list-indexes").await;
    assert_eq!(listed[0], ["INDEX", "VALUE", "OBJECTS"]);
    for row in [["namespace", "default", "2"], ["node", "node-1", "2"], ["label", "app=web", "3"]] {
        assert!(listed.iter().any(|found| *found == row), "{row:?} in {listed:?}");
    }
    let json = run(&format!("get pods -A --list-indexes -o json --server {}", server.url())).await;
    let counted: u64 = json
        .json()
        .iter()
        .filter(|line| line["index"] == "node")
        .map(|line: &Value| line["objects"].as_u64().unwrap())
        .sum();
    assert_eq!(counted, 3);

    let url = server.url();
    run(&format!("get pods --index nope=1 --server {url}"))
        .await
        .code(2)
        .stderr_has("no index \"nope\"")
        .stderr_has("node");
    run(&format!("get pods --index node --server {url}")).await.code(2).stderr_has("NAME=VALUE");
}

#[tokio::test]
async fn protobuf_is_requested_and_decoded() {
    let server = server_with_protobuf(2).await;
    let mut owned = pod("default", "owned");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}]);
    server.create(owned).unwrap();
    let command = |line: &str| format!("{line} --server {}", server.url());
    let rows = rows(&server, "pods -o wide -v --index owner=ReplicaSet/web").await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[1][..4], ["default", "owned", "Running", "node-1"]);
    let ended = run(&command("get pods -v")).await;
    ended.code(0).stderr_has("encoding=\"application/vnd.kubernetes.protobuf\"");
    assert_eq!(ended.stdout.lines().count(), 4);
    let ended = run(&command("get pods -o json")).await;
    ended.code(0);
    let lines = ended.json();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[0]["kind"], &lines[0]["spec"]["nodeName"]), (&json!("Pod"), &json!("node-1")));
}
