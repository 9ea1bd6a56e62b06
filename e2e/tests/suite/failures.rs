//! Failures made for real. After each, store and handler have what the server has, no handler saw time go backwards,
//! and there were no more lists than the server made necessary.
//!
//! How many that is: none where the server still has the version that the informer has reached, and one for each
//! time that it says that it has not (410).

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

use crate::mode::{Informer, KubeEvent, factory, kept, mode, reading};
use crate::witness::{Problems, Witness, cached, check, equal, until};

/// Where the objects are that the informer watches.
const PATH: &str = "/api/v1/configmaps";
const NAMESPACE: &str = "failures";
const WATCH_CACHE_OFF: &str = "--watch-cache=false";
const WATCH_LIST_OFF: &str = "--feature-gates=WatchList=false";

/// An informer of one kind, what is told of it, and its server.
struct Scene {
    control_plane: ControlPlane,
    /// Straight to the server, whatever happens to the informer's connections.
    client: Client,
    factory: SharedInformerFactory,
    informer: Informer<ConfigMap>,
    witness: Witness<ConfigMap>,
    problems: Problems,
    written: usize,
}

impl Scene {
    /// The informer and the server, with nothing between them.
    async fn begin(options: Options) -> Self {
        let control_plane = ControlPlane::start(options).await.unwrap();
        let client = control_plane.client().await.unwrap();
        Self::synced(control_plane, client, |options| options).await
    }

    /// With a proxy between them.
    async fn behind_a_proxy(options: Options) -> (Self, Proxy) {
        Self::changed_behind_a_proxy(options, |options| options).await
    }

    async fn changed_behind_a_proxy(
        options: Options,
        change: impl Fn(ReflectorOptions) -> ReflectorOptions + Send + Sync + 'static,
    ) -> (Self, Proxy) {
        let control_plane = ControlPlane::start(options).await.unwrap();
        let proxy = Proxy::start(control_plane.port()).await.unwrap();
        let client = kinformer::client(through(&control_plane, &proxy).await).unwrap();
        (Self::synced(control_plane, client, change).await, proxy)
    }

    /// The first list has brought some objects.
    async fn synced(
        control_plane: ControlPlane,
        informers: Client,
        change: impl Fn(ReflectorOptions) -> ReflectorOptions + Send + Sync + 'static,
    ) -> Self {
        let mut scene = Self::prepared(control_plane, informers, change).await;
        scene.start().await;
        scene.equal().await;
        assert_eq!(scene.witness.initial(), scene.informer.len());
        scene.write(10).await;
        scene.equal().await;
        scene
    }

    /// There are some objects, and nobody has listed them yet.
    async fn prepared(
        control_plane: ControlPlane,
        informers: Client,
        change: impl Fn(ReflectorOptions) -> ReflectorOptions + Send + Sync + 'static,
    ) -> Self {
        let client = control_plane.client().await.unwrap();
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
        let problems = Problems::default();
        // Quick to try again: a test has no thousand clients.
        let backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(1));
        let factory = factory(informers)
            .reflector(move |options| change(reading(options).backoff(backoff.clone())))
            .on_error(problems.hook())
            .build();
        let informer = kept!(factory.core().v1().config_maps());
        let witness = Witness::of(&informer);
        let mut scene = Self { control_plane, client, factory, informer, witness, problems, written: 0 };
        scene.write(20).await;
        scene
    }

    /// All that there is will be in the first list.
    async fn start(&self) {
        cached(&self.client, PATH).await;
        self.factory.start().unwrap();
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Creates this many objects; of those that were there for longer, it changes some, deletes some, and creates
    /// some of these again.
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
        equal(&self.informer, &self.witness, &self.client, PATH).await;
    }

    fn statistics(&self) -> ReflectorMetrics {
        self.informer.statistics()
    }

    /// All that must hold after a failure, when the informer may have listed again this often. Says what it did.
    async fn recovered(&mut self, relists: u64) -> ReflectorMetrics {
        self.equal().await;
        // It has not only made good what it missed: it goes on.
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
        self.control_plane.stop().await;
    }
}

