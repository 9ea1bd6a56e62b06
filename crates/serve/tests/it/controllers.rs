//! Controllers of a program.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kinformer_serve::{
    CauseView, ControllerView, Controllers, CountsView, FailureView, LeadershipView, MovedView, QueueView,
    ReconciliationView, RingProcessView, RingView, RunningView, Server, SlotRange,
};
use serde_json::json;

use crate::common::{Client, World};

/// 2026-01-01T00:00:00Z
fn start() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

/// Two controllers: one of pods, and one of secrets. The reconciliations of `a key/panic` panic.
pub struct Provided;

impl Controllers for Provided {
    fn controllers(&self) -> Vec<ControllerView> {
        let web = ControllerView {
            name: "web".into(),
            resource: Some("pods".into()),
            state: "running".into(),
            error: None,
            queue: QueueView {
                ready: 3,
                delayed: 2,
                in_flight: 1,
                longest_running: Some(Duration::from_millis(1500)),
            },
            workers: 4,
            running: vec![RunningView { key: "shop/web-0".into(), since: start() }],
            counts: CountsView {
                succeeded: 5,
                requeued: 1,
                failed: 2,
                permanent: 1,
                panicked: 0,
                timed_out: 0,
            },
            failures: vec![FailureView {
                key: "shop/web-1".into(),
                error: "no <image>".into(),
                attempt: 2,
                time: start(),
            }],
        };
        let secrets = ControllerView {
            name: "a/b c".into(),
            resource: Some("secrets".into()),
            state: "stopped".into(),
            error: Some("the key s3cret".into()),
            ..web.clone()
        };
        vec![web, secrets]
    }

    fn reconciliations(&self, controller: &str, key: &str) -> Vec<ReconciliationView> {
        assert_ne!(key, "shop/panic", "the provider fails");
        if (controller, key) != ("web", "shop/web-0") {
            return Vec::new();
        }
        let cause = |resource: &str| CauseView {
            event: "updated".into(),
            resource: resource.into(),
            key: Some("shop/s3cret".into()),
        };
        let done = ReconciliationView {
            id: "0a".into(),
            reasons: vec!["updated".into(), "owned".into()],
            cause: Some(cause("configmaps")),
            queued: Duration::from_millis(250),
            took: Some(Duration::from_secs(2)),
            result: "error".into(),
            error: Some("no image".into()),
            time: start(),
        };
        let running = ReconciliationView {
            id: "0b".into(),
            cause: Some(cause("secrets")),
            took: None,
            result: "running".into(),
            error: None,
            ..done.clone()
        };
        vec![running, done]
    }

    fn leadership(&self) -> Option<LeadershipView> {
        Some(LeadershipView { holder: Some("pod-1".into()), since: Some(start()), is_leader: true })
    }

    fn ring(&self) -> Option<RingView> {
        let range = |first, last| SlotRange { first, last };
        let process = RingProcessView {
            identity: "a".into(),
            weight: Some(2),
            state: "joined".into(),
            renewed: Some(start()),
            slots: vec![range(0, 340), range(512, 512)],
        };
        Some(RingView {
            name: "shop".into(),
            identity: "a".into(),
            slots: 1024,
            field: "object.metadata.uid".into(),
            lease_duration: Duration::from_secs(15),
            processes: vec![process],
            owned: vec![range(0, 340)],
            unowned: Vec::new(),
            moved: MovedView { begun: 3, released: 2, stopped: 1 },
            problem: Some("the lease is not renewed".into()),
            error: None,
        })
    }
}

// contract: H-31d
#[tokio::test]
async fn ring_of_the_program() {
    let world = World::with(1, |factory| factory, |server| server.controllers(Provided)).await;
    let ring = world.client.ok("/api/v1/ring").await["ring"].clone();
    let expected = json!({
        "name": "shop", "identity": "a", "slots": 1024, "field": "object.metadata.uid", "leaseDuration": 15.0,
        "processes": [{
            "identity": "a", "weight": 2, "state": "joined", "renewed": "2026-01-01T00:00:00.000Z",
            "slots": [{"first": 0, "last": 340}, {"first": 512, "last": 512}],
        }],
        "owned": [{"first": 0, "last": 340}], "unowned": [],
        "moved": {"begun": 3, "released": 2, "stopped": 1},
        "problem": "the lease is not renewed", "error": null,
    });
    assert_eq!(ring, expected);
    let schemas = world.client.ok("/openapi.json").await["components"]["schemas"].clone();
    let fields = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for (schema, value) in [
        ("Ring", &expected),
        ("RingProcess", &expected["processes"][0]),
        ("SlotRange", &expected["owned"][0]),
        ("MovedSlots", &expected["moved"]),
    ] {
        assert_eq!(fields(&schemas[schema]["properties"]), fields(value), "{schema}");
    }
    world.end().await;
}

