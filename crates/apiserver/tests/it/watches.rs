//! Watches: their start, their events and their end.

use std::time::Duration;

use crate::common::{Client, WatchEnd, config_map, pair, pod, server};
use kinformer_apiserver::{ApiServer, Fault};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH_LIST: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

fn labelled(name: &str, label: &str) -> Value {
    let mut map = config_map(name, "1");
    map["metadata"]["labels"] = json!({"show": label});
    map
}

// contract: E-04a
#[tokio::test]
async fn watch_starts_after_its_version() {
    let server = server().await;
    let client = Client::new(&server);
    server.create(config_map("before", "1")).unwrap();
    let from = server.version();
    server.create(config_map("a", "1")).unwrap();
    server.create(pod("other")).unwrap();
    let mut watch = client.watch(&format!("{MAPS}?watch=true&resourceVersion={from}")).await;
    server.update(config_map("a", "2")).unwrap();
    server.delete("v1", "ConfigMap", "default", "a").unwrap();
    let first = watch.next().await.unwrap();
    assert_eq!((&first["type"], &first["object"]["kind"]), (&json!("ADDED"), &json!("ConfigMap")));
    assert_eq!(first["object"]["metadata"]["resourceVersion"], (from + 1).to_string());
    assert_eq!(watch.event().await, ("MODIFIED".into(), "a".into(), from + 3));
    let gone = watch.next().await.unwrap();
    assert_eq!((&gone["type"], &gone["object"]["data"]["key"]), (&json!("DELETED"), &json!("2")));
    assert_eq!(gone["object"]["metadata"]["resourceVersion"], (from + 4).to_string());
    assert_eq!(server.metrics().open_watches, 1);
}

/// A watch without a version, or from version 0, starts with the existing objects.
// contract: E-04a
#[tokio::test]
async fn watch_without_version_starts_with_state() {
    let server = server().await;
    let client = Client::new(&server);
    server.create(config_map("a", "1")).unwrap();
    server.create(config_map("b", "1")).unwrap();
    for query in ["watch=1", "watch=1&resourceVersion=0"] {
        let mut watch = client.watch(&format!("{MAPS}?{query}")).await;
        assert_eq!(watch.kind_and_name().await, pair("ADDED", "a"));
        assert_eq!(watch.kind_and_name().await, pair("ADDED", "b"));
        server.update(config_map("a", &format!("for {query}"))).unwrap();
        assert_eq!(watch.kind_and_name().await, pair("MODIFIED", "a"), "{query}");
    }
    let mut watch = client
        .watch(&format!("{MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"))
        .await;
    server.create(config_map("c", "1")).unwrap();
    assert_eq!(watch.kind_and_name().await, pair("ADDED", "c"), "initial events were not requested");
    let mut deprecated = client.watch("/api/v1/watch/namespaces/default/configmaps").await;
    assert_eq!(deprecated.kind_and_name().await, pair("ADDED", "a"));
    let mut one = client.watch(&format!("{MAPS}/b?watch=1")).await;
    assert_eq!(one.kind_and_name().await, pair("ADDED", "b"));
    server.update(config_map("a", "unseen")).unwrap();
    server.update(config_map("b", "seen")).unwrap();
    assert_eq!(one.kind_and_name().await, pair("MODIFIED", "b"));
}

