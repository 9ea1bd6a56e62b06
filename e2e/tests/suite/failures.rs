//! Real failures. After each, store and handler have the state of the server, no object has returned to an older
//! version, and the informer has listed no more often than necessary: not at all if the server still has the version
//! that the informer has reached, and once for each response that it is expired (410).

use std::time::Duration;

use e2e::{ControlPlane, Options, Proxy};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kinformer::{
    Backoff, Deleted, Event, Recovery, ReflectorMetrics, ReflectorOptions, ReflectorState,
    SharedInformerFactory, Tombstone, Updated, WatchListMode,
};
use kube_client::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube_client::{Client, Config};
use serde_json::json;

use crate::mode::{Informer, KubeEvent, factory, informer, mode, reading};
use crate::planes;
use crate::recorder::{Problems, Recorder, cached, check, equal, until};

/// The path of the watched objects.
const PATH: &str = "/api/v1/configmaps";
const WATCH_CACHE_OFF: &str = "--watch-cache=false";
const WATCH_LIST_OFF: &str = "--feature-gates=WatchList=false";

/// An informer of one kind, its recorded events, and its server.
struct Setup {
    control_plane: ControlPlane,
    /// Connects to the server directly, not through the informer's proxy.
    client: Client,
    namespace: String,
    factory: SharedInformerFactory,
    informer: Informer<ConfigMap>,
    recorder: Recorder<ConfigMap>,
    problems: Problems,
    written: usize,
}

impl Setup {
    /// Starts a server and an informer without a proxy.
    async fn begin(options: Options) -> Self {
        let control_plane = planes::take(options).await;
        let client = control_plane.client().await.unwrap();
        Self::synced(control_plane, client, |options| options).await
    }

    /// Starts a server and an informer behind a proxy.
    async fn behind_a_proxy(options: Options) -> (Self, Proxy) {
        Self::changed_behind_a_proxy(options, |options| options).await
    }

    async fn changed_behind_a_proxy(
        options: Options,
        change: impl Fn(ReflectorOptions) -> ReflectorOptions + Send + Sync + 'static,
    ) -> (Self, Proxy) {
        let control_plane = planes::take(options).await;
        let proxy = Proxy::start(control_plane.port()).await.unwrap();
        let client = kinformer::client(through(&control_plane, &proxy).await).unwrap();
        (Self::synced(control_plane, client, change).await, proxy)
    }

    /// Waits until the informer has synced some objects.
    async fn synced(
        control_plane: ControlPlane,
        informers: Client,
        change: impl Fn(ReflectorOptions) -> ReflectorOptions + Send + Sync + 'static,
    ) -> Self {
        let mut setup = Self::prepared(control_plane, informers, change).await;
        setup.start().await;
        setup.equal().await;
        assert_eq!(setup.recorder.initial(), setup.informer.len());
        setup.write(10).await;
        setup.equal().await;
        setup
    }

