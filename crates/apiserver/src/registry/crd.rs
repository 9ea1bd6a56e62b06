//! Reads the kinds that a CustomResourceDefinition defines.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::apply::{Schema, schema_of_definition};
use crate::status::{Cause, Status};

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
/// `Established`.
///
/// # Errors
/// 422 with one cause per problem, with the wording of Kubernetes.
pub(crate) fn definition(object: &mut Map<String, Value>, now: &str) -> Result<Definition, Status> {
    let name =
        object.get("metadata").and_then(|m| m.get("name")).and_then(Value::as_str).unwrap_or("").to_owned();
    let spec = object.get("spec").cloned().unwrap_or(Value::Null);
    let names = Names::of(&spec);
    let versions = spec.get("versions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut causes = names.faults(&name);
    causes.extend(faults_of_versions(&versions));
    causes.extend(names.faults_of_labels());
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

fn faults_of_versions(versions: &[Value]) -> Vec<Cause> {
    let mut causes = Vec::new();
    if versions.iter().filter(|version| is(version, "storage")).count() != 1 {
        causes.push(Cause::invalid(
            "spec.versions",
            "Invalid value: must have exactly one version marked as storage version",
        ));
    }
    let names = versions.iter().map(|version| version.get("name").and_then(Value::as_str).unwrap_or(""));
    for (index, name) in names.clone().enumerate() {
        if !is_label(name) {
            causes.push(not_a_label(&format!("spec.versions[{index}].name"), name));
        }
    }
    if names.collect::<BTreeSet<_>>().len() < versions.len() {
        causes.push(Cause::invalid("spec.versions", "Invalid value: must contain unique version names"));
    }
    causes
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

    /// Returns what is wrong with the names of a definition that is called `name`.
    fn faults(&self, name: &str) -> Vec<Cause> {
        let Self { group, plural, kind, scope, .. } = self;
        let mut causes = Vec::new();
        for (field, value) in
            [("spec.group", group), ("spec.names.plural", plural), ("spec.names.kind", kind)]
        {
            if value.is_empty() {
                causes.push(Cause::required(field, ""));
            }
        }
        if !group.is_empty() && !group.contains('.') {
            causes.push(Cause::invalid(
                "spec.group",
                format!("Invalid value: {group:?}: should be a domain with at least one dot"),
            ));
        }
        if name != format!("{plural}.{group}") {
            causes.push(Cause::invalid(
                "metadata.name",
                format!("Invalid value: {name:?}: must be spec.names.plural+\".\"+spec.group"),
            ));
        }
        if scope != "Namespaced" && scope != "Cluster" {
            causes.push(Cause::not_supported("spec.scope", scope, "\"Cluster\", \"Namespaced\""));
        }
        causes
    }

    /// Returns which names are no labels. What is missing is another fault.
    fn faults_of_labels(&self) -> Vec<Cause> {
        let names = [
            ("plural", &self.plural),
            ("singular", &self.singular),
            ("kind", &self.kind.to_lowercase()),
            ("listKind", &self.list_kind.to_lowercase()),
        ];
        let wrong = names
            .into_iter()
            .filter(|(_, name)| !self.kind.is_empty() && !name.is_empty() && !is_label(name));
        wrong.map(|(field, name)| not_a_label(&format!("spec.names.{field}"), name)).collect()
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

/// Whether a name is a DNS label that starts with a letter. Follows Kubernetes 1.37 (`IsDNS1035Label`).
fn is_label(name: &str) -> bool {
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn not_a_label(field: &str, name: &str) -> Cause {
    let rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    Cause::invalid(field, format!("Invalid value: {name:?}: {rule}"))
}

fn complete(object: &mut Map<String, Value>, storage: &Kind, now: &str) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else { return };
    names.insert("singular".into(), storage.singular.as_str().into());
    names.insert("listKind".into(), storage.list_kind.as_str().into());
    let accepted = Value::Object(names.clone());
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