// contract: E-04d
#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let server = server().await;
    let client = Client::new(&server);
    server.create(config_map("a", "1")).unwrap();
    server.create(pod("p")).unwrap();
    let version = server.version();
    let mut watch = client.watch(&format!("{MAPS}?{WATCH_LIST}&resourceVersion={version}")).await;
    assert_eq!(watch.kind_and_name().await, pair("ADDED", "a"));
    let bookmark = watch.next().await.unwrap();
    assert_eq!((&bookmark["type"], &bookmark["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], version.to_string());
    server.update(config_map("a", "2")).unwrap();
    assert_eq!(watch.event().await, ("MODIFIED".into(), "a".into(), version + 1));
    // Also without objects.
    let mut empty = client.watch(&format!("/api/v1/secrets?{WATCH_LIST}")).await;
    let bookmark = empty.next().await.unwrap();
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

// contract: E-04b, E-04c
#[tokio::test]
async fn bookmarks_advance_with_other_resources() {
    let server = ApiServer::builder().bookmark_interval(Duration::from_millis(20)).start().await.unwrap();
    let client = Client::new(&server);
    let from = server.version();
    let mut watch =
        client.watch(&format!("{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={from}")).await;
    server.create(pod("a")).unwrap();
    let version = server.version();
    loop {
        let (kind, _, bookmark) = watch.event().await;
        assert_eq!(kind, "BOOKMARK");
        if bookmark == version {
            break;
        }
    }
    let mut without = client.watch(&format!("{MAPS}?watch=1&resourceVersion={from}&timeoutSeconds=1")).await;
    assert_eq!(without.next().await, Err(WatchEnd::Regular), "this watch did not request bookmarks");
}

/// An object that starts to match the selector is added, and one that no longer matches is deleted.
// contract: E-04e
#[tokio::test]
async fn selector_changes_are_adds_and_deletes() {
    let server = server().await;
    let client = Client::new(&server);
    let from = server.version();
    let mut watch =
        client.watch(&format!("{MAPS}?watch=1&labelSelector=show%3Dyes&resourceVersion={from}")).await;
    let mut fields =
        client.watch(&format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Db&resourceVersion={from}")).await;
    server.create(labelled("a", "no")).unwrap();
    server.update(labelled("a", "yes")).unwrap();
    let mut changed = labelled("a", "yes");
    changed["data"]["key"] = "2".into();
    server.update(changed).unwrap();
    server.update(labelled("a", "no")).unwrap();
    server.delete("v1", "ConfigMap", "default", "a").unwrap();
    server.create(labelled("b", "yes")).unwrap();
    assert_eq!(watch.event().await, ("ADDED".into(), "a".into(), from + 2));
    assert_eq!(watch.event().await, ("MODIFIED".into(), "a".into(), from + 3));
    let left = watch.next().await.unwrap();
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["labels"]["show"], "yes", "the state that still matched");
    assert_eq!(
        left["object"]["metadata"]["resourceVersion"],
        (from + 4).to_string(),
        "at the version of the change"
    );
    assert_eq!(watch.event().await, ("ADDED".into(), "b".into(), from + 6), "the deletion of a is not seen");
    assert_eq!(fields.event().await, ("ADDED".into(), "b".into(), from + 6));
}

// contract: E-04f
#[tokio::test]
async fn too_old_version_is_an_error_event() {
    let server = server().await;
    let client = Client::new(&server);
    let from = server.version();
    server.create(config_map("a", "1")).unwrap();
    server.compact();
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={from}")).await;
    let error = watch.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    let status = &error["object"];
    assert_eq!(
        (&status["kind"], &status["code"], &status["reason"]),
        (&json!("Status"), &json!(410), &json!("Expired"))
    );
    assert_eq!(status["message"], format!("too old resource version: {from} ({})", from + 1));
    assert_eq!(watch.next().await, Err(WatchEnd::Regular));
    // A watch that is up to date continues.
    let now = server.version();
    let mut kept = client.watch(&format!("{MAPS}?watch=1&resourceVersion={now}")).await;
    server.create(pod("p")).unwrap();
    server.compact();
    server.update(config_map("a", "2")).unwrap();
    assert_eq!(kept.kind_and_name().await, pair("MODIFIED", "a"));
}

// contract: E-04c
#[tokio::test]
async fn watch_ends_at_timeout_or_when_dropped() {
    let server = server().await;
    let client = Client::new(&server);
    let version = server.version();
    let mut short = client.watch(&format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={version}")).await;
    let mut long =
        client.watch(&format!("{MAPS}?watch=1&timeoutSeconds=3000&resourceVersion={version}")).await;
    assert_eq!(short.next().await, Err(WatchEnd::Regular));
    server.drop_watches();
    assert_eq!(long.next().await, Err(WatchEnd::Regular));
    let mut after = client.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    server.create(config_map("a", "1")).unwrap();
    assert_eq!(after.kind_and_name().await, pair("ADDED", "a"));
}

/// A watch that falls behind the history is closed, so that it costs no memory.
// contract: E-04f, E-05b
#[tokio::test]
async fn lagging_watch_is_closed() {
    let server = ApiServer::builder().history(8).start().await.unwrap();
    let client = Client::new(&server);
    let version = server.version();
    let mut slow = client.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    // The writer does not yield, so the watch cannot keep up.
    server.create(config_map("a", "0")).unwrap();
    for value in 1..50 {
        server.update(config_map("a", &value.to_string())).unwrap();
    }
    assert_eq!(slow.next().await, Err(WatchEnd::Regular));
    assert_eq!(server.metrics().watches_overtaken, 1);
    let mut again = client.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    assert_eq!(again.next().await.unwrap()["object"]["code"], 410);
}

// contract: E-04a
#[tokio::test]
async fn watches_of_metadata_and_tables() {
    let server = server().await;
    let client = Client::new(&server);
    server.create(pod("a")).unwrap();
    let version = server.version();
    let path = format!("{PODS}?{WATCH_LIST}");
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut watch = client.watch_as(&path, &[("accept", metadata)]).await;
    let event = watch.next().await.unwrap();
    assert_eq!(
        (&event["object"]["kind"], event["object"].get("spec")),
        (&json!("PartialObjectMetadata"), None)
    );
    let bookmark = watch.next().await.unwrap();
    assert_eq!(
        (&bookmark["type"], &bookmark["object"]["kind"]),
        (&json!("BOOKMARK"), &json!("PartialObjectMetadata"))
    );
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut watch =
        client.watch_as(&format!("{PODS}?watch=1&resourceVersion={version}"), &[("accept", table)]).await;
    server.create(pod("b")).unwrap();
    server.create(pod("c")).unwrap();
    let (first, second) = (watch.next().await.unwrap(), watch.next().await.unwrap());
    assert_eq!(first["object"]["rows"][0]["cells"][0], "b");
    assert!(!first["object"]["columnDefinitions"].as_array().unwrap().is_empty());
    assert!(second["object"]["columnDefinitions"].as_array().unwrap().is_empty(), "sent once");
    let mut events = client.watch("/apis/events.k8s.io/v1/events?watch=1").await;
    server.create(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}, "message": "m"})).unwrap();
    let event = events.next().await.unwrap();
    assert_eq!(
        (&event["object"]["note"], &event["object"]["apiVersion"]),
        (&json!("m"), &json!("events.k8s.io/v1"))
    );
}

// contract: E-04a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_watches_get_all_events_in_order() {
    let server = server().await;
    let client = Client::new(&server);
    let version = server.version();
    let mut watchers = Vec::new();
    for _ in 0..10 {
        let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
        watchers.push(tokio::spawn(async move {
            let mut versions = Vec::new();
            while versions.len() < 500 {
                versions.push(watch.event().await.2);
            }
            versions
        }));
    }
    server.create(config_map("a", "0")).unwrap();
    for value in 1..500 {
        server.update(config_map("a", &value.to_string())).unwrap();
        if value % 10 == 0 {
            tokio::task::yield_now().await;
        }
    }
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), (version + 1..=version + 500).collect::<Vec<_>>());
    }
}

