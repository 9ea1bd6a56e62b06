//! The clients of a cache: tasks that write through it and read from it.

use std::num::NonZeroUsize;
use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::Packed;
use kinformer::kube_core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta, Resource};
use kinformer_cache::{Cache, Error, Kind, Query};
use kube_client::Api;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::judge::{Judge, LABEL, Selected, View, Written};
use crate::random::{pause, pick};
use crate::record::Objects;
use crate::state::state_of;

pub(crate) const NAMESPACES: [&str; 2] = ["a", "b"];

/// The values of the label of objects.
pub(crate) const LABELS: [&str; 2] = ["x", "y"];

/// The indexed field.
const FIELD: &str = "data.value";

/// The finalizer of some objects.
const FINALIZER: &str = "simulation.example/f";

/// How long a client waits for the response of a write.
const LONGEST_WRITE: Duration = Duration::from_secs(20);

/// Longer than a read waits for a sync and for a write.
const LONGEST_READ: Duration = Duration::from_secs(300);

/// A client. Clones are handles.
#[derive(Clone)]
pub(crate) struct Client {
    cache: Cache,
    judge: Judge,
    name: String,
    /// The number of names of objects.
    names: u8,
    views: Views,
}

/// The objects of a cache in all views.
#[derive(Clone)]
struct Views {
    maps: Kind<ConfigMap>,
    map_metadata: Kind<PartialObjectMeta<ConfigMap>>,
    /// Once it has been discovered.
    dynamic_maps: Option<Kind<DynamicObject>>,
    secrets: Kind<Secret>,
    secret_metadata: Kind<PartialObjectMeta<Secret>>,
}

/// How a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Waits,
    Stale,
    Live,
}

impl Client {
    pub(crate) fn new(cache: &Cache, judge: &Judge, name: String, names: u8) -> Self {
        let views = Views {
            maps: cache.kind(),
            map_metadata: cache.metadata(),
            dynamic_maps: None,
            secrets: cache.kind(),
            secret_metadata: cache.metadata(),
        };
        Self { cache: cache.clone(), judge: judge.clone(), name, names, views }
    }

    /// Writes and reads for some time.
    pub(crate) async fn run(mut self, mut rng: Rng) {
        let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
        match self.cache.dynamic(&kind).await {
            Ok(maps) => self.views.dynamic_maps = Some(maps),
            Err(error) => self.judge.violation(error),
        }
        let mut burst = 0;
        for _ in 0..rng.usize(10..80) {
            if burst == 0 {
                pause(&mut rng).await;
                burst = pick(&mut rng, [1, 2, 4, 10]);
            }
            burst -= 1;
            let plural = pick(&mut rng, ["configmaps", "configmaps", "secrets"]);
            let key = self.key(&mut rng);
            match rng.u8(..10) {
                0..4 => {
                    self.write(&mut rng, plural, &key).await;
                    if rng.bool() {
                        self.get(&mut rng, plural, &key, Way::Waits).await;
                    }
                }
                4..7 => {
                    let way = pick(&mut rng, [Way::Waits, Way::Waits, Way::Waits, Way::Stale, Way::Live]);
                    self.get(&mut rng, plural, &key, way).await;
                }
                _ => {
                    let way = pick(&mut rng, [Way::Waits, Way::Waits, Way::Stale]);
                    self.list(&mut rng, plural, way).await;
                }
            }
        }
    }

    fn key(&self, rng: &mut Rng) -> String {
        format!("{}/p{}", pick(rng, NAMESPACES), rng.u8(..self.names))
    }

