//! An informer, and the page that shows it, two controllers and a ring, whose figures do not change.
//!
//! `cargo run -p kinformer-serve --example controllers` prints the address of the page, and runs until Ctrl-C.

#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kinformer::SharedInformerFactory;
use kinformer_apiserver::ApiServer;
use kinformer_serve::{
    CauseView, ControllerView, Controllers, CountsView, FailureView, LeadershipView, MovedView, QueueView,
    ReconciliationView, RingProcessView, RingView, RunningView, Server, SlotRange,
};
use serde_json::json;

/// The controllers `web`, of pods, and `done`.
struct Fixed;

fn ranges(slots: &[(u32, u32)]) -> Vec<SlotRange> {
    slots.iter().map(|(first, last)| SlotRange { first: *first, last: *last }).collect()
}

fn start() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

impl Controllers for Fixed {
    fn controllers(&self) -> Vec<ControllerView> {
        let queue =
            QueueView { ready: 3, delayed: 2, in_flight: 1, longest_running: Some(Duration::from_secs(75)) };
        let web = ControllerView {
            name: "web".into(),
            resource: Some("pods".into()),
            state: "running".into(),
            queue,
            workers: 4,
            running: vec![RunningView { key: "default/web-0".into(), since: start() }],
            counts: CountsView { succeeded: 1234, failed: 2, ..CountsView::default() },
            failures: vec![FailureView {
                key: "default/web-1".into(),
                error: "<img src=x onerror=alert(1)> not pulled".into(),
                attempt: 2,
                time: start(),
            }],
            ..ControllerView::default()
        };
        let error = Some("the informer has stopped".into());
        let done = ControllerView {
            name: "done".into(),
            state: "stopped".into(),
            error,
            ..ControllerView::default()
        };
        vec![web, done]
    }

    fn reconciliations(&self, controller: &str, key: &str) -> Vec<ReconciliationView> {
        if (controller, key) != ("web", "default/web-0") {
            return Vec::new();
        }
        let cause = CauseView {
            event: "updated".into(),
            resource: "configmaps".into(),
            key: Some("default/c".into()),
        };
        let done = ReconciliationView {
            id: "0a".into(),
            reasons: vec!["mapped".into()],
            cause: Some(cause),
            queued: Duration::from_millis(250),
            took: Some(Duration::from_secs(2)),
            result: "error".into(),
            error: Some("image not pulled".into()),
            time: start(),
        };
        let running = ReconciliationView {
            id: "0b".into(),
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
        let process = |identity: &str, state: &str, renewed, slots: &[(u32, u32)]| RingProcessView {
            identity: identity.into(),
            weight: Some(1),
            state: state.into(),
            renewed: Some(renewed),
            slots: ranges(slots),
        };
        let now = SystemTime::from(jiff::Timestamp::now());
        Some(RingView {
            name: "shop".into(),
            identity: "shop-6d9f-1".into(),
            slots: 1024,
            field: "object.metadata.uid".into(),
            lease_duration: Duration::from_secs(15),
            processes: vec![
                process("shop-6d9f-0", "joined", start(), &[(0, 199), (512, 653)]),
                process("shop-6d9f-1", "joined", now, &[(200, 511)]),
                process("shop-6d9f-2", "leaving", now, &[(700, 1023)]),
            ],
            owned: ranges(&[(200, 511)]),
            unowned: ranges(&[(654, 654), (656, 699)]),
            moved: MovedView { begun: 1365, released: 1053, stopped: 0 },
            problem: None,
            error: Some("the server <b>did not answer</b>".into()),
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = ApiServer::builder().start().await?;
    for name in ["web-0", "web-1"] {
        cluster.create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        }))?;
    }
    let factory = SharedInformerFactory::new(kinformer::client(cluster.config()?)?);
    let pods = factory.core().v1().pods();
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;
    let server = Server::builder().informer(&pods).controllers(Fixed).listen(([127, 0, 0, 1], 0).into());
    let server = server.bind().await?;
    println!("{}", server.url());
    server.run(kinformer::CancellationToken::new()).await;
    Ok(())
}
