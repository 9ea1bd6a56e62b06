//! Starts that come to nothing, and informers that nobody started.

use std::future::Future;
use std::time::Duration;

use crate::common::{builder, factory, server, soon, synced};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kinformer::{CacheSync, InformerError, Phase, SharedInformerFactory};
use kinformer_apiserver::{ApiServer, Fault};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

/// A runtime that runs its tasks only while something blocks on it.
fn brief() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime that goes on, with a server on it.
fn lasting() -> (Runtime, ApiServer) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(server());
    (runtime, server)
}

fn factory_on(runtime: &Runtime, server: &ApiServer) -> SharedInformerFactory {
    let _on = runtime.enter();
    factory(server)
}

async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout_at(soon(), future).await.unwrap()
}

/// The names of all informers, each with what is wrong.
fn told(sync: &CacheSync) -> Vec<(String, String)> {
    sync.iter()
        .map(|(name, result)| (name.to_owned(), result.err().map_or_else(String::new, ToString::to_string)))
        .collect()
}

#[track_caller]
fn says_that_start_is_missing(text: &str) {
    assert!(text.contains("never started") && text.contains("start()"), "{text:?}");
}

// contract: F-02
#[test]
fn a_runtime_that_ends_before_the_informers_ran_does_not_lose_them() {
    let (lasting, server) = lasting();
    let factory = factory_on(&lasting, &server);
    let (maps, lease) = (factory.informer::<ConfigMap>(), factory.core().v1().secrets().lease());
    for _ in 0..3 {
        let brief = brief();
        brief.block_on(async { factory.start().unwrap() });
        drop(brief);
        assert_eq!((maps.phase(), lease.phase()), (Phase::NotStarted, Phase::NotStarted));
    }
    lasting.block_on(async {
        in_time(synced(&factory)).await;
        assert_eq!((maps.phase(), lease.phase()), (Phase::Running, Phase::Running));
        in_time(lease.release()).await;
        in_time(factory.shutdown()).await.unwrap();
        server.shutdown().await;
    });
}

// contract: F-02
#[test]
fn a_runtime_that_is_gone_starts_nothing_and_loses_nothing() {
    let (lasting, server) = lasting();
    let factory = factory_on(&lasting, &server);
    factory.informer::<ConfigMap>();
    let gone = {
        let brief = brief();
        brief.handle().clone()
    };
    {
        let _on = gone.enter();
        factory.start().unwrap();
    }
    lasting.block_on(async {
        in_time(synced(&factory)).await;
        in_time(factory.shutdown()).await.unwrap();
    });
    // The same with an end in between.
    let factory = factory_on(&lasting, &server);
    let maps = factory.informer::<ConfigMap>();
    let lease = factory.core().v1().secrets().lease();
    {
        let _on = gone.enter();
        factory.start().unwrap();
    }
    lasting.block_on(async {
        in_time(lease.release()).await;
        in_time(factory.shutdown()).await.unwrap();
        assert!(maps.is_stopped());
        server.shutdown().await;
    });
}

// contract: F-02
#[test]
fn waits_end_when_a_start_comes_to_nothing() {
    let (lasting, server) = lasting();
    let factory = factory_on(&lasting, &server);
    let lease = factory.core().v1().config_maps().lease();
    let brief = brief();
    brief.block_on(async { factory.start().unwrap() });
    let waiting = lasting.spawn({
        let factory = factory.clone();
        async move { factory.wait_for_cache_sync().await }
    });
    // It waits, or will find that nothing was started.
    drop(brief);
    let sync = lasting.block_on(in_time(waiting)).unwrap();
    assert_eq!(told(&sync).len(), 1);
    says_that_start_is_missing(&told(&sync)[0].1);

    // What is given back while its task has not run yet has ended when that task is dropped.
    let brief = self::brief();
    brief.block_on(async { factory.start().unwrap() });
    let mut released = Box::pin(lease.release());
    assert!(released.as_mut().now_or_never().is_none(), "its task has not ended yet");
    drop(brief);
    lasting.block_on(in_time(released));
    lasting.block_on(async {
        assert!(told(&factory.wait_for_cache_sync().await).is_empty());
        in_time(factory.shutdown()).await.unwrap();
        server.shutdown().await;
    });
}