// contract: E-04a, E-06c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_watches_share_one_http2_connection() {
    let server = server().await;
    let client = Client::over_http2(&server);
    let version = server.version();
    let path = format!("{MAPS}?watch=1&resourceVersion={version}");
    let mut watches = Vec::new();
    for _ in 0..100 {
        watches.push(client.watch(&path).await);
    }
    assert_eq!((server.metrics().open_watches, server.metrics().open_connections), (100, 1));
    server.create(config_map("a", "1")).unwrap();
    for watch in &mut watches {
        assert_eq!(watch.kind_and_name().await, pair("ADDED", "a"));
    }
    // One watch is truncated; the others and the connection continue.
    let truncated = client.raw(http::Method::GET, &path, &[("x-kinformer-fault", "truncate")], "").await;
    // On a busy machine the reset may overtake the head of the response.
    if let Ok(response) = truncated {
        assert!(http_body_util::BodyExt::collect(response.into_body()).await.is_err());
    }
    server.create(config_map("b", "1")).unwrap();
    for watch in &mut watches {
        assert_eq!(watch.kind_and_name().await, pair("ADDED", "b"));
    }
    assert_eq!(server.metrics().open_connections, 1);
    tokio::time::timeout(crate::common::PATIENCE, server.shutdown()).await.unwrap();
}

