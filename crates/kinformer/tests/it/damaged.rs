//! Damaged answers of a server, from the wire to the handlers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::QUEUES;
use k8s_openapi::api::core::v1::Pod;
use kinformer::Object;
use kinformer::PartId;
use kinformer_kube::{Encoding, KubeListerWatcher};
use kinformer_processor::{Added, Deleted, Event, Updated};
use kinformer_reflector::{Backoff, ListerWatcher, WatchListMode};
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use kinformer_testing::pod_bytes::{Damage, ENCODINGS, event, list, list_of, pod};
use kinformer_testing::scripted_http::{Answer, ScriptedServer};
use kinformer_testing::wait::PATIENCE;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const DAMAGES: [Damage; 4] = [Damage::Frame, Damage::Type, Damage::Metadata, Damage::Name];

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
        let waited =
            tokio::time::timeout(PATIENCE, self.informer.wait_for(PartId::ONLY, &version.into())).await;
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
        if tokio::time::timeout(PATIENCE, there).await.is_err() {
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
    let server = ScriptedServer::http(move |request| {
        if !request.is_watch() {
            // Without a version, this is the request for the newest version after a watch that ended early.
            let version = if request.param("resourceVersion").is_some() { "10" } else { "14" };
            return answer(encoding, list(encoding, version, &[pod("a", 5), pod("b", 6)]));
        }
        let from: u64 = request.param("resourceVersion").unwrap().parse().unwrap();
        let first = request.number == 0;
        let damage = if first { damage } else { Damage::None };
        let changes = [("MODIFIED", "a", 11), ("ADDED", "c", 12), ("DELETED", "b", 13), ("ADDED", "d", 14)];
        let changes = changes.into_iter().filter(|(_, _, version)| *version > from);
        let body = changes.flat_map(|(event_type, name, version)| {
            let pod = pod(name, version);
            event(encoding, event_type, if version < 14 { pod.damaged(damage) } else { pod })
        });
        let answer = answer(encoding, body.collect());
        if first { answer } else { answer.then_hang() }
    })
    .await;
    let run =
        start(source(kinformer::client(server.config()).unwrap()).encoding(encoding), QueueKind::RealFifo);
    run.wait_for(14).await;
    assert_eq!(run.stored(), pods(&[("a", 11), ("c", 12), ("d", 14)]), "{encoding:?} {damage:?}");
    let mut requests = server.log().texts();
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
    Answer::failure(410, "Expired")
}

fn answer(encoding: Encoding, body: Vec<u8>) -> Answer {
    Answer::new(200, encoding.media_type(), body)
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
    let mut lists = 0;
    let checked = Arc::new(AtomicBool::new(false));
    let is_checked = checked.clone();
    let server = ScriptedServer::http(move |request| {
        let earlier_lists = lists;
        lists += usize::from(!request.is_watch());
        let (a, b, c) = (pod("a", 5), pod("b", 6), pod("c", 7));
        match (request.is_watch(), earlier_lists) {
            (false, 0) => answer(encoding, list(encoding, "10", &[a, b, c])),
            (false, 1) => answer(encoding, list(encoding, "20", &[a, b.damaged(damage)])),
            // The state after the second list is checked first.
            (false, _) if !is_checked.load(Ordering::Relaxed) => Answer::failure(500, "InternalError"),
            (false, _) => answer(encoding, list(encoding, "30", &[a, b])),
            (true, 1) => expired(),
            (true, _) => answer(encoding, Vec::new()).then_hang(),
        }
    })
    .await;
    let run = start(source(kinformer::client(server.config()).unwrap()).encoding(encoding), queue);
    server.log().wait_for("watch 20").await;
    assert_eq!(run.stored(), pods(&[("a", 5), ("b", 6), ("c", 7)]), "{encoding:?} {damage:?} {queue:?}");
    checked.store(true, Ordering::Relaxed);
    server.log().wait_for("watch 30").await;
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
    let mut lists = 0;
    let server = ScriptedServer::http(move |request| {
        let earlier_lists = lists;
        lists += usize::from(!request.is_watch());
        let (a, b) = (pod("a", 5), pod("b", 6));
        match (request.is_watch(), earlier_lists) {
            (false, 0) => answer(encoding, list(encoding, "10", &[a, b])),
            (false, 1) => {
                let (api_version, kind, version) = other;
                answer(encoding, list_of(encoding, api_version, kind, version, "", &[]))
            }
            (false, _) => answer(encoding, list(encoding, "30", &[a, pod("c", 29)])),
            (true, 1) => expired(),
            (true, _) => answer(encoding, Vec::new()).then_hang(),
        }
    })
    .await;
    let run =
        start(source(kinformer::client(server.config()).unwrap()).encoding(encoding), QueueKind::RealFifo);
    run.wait_for(30).await;
    assert_eq!(run.stored(), pods(&[("a", 5), ("c", 29)]));
    run.received("delete default/b").await;
    let events = run.stop().await;
    let adds_of_a = events.iter().filter(|event| *event == "add default/a@5").count();
    assert_eq!(adds_of_a, 1, "{encoding:?} {other:?}: {events:?}");
    assert_eq!(events.iter().filter(|event| event.starts_with("delete")).count(), 1, "{events:?}");
}

// contract: L-15h, R-16a
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
    let mut lists = 0;
    let server = ScriptedServer::http(move |request| {
        let earlier_lists = lists;
        lists += usize::from(!request.is_watch());
        let json = Encoding::Json;
        match (request.is_watch(), earlier_lists) {
            (false, n) => answer(json, list(json, &(10 * (n + 1)).to_string(), &[pod("a", 5)])),
            (true, 1) => Answer::new(200, "text/html", "<html>\n".repeat(53)),
            (true, _) => answer(json, Vec::new()).then_hang(),
        }
    })
    .await;
    let run = start(
        KubeListerWatcher::packed::<Pod>(kinformer::client(server.config()).unwrap()),
        QueueKind::RealFifo,
    );
    server.log().wait_for("watch 20").await;
    assert_eq!(server.log().texts(), ["list 0 limit", "watch 10", "list 10", "watch 20"]);
    let reflector = run.informer.parts()[0].reflector().clone();
    assert_eq!((reflector.metrics().failures, reflector.metrics().decode_errors), (1, 0));
    let error = reflector.last_error().unwrap().to_string();
    assert!(error.contains("\"text/html\"") && error.contains("<html>"), "{error}");
    run.stop().await;
}

// contract: R-15a
#[tokio::test(flavor = "multi_thread")]
async fn unidentified_item_is_not_deleted() {
    for encoding in ENCODINGS {
        for damage in [Damage::Metadata, Damage::Name] {
            damaged_in_a_list(encoding, damage, QueueKind::RealFifo, KubeListerWatcher::<Pod>::new).await;
            for queue in QUEUES {
                damaged_in_a_list(encoding, damage, queue, KubeListerWatcher::packed::<Pod>).await;
            }
        }
    }
}
