//! Every way to ask for objects: typed, dynamic, only their metadata; of one namespace, selected, in pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::{ControlPlane, Options};
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
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

use crate::mode::{Informer, Kind, KubeEvent, dynamic, factory, kept, mode, reading};
use crate::witness::{Witness, cached, check, equal, eventually, until};

const WATCH_CACHE_OFF: &str = "--watch-cache=false";
const WATCH_LIST_OFF: &str = "--feature-gates=WatchList=false";
const CONFIG_MAPS: &str = "/api/v1/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/widgets";

async fn create<K: Serialize + DeserializeOwned + Clone + std::fmt::Debug>(api: &Api<K>, object: Value) -> K {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

async fn patch<K: DeserializeOwned + Clone + std::fmt::Debug>(api: &Api<K>, name: &str, patch: Value) -> K {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

async fn namespaces(client: &Client, names: &[&str]) {
    for name in names {
        create(&Api::<Namespace>::all(client.clone()), json!({"metadata": {"name": name}})).await;
    }
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

/// An informer with what it was told.
struct Told<K> {
    informer: Informer<K>,
    witness: Witness<K>,
    path: &'static str,
}

impl<K: Kind> Told<K> {
    fn new(informer: impl Into<Informer<K>>, path: &'static str) -> Self {
        let informer = informer.into();
        Self { witness: Witness::of(&informer), informer, path }
    }

    async fn equal(&self, client: &Client) -> ReflectorMetrics {
        equal(&self.informer, &self.witness, client, self.path).await;
        let statistics = self.informer.statistics();
        assert_eq!(statistics.decode_errors + statistics.unexpected_events, 0, "{statistics:#?}");
        // That a watch-list was refused is all that may have failed.
        let refused = statistics.watch_lists.min(statistics.lists);
        assert_eq!((statistics.relists, statistics.failures), (0, refused), "{statistics:#?}");
        statistics
    }
}

async fn define_widgets(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    create(&api, definition).await;
}

/// All kinds of informers in one factory, while objects come, change and go. Says how each list was asked for:
/// watch-lists, lists.
async fn every_kind(options: Options, lists: WatchListMode) -> Vec<(u64, u64)> {
    let control_plane = ControlPlane::start(options).await.unwrap();
    let client = control_plane.client().await.unwrap();
    namespaces(&client, &["kinds"]).await;
    define_widgets(&client).await;
    let factory = factory(client.clone()).reflector(move |it| it.watch_list(lists)).build();
    let group_version_kind = kube_core::GroupVersionKind::gvk("example.com", "v1", "Widget");
    let (kind, capabilities) = eventually("the server serves widgets", || async {
        let found = kube_client::discovery::pinned_kind(&client, &group_version_kind).await;
        found.map_err(|error| error.to_string())
    })
    .await;
    // A factory has one informer for each resource: metadata alone is fetched by another one.
    let other = self::factory(client.clone()).reflector(move |it| it.watch_list(lists)).build();
    let typed_metadata = Told::new(other.metadata::<ConfigMap>(), CONFIG_MAPS);
    let custom_metadata = Told::new(other.dynamic_metadata(kind.clone(), capabilities.scope), WIDGETS);
    let widgets = factory.for_resource(&resource("example.com", "v1", "widgets")).await.unwrap();
    let config_maps = factory.for_resource(&resource("", "v1", "configmaps")).await.unwrap();
    let typed = Told::new(kept!(factory.core().v1().config_maps()), CONFIG_MAPS);
    let dynamic_metadata = Told::new(config_maps.metadata(), CONFIG_MAPS);
    let whole = Told::new(dynamic(&config_maps), CONFIG_MAPS);
    let custom = Told::new(dynamic(&widgets), WIDGETS);

    let config_maps = namespaced::<ConfigMap>(&client, "kinds");
    let custom_objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), "kinds", &kind);
    let widget = |number: u32| {
        let metadata = json!({"name": format!("widget-{number}"), "labels": {"number": number.to_string()}});
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": number}})
    };
    let config_map = |number: u32| json!({"metadata": {"name": format!("map-{number}")}, "data": {"a": "b"}});
    for number in 0..5 {
        create(&config_maps, config_map(number)).await;
        create(&custom_objects, widget(number)).await;
    }
    cached(&client, WIDGETS).await;
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
    assert_eq!((custom.witness.initial(), custom_metadata.witness.initial()), (5, 5));
    // The objects are whole, and of those that are metadata the metadata are.
    let data = typed.informer.get("kinds/map-7").unwrap().data.clone().unwrap();
    assert_eq!(data.into_iter().collect::<Vec<_>>(), [("a".into(), "b".into()), ("c".into(), "d".into())]);
    assert_eq!(whole.informer.get("kinds/map-7").unwrap().data["data"], json!({"a": "b", "c": "d"}));
    assert_eq!(custom.informer.get("kinds/widget-7").unwrap().data["spec"], json!({"size": 100}));
    assert_eq!(custom_metadata.informer.get("kinds/widget-7").unwrap().labels()["number"], "7");
    let told = custom.witness.events_of("kinds/widget-5");
    let sizes: Vec<_> = told
        .iter()
        .map(|event| match event {
            Event::Added(Added { object, .. }) => format!("added {}", object.data["spec"]["size"]),
            Event::Updated(Updated { old, new, .. }) => {
                format!("updated {} {}", old.data["spec"]["size"], new.data["spec"]["size"])
            }
            Event::Deleted(Deleted { tombstone, .. }) => {
                format!("deleted {}", tombstone.object().unwrap().data["spec"]["size"])
            }
            _ => unreachable!("not known to this test"),
        })
        .collect();
    assert_eq!(sizes, ["added 5", "updated 5 100", "deleted 100"]);
    other.shutdown().await.unwrap();
    factory.shutdown().await.unwrap();
    control_plane.stop().await;
    statistics.iter().map(|statistics| (statistics.watch_lists, statistics.lists)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_as_the_mode_says() {
    assert_eq!(every_kind(Options::new(), mode().lists).await, [mode().asked(1); 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_by_list() {
    assert_eq!(every_kind(Options::new(), WatchListMode::Off).await, [(0, 1); 6]);
}

/// Each finds out by itself that the server knows no watch-list; none takes that for a failure.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_where_there_is_no_watch_list() {
    let asked = every_kind(Options::new().apiserver_flag(WATCH_LIST_OFF), WatchListMode::Auto).await;
    assert_eq!(asked, [(1, 1); 6]);
}

/// Without its cache the server makes the watch-list from etcd.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_where_there_is_no_watch_cache() {
    let asked = every_kind(Options::new().apiserver_flag(WATCH_CACHE_OFF), WatchListMode::Auto).await;
    assert_eq!(asked, [(1, 0); 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_namespace() {
    let control_plane = ControlPlane::start(Options::new()).await.unwrap();
    let client = control_plane.client().await.unwrap();
    namespaces(&client, &["here", "elsewhere"]).await;
    let factory = factory(client.clone()).namespace("here").build();
    let told = Told::new(kept!(factory.core().v1().config_maps()), "/api/v1/namespaces/here/configmaps");
    // What is in no namespace it watches all the same.
    let all = Told::new(kept!(factory.core().v1().namespaces()), "/api/v1/namespaces");
    let (here, elsewhere) = (namespaced(&client, "here"), namespaced(&client, "elsewhere"));
    let object = |name: &str| json!({"metadata": {"name": name}});
    create::<ConfigMap>(&here, object("early")).await;
    create::<ConfigMap>(&elsewhere, object("early")).await;
    factory.start().unwrap();
    told.equal(&client).await;
    create(&elsewhere, object("late")).await;
    create(&here, object("late")).await;
    here.delete("early", &DeleteParams::default()).await.unwrap();
    told.equal(&client).await;
    all.equal(&client).await;
    let keys: Vec<_> = told.witness.events().iter().map(|event| event.key().to_string()).collect();
    assert_eq!(keys, ["here/early", "here/late", "here/early"]);
    factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

/// An event in short: what it is, the old and the new value.
fn in_short<K>(event: &KubeEvent<K>, value: impl Fn(&K) -> String) -> String {
    match event {
        Event::Added(Added { object, in_initial_list, .. }) => {
            format!("added {}{}", value(object), if *in_initial_list { " initially" } else { "" })
        }
        Event::Updated(Updated { old, new, .. }) => format!("updated {} to {}", value(old), value(new)),
        Event::Deleted(Deleted { tombstone: Tombstone::FinalState(object), .. }) => {
            format!("deleted {}", value(object))
        }
        Event::Deleted(_) => "deleted unseen".into(),
        _ => unreachable!("not known to this test"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_cross_a_label_selector() {
    let control_plane = ControlPlane::start(Options::new()).await.unwrap();
    let client = control_plane.client().await.unwrap();
    namespaces(&client, &["selected"]).await;
    let factory = factory(client.clone())
        .tweak_list_options(|params| params.set("labelSelector", "app in (web, api)"))
        .build();
    let path = "/api/v1/configmaps?labelSelector=app+in+(web,api)";
    let told = Told::new(kept!(factory.core().v1().config_maps()), path);
    let api = namespaced::<ConfigMap>(&client, "selected");
    let object = |name: &str, app: &str| json!({"metadata": {"name": name, "labels": {"app": app}}});
    let label = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    create(&api, object("inside", "web")).await;
    create(&api, object("outside", "db")).await;
    cached(&client, CONFIG_MAPS).await;
    factory.start().unwrap();
    told.equal(&client).await;
    patch(&api, "inside", label("api")).await;
    let left = patch(&api, "inside", label("db")).await;
    patch(&api, "inside", json!({"data": {"unseen": "yes"}})).await;
    patch(&api, "outside", label("web")).await;
    patch(&api, "outside", json!({"data": {"seen": "yes"}})).await;
    patch(&api, "inside", label("web")).await;
    api.delete("inside", &DeleteParams::default()).await.unwrap();
    told.equal(&client).await;

    let seen = |key: &str| -> Vec<String> {
        let app = |object: &ConfigMap| object.labels().get("app").map_or("none", String::as_str).to_owned();
        told.witness.events_of(key).iter().map(|event| in_short(event, app)).collect()
    };
    // An object that leaves comes as the server's deletion, in the state in which it was inside.
    assert_eq!(
        seen("selected/inside"),
        ["added web initially", "updated web to api", "deleted api", "added web", "deleted web"]
    );
    assert_eq!(seen("selected/outside"), ["added web", "updated web to web"]);
    let events = told.witness.events_of("selected/inside");
    assert_eq!(events[2].object().unwrap().resource_version(), left.resource_version());
    factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_cross_a_field_selector() {
    let options = Options::new().apiserver_flag("--disable-admission-plugins=ServiceAccount");
    let control_plane = ControlPlane::start(options).await.unwrap();
    let client = control_plane.client().await.unwrap();
    namespaces(&client, &["selected"]).await;
    let factory = factory(client.clone())
        .tweak_list_options(|params| params.set("fieldSelector", "status.phase!=Running"))
        .build();
    let path = "/api/v1/pods?fieldSelector=status.phase!=Running";
    let told = Told::new(kept!(factory.core().v1().pods()), path);
    let api = namespaced::<Pod>(&client, "selected");
    create(
        &api,
        json!({"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "one", "image": "none"}]}}),
    )
    .await;
    cached(&client, "/api/v1/pods").await;
    factory.start().unwrap();
    told.equal(&client).await;
    for phase in ["Running", "Failed"] {
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        api.patch_status("pod", &PatchParams::default(), &status).await.unwrap();
    }
    patch(&api, "pod", json!({"metadata": {"labels": {"seen": "yes"}}})).await;
    let at_once = DeleteParams::default().grace_period(0);
    api.delete("pod", &at_once).await.unwrap();
    told.equal(&client).await;
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    let seen: Vec<_> =
        told.witness.events_of("selected/pod").iter().map(|event| in_short(event, phase)).collect();
    assert_eq!(
        seen,
        [
            "added Pending initially",
            "deleted Pending",
            "added Failed",
            "updated Failed to Failed",
            // The server writes a pod once more to say that it is going.
            "updated Failed to Failed",
            "deleted Failed"
        ]
    );
    factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

/// A control plane whose server has no cache to give lists from, with objects for more than two pages.
async fn many(count: usize) -> (ControlPlane, Client) {
    let control_plane = ControlPlane::start(Options::new().apiserver_flag(WATCH_CACHE_OFF)).await.unwrap();
    let client = control_plane.client().await.unwrap();
    namespaces(&client, &["many"]).await;
    let api = namespaced::<ConfigMap>(&client, "many");
    let created = stream::iter(0..count).map(|number| {
        let object = json!({"metadata": {"name": format!("object-{number}")}});
        let (api, object) = (api.clone(), serde_json::from_value(object).unwrap());
        async move { api.create(&PostParams::default(), &object).await }
    });
    created.buffer_unordered(20).try_collect::<Vec<_>>().await.unwrap();
    (control_plane, client)
}

const MANY: &str = "/api/v1/namespaces/many/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn in_pages() {
    let (control_plane, client) = many(1100).await;
    let factory = factory(client.clone())
        .namespace("many")
        .reflector(|options| options.watch_list(WatchListMode::Off))
        .build();
    let told = Told::new(kept!(factory.core().v1().config_maps()), MANY);
    factory.start().unwrap();
    let statistics = told.equal(&client).await;
    assert_eq!((statistics.lists, statistics.pages), (1, 3), "1100 objects in pages of 500");
    assert_eq!(told.witness.initial(), 1100);
    factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

/// The state that the first page belongs to is forgotten before the second is asked for: everything is listed once
/// more, in one piece, and nobody is told of what was there in between.
#[tokio::test(flavor = "multi_thread")]
async fn in_pages_that_expire() {
    let (control_plane, client) = many(120).await;
    let control_plane = Arc::new(control_plane);
    let (server, writer, done) = (control_plane.clone(), client.clone(), AtomicBool::new(false));
    let factory = factory(client.clone())
        .namespace("many")
        .reflector(|options| {
            options.watch_list(WatchListMode::Off).page_size(std::num::NonZeroU32::new(50).unwrap())
        })
        .tweak_list_options(move |params| {
            if params.get("continue").is_none() || done.swap(true, Ordering::Relaxed) {
                return;
            }
            // It must not block, in general; here nobody else waits.
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async {
                    let api = namespaced::<ConfigMap>(&writer, "many");
                    create(&api, json!({"metadata": {"name": "in-between"}})).await;
                    server.compact().await.unwrap();
                });
            });
        })
        .build();
    let told = Told::new(kept!(factory.core().v1().config_maps()), MANY);
    factory.start().unwrap();
    let statistics = told.equal(&client).await;
    assert_eq!((statistics.lists, statistics.pages), (1, 2), "one of 50 and one of all");
    assert_eq!(told.witness.initial(), 121);
    factory.shutdown().await.unwrap();
    drop((factory, told));
    Arc::into_inner(control_plane).expect("nobody else has it").stop().await;
}

/// Of what happens elsewhere only the version comes, by a bookmark.
#[tokio::test(flavor = "multi_thread")]
async fn bookmarks_move_the_version() {
    let control_plane = ControlPlane::start(Options::new()).await.unwrap();
    let client = control_plane.client().await.unwrap();
    namespaces(&client, &["here", "elsewhere"]).await;
    let factory = factory(client.clone())
        .namespace("here")
        // kube-apiserver sends one two seconds before the end of a watch.
        .reflector(|options| reading(options).min_watch_timeout_unbounded(Duration::from_secs(4)))
        .build();
    let told = Told::new(kept!(factory.core().v1().config_maps()), "/api/v1/namespaces/here/configmaps");
    create(&namespaced::<ConfigMap>(&client, "here"), json!({"metadata": {"name": "quiet"}})).await;
    factory.start().unwrap();
    let before = told.equal(&client).await;
    let elsewhere = namespaced::<ConfigMap>(&client, "elsewhere");
    let written = create(&elsewhere, json!({"metadata": {"name": "loud"}})).await;
    let version = ResourceVersion::from(written.resource_version().unwrap());
    until("the version has moved", || {
        let reflector = told.informer.reflector();
        let reached = (reflector.last_version(), told.informer.version());
        check(reached.0.reaches(&version) && reached.1.reaches(&version), (&reached, &version))
    })
    .await;
    let after = told.equal(&client).await;
    // The bookmark, and nothing else.
    assert!(after.bookmarks > before.bookmarks, "{after:#?}");
    assert_eq!(after.events - before.events, after.bookmarks - before.bookmarks);
    assert_eq!(told.witness.events().len(), 1);
    factory.shutdown().await.unwrap();
    control_plane.stop().await;
}
