//! Reads the kinds that a CustomResourceDefinition defines.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::apply::{Schema, schema_of_definition};
use crate::schema::{self, VersionSchema};
use crate::status::Status;

use super::{Column, FieldPath, Kind, ScalePaths, version_rank};

/// The resources of a valid CustomResourceDefinition.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) plural: String,
    /// The storage version.
    pub(crate) storage: Kind,
    /// Whether the storage version is also served.
    pub(crate) storage_served: bool,
    /// The other served versions.
    pub(crate) others: Vec<Kind>,
}

/// Parses and validates a definition, and completes it: list kind, singular, and the conditions `NamesAccepted` and
/// `Established`. `before` is the definition before an update.
///
/// # Errors
/// 422 with one cause per problem, with the wording of Kubernetes.
pub(crate) fn definition(
    object: &mut Map<String, Value>,
    before: Option<&Map<String, Value>>,
    now: &str,
) -> Result<Definition, Status> {
    let name =
        object.get("metadata").and_then(|m| m.get("name")).and_then(Value::as_str).unwrap_or("").to_owned();
    let names = Names::of(object.get("spec").unwrap_or(&Value::Null));
    names.complete(object);
    let causes = schema::definition::faults(object, before);
    let versions = object.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
    let versions = versions.cloned().unwrap_or_default();
    let stored = versions.iter().find(|version| is(version, "storage"));
    let (Some(stored), true) = (stored, causes.is_empty()) else {
        let subject =
            crate::status::Subject { group: "apiextensions.k8s.io", resource: "CustomResourceDefinition" };
        return Err(Status::invalid(subject, &name, causes));
    };
    let schema = Arc::new(names.schema(&versions));
    let storage = names.kind(stored, &versions, &schema);
    let others = versions.iter().filter(|v| is(v, "served") && !is(v, "storage"));
    let others = others.map(|version| names.kind(version, &versions, &schema)).collect();
    complete(object, &storage, now);
    Ok(Definition {
        group: names.group,
        plural: names.plural,
        storage,
        storage_served: is(stored, "served"),
        others,
    })
}

fn name_of(version: &Value) -> &str {
    version.get("name").and_then(Value::as_str).unwrap_or("")
}

/// Whether a version has a flag.
fn is(version: &Value, flag: &str) -> bool {
    version.get(flag).and_then(Value::as_bool).unwrap_or(false)
}

/// The names and the scope of a definition, completed.
struct Names {
    group: String,
    plural: String,
    kind: String,
    singular: String,
    list_kind: String,
    short_names: Vec<String>,
    categories: Vec<String>,
    scope: String,
}

