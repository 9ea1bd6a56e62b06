//! Reads after the writes of the cache's client.

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinformer::{Packed, ResourceOptions};
use kinformer_apiserver::{ApiServer, Builder, Fault, Verb};
use kinformer_cache::{CacheBuilder, Error, Kind, Query};
use kube_client::Api;
use kube_client::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube_core::gvk::GroupVersionKind;
use serde_json::json;

use crate::common::pod;
use crate::gate::Gated;

struct World {
    gated: Gated,
    maps: Kind<ConfigMap>,
    /// In the namespace team-a.
    api: Api<ConfigMap>,
}

fn map(name: &str, value: &str) -> ConfigMap {
    let labels = [("value".to_owned(), value.to_owned())].into();
    let metadata = ObjectMeta { name: Some(name.into()), labels: Some(labels), ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some([("key".to_owned(), value.to_owned())].into()), ..ConfigMap::default() }
}

/// A map in the namespace team-a, for the server.
fn on_server(mut map: ConfigMap) -> serde_json::Value {
    map.metadata.namespace = Some("team-a".into());
    let mut map = serde_json::to_value(map).unwrap();
    map["apiVersion"] = "v1".into();
    map["kind"] = "ConfigMap".into();
    map
}

/// The value of a map.
fn value(map: &Packed<ConfigMap>) -> String {
    map.label("value").unwrap_or_default().to_owned()
}

impl World {
    /// Has the map team-a/old with the value 1, and a closed gate.
    async fn new(change: impl FnOnce(CacheBuilder) -> CacheBuilder) -> Self {
        Self::of(ApiServer::builder(), change).await
    }

    async fn of(server: Builder, change: impl FnOnce(CacheBuilder) -> CacheBuilder) -> Self {
        let gated = Gated::of(server, change).await;
        let api = Api::namespaced(gated.cache.client(), "team-a");
        let maps = gated.cache.kind::<ConfigMap>();
        api.create(&PostParams::default(), &map("old", "1")).await.unwrap();
        _ = maps.get("team-a/old").await;
        gated.close();
        Self { gated, maps, api }
    }

