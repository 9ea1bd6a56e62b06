//! `kinformer serve`, and the page of the demo.

use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::common::{BOUND, Directory, Program, run, server};

/// Sends a GET request to a page's address, and returns the whole response.
async fn get(url: &str, path: &str, header: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    timeout(BOUND, stream.read_to_end(&mut response)).await.expect("a response in time").unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

/// Repeats a request until the response contains a text.
async fn until(url: &str, path: &str, part: &str) -> String {
    let wait = async {
        loop {
            let response = get(url, path, "").await;
            if response.contains(part) {
                return response;
            }
        }
    };
    timeout(BOUND, wait).await.unwrap_or_else(|_| panic!("no {part:?} from {path}"))
}

// contract: H-27
#[tokio::test]
async fn prints_the_address_and_serves_until_a_signal() {
    let cluster = server(3).await;
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let line = format!(
            "serve pods,nodes -A --listen 127.0.0.1:0 --index phase=status.phase --hide-field spec.containers --server {}",
            cluster.url()
        );
        let mut program = Program::start(&line);
        let url = program.line().await;
        assert!(url.starts_with("http://127.0.0.1:") && url.ends_with('/'), "{url}");
        until(&url, "/readyz", "HTTP/1.1 200").await;
        let list =
            until(&url, "/api/v1/informers/pods/objects?index=phase&value=Running", "\"total\":3").await;
        assert!(list.contains("default/p0"), "{list}");
        let object = get(&url, "/api/v1/informers/pods/objects/default/p0?format=yaml", "").await;
        assert!(object.contains("nodeName: node-1") && !object.contains("containers"), "{object}");
        let indexes = get(&url, "/api/v1/informers/pods/indexes", "").await;
        for index in ["label", "namespace", "node", "owner", "phase"] {
            assert!(indexes.contains(&format!("\"{index}\"")), "{indexes}");
        }
        assert!(get(&url, "/", "").await.contains("<!doctype html>"));
        program.signal(signal);
        let ended = program.ended().await;
        ended.code(0).stderr_has("no token is required").stderr_has("serves pods, nodes of all namespaces");
        assert_eq!(ended.stdout, "", "nothing after the address");
    }
    let ended = run(&format!("serve pods --listen 127.0.0.1:0 --for 1s --server {}", cluster.url())).await;
    ended.code(0).stderr_has("of namespace \"default\"");
    cluster.shutdown().await;
}

/// Selectors are those of the requests, and a resource that cannot be listed does not end the program.
// contract: H-27
#[tokio::test]
async fn selectors_and_the_simulated_cluster() {
    let cluster = server(1).await;
    let mut program = Program::start(&format!(
        "serve pods -A -l app=none --listen 127.0.0.1:0 --metadata-only --server {}",
        cluster.url()
    ));
    let url = program.line().await;
    let path = "/api/v1/informers/pods%20(metadata)/objects/default/p0/explain";
    until(&url, path, "the selector \\\"app=none\\\"").await;
    program.signal(Signal::SIGTERM);
    program.ended().await.code(0);
    cluster.shutdown().await;

    let mut program = Program::start("serve pods deploy -A --embedded --listen 127.0.0.1:0");
    let url = program.line().await;
    until(&url, "/api/v1/informers/deployments.apps/objects", "shop/web").await;
    program.signal(Signal::SIGTERM);
    program.ended().await.code(0);
}

// contract: H-27
#[tokio::test]
async fn token_comes_from_a_flag_a_file_or_the_environment() {
    let directory = Directory::new("serve-token");
    let file = directory.file("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    for (flags, environment) in [
        ("--serve-token s3cret".to_owned(), &[][..]),
        (format!("--serve-token-file {file}"), &[][..]),
        (String::new(), &[("KINFORMER_SERVE_TOKEN", "s3cret")][..]),
    ] {
        let line = format!("serve pods -A --embedded --listen 0.0.0.0:0 {flags}");
        let mut program = Program::start_with(line.split_whitespace(), environment);
        let url = program.line().await;
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        let refused = get(&url, "/api/v1/informers", "").await;
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
        let answered = get(&url, "/api/v1/informers", "authorization: Bearer s3cret\r\n").await;
        assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
        program.signal(Signal::SIGTERM);
        let ended = program.ended().await;
        ended.code(0);
        assert!(!format!("{ended:?}").contains("s3cret"), "{ended:?}");
    }
}