// contract: H-31a, H-31b
#[tokio::test]
async fn controllers_and_reconciliations() {
    let world = World::with(1, |factory| factory, |server| server.controllers(Provided)).await;
    let all = world.client.ok("/api/v1/controllers").await;
    let leadership = json!({"holder": "pod-1", "since": "2026-01-01T00:00:00.000Z", "isLeader": true});
    assert_eq!(all["leadership"], leadership);
    let web = json!({
        "name": "web", "resource": "pods", "state": "running", "error": null, "hidden": false, "workers": 4,
        "queue": {"ready": 3, "delayed": 2, "inFlight": 1, "longestRunning": 1.5},
        "running": [{"key": "shop/web-0", "since": "2026-01-01T00:00:00.000Z"}],
        "counts": {"succeeded": 5, "requeued": 1, "failed": 2, "permanent": 1, "panicked": 0, "timedOut": 0},
        "failures": [
            {"key": "shop/web-1", "error": "no <image>", "attempt": 2, "time": "2026-01-01T00:00:00.000Z"},
        ],
    });
    assert_eq!(all["controllers"][0], web);
    assert_eq!(world.client.ok("/api/v1/controllers/web").await, web);
    assert_eq!(world.client.ok("/api/v1/controllers/a%2Fb%20c").await["state"], "stopped");
    let path = "/api/v1/controllers/web/reconciliations";
    let of = world.client.ok(&format!("{path}?key=shop/web-0")).await;
    assert_eq!(of["key"], "shop/web-0");
    assert_eq!(
        of["items"][1],
        json!({
            "id": "0a", "reasons": ["updated", "owned"], "queued": 0.25, "took": 2.0, "result": "error",
            "cause": {"event": "updated", "resource": "configmaps", "key": "shop/s3cret"},
            "error": "no image", "time": "2026-01-01T00:00:00.000Z",
        })
    );
    assert_eq!((&of["items"][0]["took"], &of["items"][0]["error"]), (&json!(null), &json!(null)));
    assert_eq!(world.client.ok(&format!("{path}?key=shop%2Fnone")).await["items"], json!([]));
    world.client.get(path).await.fails(400, "BadRequest");
    for missing in ["/api/v1/controllers/none", "/api/v1/controllers/none/reconciliations?key=a"] {
        let message = world.client.get(missing).await.fails(404, "NotFound");
        assert!(message.contains("web, a/b c"), "{message}");
    }
    world.client.get("/api/v1/controllers/web/other").await.fails(404, "NotFound");
    world.end().await;
}

/// Without a provider there are no controllers.
#[tokio::test]
async fn no_controllers() {
    let server = Server::builder().listen("127.0.0.1:0".parse().unwrap()).bind().await.unwrap().spawn();
    let client = Client { address: server.local_addr() };
    let all = client.ok("/api/v1/controllers").await;
    assert_eq!((&all["controllers"], &all["leadership"]), (&json!([]), &json!(null)));
    assert_eq!(client.ok("/api/v1/ring").await["ring"], json!(null));
    let message = client.get("/api/v1/controllers/web").await.fails(404, "NotFound");
    assert!(message.ends_with("none"), "{message}");
    server.shutdown().await;
}

// contract: H-31c
#[tokio::test]
async fn provider_that_panics() {
    let world = World::with(1, |factory| factory, |server| server.controllers(Provided)).await;
    let reply = world.client.get("/api/v1/controllers/web/reconciliations?key=shop/panic").await;
    let message = reply.fails(500, "InternalError");
    assert!(message.contains("the provider fails"), "{message}");
    world.client.ok("/api/v1/controllers/web").await;
    world.end().await;
}

/// Keys of secrets and errors that may quote hidden fields are not shown.
// contract: H-15a, H-16a
#[tokio::test]
async fn hidden_parts_of_controllers() {
    let hide =
        |server: kinformer_serve::ServerBuilder| server.controllers(Provided).hide_field("spec.template");
    let world = World::with(1, |factory| factory, hide).await;
    let all = world.client.get("/api/v1/controllers").await;
    assert!(!all.text().contains("s3cret") && !all.text().contains("no <image>"), "{}", all.text());
    let secrets = &all.json()["controllers"][1];
    assert_eq!((&secrets["hidden"], &secrets["running"]), (&json!(true), &json!([])));
    assert_eq!(secrets["failures"], json!([]));
    let path = "/api/v1/controllers/a%2Fb%20c/reconciliations?key=shop/web-0";
    world.client.get(path).await.fails(403, "Hidden");
    let path = "/api/v1/controllers/web/reconciliations?key=shop/web-0";
    let of = world.client.ok(path).await;
    assert_eq!(of["items"][0]["cause"]["key"], json!(null), "of a secret");
    assert_eq!(of["items"][1]["error"], "the error may quote hidden values");
    world.end().await;
}
