//! Fault injection, by the handle and by the header.

use std::time::Duration;

use crate::common::{Client, WatchEnd, config_map, names, pair, server};
use futures::FutureExt as _;
use http::Method;
use kinformer_apiserver::{ApiServer, Fault, Verb};
use serde_json::json;
use tokio::time::timeout;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn with_maps(count: usize) -> (ApiServer, Client) {
    let server = server().await;
    for number in 0..count {
        server.create(config_map(&format!("m{number}"), "1")).unwrap();
    }
    let client = Client::new(&server);
    (server, client)
}

// contract: E-06d
#[tokio::test]
async fn faults_with_a_status() {
    let (server, client) = with_maps(1).await;
    let faults = server.faults();
    faults.inject(Fault::too_many_requests(7).on(Verb::List).resource("configmaps").times(2));
    client.get("/api/v1/pods").await.ok();
    client.get(&format!("{MAPS}/m0")).await.ok();
    for _ in 0..2 {
        let answer = client.get(MAPS).await;
        answer.status(429, "TooManyRequests");
        assert_eq!(answer.headers["retry-after"], "7");
        assert_eq!(answer.body["details"]["retryAfterSeconds"], 7);
    }
    client.get(MAPS).await.ok();
    faults.inject(Fault::internal_error().on(Verb::Create));
    client.post(MAPS, &config_map("x", "1")).await.status(500, "InternalError");
    client.post(MAPS, &config_map("x", "1")).await.ok();
    faults.inject(Fault::forbidden().on(Verb::List));
    let answer = client.get(MAPS).await;
    answer.status(403, "Forbidden");
    assert!(answer.body["message"].as_str().unwrap().contains("cannot list resource \"configmaps\""));
    let id = faults.inject(Fault::expired().always());
    for _ in 0..5 {
        client.get(MAPS).await.status(410, "Expired");
    }
    faults.remove(id);
    client.get(MAPS).await.ok();
    faults.inject(Fault::internal_error().times(0));
    client.get(MAPS).await.ok();
    assert_eq!(faults.fired(), 9);
}

// contract: E-06d
#[tokio::test]
async fn header_fault_applies_to_one_request() {
    let (server, client) = with_maps(1).await;
    let with = |fault: &'static str| {
        let client = client.clone();
        async move { client.send(Method::GET, MAPS, &[("x-kinformer-fault", fault)], "").await }
    };
    with("internal-error").await.status(500, "InternalError");
    with("too-many-requests=3").await.status(429, "TooManyRequests");
    with("expired").await.status(410, "Expired");
    with("nonsense").await.ok();
    with("delay=1").await.ok();
    client.get(MAPS).await.ok();
    let strict = ApiServer::builder().start().await.unwrap();
    let ignored =
        Client::new(&strict).send(Method::GET, MAPS, &[("x-kinformer-fault", "internal-error")], "").await;
    assert_eq!(ignored.code, 200, "the header is ignored unless it is enabled");
    server.shutdown().await;
}

// contract: E-06a
#[tokio::test]
async fn refused_requests_and_connections() {
    let (server, client) = with_maps(1).await;
    let faults = server.faults();
    // The client retries once on a new connection if an idle one was closed.
    faults.inject(Fault::refuse().on(Verb::List).always());
    assert!(client.raw(Method::GET, MAPS, &[], "").await.is_err());
    faults.clear();
    client.get(MAPS).await.ok();
    faults.refuse_connections().await;
    let fresh = Client::new(&server);
    let error = fresh.raw(Method::GET, MAPS, &[], "").await.unwrap_err();
    assert!(error.is_connect(), "{error}");
    // The server returns on the same port.
    let taken = tokio::net::TcpListener::bind(server.address()).await.unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    faults.accept_connections().await;
    fresh.get(MAPS).await.ok();
}

/// The first poll requests the change of the socket, which happens also if the future is dropped then.
// contract: E-12d
#[tokio::test]
async fn dropped_change_of_the_socket_happens() {
    let (server, _) = with_maps(1).await;
    let faults = server.faults();
    let until = async |accepts: bool| {
        let connects = async || tokio::net::TcpStream::connect(server.address()).await.is_ok();
        let changed = async {
            while connects().await != accepts {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), changed).await.unwrap();
    };
    drop(faults.refuse_connections());
    until(true).await;
    assert!(faults.refuse_connections().now_or_never().is_none());
    until(false).await;
    assert!(faults.accept_connections().now_or_never().is_none());
    until(true).await;
}

// contract: E-06b
#[tokio::test]
async fn permanent_delay_applies_once_per_request() {
    let (server, client) = with_maps(1).await;
    server.faults().inject(Fault::delay(Duration::from_millis(1)).on(Verb::List).always());
    for requests in 1..=3 {
        timeout(Duration::from_secs(60), client.get(MAPS)).await.unwrap().ok();
        assert_eq!(server.faults().fired(), requests);
    }
}

