//! Reads the kinds that a CustomResourceDefinition defines.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::apply::{Schema, schema_of_definition};
use crate::conversion::ConversionWebhook;
use crate::order;
use crate::schema::{self, Changed, VersionSchema};
use crate::status::{Status, Subject};

use super::definition_status::{self, Conditions};
use super::kind::Forms;
use super::names::{Names, Used};
use super::{Column, FieldPath, Kind, ScalePaths, version_rank};

/// The resources of a valid CustomResourceDefinition.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) plural: String,
    /// The names that the definition has got.
    pub(crate) names: Names,
    /// Whether these are those that it requests.
    pub(crate) has_all_names: bool,
    /// Whether it is served.
    pub(crate) is_established: bool,
    /// The storage version.
    pub(crate) storage: Kind,
    /// Whether the storage version is also served.
    pub(crate) storage_served: bool,
    /// The other served versions.
    pub(crate) others: Vec<Kind>,
}

/// How a definition is written.
#[derive(Clone, Copy)]
pub(crate) struct Revision<'a> {
    /// The definition before an update.
    pub(crate) before: Option<&'a Map<String, Value>>,
    pub(crate) changed: Changed,
    pub(crate) conditions: Conditions,
    pub(crate) now: &'a str,
}

/// Parses and validates a definition, and completes it: list kind, singular, and its status. `claimed` are the names that the
/// definitions of the group have.
///
/// # Errors
/// 422 with one cause per problem, with the wording of Kubernetes.
pub(crate) fn definition<'a>(
    object: &mut Map<String, Value>,
    revision: Revision<'_>,
    claimed: impl Iterator<Item = &'a Names>,
) -> Result<Definition, Status> {
    let requested = set_defaults(object);
    // the in-process API may leave out the status
    if let Some(status) = revision.before.and_then(|before| before.get("status")) {
        object.entry("status").or_insert_with(|| status.clone());
    }
    definition_status::complete_versions(object);
    if revision.changed == Changed::Object {
        schema::definition::coerce_defaults(object);
    }
    let causes = match revision.changed {
        Changed::Object => schema::definition::faults(object, revision.before),
        Changed::Status => schema::definition::status_faults(object),
    };
    let versions = object.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
    let versions = versions.cloned().unwrap_or_default();
    let stored = versions.iter().find(|version| is(version, "storage"));
    let (Some(stored), true) = (stored, causes.is_empty()) else {
        let name = object.get("metadata").and_then(|metadata| metadata.get("name"));
        let name = name.and_then(Value::as_str).unwrap_or("");
        let subject = Subject { group: "apiextensions.k8s.io", resource: "CustomResourceDefinition" };
        return Err(Status::invalid(subject, name, causes));
    };
    let names = definition_status::complete(
        object,
        &requested,
        &Used::by(claimed),
        revision.conditions,
        revision.now,
    );
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
    let all = All { group: text("group"), scope: text("scope"), names: &names, versions: &versions };
    let schema = Arc::new(all.schema());
    let forms = Arc::new(all.forms(stored, ConversionWebhook::of(spec)));
    let others = versions.iter().filter(|v| is(v, "served") && !is(v, "storage"));
    Ok(Definition {
        group: all.group.clone(),
        plural: requested.plural.clone(),
        has_all_names: names == requested,
        is_established: definition_status::is_established(object),
        storage: all.kind(stored, &schema, &forms),
        storage_served: is(stored, "served"),
        others: others.map(|version| all.kind(version, &schema, &forms)).collect(),
        names,
    })
}

/// Sets the defaults of a definition: the names that it need not have, the conversion, and the port of its webhook. Returns
/// the names.
pub(crate) fn set_defaults(object: &mut Map<String, Value>) -> Names {
    let mut requested = Names::default();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return requested };
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(Value::Object(service)) = conversion.pointer_mut("/webhook/clientConfig/service") {
        service.entry("port").or_insert_with(|| 443.into());
    }
    let Some(names) = spec.get_mut("names") else { return requested };
    requested = Names::of(names);
    requested.complete();
    if let Some(names) = names.as_object_mut()
        && !requested.kind.is_empty()
    {
        names.insert("singular".into(), requested.singular.as_str().into());
        names.insert("listKind".into(), requested.list_kind.as_str().into());
    }
    requested
}

fn name_of(version: &Value) -> &str {
    version.get("name").and_then(Value::as_str).unwrap_or("")
}

/// Whether a version has a flag.
fn is(version: &Value, flag: &str) -> bool {
    version.get(flag).and_then(Value::as_bool).unwrap_or(false)
}

/// A definition with all its versions.
struct All<'a> {
    group: String,
    scope: String,
    names: &'a Names,
    versions: &'a [Value],
}

impl All<'_> {
    /// Returns the types of all versions.
    fn schema(&self) -> Schema {
        let versions = self.versions.iter().map(|version| {
            (format!("{}/{}", self.group, name_of(version)), version.pointer("/schema/openAPIV3Schema"))
        });
        schema_of_definition(&self.names.kind, versions)
    }

    /// Returns the schemas of all versions.
    fn forms(&self, stored: &Value, webhook: Option<ConversionWebhook>) -> Forms {
        let schemas = self.versions.iter().filter_map(|version| {
            let schema = VersionSchema::parse(version.pointer("/schema/openAPIV3Schema")?);
            Some((name_of(version).to_owned(), Arc::new(schema)))
        });
        Forms { storage: name_of(stored).to_owned(), schemas: order::map(schemas), webhook }
    }

    /// Returns the kind in one version.
    fn kind(&self, version: &Value, schema: &Arc<Schema>, forms: &Arc<Forms>) -> Kind {
        let namespaced = self.scope == "Namespaced";
        let names = self.names.clone();
        Kind {
            group: self.group.clone(),
            version: name_of(version).to_owned(),
            plural: names.plural,
            singular: names.singular,
            kind: names.kind,
            list_kind: names.list_kind,
            short_names: names.short_names,
            categories: names.categories,
            namespaced,
            has_status: version.pointer("/subresources/status").is_some(),
            has_generation: true,
            scale: version.pointer("/subresources/scale").map(scale_paths),
            fields: FieldPath::common(namespaced).chain(selectable_fields(version)).collect(),
            columns: Some(columns(version)),
            custom: true,
            schema: Some(schema.clone()),
            checks: forms.schemas.get(name_of(version)).cloned(),
            forms: Some(forms.clone()),
            deprecation: is(version, "deprecated").then(|| self.deprecation(version)),
        }
    }

    /// Returns the warning of a deprecated version. Follows Kubernetes 1.37 (`defaultDeprecationWarning`).
    fn deprecation(&self, version: &Value) -> String {
        if let Some(text) = version.get("deprecationWarning").and_then(Value::as_str) {
            return text.to_owned();
        }
        let (group, kind, name) = (&self.group, &self.names.kind, name_of(version));
        let current =
            self.versions.iter().filter(|other| is(other, "served") && !is(other, "deprecated")).map(name_of);
        let newest = current.max_by_key(|name| version_rank(name));
        let newest = newest.filter(|newest| version_rank(newest) > version_rank(name));
        let instead = newest.map(|newest| format!("; use {group}/{newest} {kind}")).unwrap_or_default();
        format!("{group}/{name} {kind} is deprecated{instead}")
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
            format: text(column, "format"),
            description: Some(text(column, "description")).filter(|given| !given.is_empty()).unwrap_or_else(
                || {
                    format!(
                        "Custom resource definition column (in JSONPath format): {}",
                        text(column, "jsonPath")
                    )
                },
            ),
            path: text(column, "jsonPath"),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
        })
        .collect()
}
