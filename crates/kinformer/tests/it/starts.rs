//! Starts without effect, and informers that were not started.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{builder, config_map, factory, server, soon, synced};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Service};
use kinformer::{
    CacheSync, Error, InformerError, LabelSelector, NAMESPACE_INDEX, Phase, SharedInformerFactory,
};
use kinformer_apiserver::{ApiServer, Fault};
use kinformer_testing::scripted_http::{Answer, in_process_client};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

/// A runtime that runs its tasks only while something blocks on it.
fn short_lived() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime that continues to run, with a server on it.
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

/// The names of all informers, each with its error.
fn outcomes(sync: &CacheSync) -> Vec<(String, String)> {
    sync.iter()
        .map(|(name, result)| (name.to_owned(), result.err().map_or_else(String::new, ToString::to_string)))
        .collect()
}

#[track_caller]
fn assert_start_is_missing(text: &str) {
    assert!(text.contains("never started") && text.contains("start()"), "{text:?}");
}

/// A runtime that ends before the informers ran does not lose them.
// contract: F-02c, F-02e
#[test]
fn ended_runtime_loses_no_informer() {
    let (lasting, server) = lasting();
    let factory = factory_on(&lasting, &server);
    let (maps, lease) = (factory.informer::<ConfigMap>(), factory.core().v1().secrets().lease());
    for _ in 0..3 {
        let short_lived = short_lived();
        short_lived.block_on(async { factory.start().unwrap() });
        drop(short_lived);
        assert_eq!((maps.status().phase(), lease.status().phase()), (Phase::NotStarted, Phase::NotStarted));
    }
    lasting.block_on(async {
        in_time(synced(&factory)).await;
        assert_eq!((maps.status().phase(), lease.status().phase()), (Phase::Running, Phase::Running));
        in_time(lease.release()).await;
        in_time(factory.shutdown()).await.unwrap();
        server.shutdown().await;
    });
}

// contract: F-02c, F-02e
#[test]
fn start_on_an_ended_runtime_has_no_effect() {
    let (lasting, server) = lasting();
    let factory = factory_on(&lasting, &server);
    factory.informer::<ConfigMap>();
    let ended = {
        let short_lived = short_lived();
        short_lived.handle().clone()
    };
    {
        let _on = ended.enter();
        factory.start().unwrap();
    }
    lasting.block_on(async {
        in_time(synced(&factory)).await;
        in_time(factory.shutdown()).await.unwrap();
    });
    // The same with a release and a shutdown afterwards.
    let factory = factory_on(&lasting, &server);
    let maps = factory.informer::<ConfigMap>();
    let lease = factory.core().v1().secrets().lease();
    {
        let _on = ended.enter();
        factory.start().unwrap();
    }
    lasting.block_on(async {
        in_time(lease.release()).await;
        in_time(factory.shutdown()).await.unwrap();
        assert!(maps.status().is_stopped());
        server.shutdown().await;
    });
}

// contract: F-02d
#[test]
fn waits_end_when_a_start_has_no_effect() {
    let (lasting, server) = lasting();
    let factory = factory_on(&lasting, &server);
    let lease = factory.core().v1().config_maps().lease();
    let short_lived = short_lived();
    short_lived.block_on(async { factory.start().unwrap() });
    let waiting = lasting.spawn({
        let factory = factory.clone();
        async move { factory.wait_for_cache_sync().await }
    });
    // The task waits, or will find that no informer was started.
    drop(short_lived);
    let sync = lasting.block_on(in_time(waiting)).unwrap();
    assert_eq!(outcomes(&sync).len(), 1);
    assert_start_is_missing(&outcomes(&sync)[0].1);

    // An informer that is released before its task has run ends when the task is dropped.
    let short_lived = self::short_lived();
    short_lived.block_on(async { factory.start().unwrap() });
    let mut released = Box::pin(lease.release());
    assert!(released.as_mut().now_or_never().is_none(), "its task has not ended yet");
    drop(short_lived);
    lasting.block_on(in_time(released));
    lasting.block_on(async {
        assert!(outcomes(&factory.wait_for_cache_sync().await).is_empty());
        in_time(factory.shutdown()).await.unwrap();
        server.shutdown().await;
    });
}