impl Names {
    fn of(spec: &Value) -> Self {
        let text = |path: &str| spec.pointer(path).and_then(Value::as_str).unwrap_or("").to_owned();
        let given = |path: &str| Some(text(path)).filter(|text| !text.is_empty());
        let words = |path: &str| -> Vec<String> {
            let values = spec.pointer(path).and_then(Value::as_array);
            values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let kind = text("/names/kind");
        Self {
            group: text("/group"),
            plural: text("/names/plural"),
            singular: given("/names/singular").unwrap_or_else(|| kind.to_lowercase()),
            list_kind: given("/names/listKind").unwrap_or_else(|| format!("{kind}List")),
            kind,
            short_names: words("/names/shortNames"),
            categories: words("/names/categories"),
            scope: text("/scope"),
        }
    }

    /// Sets the names that a definition need not have, and the conversion.
    fn complete(&self, object: &mut Map<String, Value>) {
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
        let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else { return };
        if !self.kind.is_empty() {
            names.insert("singular".into(), self.singular.as_str().into());
            names.insert("listKind".into(), self.list_kind.as_str().into());
        }
    }

    /// Returns the types of all versions.
    fn schema(&self, versions: &[Value]) -> Schema {
        let versions = versions.iter().map(|version| {
            let name = version.get("name").and_then(Value::as_str).unwrap_or("");
            (format!("{}/{name}", self.group), version.pointer("/schema/openAPIV3Schema"))
        });
        schema_of_definition(&self.kind, versions)
    }

    /// Returns the kind in one version.
    fn kind(&self, version: &Value, versions: &[Value], schema: &Arc<Schema>) -> Kind {
        let namespaced = self.scope == "Namespaced";
        Kind {
            group: self.group.clone(),
            version: name_of(version).to_owned(),
            plural: self.plural.clone(),
            singular: self.singular.clone(),
            kind: self.kind.clone(),
            list_kind: self.list_kind.clone(),
            short_names: self.short_names.clone(),
            categories: self.categories.clone(),
            namespaced,
            has_status: version.pointer("/subresources/status").is_some(),
            has_generation: true,
            scale: version.pointer("/subresources/scale").map(scale_paths),
            fields: FieldPath::common(namespaced).chain(selectable_fields(version)).collect(),
            columns: Some(columns(version)),
            custom: true,
            schema: Some(schema.clone()),
            checks: version
                .pointer("/schema/openAPIV3Schema")
                .map(|schema| Arc::new(VersionSchema::parse(schema))),
            deprecation: is(version, "deprecated").then(|| self.deprecation(version, versions)),
        }
    }

    /// Returns the warning of a deprecated version. Follows Kubernetes 1.37 (`defaultDeprecationWarning`).
    fn deprecation(&self, version: &Value, versions: &[Value]) -> String {
        if let Some(text) = version.get("deprecationWarning").and_then(Value::as_str) {
            return text.to_owned();
        }
        let (Self { group, kind, .. }, name) = (self, name_of(version));
        let current =
            versions.iter().filter(|other| is(other, "served") && !is(other, "deprecated")).map(name_of);
        let newest = current.max_by_key(|name| version_rank(name));
        let newest = newest.filter(|newest| version_rank(newest) > version_rank(name));
        let instead = newest.map(|newest| format!("; use {group}/{newest} {kind}")).unwrap_or_default();
        format!("{group}/{name} {kind} is deprecated{instead}")
    }
}

fn complete(object: &mut Map<String, Value>, storage: &Kind, now: &str) {
    let accepted =
        object.get("spec").and_then(|spec| spec.get("names")).cloned().unwrap_or_else(|| json!({}));
    let established = object.get("status").and_then(|s| s.get("conditions")).is_some();
    let status = object.entry("status").or_insert_with(|| json!({}));
    if !status.is_object() {
        *status = json!({});
    }
    let Some(status) = status.as_object_mut() else { return };
    status.insert("acceptedNames".into(), accepted);
    status.insert("storedVersions".into(), json!([storage.version]));
    if !established {
        let condition = |kind: &str, reason: &str, message: &str| {
            json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason,
                "message": message})
        };
        let conditions = json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ]);
        status.insert("conditions".into(), conditions);
    }
}

/// Splits a path such as `.spec.replicas` into its fields.
fn members(path: &str) -> Vec<String> {
    path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let path = |field: &str| scale.get(field).and_then(Value::as_str).map(members);
    ScalePaths {
        spec_replicas: path("specReplicasPath").unwrap_or_default(),
        status_replicas: path("statusReplicasPath").unwrap_or_default(),
        selector: path("labelSelectorPath"),
    }
}

fn selectable_fields(version: &Value) -> impl Iterator<Item = FieldPath> {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let paths = fields.into_iter().flatten().filter_map(|field| field.get("jsonPath")?.as_str());
    paths.map(|path| FieldPath::parse(path.trim_start_matches('.')))
}

fn columns(version: &Value) -> Vec<Column> {
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let text =
        |column: &Value, field: &str| column.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
    columns
        .into_iter()
        .flatten()
        .map(|column| Column {
            name: text(column, "name"),
            kind: text(column, "type"),
            path: text(column, "jsonPath"),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
        })
        .collect()
}
