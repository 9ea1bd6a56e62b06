//! The calls, as `e2e/controller-runtime/calls.go` has them.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kinformer::{
    BoxError, FieldPath, NamespaceOptions, Packed, ResourceOptions, SharedInformerFactoryBuilder,
};
use kinformer_cache::{CacheBuilder, Query};
use kube_core::GroupVersionKind;
use serde::Deserialize;
use serde_json::Value;

/// The timeout of a call that has none of its own.
const BOUND: Duration = Duration::from_secs(20);

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Call {
    pub(super) call: String,
    #[serde(default)]
    pub(super) options: Options,
    #[serde(default)]
    pub(super) kind: String,
    /// typed, dynamic or metadata.
    #[serde(default)]
    pub(super) view: String,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) labels: String,
    #[serde(default)]
    pub(super) fields: String,
    #[serde(default)]
    pub(super) limit: usize,
    #[serde(default)]
    pub(super) field: String,
    /// Empty for the images of the containers.
    #[serde(default)]
    pub(super) path: Vec<String>,
    #[serde(rename = "as")]
    pub(super) as_: Option<String>,
    #[serde(default)]
    pub(super) of: String,
    #[serde(default)]
    pub(super) without_wait: bool,
    pub(super) until: Option<Vec<String>>,
    pub(super) object: Option<Value>,
    pub(super) patch: Option<Value>,
    #[serde(default)]
    pub(super) dry_run: bool,
    #[serde(default)]
    pub(super) count: usize,
    /// In milliseconds.
    timeout: Option<u64>,
}

impl Call {
    pub(super) fn timeout(&self) -> Duration {
        self.timeout.map_or(BOUND, Duration::from_millis)
    }

    pub(super) fn key(&self) -> String {
        [&*self.namespace, &*self.name].join("/").trim_start_matches('/').to_owned()
    }

    pub(super) fn gvk(&self) -> GroupVersionKind {
        match &*self.kind {
            custom @ ("Stuck" | "Missing") => GroupVersionKind::gvk("test.kinformer.dev", "v2", custom),
            core => GroupVersionKind::gvk("", "v1", core),
        }
    }

    pub(super) fn query(&self) -> Result<Query, kinformer_cache::Error> {
        let mut options = Query::new().namespace(&*self.namespace).labels(self.labels.parse().unwrap());
        if !self.fields.is_empty() {
            options = options.field_selector(&self.fields)?;
        }
        Ok(if self.limit > 0 { options.limit(self.limit) } else { options })
    }
}

/// The options of a cache. A selector that is not set is inherited.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Options {
    #[serde(flatten)]
    selection: Selection,
    namespaces: Option<BTreeMap<String, Selection>>,
    #[serde(default)]
    by_object: BTreeMap<String, ByObject>,
    #[serde(default)]
    fail_on_missing: bool,
}

#[derive(Clone, Default, Deserialize)]
struct Selection {
    labels: Option<String>,
    fields: Option<String>,
    /// The field of the metadata that is removed.
    transform: Option<String>,
}

#[derive(Clone, Deserialize)]
struct ByObject {
    #[serde(flatten)]
    selection: Selection,
    namespaces: Option<BTreeMap<String, Selection>>,
}

impl Options {
    pub(super) fn apply(&self, cache: CacheBuilder) -> CacheBuilder {
        let cache = if self.fail_on_missing { cache.fail_on_missing_informer() } else { cache };
        cache.options(|factory| self.to_factory(factory))
    }

    fn to_factory(&self, mut factory: SharedInformerFactoryBuilder) -> SharedInformerFactoryBuilder {
        let Selection { labels, fields, transform } = &self.selection;
        if let Some(labels) = labels {
            factory = factory.labels(&**labels);
        }
        if let Some(fields) = fields {
            factory = factory.fields(&**fields);
        }
        if let Some(field) = transform.clone() {
            factory = factory.default_transform(move |object| without(object, &field));
        }
        if let Some(namespaces) = &self.namespaces {
            factory = factory.namespaces(namespaces.iter().map(namespace));
        }
        for (kind, own) in &self.by_object {
            factory = match &**kind {
                "Pod" => factory.of_kind::<Pod>(|options| own.to_resource(options)),
                "Node" => factory.of_kind::<Node>(|options| own.to_resource(options)),
                "Secret" => factory.of_kind::<Secret>(|options| own.to_resource(options)),
                "ConfigMap" => factory.of_kind::<ConfigMap>(|options| own.to_resource(options)),
                other => panic!("{other} has no type"),
            };
        }
        factory
    }
}

impl ByObject {
    fn to_resource(&self, mut resource: ResourceOptions) -> ResourceOptions {
        let Selection { labels, fields, transform } = &self.selection;
        if let Some(labels) = labels {
            resource = resource.labels(&**labels);
        }
        if let Some(fields) = fields {
            resource = resource.fields(&**fields);
        }
        if let Some(field) = transform.clone() {
            resource = resource.transform_packed(move |object: Packed<()>| without(object, &field));
        }
        match &self.namespaces {
            Some(namespaces) => resource.namespaces(namespaces.iter().map(namespace)),
            None => resource,
        }
    }
}

/// The options of a namespace, or of all others. They have no transform (C-04f).
fn namespace((name, selection): (&String, &Selection)) -> NamespaceOptions {
    let mut options = match &**name {
        "" => NamespaceOptions::all_others(),
        name => NamespaceOptions::new(name),
    };
    if let Some(labels) = &selection.labels {
        options = options.labels(&**labels);
    }
    if let Some(fields) = &selection.fields {
        options = options.fields(&**fields);
    }
    options
}

fn without(object: Packed<()>, field: &str) -> Result<Packed<()>, BoxError> {
    Ok(object.without_fields(&[&FieldPath::new(&["metadata", field])])?)
}