// contract: F-10a
#[tokio::test]
async fn unstarted_informers_are_named() {
    let server = server().await;
    let factory = factory(&server);
    let maps = factory.informer::<ConfigMap>();
    let error = in_time(factory.wait_for_cache_sync()).await.into_result().unwrap_err().to_string();
    assert_start_is_missing(&error);
    assert!(error.contains("\"configmaps\""), "{error}");

    factory.start().unwrap();
    factory.informer::<Secret>();
    let _lease = factory.core().v1().nodes().lease();
    for sync in [
        in_time(factory.wait_for_cache_sync()).await,
        in_time(factory.wait_for_cache_sync().until(soon())).await,
    ] {
        assert!(!sync.all_synced());
        let outcomes = outcomes(&sync);
        assert_eq!(
            (outcomes.len(), outcomes[0].0.as_str(), outcomes[0].1.as_str()),
            (3, "configmaps", ""),
            "{outcomes:?}"
        );
        outcomes[1..].iter().for_each(|(_, error)| assert_start_is_missing(error));
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

// contract: F-10b
#[tokio::test]
async fn wait_includes_informers_run_by_others() {
    let server = server().await;
    let factory = factory(&server);
    let cancel = CancellationToken::new();
    let nodes = factory.informer::<Node>();
    let task = tokio::spawn({
        let (nodes, cancel) = (nodes.clone(), cancel.clone());
        async move { nodes.run(cancel).await }
    });
    // As soon as it runs.
    while nodes.status().phase() == Phase::NotStarted {
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

// contract: F-04c, F-04d
#[tokio::test]
async fn nothing_starts_or_hangs_after_a_shutdown() {
    let server = server().await;
    let factory = factory(&server);
    let maps = factory.informer::<ConfigMap>();
    in_time(factory.shutdown()).await.unwrap();
    factory.start().unwrap();
    let late = factory.informer::<Secret>();
    assert!(maps.status().is_stopped() && late.status().is_stopped());
    let sync = in_time(factory.wait_for_cache_sync()).await;
    let outcomes = outcomes(&sync);
    assert_eq!(outcomes.len(), 2);
    // Starting it would not help.
    assert!(
        outcomes.iter().all(|(_, error)| error.contains("stopped") && !error.contains("start()")),
        "{outcomes:?}"
    );
    in_time(factory.shutdown()).await.unwrap();
    server.shutdown().await;
}

// contract: F-11
#[tokio::test]
async fn wait_leaves_out_released_informers() {
    let server = server().await;
    let factory = factory(&server);
    let lease = factory.core().v1().secrets().lease();
    let removed = factory.core().v1().nodes();
    removed.status().phase();
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
    assert_eq!(outcomes(&sync), [("configmaps".to_owned(), String::new())]);
    in_time(factory.shutdown()).await.unwrap();
    server.shutdown().await;
}

// contract: F-11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_succeed_while_leases_come_and_go() {
    let server = server().await;
    let factory = builder(&server).grace(Duration::from_secs(30)).build();
    factory.informer::<ConfigMap>();
    for round in 0..100_usize {
        let lease = factory.core().v1().nodes().lease();
        factory.start().unwrap();
        let waiting = tokio::spawn({
            let factory = factory.clone();
            async move { factory.wait_for_cache_sync().until(soon()).await }
        });
        // Released at another moment in each round.
        for _ in 0..round * 20 {
            tokio::task::yield_now().await;
        }
        drop(lease);
        in_time(waiting).await.unwrap().into_result().unwrap();
    }
    in_time(factory.shutdown()).await.unwrap();
    server.shutdown().await;
}

#[track_caller]
fn assert_not_started<T: Debug>(read: Result<T, Error>) {
    let error = read.unwrap_err();
    assert!(matches!(error, Error::NotStarted { .. }), "{error:?}");
    assert_start_is_missing(&error.to_string());
}

/// Reads of an informer that was never started are errors and not an empty result.
// contract: F-20a
#[tokio::test]
async fn reads_before_the_start_are_errors() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let metadata = factory.metadata::<ConfigMap>();
    let maps = factory.informer::<ConfigMap>();
    for view in [&maps, &metadata.cast::<ConfigMap>()] {
        let (lister, all) = (view.lister(), LabelSelector::everything());
        let there = lister.namespace("default");
        assert_not_started(lister.get("default/a"));
        assert_not_started(lister.list(&all));
        assert_not_started(lister.for_each(&all, |_| unreachable!("the store is empty")));
        assert_not_started(lister.by_index(NAMESPACE_INDEX, "default"));
        assert_not_started(there.get("a"));
        assert_not_started(there.list(&all));
        assert_not_started(there.for_each(&all, |_| unreachable!("the store is empty")));
        assert_not_started(view.snapshot());
    }
    let lister = maps.lister();
    factory.start().unwrap();
    // The informer has not listed yet.
    assert!(matches!(lister.get("default/a"), Err(Error::NotFound { .. })));
    assert!(lister.list(&LabelSelector::everything()).unwrap().is_empty());
    assert!(maps.snapshot().unwrap().is_empty());
    in_time(synced(&factory)).await;
    assert_eq!(lister.get("default/a").unwrap().name(), "a");
    assert_eq!(lister.by_index(NAMESPACE_INDEX, "default").unwrap().len(), 1);
    // An informer that can no longer be started does not ask for a start.
    let secrets = factory.informer::<Secret>().lister();
    assert_not_started(secrets.get("default/a"));
    in_time(factory.shutdown()).await.unwrap();
    assert!(matches!(secrets.get("default/a"), Err(Error::NotFound { .. })));
    server.shutdown().await;
}

/// A start that has no effect does not count.
// contract: F-20a
#[test]
fn reads_after_a_lost_start_are_errors() {
    let (lasting, server) = lasting();
    let factory = factory_on(&lasting, &server);
    let maps = factory.informer::<ConfigMap>();
    let short_lived = short_lived();
    short_lived.block_on(async { factory.start().unwrap() });
    drop(short_lived);
    assert_not_started(maps.lister().get("default/a"));
    lasting.block_on(async {
        in_time(factory.shutdown()).await.unwrap();
        server.shutdown().await;
    });
}

/// What is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The lines since the last call that name `start()`.
    fn missing_starts(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock())).unwrap();
        text.lines().filter(|line| line.contains("call start()")).map(str::to_owned).collect()
    }
}

