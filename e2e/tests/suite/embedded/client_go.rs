//! client-go's typed client and its informer, unchanged, against the embedded API server.

use std::process::Stdio;
use std::time::Duration;

use e2e::programs;
use kinformer_apiserver::{ApiServer, Fault, ProtobufAnswers, Verb};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

const BOUND: Duration = Duration::from_secs(60);

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

// contract: E-07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_go_informer_in_json() {
    follows(ProtobufAnswers::Refused).await;
}

// contract: E-07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_go_informer_in_protobuf() {
    follows(ProtobufAnswers::Offered).await;
}

async fn follows(answers: ProtobufAnswers) {
    let server = ApiServer::builder().protobuf(answers).start().await.unwrap();
    for name in ["a", "b", "end"] {
        server.create(pod(name)).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
    let mut program = programs::client_go(&kubeconfig, ["-typed"]).unwrap();
    let mut child = program.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || tokio::time::timeout(BOUND, lines.next_line()).await.unwrap().unwrap().unwrap();
    let mut first = Vec::new();
    while first.last().is_none_or(|line: &String| !line.starts_with("SYNCED")) {
        first.push(next().await);
    }
    assert!(first.contains(&"SYNCED 3".to_owned()), "{first:?}");
    // The adds may be printed before or after the line that the cache has synced.
    while first.iter().filter(|line| line.starts_with("ADD")).count() < 3 {
        first.push(next().await);
    }
    assert!(server.metrics().requests_for(Verb::Delete, "configmaps") == 1, "the typed writes succeeded");

    let labelled = |n: u32| {
        let mut pod = pod("a");
        pod["metadata"]["labels"] = json!({"n": n.to_string()});
        pod
    };
    // A relist repeats all objects, so other lines may precede the expected one.
    let mut expect = async |expected: &str| while next().await != expected {};
    server.update(labelled(1)).unwrap();
    expect("UPDATE a 1").await;
    // The informer recovers from a truncated frame, an expired version, a regular end and a compacted history.
    let faults = [Fault::truncate().on(Verb::Watch), Fault::expired_event()];
    for (n, fault) in (2..).zip(faults) {
        server.faults().inject(fault.resource("pods"));
        server.update(labelled(n)).unwrap();
        expect(&format!("UPDATE a {n}")).await;
    }
    server.drop_watches();
    server.compact();
    server.delete("v1", "Pod", "default", "b").unwrap();
    expect("DELETE default/b").await;
    server.delete("v1", "Pod", "default", "end").unwrap();
    expect("DELETE default/end").await;
    expect("END 1").await;
    assert!(child.wait().await.unwrap().success());
}