// contract: E-04c, I-15
#[tokio::test]
async fn longest_timeout_is_unlimited() {
    let server = ApiServer::builder().bookmark_interval(Duration::MAX).start().await.unwrap();
    let client = Client::new(&server);
    server.create(config_map("before", "1")).unwrap();
    let query = format!(
        "watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
        server.version(),
        i64::MAX
    );
    let mut watch = client.watch(&format!("{MAPS}?{query}")).await;
    server.create(config_map("a", "1")).unwrap();
    assert_eq!(watch.kind_and_name().await, pair("ADDED", "a"));
    server.shutdown().await;
}

// contract: E-05d, E-05g
#[tokio::test]
async fn never_issued_versions_expire() {
    let before = server().await;
    before.create(config_map("a", "1")).unwrap();
    let old = before.version();
    before.shutdown().await;

    let server = server().await;
    assert!(server.version() > old, "versions of two servers do not overlap");
    server.create(config_map("b", "1")).unwrap();
    let client = Client::new(&server);
    for version in [1, old, server.version() + 1, u64::MAX] {
        let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
        let status = watch.next().await.unwrap();
        assert_eq!(status["type"], "ERROR", "{version}");
        assert_eq!(
            (&status["object"]["code"], &status["object"]["reason"]),
            (&json!(410), &json!("Expired"))
        );
        assert_eq!(watch.next().await, Err(WatchEnd::Regular));
    }
    // The current version was issued by this server.
    let now = server.version();
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={now}")).await;
    server.update(config_map("b", "2")).unwrap();
    assert_eq!(watch.event().await, ("MODIFIED".into(), "b".into(), now + 1));
}

/// A server can start at a given version. With the fault, a watch from a future version sends nothing at or below it.
// contract: E-05f, E-05g, E-08
#[tokio::test]
async fn future_version_watch_is_silent_below_it() {
    let server = ApiServer::builder()
        .first_version(1)
        .bookmark_interval(Duration::from_millis(5))
        .start()
        .await
        .unwrap();
    let client = Client::new(&server);
    server.create(config_map("a", "1")).unwrap();
    let first = server.version();
    assert!(first < 50, "{first}");
    let from = first + 2;
    server.faults().inject(Fault::future_versions());
    let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={from}");
    let mut watch = client.watch(&path).await;
    // The fault fires once, so the next such watch fails.
    assert_eq!(client.watch(&path).await.next().await.unwrap()["type"], "ERROR");
    server.update(config_map("a", "2")).unwrap();
    server.update(config_map("a", "3")).unwrap();
    assert_eq!(server.version(), from);
    // Events and bookmarks up to the requested version are not sent; the first event is above it.
    client.get(&format!("{MAPS}/a")).await;
    server.update(config_map("a", "4")).unwrap();
    assert_eq!(watch.event().await, ("MODIFIED".into(), "a".into(), from + 1));
    assert_eq!(server.faults().fired(), 1);
}
