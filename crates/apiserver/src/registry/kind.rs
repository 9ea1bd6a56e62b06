//! Metadata of a kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::apply::Schema;
use crate::conversion::ConversionWebhook;
use crate::schema::VersionSchema;
use crate::status::Subject;

use super::builtin::{Row, Scope};

/// A kind in one API version.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) has_status: bool,
    pub(crate) has_generation: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) fields: Vec<FieldPath>,
    /// The columns of a definition; `None` for built-in kinds.
    pub(crate) columns: Option<Vec<Column>>,
    pub(crate) custom: bool,
    /// The types of a definition, for all its versions; `None` for built-in kinds.
    pub(crate) schema: Option<Arc<Schema>>,
    /// The schema that objects of this version are checked against; `None` for built-in kinds.
    pub(crate) checks: Option<Arc<VersionSchema>>,
    /// The schemas of all versions of a definition; `None` for built-in kinds.
    pub(crate) forms: Option<Arc<Forms>>,
    /// The warning of every answer about a deprecated kind.
    pub(crate) deprecation: Option<String>,
}

/// The forms of the objects of a definition.
#[derive(Debug)]
pub(crate) struct Forms {
    /// The version in which objects are stored. It need not be served.
    pub(crate) storage: String,
    /// The schemas by version.
    pub(crate) schemas: BTreeMap<String, Arc<VersionSchema>>,
    /// What converts the objects; `None` if the versions differ only in `apiVersion`.
    pub(crate) webhook: Option<ConversionWebhook>,
}

/// The field paths of the scale subresource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    pub(crate) selector: Option<Vec<String>>,
}

/// A printer column of a CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) path: String,
    pub(crate) priority: i64,
}

impl Kind {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The subject of messages about objects: `deployments.apps`.
    pub(crate) fn resource_subject(&self) -> Subject<'_> {
        Subject { group: &self.group, resource: &self.plural }
    }

    /// The subject of messages about invalid objects: `Deployment.apps`.
    pub(crate) fn kind_subject(&self) -> Subject<'_> {
        Subject { group: &self.group, resource: &self.kind }
    }

    /// Whether the dependents of a deleted object stay if the deletion says nothing about them. Follows Kubernetes 1.37
    /// (`DefaultGarbageCollectionPolicy`).
    pub(crate) fn orphans_by_default(&self) -> bool {
        self.is("batch", "jobs") || self.is("", "replicationcontrollers")
    }

    /// Whether a deletion is answered with the deleted object, instead of a `Status`. Follows Kubernetes 1.37
    /// (`ReturnDeletedObject`).
    pub(crate) fn returns_deleted(&self) -> bool {
        const CORE: [&str; 8] = [
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "podtemplates",
            "resourcequotas",
            "serviceaccounts",
            "services",
        ];
        const STORAGE: [&str; 5] =
            ["csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses"];
        match self.group.as_str() {
            "" => CORE.contains(&self.plural.as_str()),
            "storage.k8s.io" => STORAGE.contains(&self.plural.as_str()),
            "resource.k8s.io" => true,
            _ => false,
        }
    }

    /// Returns the key of an object in the storage, as errors of kube-apiserver name it.
    ///
    /// Follows Kubernetes 1.37 (`SpecialDefaultResourcePrefixes`).
    pub(crate) fn storage_key(&self, namespace: &str, name: &str) -> String {
        let group = self.group.as_str();
        let prefix = match (group, self.plural.as_str()) {
            ("", "endpoints") => "services/endpoints",
            ("", "nodes") => "minions",
            ("", "replicationcontrollers") => "controllers",
            ("", "services") => "services/specs",
            ("networking.k8s.io", "ingresses") => "ingress",
            (_, plural) => plural,
        };
        let has_group = self.custom || matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io");
        let parts = [if has_group { group } else { "" }, prefix, namespace, name];
        parts.iter().filter(|part| !part.is_empty()).flat_map(|part| ["/", part]).collect()
    }

    /// Whether an update of a missing object creates it. Follows Kubernetes 1.37 (`AllowCreateOnUpdate`).
    pub(crate) fn creates_on_update(&self) -> bool {
        match self.group.as_str() {
            "" => ["endpoints", "events", "limitranges", "services"].contains(&self.plural.as_str()),
            "coordination.k8s.io" | "events.k8s.io" | "rbac.authorization.k8s.io" => true,
            _ => self.is("node.k8s.io", "runtimeclasses"),
        }
    }

    /// Whether an update must have the version that it replaces. Follows Kubernetes 1.37 (`AllowUnconditionalUpdate`).
    pub(crate) fn needs_version(&self) -> bool {
        const STORAGE: [&str; 4] = ["csidrivers", "csinodes", "csistoragecapacities", "volumeattachments"];
        match self.group.as_str() {
            "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "coordination.k8s.io" => true,
            "storage.k8s.io" => STORAGE.contains(&self.plural.as_str()),
            _ => {
                self.custom
                    || self.is("policy", "poddisruptionbudgets")
                    || self.is("node.k8s.io", "runtimeclasses")
            }
        }
    }

    /// Whether its objects are definitions of custom resources.
    pub(crate) fn is_definition(&self) -> bool {
        self.is("apiextensions.k8s.io", "customresourcedefinitions")
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }
}

