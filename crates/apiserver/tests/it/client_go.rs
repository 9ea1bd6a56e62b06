//! client-go's own informer, unchanged, against the server. Skipped with a line that says so where it cannot be
//! built: no Go, or no way to its modules.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::common::{PATIENCE, pod};
use kinformer_apiserver::{ApiServer, Fault, ProtobufAnswers, Verb};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// Builds the program; `None`, said aloud, where that cannot be done.
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
async fn the_shared_informer_of_client_go() {
    follows(ProtobufAnswers::Refused, "json").await;
}

// contract: E-07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shared_informer_of_client_go_in_protobuf() {
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
    // The adds may come before or after the news that the cache has synced.
    while first.iter().filter(|line| line.starts_with("ADD")).count() < 3 {
        first.push(next().await);
    }
    assert!(server.metrics().requests_for(Verb::Delete, "configmaps") == 1, "the typed writes went through");

    let labelled = |n: u32| {
        let mut pod = pod("a");
        pod["metadata"]["labels"] = json!({"n": n.to_string()});
        pod
    };
    // A relist tells of everything again, so that what is waited for may come behind other lines.
    let mut expect = async |wanted: &str| while next().await != wanted {};
    server.update(labelled(1)).unwrap();
    expect("UPDATE a 1").await;
    // Cut within a frame, ended regularly, its history compacted, told that it is too old: it comes back.
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
