//! Controllers of kube-runtime on one shared informer.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use futures::stream::{FusedStream, Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::runtime::{reflector_store, watcher_events};
use kinformer::{Informer, SharedInformerFactory, client};
use kinformer_apiserver::ApiServer;
use kube_runtime::controller::{Action, Controller};
use kube_runtime::{WatchStreamExt as _, watcher};
use serde_json::json;
use tokio::sync::mpsc;

fn map(name: &str, value: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"key": value},
    })
}

async fn server() -> (ApiServer, SharedInformerFactory) {
    let server = ApiServer::builder().start().await.unwrap();
    server.create(map("a", "1")).unwrap();
    server.create(map("b", "1")).unwrap();
    let factory = SharedInformerFactory::new(client(server.config().unwrap()).unwrap());
    (server, factory)
}

async fn next(
    events: &mut (impl Stream<Item = watcher::Result<watcher::Event<ConfigMap>>> + Unpin),
) -> String {
    let name = |map: ConfigMap| map.metadata.name.unwrap();
    match events.next().await.unwrap().unwrap() {
        watcher::Event::Init => "init".into(),
        watcher::Event::InitApply(map) => format!("there {}", name(map)),
        watcher::Event::InitDone => "done".into(),
        watcher::Event::Apply(map) => format!("apply {}", name(map)),
        watcher::Event::Delete(map) => format!("delete {}", name(map)),
    }
}

#[tokio::test]
async fn informer_is_a_watcher() {
    let (server, factory) = server().await;
    let informer = factory.informer::<ConfigMap>();
    is_a_watcher(server, factory, informer).await;
}

#[tokio::test]
async fn eager_informer_is_a_watcher() {
    let (server, factory) = server().await;
    let informer = factory.informer::<ConfigMap>();
    informer.decode_on_arrival();
    is_a_watcher(server, factory, informer).await;
}

async fn is_a_watcher(server: ApiServer, factory: SharedInformerFactory, informer: Informer<ConfigMap>) {
    let mut early = Box::pin(watcher_events(&informer).unwrap());
    factory.start().unwrap();

    let begin =
        [next(&mut early).await, next(&mut early).await, next(&mut early).await, next(&mut early).await];
    assert_eq!(begin[0], "init");
    assert_eq!(begin[1..3].iter().collect::<BTreeSet<_>>().len(), 2);
    assert!(begin[1..3].iter().all(|event| event.starts_with("there ")), "{begin:?}");
    assert_eq!(begin[3], "done");

    server.update(map("a", "2")).unwrap();
    assert_eq!(next(&mut early).await, "apply a");
    server.delete("v1", "ConfigMap", "default", "a").unwrap();
    assert_eq!(next(&mut early).await, "delete a");

    // A stream that is created later.
    let mut late = Box::pin(watcher_events(&informer).unwrap());
    assert_eq!(
        [next(&mut late).await, next(&mut late).await, next(&mut late).await],
        ["init", "there b", "done"]
    );

    factory.shutdown().await.unwrap();
    assert!(late.next().await.is_none());
    server.shutdown().await;
}

/// A `select!` in a loop polls a stream repeatedly after its end.
// contract: P-20
#[tokio::test]
async fn watcher_may_be_polled_after_its_end() {
    let (server, factory) = server().await;
    let informer = factory.informer::<ConfigMap>();
    let mut events = Box::pin(watcher_events(&informer).unwrap());
    let (_store, reflected) = reflector_store(&informer).unwrap();
    let mut reflected = Box::pin(reflected);
    factory.start().unwrap();
    factory.wait_for_cache_sync().await.into_result().unwrap();
    factory.shutdown().await.unwrap();
    while events.next().await.is_some() {}
    while reflected.next().await.is_some() {}
    for _ in 0..2 {
        assert!(events.next().await.is_none() && reflected.next().await.is_none());
    }
    assert!(events.is_terminated() && reflected.is_terminated());
    server.shutdown().await;
}

#[tokio::test]
async fn two_controllers_share_one_watch() {
    let (server, factory) = server().await;
    let informer = factory.informer::<ConfigMap>();
    let (sender, mut reconciled) = mpsc::channel(64);
    let mut controllers = Vec::new();
    for number in 0..2 {
        let (store, events) = reflector_store(&informer).unwrap();
        let sender = sender.clone();
        let controller = Controller::for_stream(events.applied_objects(), store.clone()).run(
            move |map: Arc<ConfigMap>, _| {
                sender.try_send((number, map.metadata.name.clone().unwrap())).unwrap();
                std::future::ready(Ok::<_, Infallible>(Action::await_change()))
            },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        );
        controllers.push(tokio::spawn(controller.for_each(|_| std::future::ready(()))));
    }
    factory.start().unwrap();

    let mut seen = BTreeSet::new();
    while seen.len() < 4 {
        seen.insert(reconciled.recv().await.unwrap());
    }
    let expected = [(0, "a"), (0, "b"), (1, "a"), (1, "b")].map(|(n, name)| (n, name.to_owned()));
    assert_eq!(seen, expected.into());
    assert_eq!(server.metrics().open_watches, 1);

    factory.shutdown().await.unwrap();
    controllers.into_iter().for_each(|controller| controller.abort());
    server.shutdown().await;
}