    /// Creates a map on the server, and deletes it by the cache's client, whose response has no version.
    async fn create_and_delete(&self, name: &str) {
        self.gated.server.create(on_server(map(name, "1"))).unwrap();
        self.api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    async fn waits(&self, key: &str) -> Result<Packed<ConfigMap>, Error> {
        self.gated.waits(self.maps.get(key)).await
    }

    async fn keys(&self, options: Query) -> Vec<String> {
        let list = self.gated.waits(self.maps.list(&options)).await.unwrap();
        list.iter().map(|map| map.name().to_owned()).collect()
    }
}

fn is_not_found<K>(read: Result<Packed<K>, Error>) -> bool {
    matches!(read, Err(Error::NotFound { .. }))
}

// contract: C-08a, C-08b
#[tokio::test]
async fn get_waits_for_creates_updates_and_patches() {
    let world = World::new(|cache| cache).await;
    world.api.create(&PostParams::default(), &map("new", "1")).await.unwrap();
    assert_eq!(value(&world.waits("team-a/new").await.unwrap()), "1");

    let mut changed = world.api.get("old").await.unwrap();
    changed.metadata.labels = map("old", "2").metadata.labels;
    world.api.replace("old", &PostParams::default(), &changed).await.unwrap();
    assert_eq!(value(&world.waits("team-a/old").await.unwrap()), "2");

    let patch = json!({"metadata": {"labels": {"value": "3"}}});
    world.api.patch("old", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let read = world.gated.cache.metadata::<ConfigMap>();
    let read = world.gated.waits(async move { read.get("team-a/old").await }).await.unwrap();
    assert_eq!(read.label("value"), Some("3"), "through any view");
    let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let dynamic = world.gated.cache.dynamic(&kind).await.unwrap();
    let patch = json!({"metadata": {"labels": {"value": "4"}}});
    world.api.patch("old", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    dynamic.informer().unwrap();
    assert_eq!(world.gated.waits(dynamic.get("team-a/old")).await.unwrap().label("value"), Some("4"));

    // A write that changes nothing has the version that is cached.
    world.api.patch("old", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(value(&world.gated.at_once(world.maps.get("team-a/old")).unwrap()), "4");
    assert_eq!(world.gated.cache.pending_writes(), 0);
    world.gated.shutdown().await;
}

/// Transforms that keep little of the metadata.
// contract: C-08c
#[tokio::test]
async fn deleted_collection_is_seen_without_the_deletion_time() {
    for (name, is_dropped) in
        [("deletionTimestamp", true), ("deletionTimestamp", false), ("resourceVersion", false)]
    {
        let world = World::new(|cache| {
            cache.options(|options| match is_dropped {
                true => options.drop_fields::<ConfigMap>([kinformer::FieldPath::new(&["metadata", name])]),
                false => options.transform::<ConfigMap>(move |map| {
                    match name {
                        "resourceVersion" => map.metadata.resource_version = None,
                        _ => map.metadata.deletion_timestamp = None,
                    }
                    Ok(())
                }),
            })
        })
        .await;
        let finalizers = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/f"]}}));
        world.api.patch("old", &PatchParams::default(), &finalizers).await.unwrap();
        world.waits("team-a/old").await.unwrap();
        world.api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        world.gated.open();
        let read = tokio::time::timeout(Duration::from_secs(20), world.maps.get("team-a/old")).await;
        read.unwrap().unwrap();
        world.gated.shutdown().await;
    }
}

// contract: C-08a
#[tokio::test]
async fn generated_name_is_that_of_the_response() {
    let world = World::new(|cache| cache).await;
    let mut generated = map("x", "1");
    (generated.metadata.name, generated.metadata.generate_name) = (None, Some("job-".into()));
    let created = world.api.create(&PostParams::default(), &generated).await.unwrap();
    let name = created.metadata.name.unwrap();
    assert!(name.starts_with("job-"), "{name}");
    assert_eq!(world.waits(&format!("team-a/{name}")).await.unwrap().name(), name);
    world.gated.shutdown().await;
}

// contract: C-08c
#[tokio::test]
async fn get_waits_for_deletions() {
    let world = World::new(|cache| cache).await;
    world.api.delete("old", &DeleteParams::default()).await.unwrap();
    assert!(is_not_found(world.waits("team-a/old").await));
    let created = world.api.create(&PostParams::default(), &map("old", "2")).await.unwrap();
    let read = world.waits("team-a/old").await.unwrap();
    assert_eq!(read.uid(), created.metadata.uid.as_deref(), "it was created again");

    world.api.delete("old", &DeleteParams::default()).await.unwrap();
    world.api.create(&PostParams::default(), &map("old", "3")).await.unwrap();
    assert_eq!(value(&world.waits("team-a/old").await.unwrap()), "3", "deleted and created again");
    world.gated.shutdown().await;
}

// contract: C-08c
#[tokio::test]
async fn deletion_with_finalizers_is_seen_when_it_has_begun() {
    let world = World::new(|cache| cache).await;
    let patch = json!({"metadata": {"finalizers": ["example.com/a"]}});
    world.api.patch("old", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    world.waits("team-a/old").await.unwrap();
    world.api.delete("old", &DeleteParams::default()).await.unwrap();
    let is_deleted = |read: Result<Packed<ConfigMap>, Error>| {
        read.unwrap().decode().unwrap().metadata.deletion_timestamp.is_some()
    };
    assert!(is_deleted(world.waits("team-a/old").await));

    world.api.create(&PostParams::default(), &map("other", "1")).await.unwrap();
    world.api.patch("other", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    world.api.create(&PostParams::default(), &map("third", "1")).await.unwrap();
    world.waits("team-a/third").await.unwrap();
    world.api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert!(is_deleted(world.waits("team-a/other").await), "of a collection");
    world.gated.open();
    assert!(is_not_found(world.maps.get("team-a/third").await));
    let left = world.gated.cache.list::<ConfigMap>(&Query::new().namespace("team-a")).await.unwrap();
    assert_eq!(left.iter().map(|map| map.name()).collect::<Vec<_>>(), ["old", "other"]);
    world.gated.shutdown().await;
}

// contract: C-08d
#[tokio::test]
async fn list_waits_for_writes_that_can_match_it() {
    let world = World::new(|cache| cache).await;
    let all = Query::new;
    let of = |value: &str| all().labels(format!("value={value}").parse().unwrap());
    world.api.create(&PostParams::default(), &map("new", "2")).await.unwrap();
    for options in [of("1"), all().namespace("team-b")] {
        world.gated.at_once(world.maps.list(&options)).unwrap();
    }
    assert_eq!(world.keys(of("2")).await, ["new"]);
    // A field by path decides as well, and one by a function does not.
    world.maps.index_by_field("data.key", &["data", "key"]).unwrap();
    world.maps.index("any", |_, _| Ok(())).unwrap();
    world.api.create(&PostParams::default(), &map("more", "4")).await.unwrap();
    world.gated.at_once(world.maps.list(&all().field("data.key", "1"))).unwrap();
    assert!(world.keys(all().field("any", "1")).await.is_empty());
    world.api.delete("more", &DeleteParams::default()).await.unwrap();
    assert!(world.keys(all().field("data.key", "4")).await.is_empty());
    assert_eq!(world.gated.at_once(world.maps.list(&all())).unwrap().len(), 2);

    // An object that leaves the list, and one that is deleted.
    let patch = json!({"metadata": {"labels": {"value": "3"}}});
    world.api.patch("new", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert!(world.keys(of("2")).await.is_empty());
    world.api.delete("old", &DeleteParams::default()).await.unwrap();
    world.gated.at_once(world.maps.list(&of("3"))).unwrap();
    assert_eq!(world.keys(all().namespace("team-a")).await, ["new"]);
    world.gated.shutdown().await;
}

// contract: C-08e
#[tokio::test]
async fn writes_outside_the_scope_are_not_waited_for() {
    let world = World::new(|cache| {
        cache.options(|options| {
            options.namespaces(["team-a"]).of_kind::<ConfigMap>(|maps| maps.labels("value!=9"))
        })
    })
    .await;
    world.api.create(&PostParams::default(), &map("other", "9")).await.unwrap();
    let other: Api<ConfigMap> = Api::namespaced(world.gated.cache.client(), "team-b");
    other.create(&PostParams::default(), &map("other", "1")).await.unwrap();
    assert!(is_not_found(world.gated.at_once(world.maps.get("team-a/other"))));
    assert_eq!(world.gated.cache.pending_writes(), 1, "that of another namespace is not kept");
    assert_eq!(world.gated.at_once(world.maps.list(&Query::new())).unwrap().len(), 1);
    // An object that leaves the scope is waited for, and so is one that enters it.
    let value = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"value": value}}}));
    world.api.patch("old", &PatchParams::default(), &value("9")).await.unwrap();
    assert!(is_not_found(world.waits("team-a/old").await));
    world.api.patch("other", &PatchParams::default(), &value("1")).await.unwrap();
    assert!(world.waits("team-a/other").await.is_ok());
    world.gated.shutdown().await;
}

/// The server selects Jobs by a field that has another name in the object.
// contract: C-08a, C-08e
#[tokio::test]
async fn field_selector_with_another_name_is_that_of_the_server() {
    let gated = Gated::new(|cache| {
        cache.options(|options| options.of_kind::<Job>(|jobs| jobs.fields("status.successful=1")))
    })
    .await;
    let jobs = gated.cache.kind::<Job>();
    assert!(jobs.list(&Query::new()).await.unwrap().is_empty());
    gated.close();
    let api: Api<Job> = Api::namespaced(gated.cache.client(), "team-a");
    let spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    let job = serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": spec})).unwrap();
    api.create(&PostParams::default(), &job).await.unwrap();
    assert!(is_not_found(gated.at_once(jobs.get("team-a/j"))));
    let status = Patch::Merge(json!({"status": {"succeeded": 1}}));
    api.patch_status("j", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(gated.waits(jobs.get("team-a/j")).await.unwrap().name(), "j");
    gated.shutdown().await;
}

/// An informer of one object by its name, as a rule with `resourceNames` admits it, never has another one. The server would
/// refuse a question about that.
// contract: C-08e
#[tokio::test]
async fn writes_of_other_names_than_the_selected_one_are_not_waited_for() {
    let world = World::new(|cache| {
        let of_pods = |options: ResourceOptions| options.fields("metadata.name=old");
        cache.options(|all| all.of_kind::<Pod>(of_pods).of_kind::<ConfigMap>(of_pods))
    })
    .await;
    world.gated.server.create(pod("team-a", "other", "web", "")).unwrap();
    world.gated.open();
    let pods = world.gated.cache.kind::<Pod>();
    assert!(is_not_found(pods.get("team-a/other").await));
    world.gated.close();
    world.api.create(&PostParams::default(), &map("other", "1")).await.unwrap();
    let patch = json!({"metadata": {"annotations": {"a": "b"}}});
    world.api.patch_metadata("other", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let evicted: Api<Pod> = Api::namespaced(world.gated.cache.client(), "team-a");
    evicted.evict("other", &EvictParams::default()).await.unwrap();
    world.gated.requests();
    assert_eq!(world.gated.cache.pending_writes(), 0, "nor kept");
    assert!(is_not_found(world.gated.at_once(world.maps.get("team-a/other"))));
    assert_eq!(world.gated.at_once(world.maps.list(&Query::new())).unwrap().len(), 1);
    assert!(is_not_found(world.gated.at_once(pods.get("team-a/other"))));
    assert_eq!(world.gated.requests(), [""; 0]);
    world.gated.shutdown().await;
}

// contract: C-08e
#[tokio::test]
async fn dry_runs_and_failures_are_not_waited_for() {
    let world = World::new(|cache| cache).await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    world.api.create(&dry, &map("new", "1")).await.unwrap();
    world.api.delete("old", &DeleteParams { dry_run: true, ..DeleteParams::default() }).await.unwrap();
    world.api.create(&PostParams::default(), &map("old", "2")).await.unwrap_err();
    world.api.delete("none", &DeleteParams::default()).await.unwrap_err();
    assert_eq!(world.gated.cache.pending_writes(), 0);
    assert!(is_not_found(world.gated.at_once(world.maps.get("team-a/new"))));
    world.gated.shutdown().await;
}

// contract: C-08f
#[tokio::test]
async fn read_fails_at_the_deadline() {
    let world = World::new(|cache| cache.write_timeout(Duration::from_millis(100))).await;
    let created = world.api.create(&PostParams::default(), &map("new", "1")).await.unwrap();
    let error = world.maps.get("team-a/new").await.unwrap_err();
    let Error::WriteNotSeen { resource, key, written, .. } = &error else { panic!("{error}") };
    assert_eq!((&**resource, key.as_deref()), ("configmaps", Some("team-a/new")));
    let version = created.metadata.resource_version.unwrap();
    assert_eq!(written.as_ref().map(ToString::to_string), Some(version.clone()));
    let start =
        format!("a write of configmaps \"team-a/new\" at version {version} was not seen within 100ms: ");
    assert!(error.to_string().starts_with(&start), "{error}");
    assert!(matches!(world.maps.list(&Query::new()).await, Err(Error::WriteNotSeen { .. })));
    // On request, a read does not wait.
    let stale = world.maps.clone().allow_stale();
    assert!(is_not_found(world.gated.at_once(stale.get("team-a/new"))));
    assert_eq!(world.gated.at_once(stale.list(&Query::new())).unwrap().len(), 1);
    world.gated.open();
    let read = async {
        loop {
            match world.maps.get("team-a/new").await {
                Err(Error::WriteNotSeen { .. }) => {}
                read => break read,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), read).await.unwrap().unwrap();
    world.gated.shutdown().await;
}

/// The responses of an eviction and of a binding have no version, so that the read asks for it.
// contract: C-08b
#[tokio::test]
async fn subresources_are_waited_for() {
    let world = World::new(|cache| cache).await;
    let pods: Api<Pod> = Api::namespaced(world.gated.cache.client(), "team-a");
    world.gated.server.create(pod("team-a", "web", "web", "")).unwrap();
    world.gated.open();
    let read = world.gated.cache.kind::<Pod>();
    read.get("team-a/web").await.unwrap();
    world.gated.close();

    let status = json!({"status": {"phase": "Running"}});
    pods.patch_status("web", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let of_web = || async { read.get("team-a/web").await };
    let found = world.gated.waits(of_web()).await.unwrap();
    assert_eq!(found.decode().unwrap().status.as_ref().unwrap().phase.as_deref(), Some("Running"));

    let binding = json!({"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "node-1"}});
    let _: serde_json::Value =
        pods.create_subresource("binding", "web", &PostParams::default(), &binding).await.unwrap();
    let found = world.gated.waits(of_web()).await.unwrap();
    assert_eq!(found.decode().unwrap().spec.as_ref().unwrap().node_name.as_deref(), Some("node-1"));

    pods.evict("web", &EvictParams::default()).await.unwrap();
    let found = world.gated.waits(of_web()).await;
    let is_deleted = found.map(|pod| pod.decode().unwrap().metadata.deletion_timestamp.is_some());
    assert!(matches!(is_deleted, Ok(true) | Err(Error::NotFound { .. })));
    world.gated.shutdown().await;
}

/// Since Kubernetes 1.38 a Status says at which version the object was deleted, evicted or bound.
// contract: C-08r
#[tokio::test]
async fn versions_of_statuses_are_waited_for_without_questions() {
    let world = World::of(ApiServer::builder().kubernetes(38), |cache| cache).await;
    world.api.delete("old", &DeleteParams::default()).await.unwrap();
    world.gated.requests();
    assert!(is_not_found(world.waits("team-a/old").await));
    let pods: Api<Pod> = Api::namespaced(world.gated.cache.client(), "team-a");
    world.gated.server.create(pod("team-a", "web", "web", "")).unwrap();
    world.gated.open();
    let read = world.gated.cache.kind::<Pod>();
    read.get("team-a/web").await.unwrap();
    world.gated.close();
    let of_web = || async { read.get("team-a/web").await };

    let binding = json!({"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "node-1"}});
    let _: serde_json::Value =
        pods.create_subresource("binding", "web", &PostParams::default(), &binding).await.unwrap();
    world.gated.requests();
    let found = world.gated.waits(of_web()).await.unwrap();
    assert_eq!(found.decode().unwrap().spec.as_ref().unwrap().node_name.as_deref(), Some("node-1"));
    assert!(world.gated.requests().is_empty());

    pods.evict("web", &EvictParams::default()).await.unwrap();
    world.gated.requests();
    let found = world.gated.waits(of_web()).await;
    let is_deleted = found.map(|pod| pod.decode().unwrap().metadata.deletion_timestamp.is_some());
    assert!(matches!(is_deleted, Ok(true) | Err(Error::NotFound { .. })));
    assert!(world.gated.requests().is_empty());
    assert_eq!(world.gated.cache.pending_writes(), 0);
    world.gated.shutdown().await;
}

/// The next informer may begin with an older state: all reads wait until it has what the one before had.
// contract: C-08a
#[tokio::test]
async fn next_informer_is_waited_for_when_no_write_is_pending() {
    let world = World::new(|cache| cache).await;
    assert_eq!(world.gated.cache.pending_writes(), 0);
    world.maps.remove_informer().await;
    world.maps.informer().unwrap();
    assert_eq!(world.gated.cache.pending_writes(), 1, "the version that the informer before had");
    world.gated.open();
    assert_eq!(value(&world.maps.get("team-a/old").await.unwrap()), "1");
    assert_eq!(world.gated.cache.pending_writes(), 0);
    world.gated.shutdown().await;
}

/// Two groups, and two versions, of one storage.
// contract: C-08q
#[tokio::test]
async fn write_in_another_version_is_waited_for() {
    let world = World::new(|cache| cache).await;
    world.gated.open();
    let core = world.gated.cache.kind::<CoreEvent>();
    let grouped = world.gated.cache.kind::<Event>();
    core.index_by_field("type", &["type"]).unwrap();
    core.synced_informer().await.unwrap();
    grouped.synced_informer().await.unwrap();
    world.gated.close();
    let api: Api<Event> = Api::namespaced(world.gated.cache.client(), "team-a");
    let event = |name: &str| {
        json!({"metadata": {"name": name}, "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "Started", "type": "Normal",
            "action": "Start", "reportingController": "test", "reportingInstance": "test-0",
            "regarding": {"kind": "Pod", "name": "web", "namespace": "team-a"}})
    };
    let created: Event = serde_json::from_value(event("a")).unwrap();
    api.create(&PostParams::default(), &created).await.unwrap();
    assert_eq!(world.gated.waits(core.get("team-a/a")).await.unwrap().name(), "a");
    let created: Event = serde_json::from_value(event("b")).unwrap();
    api.create(&PostParams::default(), &created).await.unwrap();
    let options = Query::new().field("type", "Normal");
    assert_eq!(world.gated.waits(core.list(&options)).await.unwrap().len(), 2);
    world.gated.open();
    assert_eq!(grouped.get("team-a/b").await.unwrap().name(), "b");
    world.gated.shutdown().await;
}

/// An object is deleted with its last finalizer, by an update or a patch.
// contract: C-08i
#[tokio::test]
async fn removal_of_the_last_finalizer_is_a_deletion() {
    let world = World::new(|cache| cache).await;
    let finalizers = |names: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": names}}));
    world.api.patch("old", &PatchParams::default(), &finalizers(&["example.com/a"])).await.unwrap();
    world.api.delete("old", &DeleteParams::default()).await.unwrap();
    world.waits("team-a/old").await.unwrap();
    world.api.patch("old", &PatchParams::default(), &finalizers(&[])).await.unwrap();
    assert!(is_not_found(world.waits("team-a/old").await));
    world.gated.shutdown().await;
}

/// The response of a patch that asks for metadata does not say whether a list by a field has the object.
// contract: C-08d
#[tokio::test]
async fn list_by_a_field_waits_for_a_patch_of_metadata() {
    let world = World::new(|cache| cache).await;
    world.maps.index_by_field("data.key", &["data", "key"]).unwrap();
    world.api.create(&PostParams::default(), &map("new", "2")).await.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"labels": {"other": "x"}}}));
    world.api.patch_metadata("new", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(world.keys(Query::new().field("data.key", "2")).await, ["new"]);
    world.gated.shutdown().await;
}

/// Each list forgets the writes that it has, also those that do not concern it.
// contract: C-08g
#[tokio::test]
async fn lists_forget_what_is_cached() {
    let world = World::new(|cache| cache).await;
    world.gated.open();
    for number in 0..20 {
        world.api.create(&PostParams::default(), &map(&format!("new-{number}"), "1")).await.unwrap();
    }
    let informer = world.maps.informer().unwrap();
    let wait = async {
        while informer.snapshot().unwrap().len() < 21 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap();
    assert_eq!(world.gated.cache.pending_writes(), 20);
    assert!(world.maps.list(&Query::new().namespace("team-b")).await.unwrap().is_empty());
    assert_eq!(world.gated.cache.pending_writes(), 0);
    world.gated.shutdown().await;
}

/// The same for deletions: of an object that is gone, of one whose deletion has begun, and of one that another one has replaced.
// contract: C-08g
#[tokio::test]
async fn lists_forget_deletions_that_are_cached() {
    let world = World::new(|cache| cache).await;
    world.gated.open();
    let informer = world.maps.informer().unwrap();
    let delete = async |name: &str, finalizer: Option<&str>| {
        let mut map = map(name, "1");
        map.metadata.finalizers = finalizer.map(|name| vec![name.to_owned()]);
        world.api.create(&PostParams::default(), &map).await.unwrap();
        _ = world.api.delete(name, &DeleteParams::default()).await.unwrap();
    };
    for number in 0..20 {
        delete(&format!("gone-{number}"), None).await;
    }
    delete("replaced", None).await;
    world.api.create(&PostParams::default(), &map("replaced", "2")).await.unwrap();
    delete("ending", Some("example.com/hold")).await;
    tokio::time::timeout(Duration::from_secs(60), async {
        while !informer
            .lister()
            .get("team-a/ending")
            .is_ok_and(|map| map.decode().unwrap().metadata.deletion_timestamp.is_some())
        {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert!(world.gated.cache.pending_writes() >= 20);
    assert!(world.maps.list(&Query::new().namespace("team-b")).await.unwrap().is_empty());
    assert_eq!(world.gated.cache.pending_writes(), 0);
    world.gated.shutdown().await;
}

/// Writes that nothing reads: the first list looks at those that are kept, and the next ones at none.
// contract: C-08g
#[tokio::test]
async fn unread_writes_are_looked_at_once() {
    let world = World::new(|cache| cache.kept_writes(50, Duration::from_secs(600))).await;
    world.gated.open();
    for number in 0..100 {
        world.api.create(&PostParams::default(), &map(&format!("new-{number}"), "1")).await.unwrap();
    }
    assert!(world.gated.cache.pending_writes() <= 51);
    assert_eq!(world.maps.list(&Query::new()).await.unwrap().len(), 101);
    assert_eq!(world.gated.cache.pending_writes(), 0);
    world.gated.shutdown().await;
}

/// A deletion that grows old concerns no other key, and leaves when it has been read. The server need not allow a question.
// contract: C-08g, C-08j, C-08o
#[tokio::test]
async fn old_deletion_concerns_no_other_key() {
    let world = World::new(|cache| {
        cache.options(|all| all.namespaces(["team-a"])).kept_writes(65_536, Duration::ZERO)
    })
    .await;
    world.gated.open();
    world.api.create(&PostParams::default(), &map("kept", "1")).await.unwrap();
    assert_eq!(value(&world.maps.get("team-a/kept").await.unwrap()), "1");
    for verb in [Verb::List, Verb::Get] {
        world.gated.server.faults().inject(Fault::forbidden().on(verb).resource("configmaps").always());
    }
    world.api.delete("old", &DeleteParams::default()).await.unwrap();
    assert!(is_not_found(world.maps.get("team-a/old").await));
    assert_eq!(world.gated.cache.pending_writes(), 0);

    world.api.delete("kept", &DeleteParams::default()).await.unwrap();
    world.api.create(&PostParams::default(), &map("new", "1")).await.unwrap();
    assert_eq!(value(&world.maps.get("team-a/new").await.unwrap()), "1");
    assert!(is_not_found(world.maps.get("team-a/kept").await));
    world.api.create(&PostParams::default(), &map("kept", "2")).await.unwrap();
    assert_eq!(value(&world.maps.get("team-a/kept").await.unwrap()), "2");
    assert_eq!(world.gated.cache.pending_writes(), 0);
    world.gated.shutdown().await;
}

/// The verbs and the namespaces of a question are those of the informer. If it is refused, the read waits for a later version
/// of the informer.
// contract: C-08b, C-08j, C-08t
#[tokio::test]
async fn questions_need_no_other_verbs() {
    let world = World::new(|cache| cache.options(|all| all.namespaces(["team-a"]))).await;
    let pods: Api<Pod> = Api::namespaced(world.gated.cache.client(), "team-a");
    let read = world.gated.cache.kind::<Pod>();
    world.gated.open();
    for (name, is_refused) in [("one", false), ("two", true)] {
        world.gated.server.create(pod("team-a", name, "web", "")).unwrap();
        let key = format!("team-a/{name}");
        let is_cached = async {
            while read.get(&*key).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), is_cached).await.unwrap();
        world.gated.close();
        if is_refused {
            world.gated.server.faults().inject(Fault::forbidden().on(Verb::List).resource("pods").always());
        }
        pods.evict(name, &EvictParams::default()).await.unwrap();
        world.gated.requests();
        let found = world.gated.waits(read.get(&*key)).await;
        let is_deleted = found.map(|pod| pod.decode().unwrap().metadata.deletion_timestamp.is_some());
        assert!(matches!(is_deleted, Ok(true) | Err(Error::NotFound { .. })));
        let question =
            format!("GET /api/v1/namespaces/team-a/pods?&fieldSelector=metadata.name%3D{name}&limit=1");
        assert_eq!(world.gated.requests(), [question]);
        world.gated.open();
    }
    world.gated.shutdown().await;
}

/// A write that was not seen in time is waited for again, if the server does not answer the question about it.
// contract: C-08t
#[tokio::test]
async fn refused_question_keeps_the_version_of_a_write() {
    let world = World::new(|cache| cache.write_timeout(Duration::from_millis(100))).await;
    let created = world.api.create(&PostParams::default(), &map("new", "1")).await.unwrap();
    let refused = Fault::forbidden().on(Verb::List).resource("configmaps");
    world.gated.server.faults().inject(refused.always());
    for _ in 0..3 {
        let error = world.maps.get("team-a/new").await.unwrap_err();
        let Error::WriteNotSeen { written, .. } = &error else { panic!("{error}") };
        let written = written.as_ref().map(ToString::to_string);
        assert_eq!(written, created.metadata.resource_version, "{error}");
    }
    world.gated.shutdown().await;
}

/// A question that the server does not answer is repeated, and one that it answers with another error is not.
// contract: C-08v
#[tokio::test]
async fn question_without_an_answer_is_repeated() {
    let world = World::new(|cache| cache.options(|all| all.labels("value=1"))).await;
    world.api.create(&PostParams::default(), &map("hidden", "2")).await.unwrap();
    for (number, (fault, questions)) in [
        (Fault::internal_error().times(2), 3),
        (Fault::too_many_requests(1), 2),
        (Fault::refuse(), 2),
        (Fault::expired(), 1),
    ]
    .into_iter()
    .enumerate()
    {
        let patch = json!({"metadata": {"annotations": {"number": number.to_string()}}});
        world.api.patch_metadata("hidden", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        world.gated.server.faults().inject(fault.on(Verb::List).resource("configmaps"));
        world.gated.requests();
        let read = world.maps.get("team-a/hidden").await;
        match questions {
            1 => assert!(matches!(read, Err(Error::Request { .. }))),
            _ => assert!(is_not_found(read)),
        }
        assert_eq!(world.gated.requests().len(), questions);
    }
    world.gated.shutdown().await;
}

/// Too many writes without a version concern all reads, which ask for a version in a namespace of the cache.
// contract: C-08j, C-08o
#[tokio::test]
async fn question_without_a_key_is_of_a_namespace() {
    let world =
        World::new(|cache| cache.options(|all| all.namespaces(["team-a"])).kept_writes(1, Duration::MAX))
            .await;
    for name in ["x", "y"] {
        world.create_and_delete(name).await;
    }
    world.gated.requests();
    assert_eq!(value(&world.waits("team-a/old").await.unwrap()), "1");
    assert_eq!(world.gated.requests(), ["GET /api/v1/namespaces/team-a/configmaps?&limit=1"]);
    assert_eq!(world.gated.cache.pending_writes(), 0, "those before the question are bounded by it");
    world.gated.shutdown().await;
}

/// A server that refuses the question about old writes does not let them stay for ever.
// contract: C-08p, C-08t
#[tokio::test]
async fn old_writes_are_forgotten_after_a_refusal() {
    let world = World::new(|cache| cache.kept_writes(100, Duration::ZERO)).await;
    let refused = Fault::forbidden().on(Verb::List).resource("configmaps");
    world.gated.server.faults().inject(refused.always());
    for name in ["x", "y"] {
        world.create_and_delete(name).await;
    }
    assert_eq!(value(&world.maps.get("team-a/old").await.unwrap()), "1");
    assert_eq!(world.gated.cache.pending_writes(), 2);
    world.gated.open();
    let informer = world.maps.synced_informer().await.unwrap();
    let later = world.gated.server.update(on_server(map("old", "2"))).unwrap();
    let version = later["metadata"]["resourceVersion"].as_str().unwrap().into();
    informer.wait_for(("team-a", "old"), &version).await.unwrap();
    assert_eq!(value(&world.maps.get("team-a/old").await.unwrap()), "2");
    assert_eq!(world.gated.cache.pending_writes(), 0);
    world.gated.shutdown().await;
}

/// Without the verb `watch` only lists bring own writes, with up to 30 s between them.
// contract: C-08x
#[tokio::test]
async fn wait_for_the_next_list_is_longer_than_the_time_between_lists() {
    let server = crate::common::server().await;
    server.faults().inject(Fault::forbidden().on(Verb::Watch).resource("configmaps").always());
    let timeout = Duration::from_millis(1);
    let cache = crate::common::builder(&server).write_timeout(timeout).build().await.unwrap();
    cache.start().unwrap();
    let maps = cache.kind::<ConfigMap>();
    let informer = maps.synced_informer().await.unwrap();
    while informer.status().not_watchable().is_none() {
        tokio::task::yield_now().await;
    }
    let api: Api<ConfigMap> = Api::namespaced(cache.client(), "team-a");
    api.create(&PostParams::default(), &map("new", "1")).await.unwrap();
    assert_eq!(value(&maps.get("team-a/new").await.unwrap()), "1");
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A rule with `resourceNames` admits only lists with the name in their field selector.
// contract: C-08j
#[tokio::test]
async fn question_without_a_key_has_the_field_selector() {
    let world = World::new(|cache| {
        cache.options(|all| all.fields("metadata.name=old")).kept_writes(1, Duration::MAX)
    })
    .await;
    let (post, delete) = (PostParams::default(), DeleteParams::default());
    for _ in 0..2 {
        world.api.delete("old", &delete).await.unwrap();
        world.api.create(&post, &map("old", "2")).await.unwrap();
    }
    world.api.delete("old", &delete).await.unwrap();
    world.gated.requests();
    assert!(is_not_found(world.waits("team-a/old").await));
    let question = "GET /api/v1/namespaces/team-a/configmaps?&fieldSelector=metadata.name%3Dold&limit=1";
    assert_eq!(world.gated.requests(), [question]);
    world.gated.shutdown().await;
}

/// The watch of another namespace receives nothing, and the reads of this one do not wait for it.
// contract: C-08u
#[tokio::test]
async fn reads_wait_for_the_namespaces_that_they_read() {
    let world = World::new(|cache| {
        cache.options(|all| all.namespaces(["team-a", "team-b"])).kept_writes(65_536, Duration::ZERO)
    })
    .await;
    world.gated.close_for("/team-b/");
    world.api.create(&PostParams::default(), &map("new", "1")).await.unwrap();
    let of_namespace = Query::new().namespace("team-a");
    let reads = async {
        world.maps.get("team-a/old").await.unwrap();
        assert_eq!(world.maps.list(&of_namespace).await.unwrap().len(), 2);
    };
    tokio::time::timeout(Duration::from_secs(60), reads).await.unwrap();
    let all = Query::new();
    assert!(pin!(world.maps.list(&all)).now_or_never().is_none(), "it reads both");
    world.gated.shutdown().await;
}

/// A version that is not that of an object arrives with a bookmark, once a minute.
// contract: C-08n
#[tokio::test]
async fn wait_for_any_version_is_longer_than_the_time_between_bookmarks() {
    let world =
        World::new(|cache| cache.write_timeout(Duration::from_secs(1)).kept_writes(65_536, Duration::ZERO))
            .await;
    world.api.create(&PostParams::default(), &map("new", "1")).await.unwrap();
    tokio::time::pause();
    let error = world.maps.get("team-a/old").await.unwrap_err();
    let Error::WriteNotSeen { key: None, timeout, .. } = error else { panic!("{error}") };
    assert_eq!(timeout, Duration::from_secs(90));
    tokio::time::resume();
    world.gated.shutdown().await;
}

/// The response does not have the labels, and nothing will come from the watch.
// contract: C-08m
#[tokio::test]
async fn patch_of_metadata_outside_the_selectors_is_decided_by_a_question() {
    let world = World::new(|cache| {
        cache.options(|options| options.of_kind::<ConfigMap>(|maps| maps.labels("value!=9")))
    })
    .await;
    world.api.create(&PostParams::default(), &map("other", "9")).await.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    world.api.patch_metadata("other", &PatchParams::default(), &patch).await.unwrap();
    world.gated.requests();
    let read = tokio::time::timeout(Duration::from_secs(20), world.maps.get("team-a/other")).await;
    assert!(is_not_found(read.unwrap()));
    assert_eq!(world.gated.requests().len(), 1);
    // The write is known now.
    assert!(is_not_found(world.gated.at_once(world.maps.get("team-a/other"))));
    world.gated.shutdown().await;
}

/// The informer has the version of a write before the server answers the question about it.
// contract: C-08a, C-08m
#[tokio::test]
async fn read_does_not_wait_for_an_answer_that_is_not_needed() {
    let world = World::new(|cache| {
        cache.options(|options| options.of_kind::<ConfigMap>(|maps| maps.labels("value!=9")))
    })
    .await;
    let created = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "new", "namespace": "team-a", "labels": {"value": "1"}}});
    world.gated.server.create(created).unwrap();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    world.api.patch_metadata("new", &PatchParams::default(), &patch).await.unwrap();
    let unanswered = Fault::delay(Duration::from_secs(600)).on(Verb::List).resource("configmaps");
    world.gated.server.faults().inject(unanswered.always());
    assert_eq!(value(&world.waits("team-a/new").await.unwrap()), "1");
    world.gated.shutdown().await;
}

/// Names of a path may have dots, as those of labels and of files do.
// contract: C-08d
#[tokio::test]
async fn list_by_a_field_whose_names_have_dots() {
    let world = World::new(|cache| cache).await;
    world.maps.index_by_field("data.config.yaml", &["data", "config.yaml"]).unwrap();
    world.maps.index_by_field("file", &["data", "config.yaml"]).unwrap();
    for (field, name) in [("data.config.yaml", "a"), ("file", "b")] {
        let mut created = map(name, "1");
        created.data = Some([("config.yaml".to_owned(), name.to_owned())].into());
        world.api.create(&PostParams::default(), &created).await.unwrap();
        world.gated.at_once(world.maps.list(&Query::new().field(field, "other"))).unwrap();
        assert_eq!(world.keys(Query::new().field(field, name)).await, [name]);
    }
    world.gated.shutdown().await;
}

/// The written state does not have what a transform sets, and has labels that are dropped.
// contract: C-08l
#[tokio::test]
async fn list_waits_for_what_a_transform_changes() {
    let world = World::new(|cache| {
        cache.options(|options| {
            options.transform::<ConfigMap>(|map| {
                map.metadata.labels.get_or_insert_default().insert("shard".into(), "1".into());
                Ok(())
            })
        })
    })
    .await;
    world.api.create(&PostParams::default(), &map("new", "1")).await.unwrap();
    assert_eq!(world.keys(Query::new().labels("shard=1".parse().unwrap())).await, ["new", "old"]);
    world.gated.shutdown().await;

    let labels = kinformer::FieldPath::new(&["metadata", "labels", "value"]);
    let world =
        World::new(|cache| cache.options(|options| options.drop_fields::<ConfigMap>([labels.clone()]))).await;
    world.api.create(&PostParams::default(), &map("new", "1")).await.unwrap();
    assert_eq!(world.keys(Query::new().labels("!value".parse().unwrap())).await, ["new", "old"]);
    world.gated.shutdown().await;
}

/// The names of handlers are in metrics and on the page, also those of a resource whose objects are hidden.
// contract: C-08k
#[tokio::test]
async fn reads_that_wait_add_no_handlers() {
    let world = World::new(|cache| cache).await;
    world.api.create(&PostParams::default(), &map("new", "1")).await.unwrap();
    world.api.delete("old", &DeleteParams::default()).await.unwrap();
    let all = Query::new();
    let mut reads =
        (pin!(world.maps.get("team-a/new")), pin!(world.maps.get("team-a/old")), pin!(world.maps.list(&all)));
    assert!(futures::poll!(reads.0.as_mut()).is_pending());
    assert!(futures::poll!(reads.1.as_mut()).is_pending());
    assert!(futures::poll!(reads.2.as_mut()).is_pending());
    assert!(world.maps.informer().unwrap().status().metrics().handlers.is_empty());
    world.gated.open();
    assert_eq!(value(&reads.0.await.unwrap()), "1");
    assert!(is_not_found(reads.1.await));
    assert_eq!(reads.2.await.unwrap().len(), 1);
    world.gated.shutdown().await;
}
