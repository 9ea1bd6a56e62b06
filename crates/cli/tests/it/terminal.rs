//! Foreign text cannot control a terminal, and cannot imitate a line of the program.

use crate::common::{BOUND, Ended, Program, run, server, server_of_anything};
use kinformer_apiserver::{ApiServer, Fault};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Sets the window title, clears the screen, forges a line, and reverses the text direction.
const HOSTILE: &str =
    "x\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\r\nadd     pods forged\u{202e}\u{200b}\u{2028}\u{7f}";

/// Asserts that a text has only printable characters and line ends.
#[track_caller]
fn is_plain(text: &str) {
    let is_control =
        |char: &char| *char != '\n' && (char.is_control() || "\u{202e}\u{200b}\u{2028}".contains(*char));
    assert_eq!(text.chars().find(is_control), None, "in {text:?}");
}

/// Asserts that no line starts like the forged one.
#[track_caller]
fn has_no_forged_line(text: &str) {
    is_plain(text);
    let forged = |line: &&str| line.trim_start().starts_with("add     pods forged");
    assert_eq!(text.lines().find(forged), None, "in {text:?}");
}

#[track_caller]
fn is_safe(ended: &Ended) {
    has_no_forged_line(&ended.stdout);
    has_no_forged_line(&ended.stderr);
}

fn hostile_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "labels": {"app": HOSTILE, HOSTILE: "y"},
            "annotations": {"note": HOSTILE},
            "ownerReferences": [{"apiVersion": "v1", "kind": HOSTILE, "name": HOSTILE, "uid": "u"}],
        },
        "spec": {"nodeName": HOSTILE, "containers": [{"name": "c", "image": HOSTILE}]},
        "status": {"phase": HOSTILE, "message": HOSTILE},
    })
}

/// Returns the text as encoded in JSON, without the quotes.
fn in_json(text: &str) -> String {
    let json = serde_json::to_string(text).unwrap();
    json[1..json.len() - 1].to_owned()
}

/// Starts a proxy that replaces `from` by `to` in responses, and returns its URL. Both have the same length in JSON.
async fn replacing(server: &ApiServer, from: String, to: String) -> String {
    assert_eq!(from.len(), to.len(), "content-length must not change");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let address = server.address();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(address).await.unwrap();
            tokio::spawn(forward(client, server, from.clone(), to.clone()));
        }
    });
    url
}

async fn forward(client: TcpStream, server: TcpStream, from: String, to: String) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let from = from.as_bytes();
    let mut waiting: Vec<u8> = Vec::new();
    let mut read = [0; 4096];
    while let Ok(count @ 1..) = from_server.read(&mut read).await {
        waiting.extend_from_slice(&read[..count]);
        while let Some(position) = waiting.windows(from.len()).position(|part| part == from) {
            waiting.splice(position..position + from.len(), to.bytes());
        }
        // A possible start of `from` waits for the rest.
        let kept = (1..from.len()).rev().find(|count| waiting.ends_with(&from[..*count])).unwrap_or(0);
        let ready: Vec<u8> = waiting.drain(..waiting.len() - kept).collect();
        if to_client.write_all(&ready).await.is_err() {
            return;
        }
    }
    let _ = to_client.write_all(&waiting).await;
}

/// Starts a server with hostile fields, and a proxy that gives one of its pods this name, which the server rejects.
async fn hostile(name: &str) -> (ApiServer, String) {
    let server = server_of_anything(1).await;
    let name = in_json(name);
    for placeholder in ["fields".to_owned(), "n".repeat(name.len())] {
        server.create(hostile_pod(&placeholder)).unwrap();
    }
    let url = replacing(&server, "n".repeat(name.len()), name).await;
    (server, url)
}

// contract: T-01b, T-01h
#[tokio::test]
async fn every_format_prints_an_object_on_one_line() {
    let (_server, url) = hostile(HOSTILE).await;
    for line in [
        "watch pods -A --until-synced",
        "watch pods -A --until-synced -o wide",
        "watch pods -A --until-synced -o wide --eager",
        "watch pods -A --until-synced -o wide --watch-list=false -vvv",
        "get pods -A",
        "get pods -A -o wide",
        "get pods -A -o yaml",
        "get pods -A -o name",
        "get pods -A -o jsonpath={.items[*].status.phase}",
        "get pods -A --list-indexes",
    ] {
        let ended = run(&format!("{line} --server {url}")).await;
        ended.code(0);
        is_safe(&ended);
        assert!(
            ended.stdout.contains("fields") || line.contains("--list-indexes") || line.contains("jsonpath"),
            "{line}: {ended:#?}"
        );
        if line.contains("yaml") {
            let parsed: Value = serde_saphyr::from_str(&ended.stdout).unwrap();
            assert_eq!(parsed["items"].as_array().unwrap().len(), 3, "{ended:#?}");
        } else if line.contains("wide") || line.starts_with("get") {
            assert!(ended.stdout.contains("x\\u{1b}]0;title\\u{7}"), "{line}: {ended:#?}");
        }
    }
    // One line for each object, and no others.
    let ended = run(&format!("get pods -A -o wide --server {url}")).await;
    assert_eq!(ended.stdout.lines().count(), 4, "{ended:#?}");
}