/// The administrator's configuration, by way of a proxy.
async fn through(control_plane: &ControlPlane, proxy: &Proxy) -> Config {
    let mut config = control_plane.config().await.unwrap();
    config.cluster_url = format!("https://127.0.0.1:{}", proxy.port()).parse().unwrap();
    config
}

/// For what is about watch-lists, whatever the mode says.
fn with_watch_lists(options: ReflectorOptions) -> ReflectorOptions {
    options.watch_list(WatchListMode::Auto)
}

/// kube-apiserver killed and started again on the same etcd.
async fn killed(scene: &mut Scene) {
    scene.control_plane.kill_apiserver().await;
    let refused = || {
        let problems = scene.problems.all();
        check(problems.iter().any(|problem| problem.text.contains("refused")), problems)
    };
    until("the informer has noticed", refused).await;
    scene.control_plane.restart_apiserver().await.unwrap();
}

/// Its watch cache begins with a list of its own, at the newest version of etcd. The informer is there already, unless
/// etcd has moved since by what it does not watch; the server's own leases are enough. So it is one list at most.
#[tokio::test(flavor = "multi_thread")]
async fn killed_and_started_again() {
    let mut scene = Scene::begin(Options::new()).await;
    killed(&mut scene).await;
    scene.write(20).await;
    scene.equal().await;
    let expired = scene.problems.expired();
    assert!(expired <= 1, "{:#?}", scene.problems.all());
    scene.recovered(expired).await;
    scene.end().await;
}