// contract: F-20c
#[tokio::test(start_paused = true)]
async fn wait_without_a_start_is_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _logging = kinformer_testing::logs::set_default(subscriber);
    let server = server().await;
    let factory = factory(&server);
    let nodes = factory.informer::<Node>();
    let wait = tokio::spawn({
        let nodes = nodes.clone();
        async move { nodes.wait_for_sync().await }
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    let logged = log.missing_starts();
    assert!(logged.len() == 1 && logged[0].contains("nodes"), "{logged:?}");
    factory.start().unwrap();
    in_time(wait).await.unwrap().unwrap();
    assert!(nodes.snapshot().unwrap().is_empty());
    in_time(factory.shutdown()).await.unwrap();
    assert_eq!(log.missing_starts(), Vec::<String>::new());
    server.shutdown().await;
}

/// Informers start in the order of their keys, so that a simulated run can be repeated.
#[tokio::test(start_paused = true)]
async fn informers_start_in_order() {
    for _ in 0..4 {
        let (client, requests) = in_process_client(|_| Answer::never());
        let factory = SharedInformerFactory::new(client);
        factory.informer::<Secret>();
        factory.informer::<Pod>();
        factory.informer::<ConfigMap>();
        factory.informer::<Service>();
        factory.informer::<Node>();
        factory.start().unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let started: Vec<_> = requests.all().into_iter().map(|request| request.target).collect();
        let order = ["configmaps", "nodes", "pods", "secrets", "services"];
        assert_eq!(started.len(), order.len());
        assert!(started.iter().zip(order).all(|(path, plural)| path.contains(plural)), "{started:?}");
    }
}
