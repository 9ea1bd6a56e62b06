//! Controllers over the informers of a cache.

use k8s_openapi::api::core::v1::Pod;
use kinformer::ObjectKey;
use kinformer_controller::{Action, CancellationToken, Controller, Error, Request};
use tokio::sync::mpsc;

use crate::common::{pod, server, started};

/// A controller goes on when the program drops its cache, and ends when the cache removes an informer or is shut down.
// contract: K-07g, K-07h
#[tokio::test]
async fn cache_that_is_dropped_or_shut_down() {
    let server = server().await;
    for removes in [true, false] {
        let (sender, mut calls) = mpsc::channel(100);
        let reconcile = move |request: Request<ObjectKey>| {
            _ = sender.try_send(request.name().to_owned());
            std::future::ready(Ok(Action::none()))
        };
        let cache = started(&server).await;
        let controller = Controller::of(cache.factory()).reconciles::<Pod>().build(reconcile);
        let pods = cache.kind::<Pod>();
        let running = tokio::spawn(controller.run(CancellationToken::new()));
        let name = format!("a-{removes}");
        server.create(pod("team-a", &name, "web", "node-1")).unwrap();
        while calls.recv().await.unwrap() != name {}
        match removes {
            true => assert!(pods.remove_informer().await),
            false => cache.shutdown().await.unwrap(),
        }
        let error = running.await.unwrap().unwrap_err();
        assert!(
            matches!(&error, Error::InformerStopped { informer, .. } if &**informer == "pods"),
            "{error}"
        );
    }
    let (sender, mut calls) = mpsc::channel(100);
    let running = {
        let cache = started(&server).await;
        let controller = Controller::of(cache.factory()).reconciles::<Pod>();
        let controller = controller.build(move |request: Request<ObjectKey>| {
            _ = sender.try_send(request.name().to_owned());
            std::future::ready(Ok(Action::none()))
        });
        tokio::spawn(controller.run(CancellationToken::new()))
    };
    server.create(pod("team-a", "b", "web", "node-1")).unwrap();
    while calls.recv().await.unwrap() != "b" {}
    server.create(pod("team-a", "c", "web", "node-1")).unwrap();
    while calls.recv().await.unwrap() != "c" {}
    assert!(!running.is_finished());
    running.abort();
    server.shutdown().await;
}
