//! Damaged answers of a server, from the wire to the handlers.

#[path = "../../../kube/tests/it/common/scripted.rs"]
mod scripted;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinformer::Object;
use kinformer::PartId;
use kinformer_kube::{Encoding, KubeListerWatcher};
use kinformer_processor::{Added, Deleted, Event, Updated};
use kinformer_reflector::{Backoff, ListerWatcher, WatchListMode};
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use scripted::{Answer, Damage, ENCODINGS, Scripted, event, list, list_of, pod};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const DAMAGES: [Damage; 4] = [Damage::Frame, Damage::Type, Damage::Metadata, Damage::Name];
const QUEUES: [QueueKind; 3] = [QueueKind::RealFifo, QueueKind::RealFifoByObject, QueueKind::DeltaFifo];

/// An informer, and the events of its handler.
struct Run<T: Object> {
    informer: SharedIndexInformer<T>,
    events: watch::Receiver<Vec<String>>,
    cancel: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), kinformer_shared_informer::Error>>,
}

fn start<T: Object>(source: impl ListerWatcher<T> + 'static, queue: QueueKind) -> Run<T> {
    let informer = SharedIndexInformer::builder(source)
        .queue(queue)
        .reflector(|options| {
            options
                .watch_list(WatchListMode::Off)
                .backoff(Backoff::from_delays(|| std::iter::repeat(Duration::from_millis(20))))
        })
        .build()
        .unwrap();
    let (received, events) = watch::channel(Vec::new());
    let text = |event: &Event<Arc<T>>| match event {
        Event::Added(Added { object, .. }) => format!("add {}@{}", object.key(), object.resource_version()),
        Event::Updated(Updated { new, .. }) => format!("update {}@{}", new.key(), new.resource_version()),
        Event::Deleted(Deleted { tombstone, .. }) => format!("delete {}", tombstone.key()),
        _ => unreachable!("not known to this test"),
    };
    informer
        .handler()
        .inline()
        .for_each(move |event| received.send_modify(|events| events.push(text(event))))
        .unwrap();
    let cancel = CancellationToken::new();
    let task = informer.spawn(cancel.clone());
    Run { informer, events, cancel, task }
}

impl<T: Object> Run<T> {
    async fn wait_for(&self, version: u64) {
        let waited = tokio::time::timeout(
            Duration::from_secs(60),
            self.informer.wait_for(PartId::ONLY, &version.into()),
        )
        .await;
        waited.unwrap_or_else(|_| panic!("{:?}, {:?}", self.stored(), self.informer.parts())).unwrap();
    }

    fn stored(&self) -> BTreeMap<String, String> {
        let snapshot = self.informer.snapshot();
        snapshot
            .iter()
            .map(|object| (object.key().to_string(), object.resource_version().to_string()))
            .collect()
    }

    async fn received(&self, event: &str) {
        let mut events = self.events.clone();
        let there = events.wait_for(|events| events.iter().any(|other| other == event));
        if tokio::time::timeout(Duration::from_secs(60), there).await.is_err() {
            panic!("timed out waiting for {event}: {:?}", self.events.borrow());
        }
    }

    /// Stops the informer, and returns the events of its handler.
    async fn stop(self) -> Vec<String> {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
        self.events.borrow().clone()
    }
}

fn pods(expected: &[(&str, u64)]) -> BTreeMap<String, String> {
    expected.iter().map(|(name, version)| (format!("default/{name}"), version.to_string())).collect()
}

/// A watch delivers three damaged events and an intact one. The next watch delivers all of them undamaged.
async fn damaged_once<K, T: Object>(
    encoding: Encoding,
    damage: Damage,
    source: impl Fn(kube_client::Client) -> KubeListerWatcher<K>,
) where
    KubeListerWatcher<K>: ListerWatcher<T> + 'static,
{
    let server = Scripted::start(move |request, before| {
        if !request.is_watch() {
            // Without a version, this is the request for the newest version after a watch that ended early.
            let version = if request.param("resourceVersion").is_some() { "10" } else { "14" };
            return Answer::ok(encoding, list(encoding, version, &[pod("a", 5), pod("b", 6)]));
        }
        let from: u64 = request.param("resourceVersion").unwrap().parse().unwrap();
        let first = !before.iter().any(|request| request == "watch 10");
        let damage = if first { damage } else { Damage::None };
        let changes = [("MODIFIED", "a", 11), ("ADDED", "c", 12), ("DELETED", "b", 13), ("ADDED", "d", 14)];
        let changes = changes.into_iter().filter(|(_, _, version)| *version > from);
        let body = changes.flat_map(|(event_type, name, version)| {
            let pod = pod(name, version);
            event(encoding, event_type, if version < 14 { pod.damaged(damage) } else { pod })
        });
        let answer = Answer::ok(encoding, body.collect());
        if first { answer } else { answer.stays_open() }
    })
    .await;
    let run = start(source(server.client()).encoding(encoding), QueueKind::RealFifo);
    run.wait_for(14).await;
    assert_eq!(run.stored(), pods(&[("a", 11), ("c", 12), ("d", 14)]), "{encoding:?} {damage:?}");
    let mut requests = server.requests();
    requests.retain(|request| request != "list - limit");
    assert_eq!(requests, ["list 0 limit", "watch 10", "watch 10"]);
    run.stop().await;
}

// contract: R-14a, R-14c, R-14e
#[tokio::test(flavor = "multi_thread")]
async fn damaged_event_is_not_lost() {
    for encoding in ENCODINGS {
        for damage in DAMAGES {
            damaged_once(encoding, damage, KubeListerWatcher::<Pod>::new).await;
            damaged_once(encoding, damage, KubeListerWatcher::packed::<Pod>).await;
        }
    }
}

