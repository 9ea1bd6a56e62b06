//! Every kind of request: typed, dynamic and metadata-only; of one namespace, with selectors, in pages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::{ControlPlane, Options};
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinformer::{
    Added, Deleted, Event, ReflectorMetrics, ResourceVersion, Tombstone, Updated, WatchListMode,
};
use kube_client::Client;
use kube_client::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube_core::gvk::GroupVersionResource;
use kube_core::{NamespaceResourceScope, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::mode::{Informer, Kind, KubeEvent, dynamic, factory, informer, mode, reading};
use crate::planes;
use crate::recorder::{Recorder, cached, check, equal, eventually, until};

const WATCH_CACHE_OFF: &str = "--watch-cache=false";
const WATCH_LIST_OFF: &str = "--feature-gates=WatchList=false";
const CONFIG_MAPS: &str = "/api/v1/configmaps";

async fn create<K: Serialize + DeserializeOwned + Clone + std::fmt::Debug>(api: &Api<K>, object: Value) -> K {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

async fn patch<K: DeserializeOwned + Clone + std::fmt::Debug>(api: &Api<K>, name: &str, patch: Value) -> K {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

fn namespaced<K>(client: &Client, namespace: &str) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(client.clone(), namespace)
}

fn resource(group: &str, version: &str, resource: &str) -> GroupVersionResource {
    GroupVersionResource::gvr(group, version, resource)
}

fn config_maps_of(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// An informer with its recorded events.
struct Observed<K> {
    informer: Informer<K>,
    recorder: Recorder<K>,
    path: String,
}

impl<K: Kind> Observed<K> {
    fn new(informer: impl Into<Informer<K>>, path: impl Into<String>) -> Self {
        let informer = informer.into();
        Self { recorder: Recorder::of(&informer), informer, path: path.into() }
    }

    async fn equal(&self, client: &Client) -> ReflectorMetrics {
        equal(&self.informer, &self.recorder, client, &self.path).await;
        let statistics = self.informer.statistics();
        assert_eq!(statistics.decode_errors + statistics.unexpected_events, 0, "{statistics:#?}");
        // Rejected watch-lists are the only allowed failures.
        let refused = statistics.watch_lists.min(statistics.lists);
        assert_eq!((statistics.relists, statistics.failures), (0, refused), "{statistics:#?}");
        statistics
    }
}

async fn define_widgets(client: &Client, group: &str) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = json!({
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    create(&api, definition).await;
}

/// Runs all kinds of informers while objects are created, changed and deleted. Returns the numbers of watch-lists and
/// of lists of each informer.
async fn every_kind(options: Options, lists: WatchListMode) -> Vec<(u64, u64)> {
    let control_plane = planes::take(options).await;
    let client = control_plane.client().await.unwrap();
    let namespace = planes::namespace(&client, "kinds").await;
    let group = format!("{namespace}.example.com");
    let widgets_path = format!("/apis/{group}/v1/widgets");
    define_widgets(&client, &group).await;
    let factory = factory(client.clone()).reflector(move |it| it.watch_list(lists)).build();
    let group_version_kind = kube_core::GroupVersionKind::gvk(&group, "v1", "Widget");
    let (kind, capabilities) = eventually("the server serves widgets", || async {
        let found = kube_client::discovery::pinned_kind(&client, &group_version_kind).await;
        found.map_err(|error| error.to_string())
    })
    .await;
    // A factory has one informer for each resource, so another factory fetches only metadata.
    let other = self::factory(client.clone()).reflector(move |it| it.watch_list(lists)).build();
    let typed_metadata = Observed::new(other.metadata::<ConfigMap>(), CONFIG_MAPS);
    let custom_metadata =
        Observed::new(other.dynamic_metadata(kind.clone(), capabilities.scope), &*widgets_path);
    let widgets = factory.for_resource(&resource(&group, "v1", "widgets")).await.unwrap();
    let config_maps = factory.for_resource(&resource("", "v1", "configmaps")).await.unwrap();
    let typed = Observed::new(informer!(factory.core().v1().config_maps()), CONFIG_MAPS);
    let dynamic_metadata = Observed::new(config_maps.metadata(), CONFIG_MAPS);
    let whole = Observed::new(dynamic(&config_maps), CONFIG_MAPS);
    let custom = Observed::new(dynamic(&widgets), &*widgets_path);

    let config_maps = namespaced::<ConfigMap>(&client, &namespace);
    let custom_objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind);
    let widget = |number: u32| {
        let metadata = json!({"name": format!("widget-{number}"), "labels": {"number": number.to_string()}});
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": metadata, "spec": {"size": number},
        })
    };
    let config_map = |number: u32| json!({"metadata": {"name": format!("map-{number}")}, "data": {"a": "b"}});
    for number in 0..5 {
        create(&config_maps, config_map(number)).await;
        create(&custom_objects, widget(number)).await;
    }
    cached(&client, &widgets_path).await;
    for factory in [&factory, &other] {
        factory.start().unwrap();
        let waited = factory.wait_for_cache_sync().await;
        assert_eq!(waited.iter().count(), 2, "two resources");
        waited.into_result().unwrap();
    }
    for number in 5..10 {
        create(&config_maps, config_map(number)).await;
        create(&custom_objects, widget(number)).await;
        patch(&config_maps, &format!("map-{}", number - 2), json!({"data": {"c": "d"}})).await;
        patch(&custom_objects, &format!("widget-{}", number - 2), json!({"spec": {"size": 100}})).await;
        config_maps.delete(&format!("map-{}", number - 4), &DeleteParams::default()).await.unwrap();
        custom_objects.delete(&format!("widget-{}", number - 4), &DeleteParams::default()).await.unwrap();
    }

    let statistics = [
        typed.equal(&client).await,
        typed_metadata.equal(&client).await,
        whole.equal(&client).await,
        dynamic_metadata.equal(&client).await,
        custom.equal(&client).await,
        custom_metadata.equal(&client).await,
    ];
    assert_eq!((custom.recorder.initial(), custom_metadata.recorder.initial()), (5, 5));
    // All fields are present, or all metadata in the case of metadata-only informers.
    let key = |name: &str| format!("{namespace}/{name}");
    let data = typed.informer.get(&key("map-7")).unwrap().data.clone().unwrap();
    assert_eq!(data.into_iter().collect::<Vec<_>>(), [("a".into(), "b".into()), ("c".into(), "d".into())]);
    assert_eq!(whole.informer.get(&key("map-7")).unwrap().data["data"], json!({"a": "b", "c": "d"}));
    assert_eq!(custom.informer.get(&key("widget-7")).unwrap().data["spec"], json!({"size": 100}));
    assert_eq!(custom_metadata.informer.get(&key("widget-7")).unwrap().labels()["number"], "7");
    let events = custom.recorder.events_of(&key("widget-5"));
    let sizes: Vec<_> = events
        .iter()
        .map(|event| match event {
            Event::Added(Added { object, .. }) => format!("added {}", object.data["spec"]["size"]),
            Event::Updated(Updated { old, new, .. }) => {
                format!("updated {} {}", old.data["spec"]["size"], new.data["spec"]["size"])
            }
            Event::Deleted(Deleted { tombstone, .. }) => {
                format!("deleted {}", tombstone.object().unwrap().data["spec"]["size"])
            }
            Event::Left(_) => unreachable!("the scope is fixed"),
        })
        .collect();
    assert_eq!(sizes, ["added 5", "updated 5 100", "deleted 100"]);
    other.shutdown().await.unwrap();
    factory.shutdown().await.unwrap();
    planes::keep(control_plane).await;
    statistics.iter().map(|statistics| (statistics.watch_lists, statistics.lists)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_in_this_mode() {
    assert_eq!(every_kind(Options::new(), mode().lists).await, [mode().expected_requests(1); 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_by_list() {
    assert_eq!(every_kind(Options::new(), WatchListMode::Off).await, [(0, 1); 6]);
}

/// Each informer detects that the server does not support watch-lists, and does not count that as a failure.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_without_watch_lists() {
    let requests = every_kind(Options::new().apiserver_flag(WATCH_LIST_OFF), WatchListMode::Auto).await;
    assert_eq!(requests, [(1, 1); 6]);
}

/// Without a watch cache, the server answers watch-lists from etcd.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_without_watch_cache() {
    let requests = every_kind(Options::new().apiserver_flag(WATCH_CACHE_OFF), WatchListMode::Auto).await;
    assert_eq!(requests, [(1, 0); 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_namespace_is_watched() {
    let control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let namespace = planes::namespace(&client, "here").await;
    let factory = factory(client.clone()).namespace(&*namespace).build();
    let observed = Observed::new(informer!(factory.core().v1().config_maps()), config_maps_of(&namespace));
    // Cluster-scoped objects are watched as well.
    let all = Observed::new(informer!(factory.core().v1().namespaces()), "/api/v1/namespaces");
    let elsewhere = planes::namespace(&client, "elsewhere").await;
    let (here, elsewhere) = (namespaced(&client, &namespace), namespaced(&client, &elsewhere));
    let object = |name: &str| json!({"metadata": {"name": name}});
    create::<ConfigMap>(&here, object("early")).await;
    create::<ConfigMap>(&elsewhere, object("early")).await;
    factory.start().unwrap();
    observed.equal(&client).await;
    create(&elsewhere, object("late")).await;
    create(&here, object("late")).await;
    here.delete("early", &DeleteParams::default()).await.unwrap();
    observed.equal(&client).await;
    all.equal(&client).await;
    let keys: Vec<_> = observed.recorder.events().iter().map(|event| event.key().to_string()).collect();
    assert_eq!(keys, ["early", "late", "early"].map(|name| format!("{namespace}/{name}")));
    factory.shutdown().await.unwrap();
    planes::keep(control_plane).await;
}

/// Describes an event by its type and one value of its objects.
fn describe<K>(event: &KubeEvent<K>, value: impl Fn(&K) -> String) -> String {
    match event {
        Event::Added(Added { object, in_initial_list, .. }) => {
            format!("added {}{}", value(object), if *in_initial_list { " initially" } else { "" })
        }
        Event::Updated(Updated { old, new, .. }) => format!("updated {} to {}", value(old), value(new)),
        Event::Deleted(Deleted { tombstone: Tombstone::FinalState(object), .. }) => {
            format!("deleted {}", value(object))
        }
        Event::Deleted(_) => "missed deletion".into(),
        Event::Left(_) => unreachable!("the scope is fixed"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_cross_a_label_selector() {
    let control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let namespace = planes::namespace(&client, "selected").await;
    let factory = factory(client.clone())
        .tweak_list_options(|params| params.set("labelSelector", "app in (web, api)"))
        .build();
    let path = "/api/v1/configmaps?labelSelector=app+in+(web,api)";
    let observed = Observed::new(informer!(factory.core().v1().config_maps()), path);
    let api = namespaced::<ConfigMap>(&client, &namespace);
    let object = |name: &str, app: &str| json!({"metadata": {"name": name, "labels": {"app": app}}});
    let label = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    create(&api, object("inside", "web")).await;
    create(&api, object("outside", "db")).await;
    cached(&client, CONFIG_MAPS).await;
    factory.start().unwrap();
    observed.equal(&client).await;
    patch(&api, "inside", label("api")).await;
    let left = patch(&api, "inside", label("db")).await;
    patch(&api, "inside", json!({"data": {"unseen": "yes"}})).await;
    patch(&api, "outside", label("web")).await;
    patch(&api, "outside", json!({"data": {"seen": "yes"}})).await;
    patch(&api, "inside", label("web")).await;
    api.delete("inside", &DeleteParams::default()).await.unwrap();
    observed.equal(&client).await;

    let events_of = |name: &str| observed.recorder.events_of(&format!("{namespace}/{name}"));
    let seen = |name: &str| -> Vec<String> {
        let app = |object: &ConfigMap| object.labels().get("app").map_or("none", String::as_str).to_owned();
        events_of(name).iter().map(|event| describe(event, app)).collect()
    };
    // For an object that leaves the selector, the server sends a deletion with the last state that matched.
    assert_eq!(
        seen("inside"),
        ["added web initially", "updated web to api", "deleted api", "added web", "deleted web"]
    );
    assert_eq!(seen("outside"), ["added web", "updated web to web"]);
    let events = events_of("inside");
    assert_eq!(events[2].object().unwrap().resource_version(), left.resource_version());
    factory.shutdown().await.unwrap();
    planes::keep(control_plane).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_cross_a_field_selector() {
    let control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let namespace = planes::namespace(&client, "selected").await;
    let factory = factory(client.clone())
        .tweak_list_options(|params| params.set("fieldSelector", "status.phase!=Running"))
        .build();
    let path = "/api/v1/pods?fieldSelector=status.phase!=Running";
    let observed = Observed::new(informer!(factory.core().v1().pods()), path);
    // Pods need a service account, and no controller creates it here.
    let accounts = namespaced::<ServiceAccount>(&client, &namespace);
    create(&accounts, json!({"metadata": {"name": "default"}})).await;
    let api = namespaced::<Pod>(&client, &namespace);
    create(
        &api,
        json!({"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "one", "image": "none"}]}}),
    )
    .await;
    cached(&client, "/api/v1/pods").await;
    factory.start().unwrap();
    observed.equal(&client).await;
    for phase in ["Running", "Failed"] {
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        api.patch_status("pod", &PatchParams::default(), &status).await.unwrap();
    }
    patch(&api, "pod", json!({"metadata": {"labels": {"seen": "yes"}}})).await;
    let at_once = DeleteParams::default().grace_period(0);
    api.delete("pod", &at_once).await.unwrap();
    observed.equal(&client).await;
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    let events = observed.recorder.events_of(&format!("{namespace}/pod"));
    let seen: Vec<_> = events.iter().map(|event| describe(event, phase)).collect();
    assert_eq!(
        seen,
        [
            "added Pending initially",
            "deleted Pending",
            "added Failed",
            "updated Failed to Failed",
            // The server writes a pod once more to mark it as terminating.
            "updated Failed to Failed",
            "deleted Failed"
        ]
    );
    factory.shutdown().await.unwrap();
    planes::keep(control_plane).await;
}

/// Returns a control plane without a watch cache, with this many objects in a namespace.
async fn many(count: usize) -> (ControlPlane, Client, String) {
    let control_plane = planes::take(Options::new().apiserver_flag(WATCH_CACHE_OFF)).await;
    let client = control_plane.client().await.unwrap();
    let namespace = planes::namespace(&client, "many").await;
    let api = namespaced::<ConfigMap>(&client, &namespace);
    let created = stream::iter(0..count).map(|number| {
        let object = json!({"metadata": {"name": format!("object-{number}")}});
        let (api, object) = (api.clone(), serde_json::from_value(object).unwrap());
        async move { api.create(&PostParams::default(), &object).await }
    });
    created.buffer_unordered(20).try_collect::<Vec<_>>().await.unwrap();
    (control_plane, client, namespace)
}

#[tokio::test(flavor = "multi_thread")]
async fn initial_list_is_read_in_pages() {
    let (control_plane, client, namespace) = many(1100).await;
    let factory = factory(client.clone())
        .namespace(&*namespace)
        .reflector(|options| options.watch_list(WatchListMode::Off))
        .build();
    let observed = Observed::new(informer!(factory.core().v1().config_maps()), config_maps_of(&namespace));
    factory.start().unwrap();
    let statistics = observed.equal(&client).await;
    assert_eq!((statistics.lists, statistics.pages), (1, 3), "1100 objects in pages of 500");
    assert_eq!(observed.recorder.initial(), 1100);
    factory.shutdown().await.unwrap();
    planes::keep(control_plane).await;
}

/// The version of the first page is compacted before the second is requested. The list is repeated without pages, and
/// no intermediate state is delivered.
#[tokio::test(flavor = "multi_thread")]
async fn expired_page_is_followed_by_a_full_list() {
    let (control_plane, client, namespace) = many(120).await;
    let (etcd, api) = (control_plane.etcd().unwrap(), namespaced::<ConfigMap>(&client, &namespace));
    let done = AtomicBool::new(false);
    let factory = factory(client.clone())
        .namespace(&*namespace)
        .reflector(|options| {
            options.watch_list(WatchListMode::Off).page_size(std::num::NonZeroU32::new(50).unwrap())
        })
        .tweak_list_options(move |params| {
            if params.get("continue").is_none() || done.swap(true, Ordering::Relaxed) {
                return;
            }
            // This callback must not block in general; here no other task waits.
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async {
                    create(&api, json!({"metadata": {"name": "in-between"}})).await;
                    etcd.compact().await.unwrap();
                });
            });
        })
        .build();
    let observed = Observed::new(informer!(factory.core().v1().config_maps()), config_maps_of(&namespace));
    factory.start().unwrap();
    let statistics = observed.equal(&client).await;
    assert_eq!((statistics.lists, statistics.pages), (1, 2), "one page of 50, then one of all");
    assert_eq!(observed.recorder.initial(), 121);
    factory.shutdown().await.unwrap();
    planes::keep(control_plane).await;
}

/// Changes in other namespaces advance the version by bookmarks only.
#[tokio::test(flavor = "multi_thread")]
async fn bookmarks_advance_the_version() {
    let control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let namespace = planes::namespace(&client, "here").await;
    let elsewhere = planes::namespace(&client, "elsewhere").await;
    let factory = factory(client.clone())
        .namespace(&*namespace)
        // kube-apiserver sends a bookmark two seconds before the end of a watch.
        .reflector(|options| reading(options).min_watch_timeout_unbounded(Duration::from_secs(4)))
        .build();
    let observed = Observed::new(informer!(factory.core().v1().config_maps()), config_maps_of(&namespace));
    create(&namespaced::<ConfigMap>(&client, &namespace), json!({"metadata": {"name": "quiet"}})).await;
    factory.start().unwrap();
    let before = observed.equal(&client).await;
    let elsewhere = namespaced::<ConfigMap>(&client, &elsewhere);
    let written = create(&elsewhere, json!({"metadata": {"name": "loud"}})).await;
    let version = ResourceVersion::from(written.resource_version().unwrap());
    until("the version has moved", || {
        let reflector = observed.informer.reflector();
        let reached = (reflector.last_version(), observed.informer.version());
        check(reached.0.reaches(&version) && reached.1.reaches(&version), (&reached, &version))
    })
    .await;
    let after = observed.equal(&client).await;
    // Only bookmarks arrived.
    assert!(after.bookmarks > before.bookmarks, "{after:#?}");
    assert_eq!(after.events - before.events, after.bookmarks - before.bookmarks);
    assert_eq!(observed.recorder.events().len(), 1);
    factory.shutdown().await.unwrap();
    planes::keep(control_plane).await;
}