// contract: E-06b
#[tokio::test]
async fn delayed_response_delays_no_other_request() {
    let (server, client) = with_maps(1).await;
    server.faults().inject(Fault::delay(Duration::from_secs(3600)).on(Verb::List));
    let delayed = client.raw(Method::GET, MAPS, &[], "");
    tokio::pin!(delayed);
    assert!(timeout(Duration::from_millis(50), delayed.as_mut()).await.is_err());
    client.get(MAPS).await.ok();
    server.shutdown().await;
}

// contract: E-06c
#[tokio::test]
async fn truncated_lists_and_watches() {
    let (server, client) = with_maps(20).await;
    let faults = server.faults();
    faults.inject(Fault::truncate().on(Verb::List));
    let response = client.raw(Method::GET, MAPS, &[], "").await.unwrap();
    let body = http_body_util::BodyExt::collect(response.into_body()).await;
    assert!(body.is_err(), "the list must not look complete");

    let version = server.version();
    faults.inject(Fault::truncate().on(Verb::Watch).after_events(2));
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    // All written at once: the fault fires between two events.
    for name in ["a", "b", "c", "d"] {
        server.create(config_map(name, "1")).unwrap();
    }
    for name in ["a", "b"] {
        assert_eq!(watch.kind_and_name().await, pair("ADDED", name));
    }
    let Err(WatchEnd::Broken(rest)) = watch.next().await else { panic!("the watch continued") };
    assert!(rest.starts_with("{\"type\":"), "within a frame: {rest:?}");

    // An open and idle watch.
    let version = server.version();
    let mut idle = client.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    faults.inject(Fault::truncate().on(Verb::Watch));
    assert!(matches!(idle.next().await, Err(WatchEnd::Broken(_))));
}

// contract: E-06e
#[tokio::test]
async fn half_open_connections() {
    let (server, client) = with_maps(1).await;
    let faults = server.faults();
    let version = server.version();
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    faults.inject(Fault::stall().on(Verb::Watch));
    server.create(config_map("a", "1")).unwrap();
    assert!(timeout(Duration::from_millis(50), watch.next()).await.is_err(), "neither an event nor an end");
    faults.inject(Fault::stall().on(Verb::List));
    let list = client.raw(Method::GET, MAPS, &[], "");
    tokio::pin!(list);
    assert!(timeout(Duration::from_millis(50), list.as_mut()).await.is_err());
    assert_eq!(server.metrics().open_watches, 1);
    server.shutdown().await;
}

// contract: E-06f
#[tokio::test]
async fn malformed_objects_keep_their_key() {
    let (server, client) = with_maps(3).await;
    let faults = server.faults();
    faults.inject(Fault::malformed().on(Verb::List));
    let list = client.get(MAPS).await.ok();
    assert_eq!(names(&list).len(), 3);
    assert_eq!(list["items"][0]["data"], "malformed");
    assert_eq!(list["items"][1]["data"], json!({"key": "1"}));
    let version = server.version();
    faults.inject(Fault::malformed().on(Verb::Watch));
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    server.create(config_map("a", "1")).unwrap();
    server.create(config_map("b", "1")).unwrap();
    let event = watch.next().await.unwrap();
    assert_eq!(
        (&event["object"]["metadata"]["name"], &event["object"]["data"]),
        (&json!("a"), &json!("malformed"))
    );
    assert_eq!(watch.next().await.unwrap()["object"]["data"], json!({"key": "1"}));
    // Also among the initial events.
    faults.inject(Fault::malformed().on(Verb::Watch).after_events(1));
    let mut watch = client.watch(&format!("{MAPS}?watch=1")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["data"], json!({"key": "1"}));
    assert_eq!(watch.next().await.unwrap()["object"]["data"], "malformed");
}

/// A bookmark is skipped, an event is sent twice, and an open watch expires.
// contract: E-06d, E-06g, E-06h, E-04f
#[tokio::test]
async fn missing_duplicate_and_expired_events() {
    let (server, client) = with_maps(1).await;
    let faults = server.faults();
    let watch_list =
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    faults.inject(Fault::missing_bookmark());
    faults.inject(Fault::duplicate_event());
    let mut watch = client.watch(&format!("{MAPS}?{watch_list}")).await;
    assert_eq!(watch.kind_and_name().await, pair("ADDED", "m0"));
    server.create(config_map("a", "1")).unwrap();
    assert_eq!(watch.kind_and_name().await, pair("ADDED", "a"), "no bookmark was sent");
    assert_eq!(watch.kind_and_name().await, pair("ADDED", "a"), "the event is sent twice");
    faults.inject(Fault::expired_event());
    let error = watch.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(watch.next().await, Err(WatchEnd::Regular));
}

// contract: E-06i
#[tokio::test]
async fn dropped_connections_break_all_watches() {
    let (server, client) = with_maps(1).await;
    let version = server.version();
    let path = format!("{MAPS}?watch=1&resourceVersion={version}");
    let mut first = client.watch(&path).await;
    let mut second = client.watch(&path).await;
    server.drop_connections();
    assert!(matches!(first.next().await, Err(WatchEnd::Broken(_))));
    assert!(matches!(second.next().await, Err(WatchEnd::Broken(_))));
    let mut again = client.watch(&path).await;
    server.create(config_map("a", "1")).unwrap();
    assert_eq!(again.kind_and_name().await, pair("ADDED", "a"));
}
