//! The alerts of docs/observability/alerts.yaml: each is silent while all is well, fires after its fault, and ends after it. Programs
//! run in paused time on embedded servers, and Prometheus evaluates the rules on their pages.

mod operator;
mod prometheus;
mod scene;

use std::time::Duration;

use kinformer_apiserver::{Fault, Verb};
use serde_json::{Value, json};

use operator::Behavior;
use prometheus::Evaluation;
use scene::{Expected, Scene};

const MINUTE: Duration = Duration::from_secs(60);

/// A first list that is forbidden.
#[tokio::test(start_paused = true)]
async fn kinformer_informer_not_synced() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    let fault = scene.cluster.faults().inject(Fault::forbidden().resource("pods").always());
    scene.operators[0].watch_pods();
    scene.faulty(8 * MINUTE).await;
    scene.cluster.faults().remove(fault);
    let expected = Expected::new("KinformerInformerNotSynced").with("instance", "a").with("resource", "pods");
    scene.ends_with(&[expected]).await;
}

/// Lists and watches that fail, and watches that are forbidden.
#[tokio::test(start_paused = true)]
async fn kinformer_informer_out_of_date() {
    for fault in [Fault::internal_error(), Fault::forbidden().on(Verb::Watch)] {
        let mut scene = Scene::start().await;
        scene.healthy().await;
        let fault = scene.cluster.faults().inject(fault.resource("configmaps").always());
        scene.cluster.server().drop_watches();
        scene.faulty(8 * MINUTE).await;
        scene.cluster.faults().remove(fault);
        let expected = Expected::new("KinformerInformerOutOfDate").with("resource", "configmaps");
        scene.ends_with(&[expected]).await;
    }
}

/// An object whose fields have wrong types.
#[tokio::test(start_paused = true)]
async fn kinformer_decode_errors() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    scene.cluster.faults().inject(Fault::malformed().on(Verb::Watch).resource("configmaps"));
    scene.faulty(4 * MINUTE).await;
    scene.ends_with(&[Expected::new("KinformerDecodeErrors").with("resource", "configmaps")]).await;
}

/// The first list of a new program has such an object.
#[tokio::test(start_paused = true)]
async fn kinformer_decode_errors_of_a_new_program() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    scene.cluster.faults().inject(Fault::malformed().resource("configmaps").by("c"));
    scene.add("c");
    scene.faulty(4 * MINUTE).await;
    scene.ends_with(&[Expected::new("KinformerDecodeErrors").with("instance", "c")]).await;
}

#[tokio::test(start_paused = true)]
async fn kinformer_handler_behind() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    scene.operators[1].handler.set(Behavior::Hangs);
    scene.faulty(9 * MINUTE).await;
    scene.operators[1].handler.set(Behavior::Succeeds);
    let expected = Expected::new("KinformerHandlerBehind").with("instance", "b").with("handler", "report");
    scene.ends_with(&[expected.after(MINUTE)]).await;
}

#[tokio::test(start_paused = true)]
async fn kinformer_handler_panicked() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    scene.operators[0].handler.set(Behavior::PanicsOnce);
    scene.faulty(4 * MINUTE).await;
    let expected = Expected::new("KinformerHandlerPanicked").with("instance", "a").with("handler", "report");
    scene.ends_with(&[expected]).await;
}

/// A panic before the first scrape.
#[tokio::test(start_paused = true)]
async fn kinformer_handler_panicked_in_a_new_program() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    scene.add("c");
    scene.operators[2].handler.set(Behavior::PanicsOnce);
    scene.faulty(4 * MINUTE).await;
    scene.ends_with(&[Expected::new("KinformerHandlerPanicked").with("instance", "c")]).await;
}

