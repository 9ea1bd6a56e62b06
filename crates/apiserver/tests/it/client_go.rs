//! client-go's own informer, unchanged, against the server. Skipped with a message if it cannot be built:
//! without Go, or without its modules.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::common::{PATIENCE, pod};
use kinformer_apiserver::{ApiServer, Fault, ProtobufAnswers, Verb};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// Builds the program. Prints a message and returns `None` if it cannot be built.
async fn program(test: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client-go");
    let program = std::env::temp_dir().join(format!("kinformer-client-go-{}-{test}", std::process::id()));
    let mut build = Command::new("go");
    build.arg("build").arg("-o").arg(&program).arg(".").current_dir(&folder).kill_on_drop(true);
    // The first build compiles all of client-go.
    match tokio::time::timeout(Duration::from_secs(500), build.output()).await {
        Ok(Ok(output)) if output.status.success() => {}
        Ok(Ok(output)) => {
            eprintln!("SKIPPED: client-go cannot be built here: {}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        Ok(Err(error)) => {
            eprintln!("SKIPPED: go not on PATH ({error})");
            return None;
        }
        Err(_) => {
            eprintln!("SKIPPED: building client-go takes too long here");
            return None;
        }
    }
    Some(program)
}

// contract: E-07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_go_informer_in_json() {
    follows(ProtobufAnswers::Refused, "json").await;
}

// contract: E-07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_go_informer_in_protobuf() {
    follows(ProtobufAnswers::Offered, "protobuf").await;
}

async fn follows(answers: ProtobufAnswers, test: &str) {
    let Some(program) = program(test).await else { return };
    let server = ApiServer::builder().protobuf(answers).start().await.unwrap();
    for name in ["a", "b", "end"] {
        server.create(pod(name)).unwrap();
    }
    let mut child = Command::new(&program)
        .arg(server.url())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next =
        async || tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
    let mut first = Vec::new();
    while first.last().is_none_or(|line: &String| !line.starts_with("SYNCED")) {
        first.push(next().await);
        assert!(!first.iter().any(|line| line.starts_with("FAILED")), "{first:?}");
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
    let _ = std::fs::remove_file(&program);
}