/// JSON output preserves every character. Characters that could control a terminal are escaped in ASCII.
// contract: T-02a, T-02b
#[tokio::test]
async fn json_escapes_characters_that_control_a_terminal() {
    let (_server, url) = hostile(HOSTILE).await;
    let ended = run(&format!("get pods -A -o json --server {url}")).await;
    ended.code(0);
    is_plain(&ended.stdout);
    let list = ended.json();
    let objects = list[0]["items"].as_array().unwrap();
    assert_eq!((list.len(), objects.len()), (1, 3));
    let fields = objects.iter().find(|object| object["metadata"]["name"] == "fields").unwrap();
    assert_eq!(fields["status"]["phase"], HOSTILE);
    assert_eq!(fields["metadata"]["labels"][HOSTILE], "y");

    let ended = run(&format!("watch pods -A -o json --until-synced --server {url}")).await;
    ended.code(0);
    is_plain(&ended.stdout);
    assert!(ended.json().iter().any(|line| line["key"] == format!("default/{HOSTILE}")), "{ended:#?}");
    let ended = run(&format!("get pods -A -o json --list-indexes --server {url}")).await;
    is_plain(&ended.stdout);
    assert!(ended.json().iter().any(|line| line["value"] == HOSTILE), "{ended:#?}");
}

/// Starts a server that responds to every request with this status and a hostile message.
async fn refusing(code: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": HOSTILE,
        "reason": HOSTILE, "code": code,
    });
    let body = status.to_string();
    let answer = format!(
        "HTTP/1.1 {code} No\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    url
}

// contract: T-01c
#[tokio::test]
async fn server_messages_are_one_line_on_stderr() {
    for (code, exit) in [(403, 4), (500, 1)] {
        let url = refusing(code).await;
        let ended = run(&format!("get pods --server {url} -vv")).await;
        ended.code(exit).stderr_has("title\\u{7}");
        is_safe(&ended);
    }
}

// contract: T-01c, T-01d
#[tokio::test]
async fn log_messages_are_one_line() {
    const FORGED: &str = "a/b/c\u{1b}[2J\nadd     pods forged";
    const SHOWN: &str = "a/b/c\\u{1b}[2J\\nadd     pods forged";
    // The name is not a valid key, and the error is logged.
    let (_server, url) = hostile(FORGED).await;
    let ended = run(&format!("watch pods -A --until-synced --eager -vv --server {url}")).await;
    ended.code(0).stderr_has(SHOWN);
    is_safe(&ended);
    // The message of a failed list is logged too.
    let server = server(0).await;
    server.faults().inject(Fault::internal_error().resource("pods").always());
    let message = "Internal error occurred: injected fault";
    let forged = in_json(FORGED);
    let url =
        replacing(&server, message.into(), format!("{forged}{}", "x".repeat(message.len() - forged.len())))
            .await;
    let ended = run(&format!("watch pods -A --for 2s -vv --server {url}")).await;
    ended.stderr_has(SHOWN);
    is_safe(&ended);
}

// contract: T-01e
#[tokio::test]
async fn invalid_arguments_are_escaped_in_errors() {
    for words in [
        &["watch", HOSTILE, "--server", "http://127.0.0.1:1"][..],
        &["get", "pods", HOSTILE, HOSTILE],
        &[HOSTILE],
        &["watch", "pods", "--for", HOSTILE],
        &["watch", "pods", "-o", HOSTILE],
        &["watch", "pods", &format!("--{HOSTILE}")],
        &["watch", "pods", "--kubeconfig", HOSTILE],
        &["watch", "pods", "--server", HOSTILE],
        &["watch", "pods", "-l", HOSTILE, "--server", "http://127.0.0.1:1"],
        &["watch", "pods", "--field-selector", HOSTILE, "--server", "http://127.0.0.1:1"],
        &["get", "pods", "--index", HOSTILE, "--server", "http://127.0.0.1:1"],
        &["api-server", "--load", HOSTILE],
        &["api-server", "--listen", HOSTILE],
        &["api-server", "--kubeconfig-out", &format!("/nonexistent/{HOSTILE}")],
    ] {
        let ended = Program::start_with(words.iter().copied(), &[]).ended().await;
        assert_ne!(ended.code, Some(0), "{words:?}: {ended:#?}");
        is_safe(&ended);
        assert!(!ended.stderr.is_empty(), "{words:?}");
    }
    let ended =
        Program::start_with(["watch", "pods", "--embedded", "--until-synced"], &[("RUST_LOG", HOSTILE)]);
    is_safe(&ended.ended().await);
}

// contract: T-01b
#[tokio::test]
async fn demo_escapes_objects_of_other_clients() {
    let mut program = Program::start("demo --for 20s");
    let first = program.line().await;
    let url = first.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    while !program.line().await.starts_with("in sync: ") {}
    let config = kube_client::Config::new(url.parse().unwrap());
    let client = kube_client::Client::try_from(config).unwrap();
    let body = serde_json::to_vec(&hostile_pod("intruder")).unwrap();
    let request =
        http::Request::post("/api/v1/namespaces/shop/pods").header("content-type", "application/json");
    let mut object: Value = serde_json::from_slice(&body).unwrap();
    object["metadata"]["namespace"] = "shop".into();
    // The server rejects hostile labels and the names of hostile nodes.
    object["metadata"]["labels"] = json!({"app": "web"});
    object["spec"]["nodeName"] = "n1".into();
    let status = http::Request::put("/api/v1/namespaces/shop/pods/intruder/status")
        .header("content-type", "application/json");
    for request in [request, status] {
        let request = request.body(object.to_string().into_bytes()).unwrap();
        tokio::time::timeout(BOUND, client.request_text(request)).await.unwrap().unwrap();
    }
    let shown = loop {
        let line = program.line().await;
        is_plain(&line);
        if line.contains("intruder") && line.contains("\\u{1b}]0;title") {
            break line;
        }
        assert!(!line.starts_with("ended"), "the pod was not shown");
    };
    assert!(shown.starts_with("update"), "{shown}");
    program.signal(nix::sys::signal::Signal::SIGINT);
    is_safe(&program.ended().await);
}