    /// Writes an object, or deletes it.
    #[expect(clippy::too_many_lines, reason = "one arm for each operation of a client")]
    pub(crate) async fn write(&self, rng: &mut Rng, plural: &str, key: &str) {
        let resource = resource_of(plural);
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(self.cache.client(), namespace, &resource);
        let known = match rng.bool() {
            true => self.views.maps.clone().allow_stale().get(key).await.ok(),
            false => None,
        };
        let version =
            known.filter(|_| plural == "configmaps").map(|known| known.resource_version().to_string());
        let begun = self.judge.begin();
        let content = content(rng);
        let mut metadata = content.get("metadata").cloned().unwrap_or_default();
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("name".into(), json!(name));
            metadata.insert("namespace".into(), json!(namespace));
            metadata.insert("resourceVersion".into(), json!(version));
        }
        let object = json!({"apiVersion": "v1", "kind": resource.kind, "metadata": metadata, "data": content.get("data")});
        let Ok(object) = serde_json::from_value::<DynamicObject>(object) else { return };
        let what = rng.u8(..15);
        let label = pick(rng, LABELS);
        let written = timeout(LONGEST_WRITE, async {
            Ok::<_, kube_client::Error>(match what {
                0..4 => {
                    let mut object = object;
                    object.metadata.resource_version = None;
                    match what {
                        0 => object.metadata.finalizers = Some(vec![FINALIZER.into()]),
                        1 => {
                            object.metadata.name = None;
                            object.metadata.generate_name = Some("g-".into());
                        }
                        _ => {}
                    }
                    ("creates", vec![written_of(&api.create(&PostParams::default(), &object).await?)])
                }
                4..7 => {
                    ("replaces", vec![written_of(&api.replace(name, &PostParams::default(), &object).await?)])
                }
                7..11 => {
                    let patch = match what {
                        7 => json!({"metadata": {"finalizers": [FINALIZER]}}),
                        8 => json!({"metadata": {"finalizers": null}}),
                        _ => content,
                    };
                    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
                    ("patches", vec![written_of(&patched)])
                }
                11 => {
                    let of_label = ListParams::default().labels(&format!("{LABEL}={label}"));
                    let deleted = api.delete_collection(&DeleteParams::default(), &of_label).await?;
                    let names = deleted.left().into_iter().flat_map(|list| list.items);
                    let names = names.map(|object| (object.metadata.name, Written::Ending));
                    ("deletes a collection", names.collect())
                }
                _ => {
                    let preconditions = Some(Preconditions { resource_version: version, uid: None });
                    let params = DeleteParams { preconditions, ..DeleteParams::default() };
                    let written = match api.delete(name, &params).await?.left() {
                        Some(object) if object.metadata.deletion_timestamp.is_some() => written_of(&object).1,
                        _ => Written::Deleted,
                    };
                    ("deletes", vec![(Some(name.to_owned()), written)])
                }
            })
        });
        match written.await {
            Ok(Ok((what, written))) => {
                for (name, written) in written {
                    let key = format!("{namespace}/{}", name.unwrap_or_default());
                    self.note(format_args!("{what} {plural} {key}: {written:?}"));
                    self.judge.wrote(&begun, plural, &key, written);
                }
            }
            Ok(Err(error)) => self.note(format_args!("a write of {plural} {key} failed: {error}")),
            Err(_) => self.note(format_args!("does not wait longer for a write of {plural} {key}")),
        }
    }

    /// Changes an object that there is.
    pub(crate) async fn change(&self, plural: &str, key: &str, value: &str) {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let resource = resource_of(plural);
        let api: Api<DynamicObject> = Api::namespaced_with(self.cache.client(), namespace, &resource);
        let begun = self.judge.begin();
        let patch = Patch::Merge(json!({"data": {"value": value}}));
        match api.patch(name, &PatchParams::default(), &patch).await {
            Ok(object) => self.judge.wrote(&begun, plural, key, written_of(&object).1),
            Err(error) => self.judge.violation(format_args!("a write without faults failed: {error}")),
        }
    }

    async fn get(&self, rng: &mut Rng, plural: &'static str, key: &str, way: Way) {
        let is_metadata = rng.u8(..3) == 0 && way != Way::Live;
        let is_dynamic = rng.u8(..3) == 0;
        let views = &self.views;
        match (plural, is_metadata) {
            ("configmaps", false) if is_dynamic && views.dynamic_maps.is_some() => {
                let Some(maps) = &views.dynamic_maps else { return };
                _ = self.get_of(maps, (plural, View::Whole), key, way).await;
            }
            ("configmaps", false) => _ = self.get_of(&views.maps, (plural, View::Whole), key, way).await,
            ("configmaps", true) => {
                _ = self.get_of(&views.map_metadata, (plural, View::Metadata), key, way).await
            }
            (_, false) => _ = self.get_of(&views.secrets, (plural, View::Whole), key, way).await,
            (_, true) => _ = self.get_of(&views.secret_metadata, (plural, View::Metadata), key, way).await,
        }
    }

    /// Returns whether the read has succeeded, and returned the newest state.
    async fn get_of<K>(
        &self,
        kind: &Kind<K>,
        (plural, view): (&'static str, View),
        key: &str,
        way: Way,
    ) -> bool {
        let kind = match way {
            Way::Waits => kind.clone(),
            Way::Stale => kind.clone().allow_stale(),
            Way::Live => kind.clone().live(),
        };
        let begun = self.judge.begin();
        // A live get is one request, which may have no response.
        let Ok(got) = timeout(LONGEST_READ, kind.get(key)).await else {
            if way != Way::Live {
                self.judge.violation(format_args!("a get of {plural} {key} does not end"));
            }
            return false;
        };
        let object = match got {
            Ok(object) => Some(self.state(&object, view)),
            Err(Error::NotFound { .. }) => None,
            Err(error) => {
                self.note(format_args!("a get of {plural} {key} failed: {error}"));
                let namespace = key.split_once('/').map(|(namespace, _)| namespace);
                self.judge.failed(&begun, plural, namespace, Some(key), &error);
                return false;
            }
        };
        self.note(format_args!("{way:?}: {plural} {key} {}", object.is_some()));
        match way {
            Way::Live => self.judge.got_live(&begun, plural, key, object.as_ref()),
            _ => self.judge.got(&begun, (plural, view, way == Way::Waits), key, object.as_ref()),
        }
        self.judge.is_newest((plural, view), key, object.as_ref())
    }

    fn state<K>(&self, object: &Packed<K>, view: View) -> crate::state::State {
        let state = state_of(object.object());
        view.of(&state)
    }

    async fn list(&self, rng: &mut Rng, plural: &'static str, way: Way) {
        let selected = Selected {
            namespace: pick(rng, [None, Some("a"), Some("b")]),
            label: pick(rng, [None, Some("x"), Some("y")]),
            value: (rng.u8(..3) == 0).then(|| rng.u8(..3).to_string()),
            limit: (rng.u8(..5) == 0).then(|| rng.usize(1..4)),
        };
        let is_metadata = rng.u8(..3) == 0 && selected.value.is_none();
        let page = (rng.u8(..4) == 0).then(|| NonZeroUsize::new(rng.usize(1..4))).flatten();
        let is_dynamic = rng.u8(..3) == 0;
        let views = &self.views;
        match (plural, is_metadata) {
            ("configmaps", false) if is_dynamic && views.dynamic_maps.is_some() => {
                let Some(maps) = &views.dynamic_maps else { return };
                self.list_of(maps, (plural, View::Whole), selected, way, page).await
            }
            ("configmaps", false) => {
                self.list_of(&views.maps, (plural, View::Whole), selected, way, page).await
            }
            ("configmaps", true) => {
                self.list_of(&views.map_metadata, (plural, View::Metadata), selected, way, page).await
            }
            (_, false) => self.list_of(&views.secrets, (plural, View::Whole), selected, way, page).await,
            (_, true) => {
                self.list_of(&views.secret_metadata, (plural, View::Metadata), selected, way, page).await
            }
        };
    }

    async fn list_of<K: 'static>(
        &self,
        kind: &Kind<K>,
        (plural, view): (&'static str, View),
        selected: Selected,
        way: Way,
        page: Option<NonZeroUsize>,
    ) -> Option<Objects> {
        let mut options = Query::new();
        if let Some(namespace) = selected.namespace {
            options = options.namespace(namespace);
        }
        if let Some(selector) = selected.label.and_then(|label| format!("{LABEL}={label}").parse().ok()) {
            options = options.labels(selector);
        }
        if let Some(value) = &selected.value {
            // After a removal, the new informer has no index.
            _ = kind.index_by_field(FIELD, &["data", "value"]);
            options = options.field(FIELD, value.as_str());
        }
        if let Some(limit) = selected.limit {
            options = options.limit(limit);
        }
        let kind = if way == Way::Stale { kind.clone().allow_stale() } else { kind.clone() };
        let begun = self.judge.begin();
        let listing = async {
            match page {
                Some(size) => kind.pages(&options, size).await.map(|pages| pages.flatten().collect()),
                None => kind.list(&options).await,
            }
        };
        let Ok(listed) = timeout(LONGEST_READ, listing).await else {
            self.judge.violation(format_args!("a list of {plural} does not end"));
            return None;
        };
        let listed: Vec<Packed<K>> = match listed {
            Ok(listed) => listed,
            Err(error) => {
                self.note(format_args!("a list of {plural} by {selected:?} failed: {error}"));
                self.judge.failed(&begun, plural, selected.namespace, None, &error);
                return None;
            }
        };
        let keys: Vec<String> = listed.iter().map(|object| object.key().to_string()).collect();
        if !keys.is_sorted() {
            self.judge.violation(format_args!("{plural} are not ordered: {keys:?}"));
        }
        let objects: Objects =
            keys.into_iter().zip(listed.iter().map(|object| self.state(object, view))).collect();
        self.note(format_args!("{way:?}: lists {plural} by {selected:?}: {:?}", objects.keys()));
        self.judge.listed(&begun, (plural, view, way == Way::Waits), &selected, &objects);
        Some(objects)
    }

    /// Reads all objects. Returns whether all reads have returned the newest states.
    pub(crate) async fn is_in_sync(&self) -> bool {
        let Views { maps, map_metadata, secrets, secret_metadata, .. } = &self.views;
        self.is_kind_in_sync(maps, ("configmaps", View::Whole)).await
            && self.is_kind_in_sync(map_metadata, ("configmaps", View::Metadata)).await
            && self.is_kind_in_sync(secrets, ("secrets", View::Whole)).await
            && self.is_kind_in_sync(secret_metadata, ("secrets", View::Metadata)).await
    }

    async fn is_kind_in_sync<K: 'static>(
        &self,
        kind: &Kind<K>,
        (plural, view): (&'static str, View),
    ) -> bool {
        for key in self.visible(plural) {
            if !self.get_of(kind, (plural, view), &key, Way::Waits).await {
                return false;
            }
        }
        let listed = self.list_of(kind, (plural, view), Selected::default(), Way::Waits, None).await;
        listed.is_some_and(|objects| {
            let keys = self.visible(plural);
            keys.iter().all(|key| self.judge.is_newest((plural, view), key, objects.get(key)))
        })
    }

    /// The keys in the namespaces of the cache.
    fn visible(&self, plural: &str) -> Vec<String> {
        let mut keys = self.judge.keys(plural);
        keys.retain(|key| self.judge.scope().has_namespace(key.split_once('/').unwrap_or_default().0));
        keys
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.judge.recorder.note(&self.name, what);
    }
}