// contract: F-10
#[tokio::test]
async fn informers_that_nobody_started_are_named() {
    let server = server().await;
    let factory = factory(&server);
    let maps = factory.informer::<ConfigMap>();
    let error = in_time(factory.wait_for_cache_sync()).await.into_result().unwrap_err().to_string();
    says_that_start_is_missing(&error);
    assert!(error.contains("\"configmaps\""), "{error}");

    factory.start().unwrap();
    factory.informer::<Secret>();
    let _lease = factory.core().v1().nodes().lease();
    for sync in [
        in_time(factory.wait_for_cache_sync()).await,
        in_time(factory.wait_for_cache_sync_until(soon())).await,
    ] {
        assert!(!sync.all_synced());
        let told = told(&sync);
        assert_eq!((told.len(), told[0].0.as_str(), told[0].1.as_str()), (3, "configmaps", ""), "{told:?}");
        told[1..].iter().for_each(|(_, error)| says_that_start_is_missing(error));
        let typed = |error: &InformerError| matches!(error, InformerError::NotStarted { .. });
        assert_eq!(
            sync.iter().filter_map(|(_, synced)| synced.err()).filter(|error| typed(error)).count(),
            2
        );
    }
    assert!(maps.has_synced());
    in_time(synced(&factory)).await;
    in_time(factory.shutdown()).await.unwrap();
    server.shutdown().await;
}

// contract: F-10
#[tokio::test]
async fn what_runs_without_the_factory_is_waited_for_like_the_others() {
    let server = server().await;
    let factory = factory(&server);
    let cancel = CancellationToken::new();
    let nodes = factory.informer::<Node>();
    let task = tokio::spawn({
        let (nodes, cancel) = (nodes.clone(), cancel.clone());
        async move { nodes.run(cancel).await }
    });
    // As soon as it runs.
    while nodes.phase() == Phase::NotStarted {
        tokio::task::yield_now().await;
    }
    in_time(factory.wait_for_cache_sync()).await.into_result().unwrap();
    in_time(synced(&factory)).await;
    assert!(nodes.has_synced());
    cancel.cancel();
    in_time(task).await.unwrap().unwrap();
    in_time(factory.shutdown()).await.unwrap();
    server.shutdown().await;
}

// contract: F-04
#[tokio::test]
async fn after_a_shutdown_nothing_is_started_and_no_wait_hangs() {
    let server = server().await;
    let factory = factory(&server);
    let maps = factory.informer::<ConfigMap>();
    in_time(factory.shutdown()).await.unwrap();
    factory.start().unwrap();
    let late = factory.informer::<Secret>();
    assert!(maps.is_stopped() && late.is_stopped());
    let sync = in_time(factory.wait_for_cache_sync()).await;
    let told = told(&sync);
    assert_eq!(told.len(), 2);
    // Starting it would not help.
    assert!(
        told.iter().all(|(_, error)| error.contains("stopped") && !error.contains("start()")),
        "{told:?}"
    );
    in_time(factory.shutdown()).await.unwrap();
    server.shutdown().await;
}

// contract: F-11
#[tokio::test]
async fn what_others_release_is_no_longer_waited_for() {
    let server = server().await;
    let factory = factory(&server);
    let lease = factory.core().v1().secrets().lease();
    let removed = factory.core().v1().nodes();
    removed.phase();
    // These never sync.
    server.faults().inject(Fault::internal_error().resource("secrets").always());
    server.faults().inject(Fault::internal_error().resource("nodes").always());
    factory.informer::<ConfigMap>();
    factory.start().unwrap();
    let mut waiting = Box::pin(factory.wait_for_cache_sync());
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(lease);
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(in_time(removed.remove()).await);
    let sync = in_time(waiting).await;
    assert_eq!(told(&sync), [("configmaps".to_owned(), String::new())]);
    in_time(factory.shutdown()).await.unwrap();
    server.shutdown().await;
}

// contract: F-11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_hold_while_leases_come_and_go() {
    let server = server().await;
    let factory = builder(&server).grace(Duration::from_secs(30)).build();
    factory.informer::<ConfigMap>();
    for round in 0..100_usize {
        let lease = factory.core().v1().nodes().lease();
        factory.start().unwrap();
        let waiting = tokio::spawn({
            let factory = factory.clone();
            async move { factory.wait_for_cache_sync_until(soon()).await }
        });
        // Given back at another moment in each round.
        for _ in 0..round * 20 {
            tokio::task::yield_now().await;
        }
        drop(lease);
        in_time(waiting).await.unwrap().into_result().unwrap();
    }
    in_time(factory.shutdown()).await.unwrap();
    server.shutdown().await;
}