fn expired() -> Answer {
    let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}"#;
    Answer::ok(Encoding::Json, status.into()).status("410 Gone")
}

/// One of the two objects of a relist is damaged. The list after it is complete.
async fn damaged_in_a_list<K, T: Object>(
    encoding: Encoding,
    damage: Damage,
    queue: QueueKind,
    source: impl Fn(kube_client::Client) -> KubeListerWatcher<K>,
) where
    KubeListerWatcher<K>: ListerWatcher<T> + 'static,
{
    let server = Scripted::start(move |request, before| {
        let lists = before.iter().filter(|request| request.starts_with("list")).count();
        let (a, b, c) = (pod("a", 5), pod("b", 6), pod("c", 7));
        match (request.is_watch(), lists) {
            (false, 0) => Answer::ok(encoding, list(encoding, "10", &[a, b, c])),
            (false, 1) => Answer::ok(encoding, list(encoding, "20", &[a, b.damaged(damage)])),
            (false, _) => Answer::ok(encoding, list(encoding, "30", &[a, b])),
            (true, 1) => expired(),
            (true, _) => Answer::ok(encoding, Vec::new()).stays_open(),
        }
    })
    .await;
    let run = start(source(server.client()).encoding(encoding), queue);
    server.requested("watch 20").await;
    assert_eq!(run.stored(), pods(&[("a", 5), ("b", 6), ("c", 7)]), "{encoding:?} {damage:?} {queue:?}");
    server.requested("watch 30").await;
    run.received("delete default/c").await;
    assert_eq!(run.stored(), pods(&[("a", 5), ("b", 6)]), "{encoding:?} {damage:?} {queue:?}");
    let events = run.stop().await;
    assert_eq!(events.iter().filter(|event| event.starts_with("delete")).count(), 1, "{events:?}");
}

/// A relist is answered with another kind of list. The store does not change until the next list.
async fn another_list<K, T: Object>(
    encoding: Encoding,
    other: (&'static str, &'static str, &'static str),
    source: impl Fn(kube_client::Client) -> KubeListerWatcher<K>,
) where
    KubeListerWatcher<K>: ListerWatcher<T> + 'static,
{
    let server = Scripted::start(move |request, before| {
        let lists = before.iter().filter(|request| request.starts_with("list")).count();
        let (a, b) = (pod("a", 5), pod("b", 6));
        match (request.is_watch(), lists) {
            (false, 0) => Answer::ok(encoding, list(encoding, "10", &[a, b])),
            (false, 1) => {
                let (api_version, kind, version) = other;
                Answer::ok(encoding, list_of(encoding, api_version, kind, version, "", &[]))
            }
            (false, _) => Answer::ok(encoding, list(encoding, "30", &[a, pod("c", 29)])),
            (true, 1) => expired(),
            (true, _) => Answer::ok(encoding, Vec::new()).stays_open(),
        }
    })
    .await;
    let run = start(source(server.client()).encoding(encoding), QueueKind::RealFifo);
    run.wait_for(30).await;
    assert_eq!(run.stored(), pods(&[("a", 5), ("c", 29)]));
    run.received("delete default/b").await;
    let events = run.stop().await;
    let adds_of_a = events.iter().filter(|event| *event == "add default/a@5").count();
    assert_eq!(adds_of_a, 1, "{encoding:?} {other:?}: {events:?}");
    assert_eq!(events.iter().filter(|event| event.starts_with("delete")).count(), 1, "{events:?}");
}

// contract: L-15h, R-16
#[tokio::test(flavor = "multi_thread")]
async fn list_of_another_kind_changes_nothing() {
    let others = [("v1", "ServiceList", "20"), ("", "", ""), ("", "", "20"), ("v1", "PodList", "")];
    for encoding in ENCODINGS {
        for other in others {
            another_list(encoding, other, KubeListerWatcher::<Pod>::new).await;
            another_list(encoding, other, KubeListerWatcher::packed::<Pod>).await;
        }
    }
}

/// A page of a proxy instead of a watch is one error, and leads to a list.
// contract: L-16a, L-16b
#[tokio::test(flavor = "multi_thread")]
async fn proxy_page_for_a_watch_leads_to_a_list() {
    let server = Scripted::start(|request, before| {
        let lists = before.iter().filter(|request| request.starts_with("list")).count();
        let json = Encoding::Json;
        match (request.is_watch(), lists) {
            (false, n) => Answer::ok(json, list(json, &(10 * (n + 1)).to_string(), &[pod("a", 5)])),
            (true, 1) => Answer::ok(json, "<html>\n".repeat(53).into()).content_type("text/html"),
            (true, _) => Answer::ok(json, Vec::new()).stays_open(),
        }
    })
    .await;
    let run = start(KubeListerWatcher::packed::<Pod>(server.client()), QueueKind::RealFifo);
    server.requested("watch 20").await;
    assert_eq!(server.requests(), ["list 0 limit", "watch 10", "list 10", "watch 20"]);
    let reflector = run.informer.parts()[0].reflector();
    assert_eq!((reflector.metrics().failures, reflector.metrics().decode_errors), (1, 0));
    let error = reflector.last_error().unwrap().to_string();
    assert!(error.contains("\"text/html\"") && error.contains("<html>"), "{error}");
    run.stop().await;
}

// contract: R-15a
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_item_is_not_deleted() {
    for encoding in ENCODINGS {
        for damage in [Damage::Metadata, Damage::Name] {
            damaged_in_a_list(encoding, damage, QueueKind::RealFifo, KubeListerWatcher::<Pod>::new).await;
            for queue in QUEUES {
                damaged_in_a_list(encoding, damage, queue, KubeListerWatcher::packed::<Pod>).await;
            }
        }
    }
}
