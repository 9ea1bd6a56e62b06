//! Live events, and the histories of objects.

use std::time::Duration;

use http::Method;
use kinformer_serve::Limits;
use kinformer_testing::wait::within;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::common::{PODS, World, node, pod};

fn with_phase(name: &str, phase: &str) -> serde_json::Value {
    let mut pod = pod(name);
    pod["status"]["phase"] = phase.into();
    pod
}

/// A metric of the server.
async fn figure(world: &World, name: &str) -> u64 {
    let metrics = world.client.get("/metrics").await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

// contract: H-10a
#[tokio::test]
async fn stream_has_states_and_changes() {
    let world = World::start(2).await;
    let mut stream = world.client.stream("/api/v1/events", &[]).await;
    let first = stream.next().await.unwrap();
    assert_eq!(first.name, "state", "the state comes first");
    assert_eq!(first.data["informers"].as_array().unwrap().len(), 2);
    let old = world.pods.lister().get(("shop", "web-0")).unwrap();
    let updated = world.put(with_phase("web-0", "Failed")).await;
    let added = world.put(pod("web-9")).await;
    world.delete("web-1").await;
    let mut changes = Vec::new();
    while changes.len() < 3 {
        changes.push(stream.next_of(&["change"]).await);
    }
    assert!(changes.is_sorted_by_key(|change| change.id.unwrap()));
    let [update, add, delete] = &changes[..] else { panic!("{changes:?}") };
    let change = &update.data;
    assert_eq!(
        (&change["type"], &change["informer"], &change["key"]),
        (&"updated".into(), &"pods".into(), &"shop/web-0".into())
    );
    assert_eq!(change["oldResourceVersion"], old.resource_version().to_string());
    assert_eq!(change["resourceVersion"], updated["metadata"]["resourceVersion"]);
    assert_eq!(
        change["diff"],
        serde_json::json!([{"path": "status.phase", "old": "Running", "new": "Failed"}])
    );
    assert_eq!((&change["uid"], &change["diffTruncated"]), (&updated["metadata"]["uid"], &false.into()));
    assert_eq!((&add.data["type"], &add.data["uid"]), (&"added".into(), &added["metadata"]["uid"]));
    assert_eq!((&delete.data["type"], &delete.data["name"]), (&"deleted".into(), &"web-1".into()));
    assert_eq!(delete.data["finalStateUnknown"], false);
    assert!(add.data.get("diff").is_none() && delete.data.get("diff").is_none());
    // Once a second.
    stream.next_of(&["state"]).await;
    drop(stream);
    world.end().await;
}

// contract: H-10b
#[tokio::test]
async fn stream_resumes_after_a_change() {
    let world = World::start(1).await;
    let mut stream = world.client.stream("/api/v1/events", &[]).await;
    world.put(with_phase("web-0", "Failed")).await;
    let first = stream.next_of(&["change"]).await;
    drop(stream);
    for number in 1..=5 {
        world.put(pod(&format!("web-{number}"))).await;
    }
    let id = first.id.unwrap();
    let resumed = [
        world.client.stream(&format!("/api/v1/events?since={id}"), &[]).await,
        world.client.stream("/api/v1/events?since=1", &[("last-event-id", &id.to_string())]).await,
        world.client.stream(&format!("/api/v1/events?informer=pods&since={id}"), &[]).await,
    ];
    for mut stream in resumed {
        for number in 1..=5 {
            let event = stream.next_of(&["change", "gap"]).await;
            assert_eq!(event.data["name"], format!("web-{number}"), "{event:?}");
        }
    }
    let mut one = world.client.stream(&format!("/api/v1/events?key=shop/web-3&since={id}"), &[]).await;
    assert_eq!(one.next_of(&["change"]).await.data["name"], "web-3");
    // An identifier of another server begins with a gap, and with all that the memory has.
    for since in ["0", "1", "9007199254740991", "18446744073709551615"] {
        let mut other = world.client.stream(&format!("/api/v1/events?since={since}"), &[]).await;
        other.next_of(&["gap"]).await;
        assert_eq!(other.next_of(&["change"]).await.id, Some(id));
    }
    drop(one);
    world.end().await;
}

/// A stream has a position before its first change, and after changes that it does not select.
// contract: H-10b
#[tokio::test]
async fn stream_resumes_after_a_state() {
    let limits = Limits::default().changes(3);
    let world = World::with(1, |factory| factory, |server| server.limits(limits)).await;
    let mut stream = world.client.stream("/api/v1/events?informer=nodes", &[]).await;
    let first = stream.next_of(&["state"]).await.id.unwrap();
    let resume = |id: u64| format!("/api/v1/events?informer=nodes&since={id}");
    world.cluster.create(node("node-2")).unwrap();
    let mut resumed = world.client.stream(&resume(first), &[]).await;
    assert_eq!(resumed.next_of(&["change", "gap"]).await.data["name"], "node-2");
    for number in 0..5 {
        world.put(pod(&format!("other-{number}"))).await;
    }
    let last = loop {
        let id = stream.next_of(&["state"]).await.id.unwrap();
        if id == first + 6 {
            break id;
        }
    };
    let mut resumed = world.client.stream(&resume(last), &[]).await;
    world.cluster.create(node("node-3")).unwrap();
    let event = resumed.next_of(&["change", "gap"]).await;
    assert_eq!(event.data["name"], "node-3", "no gap for changes that are not selected: {event:?}");
    drop((stream, resumed));
    world.end().await;
}

// contract: H-10c
#[tokio::test]
async fn skipped_changes_are_a_gap() {
    let limits = Limits::default().changes_per_second(10);
    let world = World::with(1, |factory| factory, |server| server.limits(limits)).await;
    let mut stream = world.client.stream("/api/v1/events?informer=pods", &[]).await;
    stream.next_of(&["state"]).await;
    for number in 0..100 {
        world.put(with_phase("web-0", &format!("phase-{number}"))).await;
    }
    let (mut sent, mut skipped) = (0, 0);
    while sent + skipped < 100 {
        let event = stream.next_of(&["change", "gap"]).await;
        if event.name == "change" {
            sent += 1;
            if sent + skipped == 100 {
                assert_eq!(event.data["diff"][0]["new"], "phase-99", "the newest are sent: {event:?}");
            }
        } else {
            assert_eq!(event.data["informer"], "pods");
            skipped += event.data["skipped"].as_u64().unwrap();
        }
    }
    assert_eq!(sent + skipped, 100);
    assert!(skipped > 0 && sent >= 20, "{sent} sent, {skipped} skipped");
    drop(stream);
    world.end().await;
}

/// A client that reads nothing: the memory of changes stays bounded, and the stream continues with a gap.
// contract: H-10c, H-10d, H-12
#[tokio::test]
async fn slow_client_costs_no_memory() {
    let limits = Limits::default().changes(20).change_bytes(1 << 20);
    let world = World::with(1, |factory| factory, |server| server.limits(limits)).await;
    let mut stream = world.client.stream("/api/v1/events?informer=pods", &[]).await;
    stream.next_of(&["state"]).await;
    // Each change is larger than what is in flight between server and client.
    for number in 0..40 {
        let mut large = pod("web-0");
        large["metadata"]["annotations"]["large"] = format!("{number} {}", "x".repeat(100_000)).into();
        world.put(large).await;
    }
    assert!(figure(&world, "kinformer_serve_changes").await <= 20);
    assert!(figure(&world, "kinformer_serve_change_bytes").await <= 1 << 20, "old and new states count");
    let mut all = 0;
    while all < 40 {
        let event = stream.next_of(&["change", "gap"]).await;
        all += if event.name == "gap" { event.data["skipped"].as_u64().unwrap() } else { 1 };
    }
    let mut again = world.client.stream("/api/v1/events?informer=pods&since=1", &[]).await;
    again.next_of(&["gap"]).await;
    drop((stream, again));
    world.end().await;
}

// contract: H-10e
#[tokio::test]
async fn number_of_streams_is_bounded() {
    let world = World::with(1, |factory| factory, |server| server.limits(Limits::default().streams(2))).await;
    let one = world.client.stream("/api/v1/events", &[]).await;
    let two = world.client.stream("/api/v1/events", &[]).await;
    let refused = world.client.get("/api/v1/events").await;
    refused.fails(503, "TooManyStreams");
    assert_eq!(refused.header("retry-after"), "10");
    assert!(world.client.get("/metrics").await.text().contains("kinformer_serve_streams 2"));
    drop((one, two));
    let free = world.until("/metrics", |reply| reply.text().contains("kinformer_serve_streams 0")).await;
    drop(free);
    drop(world.client.stream("/api/v1/events", &[]).await);
    world.end().await;
}

/// A pod whose difference to others is large.
fn with_large_differences(number: usize) -> serde_json::Value {
    let mut large = pod("web-0");
    for annotation in 0..50 {
        large["metadata"]["annotations"][format!("a{annotation}")] =
            format!("{number} {}", "x".repeat(3000)).into();
    }
    large
}

// contract: H-10f
#[tokio::test]
async fn changes_are_encoded_once() {
    const CHANGES: usize = 4;
    for streams in [1, 60] {
        let world = World::start(1).await;
        let mut open = Vec::new();
        for _ in 0..streams {
            let mut stream = world.client.stream("/api/v1/events", &[]).await;
            stream.next_of(&["state"]).await;
            open.push(stream);
        }
        for number in 0..CHANGES {
            world.put(with_large_differences(number)).await;
        }
        for stream in &mut open {
            for _ in 0..CHANGES {
                assert_eq!(stream.next_of(&["change", "gap"]).await.data["type"], "updated");
            }
        }
        let history = world.client.ok(&format!("{PODS}/objects/shop/web-0/history")).await;
        assert_eq!(history["items"].as_array().unwrap().len(), CHANGES);
        assert_eq!(figure(&world, "kinformer_serve_encoded_changes_total").await, CHANGES as u64);
        drop(open);
        world.end().await;
    }
}

/// The connection stays open, and its client reads nothing.
// contract: H-10g
#[tokio::test]
async fn stream_that_nobody_reads_ends() {
    let limits = Limits::default().streams(1).write_timeout(Duration::from_millis(200));
    let world = World::with(1, |factory| factory, |server| server.limits(limits)).await;
    let mut unread = TcpStream::connect(world.client.address).await.unwrap();
    unread.write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    world.until("/metrics", |reply| reply.text().contains("kinformer_serve_streams 1")).await;
    let writes = async {
        let mut number = 0;
        while figure(&world, "kinformer_serve_streams").await == 1 {
            number += 1;
            world.put(with_large_differences(number)).await;
        }
    };
    within("the end of the stream", writes).await;
    let read = world.client.stream("/api/v1/events", &[]).await;
    drop((unread, read));
    world.end().await;
}

// contract: H-11, H-12
#[tokio::test]
async fn history_of_an_object() {
    let limits = Limits::default().changes(5);
    let world = World::with(2, |factory| factory, |server| server.limits(limits)).await;
    let path = format!("{PODS}/objects/shop/web-0/history");
    let empty = world.client.ok(&path).await;
    assert_eq!((&empty["complete"], &empty["items"]), (&true.into(), &serde_json::json!([])));
    world.put(with_phase("web-0", "Failed")).await;
    world.put(with_phase("web-1", "Failed")).await;
    world.delete("web-0").await;
    world.put(pod("web-0")).await;
    let history = world.client.ok(&path).await;
    let kinds: Vec<&str> =
        history["items"].as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["updated", "deleted", "added"]);
    assert_eq!((&history["key"], &history["complete"]), (&"shop/web-0".into(), &true.into()));
    assert_eq!(history["items"][0]["diff"][0]["path"], "status.phase");
    for number in 0..5 {
        world.put(with_phase("web-1", &format!("phase-{number}"))).await;
    }
    let history = world.until(&path, |reply| reply.json()["complete"] == false).await.json();
    assert_eq!(history["items"], serde_json::json!([]), "the oldest changes were dropped");
    world.end().await;
}

// contract: H-24
#[tokio::test]
async fn shutdown_ends_streams_and_leaves_nothing() {
    let world = World::start(1).await;
    let mut stream = world.client.stream("/api/v1/events", &[]).await;
    stream.next_of(&["state"]).await;
    let idle = tokio::net::TcpStream::connect(world.client.address).await.unwrap();
    let World { cluster, factory, pods, server, client, .. } = world;
    within("the server", server.shutdown()).await;
    let ended = async { while stream.next().await.is_some() {} };
    within("the end of the stream", ended).await;
    assert!(tokio::net::TcpStream::connect(client.address).await.is_err(), "nothing listens");
    assert!(pods.status().metrics().handlers.is_empty(), "{:?}", pods.status().metrics().handlers);
    drop(idle);
    factory.shutdown().await.unwrap();
    cluster.shutdown().await;
}

/// Resuming with a header needs a valid one.
// contract: H-20
#[tokio::test]
async fn invalid_identifier_is_refused() {
    let world = World::start(1).await;
    let reply = world.client.request(Method::GET, "/api/v1/events", &[("last-event-id", "x")]).await;
    reply.fails(400, "BadRequest");
    world.end().await;
}