impl From<&Row> for Kind {
    fn from(row: &Row) -> Self {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let has = |flag: char| row.flags.contains(flag);
        Self {
            group: row.group.into(),
            version: row.version.into(),
            plural: row.plural.into(),
            singular: row.kind.to_lowercase(),
            kind: row.kind.into(),
            list_kind: format!("{}List", row.kind),
            short_names: words(row.short),
            categories: words(row.categories),
            namespaced: row.scope == Scope::Namespaced,
            has_status: has('s'),
            has_generation: has('g'),
            scale: has('c').then(|| ScalePaths {
                spec_replicas: path("spec.replicas"),
                status_replicas: path("status.replicas"),
                selector: Some(path("spec.selector")),
            }),
            fields: FieldPath::common(row.scope == Scope::Namespaced)
                .chain(row.fields.split_whitespace().map(FieldPath::parse))
                .collect(),
            columns: None,
            custom: false,
            schema: None,
            checks: None,
            forms: None,
            // Follows Kubernetes 1.37 (`APILifecycleDeprecated`).
            deprecation: (row.plural == "endpoints").then(|| {
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into()
            }),
        }
    }
}

/// A field that selectors can use, and its paths.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldPath {
    /// The name in selectors: `spec.nodeName`.
    pub(crate) name: String,
    /// The paths, most specific first; the first path with a value is used.
    paths: Vec<Vec<String>>,
    /// The value for objects without the field.
    default: String,
}

impl FieldPath {
    /// Parses `name`, `name=default`, or `name@path|other.path`.
    pub(crate) fn parse(text: &str) -> Self {
        let (rest, default) = text.split_once('=').unwrap_or((text, ""));
        let (name, paths) = rest.split_once('@').unwrap_or((rest, rest));
        Self {
            name: name.into(),
            paths: paths.split('|').map(|path| path.split('.').map(str::to_owned).collect()).collect(),
            default: default.into(),
        }
    }

    /// The selector fields of every kind.
    pub(crate) fn common(namespaced: bool) -> impl Iterator<Item = Self> {
        let names: &[&str] =
            if namespaced { &["metadata.name", "metadata.namespace"] } else { &["metadata.name"] };
        names.iter().map(|name| Self::parse(name))
    }

    /// Whether another field has the same value, regardless of its name.
    pub(crate) fn same_place(&self, other: &Self) -> bool {
        self.paths == other.paths
    }

    pub(crate) fn read(&self, object: &Map<String, Value>) -> String {
        let found = self.paths.iter().find_map(|path| {
            let text = match lookup(object, path)? {
                Value::String(text) => text.clone(),
                Value::Bool(flag) => flag.to_string(),
                Value::Number(number) => number.to_string(),
                _ => return None,
            };
            (!text.is_empty()).then_some(text)
        });
        found.unwrap_or_else(|| self.default.clone())
    }
}

/// Returns the value at a field path.
pub(crate) fn lookup<'a>(object: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(first)?, |value, member| value.get(member))
}

/// Sets the value at a field path, and creates missing objects on the way.
pub(crate) fn assign(object: &mut Map<String, Value>, path: &[String], value: Value) {
    match path {
        [] => {}
        [last] => {
            object.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            let inner = object.entry(first.clone()).or_insert(Value::Null);
            if !inner.is_object() {
                *inner = Value::Object(Map::new());
            }
            if let Some(inner) = inner.as_object_mut() {
                assign(inner, rest, value);
            }
        }
    }
}