/// Reconciliations of all objects, and those of one object while no other one changes: when the last successes are some time ago.
#[tokio::test(start_paused = true)]
async fn kinformer_reconcile_failing() {
    for (behavior, after) in [(Behavior::Fails, Duration::ZERO), (Behavior::FailsFor("map-0"), 2 * MINUTE)] {
        let mut scene = Scene::start().await;
        scene.healthy().await;
        scene.is_busy = behavior == Behavior::Fails;
        scene.reconciliations(behavior);
        scene.change("map-0");
        scene.faulty(14 * MINUTE).await;
        scene.is_busy = true;
        scene.reconciliations(Behavior::Succeeds);
        let expected = Expected::new("KinformerReconcileFailing").with("controller", "configmap");
        scene.ends_with(&[expected.after(after)]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn kinformer_reconcile_panicked() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    scene.reconciliations(Behavior::PanicsOnce);
    scene.faulty(4 * MINUTE).await;
    scene.ends_with(&[Expected::new("KinformerReconcilePanicked").with("controller", "configmap")]).await;
}

#[tokio::test(start_paused = true)]
async fn kinformer_reconcile_stuck() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    scene.reconciliations(Behavior::HangsFor("map-0"));
    scene.change("map-0");
    scene.faulty(13 * MINUTE).await;
    scene.reconciliations(Behavior::Succeeds);
    let expected = Expected::new("KinformerReconcileStuck").with("controller", "configmap");
    scene.ends_with(&[expected.after(5 * MINUTE)]).await;
}

/// Reconciliations that take longer than objects need to change. The workers take the first ones, so that those wait less.
#[tokio::test(start_paused = true)]
async fn kinformer_queue_behind() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    scene.reconciliations(Behavior::Takes(Duration::from_secs(280)));
    scene.faulty(15 * MINUTE).await;
    scene.reconciliations(Behavior::Succeeds);
    let expected = Expected::new("KinformerQueueBehind").with("controller", "configmap");
    scene.ends_with(&[expected.after(7 * MINUTE)]).await;
}

/// A Lease that cannot be written.
#[tokio::test(start_paused = true)]
async fn kinformer_no_leader() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    let fault = Fault::internal_error().resource("leases").name(operator::LEASE).always();
    let fault = scene.cluster.faults().inject(fault);
    scene.faulty(5 * MINUTE).await;
    scene.cluster.faults().remove(fault);
    scene.ends_with(&[Expected::new("KinformerNoLeader").with("name", operator::LEASE)]).await;
}

/// A process ends without a word, and the others cannot write the table.
#[tokio::test(start_paused = true)]
async fn kinformer_ring_slots_unowned() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    let fault = Fault::forbidden().on(Verb::Update).resource("leases").name(operator::RING).always();
    let fault = scene.cluster.faults().inject(fault);
    scene.crash("b");
    scene.faulty(8 * MINUTE).await;
    scene.cluster.faults().remove(fault);
    scene.ends_with(&[Expected::new("KinformerRingSlotsUnowned").with("name", operator::RING)]).await;
}

/// A process that cannot renew its Lease. The other one takes its slots.
#[tokio::test(start_paused = true)]
async fn kinformer_ring_member_out() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    let lease = format!("{}.b", operator::RING);
    let fault = scene.cluster.faults().inject(Fault::forbidden().resource("leases").name(lease).always());
    scene.faulty(8 * MINUTE).await;
    scene.cluster.faults().remove(fault);
    scene.ends_with(&[Expected::new("KinformerRingMemberOut").with("instance", "b")]).await;
}

/// Each query of the dashboard has a result, but those of the process and of clients for real servers.
#[tokio::test(start_paused = true)]
async fn dashboard_has_data() {
    let mut scene = Scene::start().await;
    scene.healthy().await;
    let dashboard: Value =
        serde_json::from_str(include_str!("../../../../docs/observability/dashboard.json")).unwrap();
    let targets =
        dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array());
    let queries = targets.flatten().map(|target| target["expr"].as_str().unwrap());
    let queries: Vec<String> = queries
        .filter(|query| !query.contains("process_") && !query.contains("rest_client_"))
        .map(|query| {
            query.replace("$__rate_interval", "1m").replace("$namespace", ".*").replace("$job", ".*")
        })
        .collect();
    assert!(queries.len() > 15, "{queries:?}");
    let rule = |(number, query)| json!({"alert": format!("Query{number}"), "expr": query});
    let rules: Vec<Value> = queries.iter().enumerate().map(rule).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    let groups = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    serde_json::to_writer(&file, &groups).unwrap();
    let Evaluation { alerts, .. } = Evaluation::of(file.path(), &scene.scrapes);
    for (number, query) in queries.iter().enumerate() {
        let name = format!("Query{number}");
        assert!(alerts.iter().any(|alert| alert.name == name && alert.firing), "{query}");
    }
}