fn resource_of(plural: &str) -> ApiResource {
    match plural {
        "configmaps" => ApiResource::erase::<ConfigMap>(&()),
        _ => ApiResource::erase::<Secret>(&()),
    }
}

/// The name of a written object, and what its response says.
fn written_of(object: &DynamicObject) -> (Option<String>, Written) {
    let metadata = &object.metadata;
    let is_gone =
        metadata.deletion_timestamp.is_some() && metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
    let version = metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
    let written = if is_gone { Written::Deleted } else { Written::Version(version.unwrap_or_default()) };
    (metadata.name.clone(), written)
}

/// Returns the labels and the value of an object.
pub(crate) fn content(rng: &mut Rng) -> Value {
    let label = pick(rng, [Some(LABELS[0]), Some(LABELS[0]), Some(LABELS[1]), None]);
    let metadata = label.map_or_else(|| json!({}), |label| json!({"labels": {LABEL: label}}));
    json!({"metadata": metadata, "data": {"value": rng.u8(..3).to_string()}})
}

/// Removes informers at some times.
pub(crate) async fn remove_informers<K: Resource<DynamicType = (), Scope: 'static>>(
    mut rng: Rng,
    cache: Cache,
    judge: Judge,
) {
    for _ in 0..rng.usize(1..5) {
        pause(&mut rng).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(..20_000))).await;
        judge.removal_begins();
        let removed = match rng.bool() {
            true => cache.metadata::<K>().remove_informer().await,
            false => cache.kind::<K>().remove_informer().await,
        };
        judge.removal_ended();
        judge.recorder.note("removals", format_args!("removes {}: {removed}", K::plural(&())));
    }
}