// contract: H-27
#[tokio::test]
async fn impossible_flags_are_refused() {
    for address in ["0.0.0.0:0", "192.0.2.1:4000"] {
        let ended = run(&format!("serve pods --embedded --listen {address}")).await;
        ended.code(2).stderr_has(&format!("--listen {address}")).stderr_has("could read every object");
        ended.stderr_has("--serve-token-file");
    }
    for (flags, part) in [
        ("--index phase", "expected NAME=FIELD.PATH"),
        ("--index =status.phase", "expected NAME=FIELD.PATH"),
        ("--index phase=status..phase", "expected NAME=FIELD.PATH"),
        ("--index node=spec.nodeName", "always there"),
        ("--index phase=status.phase --hide-field status", "hidden by --hide-field"),
        ("--index phase=status.phase --hide-field .status", "hidden by --hide-field"),
        ("--hide-field metadata.name", "identifies the object"),
        ("--hide-field spec.containers[*].env", "goes through lists"),
        ("--allowed-host page.example:80", "no host name"),
        ("-l app=", "label selector"),
        ("--field-selector a", "field selector"),
    ] {
        // An empty value is valid, so the flag has an invalid one.
        let flags = flags.replace("app=", "app==,=");
        run(&format!("serve pods --embedded --listen 127.0.0.1:0 {flags}")).await.code(2).stderr_has(part);
    }
    run("serve pods --embedded --listen 127.0.0.1:0 --serve-token-file /nonexistent").await.code(1);
    run("serve pots --embedded --listen 127.0.0.1:0").await.code(2).stderr_has("did you mean \"pods\"?");
}

// contract: H-27
#[tokio::test]
async fn taken_port_is_an_error_that_says_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let ended = run(&format!("serve pods --embedded --listen {address}")).await;
    ended.code(1).stderr_has(&format!("--listen {address}")).stderr_has("another program listens on port");
    ended.stderr_has("port 0 for a free one");
}

/// Two demos at the same time: at most one of them has the default port.
// contract: H-26
#[tokio::test]
async fn demo_prints_the_address_of_its_page() {
    let mut programs = [Program::start("demo"), Program::start("")];
    let mut urls = Vec::new();
    for program in &mut programs {
        program.line().await;
        let line = program.line().await;
        let url =
            line.split_whitespace().find(|word| word.starts_with("http://")).expect("an address").to_owned();
        assert!(line.starts_with("page: "), "{line}");
        until(&url, "/readyz", "HTTP/1.1 200").await;
        let informers = get(&url, "/api/v1/informers", "").await;
        for part in ["\"pods\"", "\"nodes\"", "\"deployments.apps\"", "\"slow-report\""] {
            assert!(informers.contains(part), "no {part} in {informers}");
        }
        assert!(get(&url, "/", "").await.contains("<!doctype html>"));
        urls.push(url);
    }
    assert_ne!(urls[0], urls[1]);
    for program in programs {
        program.signal(Signal::SIGTERM);
        program.ended().await.code(0);
    }
}

/// The page shows the informer of the namespaces that are selected by their labels.
// contract: T-07k
#[tokio::test]
async fn selected_namespaces_are_served() {
    let cluster = server(1).await;
    cluster
        .create(serde_json::json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"team": "a"}}}))
        .unwrap();
    cluster.create(crate::common::pod("shop", "web")).unwrap();
    let line = "serve pods --namespace-selector team=a --listen 127.0.0.1:0";
    let mut program = Program::start(&format!("{line} --server {}", cluster.url()));
    let url = program.line().await;
    let list = until(&url, "/api/v1/informers/pods/objects", "\"total\":1").await;
    assert!(list.contains("shop/web"), "{list}");
    until(&url, "/api/v1/informers/namespaces%20(metadata)", "\"synced\":true").await;
    program.signal(Signal::SIGTERM);
    program.ended().await.code(0).stderr_has("serves pods of the namespaces with the labels \"team=a\"");
}