    /// Creates some objects and an informer that is not started.
    async fn prepared(
        control_plane: ControlPlane,
        informers: Client,
        change: impl Fn(ReflectorOptions) -> ReflectorOptions + Send + Sync + 'static,
    ) -> Self {
        let client = control_plane.client().await.unwrap();
        let namespace = planes::namespace(&client, "failures").await;
        let problems = Problems::default();
        // Short backoff, since a test has few clients.
        let backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(1));
        let factory = factory(informers)
            .reflector(move |options| change(reading(options).backoff(backoff.clone())))
            .on_error(problems.hook())
            .build();
        let informer = informer!(factory.core().v1().config_maps());
        let recorder = Recorder::of(&informer);
        let mut setup =
            Self { control_plane, client, namespace, factory, informer, recorder, problems, written: 0 };
        setup.write(20).await;
        setup
    }

    /// Starts the informer, so that its initial list contains all objects.
    async fn start(&self) {
        cached(&self.client, PATH).await;
        self.factory.start().unwrap();
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates this many objects. Also changes some older objects, deletes some, and creates some of the deleted ones
    /// again.
    async fn write(&mut self, count: usize) {
        let api = self.api();
        for number in self.written..self.written + count {
            self.create(&format!("object-{number}"), "text").await;
            if number >= 10 && number % 3 == 1 {
                let patch = Patch::Merge(json!({"data": {"changed": "yes"}}));
                let name = format!("object-{}", number - 6);
                api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
            }
            if number >= 10 && number % 5 == 4 {
                api.delete(&format!("object-{}", number - 10), &DeleteParams::default()).await.unwrap();
            }
            if number >= 15 && number % 10 == 5 {
                self.create(&format!("object-{}", number - 11), "again").await;
            }
        }
        self.written += count;
    }

    async fn create(&self, name: &str, text: &str) {
        let object = json!({"metadata": {"name": name}, "data": {"text": text}});
        self.api().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// Waits until store, handler and server have the same state.
    async fn equal(&self) {
        equal(&self.informer, &self.recorder, &self.client, PATH).await;
    }

    fn statistics(&self) -> ReflectorMetrics {
        self.informer.statistics()
    }

    /// Checks the state after a failure and this many relists, and returns the metrics.
    async fn recovered(&mut self, relists: u64) -> ReflectorMetrics {
        self.equal().await;
        // The informer has not only caught up, but continues to deliver.
        self.write(5).await;
        self.equal().await;
        let statistics = self.statistics();
        let seen = || format!("{statistics:#?}, {:#?}", self.problems.all());
        assert_eq!(statistics.relists, relists, "{}", seen());
        assert_eq!(statistics.replaces, 1 + relists, "{}", seen());
        assert_eq!(statistics.decode_errors + statistics.unexpected_events, 0, "{}", seen());
        statistics
    }

    async fn end(self) {
        self.factory.shutdown().await.unwrap();
        planes::keep(self.control_plane).await;
    }
}

/// Returns the administrator's configuration for connections through a proxy.
async fn through(control_plane: &ControlPlane, proxy: &Proxy) -> Config {
    let mut config = control_plane.config().await.unwrap();
    config.cluster_url = format!("https://127.0.0.1:{}", proxy.port()).parse().unwrap();
    config
}

/// Enables watch-lists regardless of the mode.
fn with_watch_lists(options: ReflectorOptions) -> ReflectorOptions {
    options.watch_list(WatchListMode::Auto)
}

/// Kills kube-apiserver, and restarts it with the same etcd.
async fn kill_and_restart(setup: &mut Setup) {
    setup.control_plane.kill_apiserver();
    let refused = || {
        let problems = setup.problems.all();
        check(problems.iter().any(|problem| problem.text.contains("refused")), problems)
    };
    until("the informer has noticed", refused).await;
    setup.control_plane.restart_apiserver().await.unwrap();
}

/// The restarted server's watch cache starts with a list of its own, at the newest version of etcd. The informer
/// usually has that version already, unless etcd has advanced by writes that it does not watch, such as the server's
/// own leases.
#[tokio::test(flavor = "multi_thread")]
async fn apiserver_restart_needs_at_most_one_list() {
    let mut setup = Setup::begin(Options::new()).await;
    kill_and_restart(&mut setup).await;
    setup.write(20).await;
    setup.equal().await;
    let expired = setup.problems.expired();
    assert!(expired <= 1, "{:#?}", setup.problems.all());
    setup.recovered(expired).await;
    setup.end().await;
}

/// The server rejects watches from versions before the first list of its watch cache, although etcd could serve them.
#[tokio::test(flavor = "multi_thread")]
async fn restart_at_a_later_version_needs_one_list() {
    let mut setup = Setup::begin(Options::new()).await;
    let namespaces: Api<Namespace> = Api::all(setup.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": {"moved": "yes"}}}));
    namespaces.patch(&setup.namespace, &PatchParams::default(), &patch).await.unwrap();
    kill_and_restart(&mut setup).await;
    setup.write(20).await;
    setup.recovered(1).await;
    assert_eq!(setup.problems.expired(), 1, "{:#?}", setup.problems.all());
    setup.end().await;
}

/// etcd serves a watch from any version that is not compacted.
#[tokio::test(flavor = "multi_thread")]
async fn restart_without_watch_cache_needs_no_list() {
    let mut setup = Setup::begin(Options::new().apiserver_flag(WATCH_CACHE_OFF)).await;
    kill_and_restart(&mut setup).await;
    setup.write(20).await;
    let statistics = setup.recovered(0).await;
    assert_eq!(setup.problems.expired(), 0, "{:#?}", setup.problems.all());
    assert!(statistics.watch_restarts > 0, "{statistics:#?}");
    setup.end().await;
}

/// A suspended server sends nothing; only the timeout of the watch detects it. No list is needed.
#[tokio::test(flavor = "multi_thread")]
async fn long_pause_is_detected_by_the_watch_timeout() {
    let control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let mut setup = Setup::synced(control_plane, client, |options| {
        options.min_watch_timeout_unbounded(Duration::from_secs(2)).stall_margin(Duration::from_secs(1))
    })
    .await;
    setup.control_plane.pause_apiserver().await;
    let stalled = || check(setup.statistics().stalled_watches > 0, setup.statistics());
    until("the watch times out", stalled).await;
    assert!(setup.problems.all().iter().all(|problem| problem.recovery == Recovery::Rewatch));
    setup.control_plane.resume_apiserver();
    setup.write(20).await;
    setup.recovered(0).await;
    setup.end().await;
}

/// Events from a short pause arrive afterwards on the same watch.
#[tokio::test(flavor = "multi_thread")]
async fn short_pause_keeps_the_watch() {
    let mut setup = Setup::begin(Options::new()).await;
    let before = setup.statistics();
    setup.control_plane.pause_apiserver().await;
    // The server does not respond while it is suspended.
    let api = setup.api();
    let object = serde_json::from_value(json!({"metadata": {"name": "meanwhile"}})).unwrap();
    let mut write = tokio::spawn(async move { api.create(&PostParams::default(), &object).await });
    let answer = tokio::time::timeout(Duration::from_secs(1), &mut write).await;
    assert!(answer.is_err(), "{answer:?}");
    setup.control_plane.resume_apiserver();
    write.await.unwrap().unwrap();
    let statistics = setup.recovered(0).await;
    assert_eq!((statistics.watches, statistics.failures), (before.watches, before.failures));
    setup.end().await;
}

/// Disconnects the informer, writes, and compacts etcd.
async fn write_and_compact(setup: &mut Setup, proxy: &mut Proxy) {
    proxy.refuse().await;
    let backing_off = || {
        let state = setup.informer.reflector().state();
        check(matches!(state, ReflectorState::BackingOff { .. }), state)
    };
    until("the informer is disconnected", backing_off).await;
    setup.write(20).await;
    setup.control_plane.compact().await.unwrap();
}

/// Reconnects the informer, which must list once because its version is compacted.
async fn reconnect_after_compaction(setup: &mut Setup, proxy: &mut Proxy) -> ReflectorMetrics {
    proxy.accept().await.unwrap();
    let statistics = setup.recovered(1).await;
    assert_eq!(setup.problems.expired(), 1, "{:#?}", setup.problems.all());
    // Missed deletions have an unknown final state, unless the object was created again: that is an update with another
    // UID.
    let events = setup.recorder.events();
    let unseen = |event: &KubeEvent<ConfigMap>| {
        matches!(
            event,
            Event::Deleted(Deleted {
                tombstone: Tombstone::FinalStateUnknown(missed),
                ..
            }) if missed.last_known.is_some()
        )
    };
    assert!(events.iter().any(unseen), "{events:#?}");
    let another = |event: &KubeEvent<ConfigMap>| matches!(event, Event::Updated(Updated { old, new, .. }) if old.metadata.uid != new.metadata.uid);
    assert!(events.iter().any(another), "{events:#?}");
    statistics
}

/// The server is restarted, since its watch cache would still serve the compacted versions.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_needs_one_list() {
    let (mut setup, mut proxy) = Setup::behind_a_proxy(Options::new()).await;
    write_and_compact(&mut setup, &mut proxy).await;
    setup.control_plane.restart_apiserver().await.unwrap();
    let statistics = reconnect_after_compaction(&mut setup, &mut proxy).await;
    assert_eq!((statistics.watch_lists, statistics.lists), mode().expected_requests(2), "{statistics:#?}");
    setup.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_without_watch_cache_needs_one_list() {
    let (mut setup, mut proxy) = Setup::behind_a_proxy(Options::new().apiserver_flag(WATCH_CACHE_OFF)).await;
    write_and_compact(&mut setup, &mut proxy).await;
    reconnect_after_compaction(&mut setup, &mut proxy).await;
    setup.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_without_watch_lists_needs_one_list() {
    let options = Options::new().apiserver_flag(WATCH_LIST_OFF);
    let (mut setup, mut proxy) = Setup::changed_behind_a_proxy(options, with_watch_lists).await;
    let statistics = setup.statistics();
    // The informer requests a watch-list only once.
    assert_eq!((statistics.watch_lists, statistics.lists), (1, 1), "{statistics:#?}");
    write_and_compact(&mut setup, &mut proxy).await;
    setup.control_plane.restart_apiserver().await.unwrap();
    let statistics = reconnect_after_compaction(&mut setup, &mut proxy).await;
    assert_eq!((statistics.watch_lists, statistics.lists), (1, 2), "{statistics:#?}");
    setup.end().await;
}

/// A disconnect within an event of many frames: the event is delivered once, after a new watch. No list is needed.
#[tokio::test(flavor = "multi_thread")]
async fn truncated_event_is_delivered_once() {
    let (mut setup, proxy) = Setup::behind_a_proxy(Options::new()).await;
    let large = "x".repeat(400_000);
    for (number, bytes) in [1, 1000, 20_000, 100_000, 399_999].into_iter().enumerate() {
        let restarts = setup.statistics().watch_restarts;
        proxy.disconnect_after(bytes);
        setup.create(&format!("large-{number}"), &large).await;
        let again = || check(setup.statistics().watch_restarts > restarts, setup.statistics());
        until("the watch was restarted after a disconnect", again).await;
        setup.equal().await;
        let events = setup.recorder.events_of(&format!("{}/large-{number}", setup.namespace));
        assert_eq!(events.len(), 1, "{bytes}: {events:?}");
    }
    let statistics = setup.recovered(0).await;
    assert_eq!(statistics.watch_restarts, 5, "{:#?}", setup.problems.all());
    setup.end().await;
}

/// Watches that deliver events may be disconnected any number of times.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_disconnects_need_no_list() {
    let (mut setup, proxy) = Setup::behind_a_proxy(Options::new()).await;
    for _ in 0..20 {
        let events = setup.statistics().events;
        setup.write(5).await;
        let delivered = || check(setup.statistics().events > events, setup.statistics());
        until("the watch has delivered an event", delivered).await;
        let restarts = setup.statistics().watch_restarts;
        proxy.disconnect();
        let again = || check(setup.statistics().watch_restarts > restarts, setup.statistics());
        until("the watch was restarted after a disconnect", again).await;
    }
    let statistics = setup.recovered(0).await;
    assert!(statistics.watch_restarts >= 20, "{statistics:#?}");
    setup.end().await;
}

/// Disconnects during the initial list, which is then repeated. Each object is delivered once.
async fn disconnect_during_initial_list(options: Options) -> ReflectorMetrics {
    let control_plane = planes::take(options).await;
    let proxy = Proxy::start(control_plane.port()).await.unwrap();
    let client = kinformer::client(through(&control_plane, &proxy).await).unwrap();
    let mut setup = Setup::prepared(control_plane, client, with_watch_lists).await;
    for number in 0..10 {
        setup.create(&format!("large-{number}"), &"x".repeat(50_000)).await;
    }
    proxy.disconnect_after(200_000);
    setup.start().await;
    setup.equal().await;
    assert!(!setup.problems.all().is_empty(), "no disconnect");
    assert_eq!(setup.recorder.initial(), setup.informer.len());
    let statistics = setup.recovered(0).await;
    setup.end().await;
    statistics
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_watch_list_is_repeated() {
    let statistics = disconnect_during_initial_list(Options::new()).await;
    assert_eq!((statistics.watch_lists, statistics.lists), (2, 0), "{statistics:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_list_is_repeated() {
    let statistics = disconnect_during_initial_list(Options::new().apiserver_flag(WATCH_LIST_OFF)).await;
    assert_eq!((statistics.watch_lists, statistics.lists), (1, 2), "{statistics:#?}");
}

/// The network drops the state of a connection while the server is healthy. HTTP/2 pings detect that within 45 seconds,
/// long before the timeout of the watch. No list is needed.
#[tokio::test(flavor = "multi_thread")]
async fn half_open_connection_is_detected_by_pings() {
    let (mut setup, proxy) = Setup::behind_a_proxy(Options::new()).await;
    proxy.freeze();
    setup.write(20).await;
    let noticed = || check(setup.statistics().failures > 0, setup.statistics());
    until("the informer has noticed", noticed).await;
    let statistics = setup.recovered(0).await;
    assert_eq!((statistics.stalled_watches, statistics.watch_restarts), (0, 1), "{statistics:#?}");
    setup.end().await;
}

/// With HTTP/1.1 and a connection for each watch, the timeout of the watch detects it. No list is needed.
#[tokio::test(flavor = "multi_thread")]
async fn half_open_http1_needs_the_watch_timeout() {
    let control_plane = planes::take(Options::new()).await;
    let proxy = Proxy::start(control_plane.port()).await.unwrap();
    let client = kinformer::client_http1(through(&control_plane, &proxy).await).unwrap();
    let mut setup = Setup::synced(control_plane, client, |options| {
        options.min_watch_timeout_unbounded(Duration::from_secs(2)).stall_margin(Duration::from_secs(1))
    })
    .await;
    proxy.freeze();
    setup.write(20).await;
    let stalled = || check(setup.statistics().stalled_watches > 0, setup.statistics());
    until("the watch times out", stalled).await;
    setup.recovered(0).await;
    setup.end().await;
}
