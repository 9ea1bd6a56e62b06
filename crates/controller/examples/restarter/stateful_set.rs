//! StatefulSets whose config maps or secrets have changed: their versions are annotations of the pod template, so that a new version
//! is a new template, which the controller of StatefulSets rolls out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer_controller::events::EventRecorder;
use kinformer_controller::kinformer::{self, Informer, Lister, ObjectKey, Packed, SharedInformerFactory};
use kinformer_controller::{Action, Controller, ReconcileError, Request, Trigger};
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use kube_core::{PartialObjectMeta, Resource as _};
use serde_json::json;

/// The field manager of the original.
pub(crate) const MANAGER: &str = "restarter.stackable.tech/statefulset";
/// The kinds, as in annotations. The indexes of the StatefulSets by what they use have the same names.
const CONFIG_MAP: &str = "configmap";
const SECRET: &str = "secret";

struct Restarter {
    sets: Lister<StatefulSet>,
    config_maps: Lister<PartialObjectMeta<ConfigMap>>,
    secrets: Lister<PartialObjectMeta<Secret>>,
    client: Client,
    events: EventRecorder,
}

pub(crate) fn controller(
    factory: &SharedInformerFactory,
    client: &Client,
    events: &EventRecorder,
) -> Result<Controller, kinformer::Error> {
    let sets = factory.informer::<StatefulSet>();
    let (config_maps, secrets) = (factory.metadata::<ConfigMap>(), factory.metadata::<Secret>());
    for kind in [CONFIG_MAP, SECRET] {
        sets.index(kind, move |set, keys| {
            let namespace = set.namespace().unwrap_or_default();
            for (_, name) in references(&*set.decode()?).iter().filter(|(used, _)| *used == kind) {
                keys.push_fmt(format_args!("{namespace}/{name}"));
            }
            Ok(())
        })?;
    }
    let restarter = Arc::new(Restarter {
        sets: sets.lister(),
        config_maps: config_maps.lister(),
        secrets: secrets.lister(),
        client: client.clone(),
        events: events.clone(),
    });
    Ok(Controller::of(factory)
        .reconciles::<StatefulSet>()
        .trigger(users_of(&config_maps, &sets, CONFIG_MAP))
        .trigger(users_of(&secrets, &sets, SECRET))
        .workers(8)
        .build(move |request| restarter.clone().reconcile(request)))
}

/// Several changes within a second lead to one restart.
fn users_of<K: 'static>(
    used: &Informer<K>,
    sets: &Informer<StatefulSet>,
    index: &'static str,
) -> Trigger<ObjectKey> {
    let sets = sets.lister();
    Trigger::on(used).debounce(Duration::from_secs(1)).map(move |used, keys| {
        for set in sets.by_index(index, &used.key().to_string())? {
            keys.push(set.key().try_into()?);
        }
        Ok(())
    })
}

impl Restarter {
    async fn reconcile(self: Arc<Self>, request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
        let Some(set) = self.sets.get_opt(&request.key)? else { return Ok(Action::none()) };
        let set = set.decode_arc()?;
        super::reported(self.update(&set).await, &self.events, &set.object_ref(&()))
    }

    async fn update(&self, set: &StatefulSet) -> Result<Action, ReconcileError> {
        let wanted = self.versions(set)?;
        let template = set.spec.template.metadata.as_ref();
        let mut applied = template.and_then(|metadata| metadata.annotations.clone()).unwrap_or_default();
        applied.retain(|annotation, _| annotation.contains(".restarter.stackable.tech/"));
        if applied == wanted {
            return Ok(Action::none());
        }
        let metadata = &set.metadata;
        let (namespace, name) =
            (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default());
        // Not a StatefulSet, whose type has fields that are always serialized. With the UID, none is created.
        let patch = Patch::Apply(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": name, "namespace": namespace, "uid": metadata.uid},
            "spec": {"template": {"metadata": {"annotations": wanted}}},
        }));
        let api = Api::<StatefulSet>::namespaced(self.client.clone(), namespace);
        api.patch(name, &PatchParams::apply(MANAGER).force(), &patch).await?;
        Ok(Action::none())
    }

    /// Returns the annotations of the template.
    fn versions(&self, set: &StatefulSet) -> Result<BTreeMap<String, String>, kinformer::Error> {
        let is_ignored = |kind: &str, name: &str| {
            let ignored = format!("restarter.stackable.tech/ignore-{kind}.");
            let mut annotations = set.metadata.annotations.iter().flatten();
            annotations.any(|(annotation, value)| annotation.starts_with(&ignored) && value == name)
        };
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let mut versions = BTreeMap::new();
        for (kind, name) in references(set) {
            let version = match kind {
                _ if is_ignored(kind, name) => None,
                CONFIG_MAP => version(self.config_maps.get_opt((namespace, name))?),
                _ => version(self.secrets.get_opt((namespace, name))?),
            };
            let version = version.unwrap_or_else(|| "changes-ignored".to_owned());
            versions.insert(format!("{kind}.restarter.stackable.tech/{name}"), version);
        }
        Ok(versions)
    }
}

fn version<K>(object: Option<Packed<K>>) -> Option<String> {
    object.map(|object| format!("{}/{}", object.uid().unwrap_or_default(), object.resource_version()))
}

/// The kinds and names of what the pods of a StatefulSet use.
fn references<'a>(set: &'a StatefulSet) -> BTreeSet<(&'static str, &'a str)> {
    let mut found = BTreeSet::new();
    let Some(pod) = &set.spec.template.spec else { return found };
    let mut add = |kind, name: Option<&'a String>| found.extend(name.map(|name| (kind, name.as_str())));
    for volume in pod.volumes.iter().flatten() {
        add(CONFIG_MAP, volume.config_map.as_ref().map(|volume| &volume.name));
        add(SECRET, volume.secret.as_ref().and_then(|volume| volume.secret_name.as_ref()));
    }
    for container in pod.containers.iter().chain(pod.init_containers.iter().flatten()) {
        for value in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            add(CONFIG_MAP, value.config_map_key_ref.as_ref().map(|key| &key.name));
            add(SECRET, value.secret_key_ref.as_ref().map(|key| &key.name));
        }
        for values in container.env_from.iter().flatten() {
            add(CONFIG_MAP, values.config_map_ref.as_ref().map(|map| &map.name));
            add(SECRET, values.secret_ref.as_ref().map(|secret| &secret.name));
        }
    }
    found
}
