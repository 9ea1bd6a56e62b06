//! The spans of reconciliations, and the lines in them. A test binary of its own, because it records the spans of the
//! process.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]
#![allow(clippy::too_many_lines, reason = "a test shows each step of a case")]

#[allow(dead_code, unreachable_pub, reason = "the tests of the other binary use the rest")]
#[path = "it/common/mod.rs"]
mod common;

use std::sync::LazyLock;
use std::time::Duration;

use common::{Cluster, Running, config_map, key, recorded, short, until};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer_controller::{Action, Controller, Reason, ReconcileError, Trigger};
use kinformer_testing::spans::{RecordedSpan, SpanRecorder};
use serde_json::{Value, json};

/// The record of all tests of this file. Each test has a controller name of its own.
static RECORD: LazyLock<SpanRecorder> = LazyLock::new(SpanRecorder::of_this_process);

/// The closed spans of the reconciliations of a controller.
fn spans_of(controller: &str) -> Vec<RecordedSpan> {
    let is_own = |span: &RecordedSpan| {
        span.name == "reconcile"
            && span.is_closed
            && span.fields.get("kinformer.controller.name").is_some_and(|name| name == controller)
    };
    RECORD.spans().into_iter().filter(is_own).collect()
}

fn secret(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"value": value},
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [{"apiVersion": "v1",
            "kind": "ConfigMap", "name": "a", "uid": "u", "controller": true}]}})
}

/// A reconciliation has the reasons, the newest event of another object, the failures and the time in the queue; its span
/// has the same, and the result. A line within it is in the span, which is in that of the event.
// contract: K-19a, K-19b, K-19c, K-19d, K-19e
#[tokio::test]
async fn reconciliations_have_a_span_with_their_reasons_and_result() {
    LazyLock::force(&RECORD);
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    let (mut calls, reconcile) = recorded(|request| {
        tracing::info!(key = %request.key, "in a reconciliation");
        match (request.reasons.contains(Reason::Updated), request.failures) {
            (true, 0) => Err(ReconcileError::from("not yet")),
            (true, _) => Ok(Action::none()),
            _ if request.reasons.contains(Reason::Failed) => {
                Ok(Action::requeue_after(Duration::from_millis(1)))
            }
            _ => Ok(Action::none()),
        }
    });
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().owns::<Secret>().name("spans");
    let controller = builder.rate_limiter(short()).build(reconcile);
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    let listed = calls.next().await;
    assert_eq!(listed.reasons.to_string(), "listed");
    assert!(listed.cause.is_some_and(|cause| cause.key() == Some(&key("a"))), "its span is enabled");

    cluster.change("a", "2");
    assert_eq!(calls.next().await.reasons.to_string(), "updated");
    let retried = calls.next().await;
    assert_eq!((retried.reasons.to_string().as_str(), retried.failures), ("failed", 1));
    assert_eq!(calls.next().await.reasons.to_string(), "requested");

    cluster.create(secret("s", "1"));
    let owned = calls.next().await;
    assert_eq!(owned.reasons.to_string(), "owned");
    assert_eq!(owned.cause.unwrap().to_string(), "added secrets default/s");
    queue.add(key("a"));
    assert!(calls.next().await.reasons.is_empty());
    running.end().await.unwrap();
    cluster.end().await;

    until(|| spans_of("spans").len() == 6).await;
    let spans = spans_of("spans");
    let field = |span: usize, name: &str| spans[span].fields.get(name).cloned().unwrap_or_default();
    let column = |name: &str| (0..spans.len()).map(|span| field(span, name)).collect::<Vec<_>>();
    assert_eq!(
        column("kinformer.reconcile.reasons"),
        ["listed", "updated", "failed", "requested", "owned", ""]
    );
    assert_eq!(
        column("kinformer.reconcile.result"),
        ["success", "error", "requeue", "success", "success", "success"]
    );
    assert_eq!(column("otel.status_code"), ["", "ERROR", "", "", "", ""]);
    assert_eq!(column("kinformer.reconcile.failures"), ["0", "0", "1", "0", "0", "0"]);
    assert_eq!(field(4, "kinformer.reconcile.cause"), "added secrets default/s");
    for (index, span) in spans.iter().enumerate() {
        assert_eq!(field(index, "kinformer.reconcile.name"), "a");
        assert_eq!(field(index, "k8s.namespace.name"), "default");
        assert!(span.fields.contains_key("kinformer.reconcile.queued"));
    }
    let mut ids = column("kinformer.reconcile.id");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6);
    assert!(ids.iter().all(|id| id.len() == 32 && id[..16] == ids[0][..16]));
    let in_events: Vec<_> = spans.iter().map(|span| span.parents.clone()).collect();
    let (none, event) = (Vec::<&str>::new(), vec!["event"]);
    assert_eq!(in_events, [event.clone(), event.clone(), none.clone(), none.clone(), event, none]);
    let lines: Vec<_> =
        RECORD.lines().into_iter().filter(|line| line.fields["message"] == "in a reconciliation").collect();
    assert_eq!(lines.len(), 6);
    let is_in_span = |line: &kinformer_testing::spans::RecordedLine| {
        line.inherited["kinformer.controller.name"] == "spans" && line.parents.contains(&"reconcile")
    };
    assert!(lines.iter().all(is_in_span));
    let own = RECORD.lines().into_iter().filter(|line| line.level == tracing::Level::INFO);
    let own = own.filter(|line| line.fields.get("controller").is_some_and(|name| name == "spans"));
    let own: Vec<_> = own.map(|line| line.fields["message"].clone()).collect();
    assert_eq!(own, ["starting controller", "reconciling", "controller ended"]);
}

/// Several additions of a key lead to one reconciliation with the reasons of all. Keys of any type have a text; one whose
/// text panics is reconciled all the same.
// contract: K-19a
#[tokio::test]
async fn additions_are_merged() {
    LazyLock::force(&RECORD);
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let (sender, keys) = tokio::sync::mpsc::channel(10);
    cluster.create(config_map("a", "1"));
    let mapped = Trigger::on(&cluster.factory.informer::<ConfigMap>()).map(|_, keys| {
        keys.push(Key("a"));
        Ok(())
    });
    sender.send(Key("a")).await.unwrap();
    let builder = Controller::of(&cluster.factory).keyed("merged");
    let builder = builder.trigger(Trigger::channel(keys)).trigger(mapped);
    let controller = builder.build(reconcile);
    let running = Running::of(controller);
    let reasons = calls.next().await.reasons;
    assert!(reasons.iter().eq([Reason::Mapped, Reason::Stream]), "{reasons:?}");
    running.end().await.unwrap();
    cluster.end().await;
    let spans = spans_of("merged");
    assert!(spans[0].fields["kinformer.reconcile.name"].contains("panicked"), "{spans:#?}");
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key(&'static str);

impl std::fmt::Debug for Key {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("in a key")
    }
}