/// From before the list that its watch cache begins with, the server serves no watch, although etcd could: one list.
#[tokio::test(flavor = "multi_thread")]
async fn killed_and_started_again_at_a_later_version() {
    let mut scene = Scene::begin(Options::new()).await;
    let namespaces: Api<Namespace> = Api::all(scene.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": {"moved": "yes"}}}));
    namespaces.patch(NAMESPACE, &PatchParams::default(), &patch).await.unwrap();
    killed(&mut scene).await;
    scene.write(20).await;
    scene.recovered(1).await;
    assert_eq!(scene.problems.expired(), 1, "{:#?}", scene.problems.all());
    scene.end().await;
}

/// etcd serves a watch from any version that it has not compacted: no list is needed.
#[tokio::test(flavor = "multi_thread")]
async fn killed_and_started_again_without_a_watch_cache() {
    let mut scene = Scene::begin(Options::new().apiserver_flag(WATCH_CACHE_OFF)).await;
    killed(&mut scene).await;
    scene.write(20).await;
    let statistics = scene.recovered(0).await;
    assert_eq!(scene.problems.expired(), 0, "{:#?}", scene.problems.all());
    assert!(statistics.watch_restarts > 0, "{statistics:#?}");
    scene.end().await;
}

/// A paused server says nothing at all: only the deadline of the watch finds it out. No list is needed.
#[tokio::test(flavor = "multi_thread")]
async fn paused_for_longer_than_a_watch_lasts() {
    let control_plane = ControlPlane::start(Options::new()).await.unwrap();
    let client = control_plane.client().await.unwrap();
    let mut scene = Scene::synced(control_plane, client, |options| {
        options.min_watch_timeout_unbounded(Duration::from_secs(2)).stall_margin(Duration::from_secs(1))
    })
    .await;
    scene.control_plane.pause_apiserver().await;
    let stalled = || check(scene.statistics().stalled_watches > 0, scene.statistics());
    until("the watch is given up", stalled).await;
    assert!(scene.problems.all().iter().all(|problem| problem.recovery == Recovery::Rewatch));
    scene.control_plane.resume_apiserver();
    scene.write(20).await;
    scene.recovered(0).await;
    scene.end().await;
}

/// Whatever happened during a short pause comes when it is over, on the same watch.
#[tokio::test(flavor = "multi_thread")]
async fn paused_for_a_moment() {
    let mut scene = Scene::begin(Options::new()).await;
    let before = scene.statistics();
    scene.control_plane.pause_apiserver().await;
    // Nobody answers: it is paused indeed.
    let api = scene.api();
    let object = serde_json::from_value(json!({"metadata": {"name": "meanwhile"}})).unwrap();
    let mut write = tokio::spawn(async move { api.create(&PostParams::default(), &object).await });
    let answer = tokio::time::timeout(Duration::from_secs(1), &mut write).await;
    assert!(answer.is_err(), "{answer:?}");
    scene.control_plane.resume_apiserver();
    write.await.unwrap().unwrap();
    let statistics = scene.recovered(0).await;
    assert_eq!((statistics.watches, statistics.failures), (before.watches, before.failures));
    scene.end().await;
}

/// The informer knows nothing of what was written and forgotten while it was cut off.
async fn forgotten(scene: &mut Scene, proxy: &mut Proxy) {
    proxy.refuse().await;
    let backing_off = || {
        let state = scene.informer.reflector().state();
        check(matches!(state, ReflectorState::BackingOff { .. }), state)
    };
    until("the informer is cut off", backing_off).await;
    scene.write(20).await;
    scene.control_plane.compact().await.unwrap();
}

/// One list for the one version that is gone.
async fn found_out(scene: &mut Scene, proxy: &mut Proxy) -> ReflectorMetrics {
    proxy.accept().await.unwrap();
    let statistics = scene.recovered(1).await;
    assert_eq!(scene.problems.expired(), 1, "{:#?}", scene.problems.all());
    // What was deleted meanwhile, nobody saw; what was created again as well is another object.
    let told = scene.witness.events();
    let unseen = |event: &KubeEvent<ConfigMap>| {
        matches!(
            event,
            Event::Deleted(Deleted {
                tombstone: Tombstone::FinalStateUnknown(missed),
                ..
            }) if missed.last_known.is_some()
        )
    };
    assert!(told.iter().any(unseen), "{told:#?}");
    let another = |event: &KubeEvent<ConfigMap>| matches!(event, Event::Updated(Updated { old, new, .. }) if old.metadata.uid != new.metadata.uid);
    assert!(told.iter().any(another), "{told:#?}");
    statistics
}

/// The watch cache would serve from memory what etcd has forgotten: so it is started anew.
#[tokio::test(flavor = "multi_thread")]
async fn compacted() {
    let (mut scene, mut proxy) = Scene::behind_a_proxy(Options::new()).await;
    forgotten(&mut scene, &mut proxy).await;
    scene.control_plane.restart_apiserver().await.unwrap();
    let statistics = found_out(&mut scene, &mut proxy).await;
    assert_eq!((statistics.watch_lists, statistics.lists), mode().asked(2), "{statistics:#?}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compacted_without_a_watch_cache() {
    let (mut scene, mut proxy) = Scene::behind_a_proxy(Options::new().apiserver_flag(WATCH_CACHE_OFF)).await;
    forgotten(&mut scene, &mut proxy).await;
    found_out(&mut scene, &mut proxy).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compacted_without_watch_lists() {
    let options = Options::new().apiserver_flag(WATCH_LIST_OFF);
    let (mut scene, mut proxy) = Scene::changed_behind_a_proxy(options, with_watch_lists).await;
    let statistics = scene.statistics();
    // It asked once, and remembers the answer.
    assert_eq!((statistics.watch_lists, statistics.lists), (1, 1), "{statistics:#?}");
    forgotten(&mut scene, &mut proxy).await;
    scene.control_plane.restart_apiserver().await.unwrap();
    let statistics = found_out(&mut scene, &mut proxy).await;
    assert_eq!((statistics.watch_lists, statistics.lists), (1, 2), "{statistics:#?}");
    scene.end().await;
}

/// An event of many frames is cut in the middle of one: it comes again, whole, and no list is needed.
#[tokio::test(flavor = "multi_thread")]
async fn cut_in_the_middle_of_an_event() {
    let (mut scene, proxy) = Scene::behind_a_proxy(Options::new()).await;
    let large = "x".repeat(400_000);
    for (number, bytes) in [1, 1000, 20_000, 100_000, 399_999].into_iter().enumerate() {
        let restarts = scene.statistics().watch_restarts;
        proxy.disconnect_after(bytes);
        scene.create(&format!("large-{number}"), &large).await;
        let again = || check(scene.statistics().watch_restarts > restarts, scene.statistics());
        until("the watch was cut and asked for again", again).await;
        scene.equal().await;
        let told = scene.witness.events_of(&format!("{NAMESPACE}/large-{number}"));
        assert_eq!(told.len(), 1, "{bytes}: {told:?}");
    }
    let statistics = scene.recovered(0).await;
    assert_eq!(statistics.watch_restarts, 5, "{:#?}", scene.problems.all());
    scene.end().await;
}

/// As long as each watch brings something, it may be cut as often as one likes.
#[tokio::test(flavor = "multi_thread")]
async fn cut_again_and_again() {
    let (mut scene, proxy) = Scene::behind_a_proxy(Options::new()).await;
    for _ in 0..20 {
        let events = scene.statistics().events;
        scene.write(5).await;
        let brought = || check(scene.statistics().events > events, scene.statistics());
        until("the watch has brought something", brought).await;
        let restarts = scene.statistics().watch_restarts;
        proxy.disconnect();
        let again = || check(scene.statistics().watch_restarts > restarts, scene.statistics());
        until("it was cut and asked for again", again).await;
    }
    let statistics = scene.recovered(0).await;
    assert!(statistics.watch_restarts >= 20, "{statistics:#?}");
    scene.end().await;
}

/// A first list that is cut in the middle is none: the next one is it, and each object of it is told once.
async fn cut_during_the_first_list(options: Options) -> ReflectorMetrics {
    let control_plane = ControlPlane::start(options).await.unwrap();
    let proxy = Proxy::start(control_plane.port()).await.unwrap();
    let client = kinformer::client(through(&control_plane, &proxy).await).unwrap();
    let mut scene = Scene::prepared(control_plane, client, with_watch_lists).await;
    for number in 0..10 {
        scene.create(&format!("large-{number}"), &"x".repeat(50_000)).await;
    }
    proxy.disconnect_after(200_000);
    scene.start().await;
    scene.equal().await;
    assert!(!scene.problems.all().is_empty(), "nothing was cut");
    assert_eq!(scene.witness.initial(), scene.informer.len());
    let statistics = scene.recovered(0).await;
    scene.end().await;
    statistics
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_in_the_middle_of_a_watch_list() {
    let statistics = cut_during_the_first_list(Options::new()).await;
    assert_eq!((statistics.watch_lists, statistics.lists), (2, 0), "{statistics:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_in_the_middle_of_a_list() {
    let statistics = cut_during_the_first_list(Options::new().apiserver_flag(WATCH_LIST_OFF)).await;
    assert_eq!((statistics.watch_lists, statistics.lists), (1, 2), "{statistics:#?}");
}

/// Something between the two has forgotten the connection, and the server is well. With HTTP/2 it is a ping that
/// finds it out, within 45 seconds and long before the watch is over: no list is needed.
#[tokio::test(flavor = "multi_thread")]
async fn half_open() {
    let (mut scene, proxy) = Scene::behind_a_proxy(Options::new()).await;
    proxy.freeze();
    scene.write(20).await;
    let noticed = || check(scene.statistics().failures > 0, scene.statistics());
    until("the informer has noticed", noticed).await;
    let statistics = scene.recovered(0).await;
    assert_eq!((statistics.stalled_watches, statistics.watch_restarts), (0, 1), "{statistics:#?}");
    scene.end().await;
}

/// With HTTP/1.1, and a connection for each watch, it is the deadline of the watch: no list is needed either.
#[tokio::test(flavor = "multi_thread")]
async fn half_open_without_pings() {
    let control_plane = ControlPlane::start(Options::new()).await.unwrap();
    let proxy = Proxy::start(control_plane.port()).await.unwrap();
    let client = kinformer::client_http1(through(&control_plane, &proxy).await).unwrap();
    let mut scene = Scene::synced(control_plane, client, |options| {
        options.min_watch_timeout_unbounded(Duration::from_secs(2)).stall_margin(Duration::from_secs(1))
    })
    .await;
    proxy.freeze();
    scene.write(20).await;
    let stalled = || check(scene.statistics().stalled_watches > 0, scene.statistics());
    until("the watch is given up", stalled).await;
    scene.recovered(0).await;
    scene.end().await;
}
