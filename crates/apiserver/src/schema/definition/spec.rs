//! The rules of a definition outside of its schemas.
//!
//! Follows Kubernetes 1.37 (`ValidateCustomResourceDefinition`).

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::status::Cause;

use super::super::structural::Structural;
use super::approval;
use super::columns;
use super::conversion;
use super::defaults::faults_of_defaults;
use super::names::{dns_1035_fault, dns_1123_subdomain_fault};
use super::node::Node;
use super::status::stored_version_faults;
use super::{internal, nodes, structure};
use crate::causes::{forbidden, invalid, invalid_text, not_supported, required};

/// The fields of a version that are reported at the top if all versions have the same.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Returns what is wrong with the status of a definition.
///
/// Follows Kubernetes 1.37 (`ValidateUpdateCustomResourceDefinitionStatus`).
pub(crate) fn status_faults(definition: &Map<String, Value>) -> Vec<Cause> {
    let names = definition.get("status").and_then(|status| status.get("acceptedNames"));
    names.and_then(Node::of).map_or_else(Vec::new, |names| name_faults(names, "status.acceptedNames"))
}

/// Returns what is wrong with a definition, whose names have their defaults. `before` is the definition before an update.
pub(crate) fn faults(definition: &Map<String, Value>, before: Option<&Map<String, Value>>) -> Vec<Cause> {
    let empty = Map::new();
    let spec = definition.get("spec").and_then(Node::of).unwrap_or(Node(&empty));
    let name = definition.get("metadata").and_then(|metadata| metadata.get("name"));
    let former = before.and_then(|before| before.get("spec")).and_then(Node::of);
    let mut rules = Rules { spec, former, found: Vec::new() };
    rules.metadata(name.and_then(Value::as_str).unwrap_or(""));
    rules.group_and_scope();
    rules.versions();
    rules.names();
    rules.shared();
    rules.found.extend(conversion::faults(spec, former, before.is_some_and(is_established)));
    if let Some(before) = former {
        rules.immutable(before, is_established(definition));
    }
    rules.found.extend(status_faults(definition));
    let status = definition.get("status").and_then(Node::of);
    rules.found.extend(stored_version_faults(spec, status));
    rules.found.extend(approval::fault(definition, before));
    rules.preserved_fields();
    rules.found
}

fn is_established(definition: &Map<String, Value>) -> bool {
    let conditions = definition.get("status").and_then(|status| status.get("conditions"));
    conditions.and_then(Value::as_array).into_iter().flatten().any(|condition| {
        condition.get("type").is_some_and(|kind| kind == "Established")
            && condition.get("status").is_some_and(|status| status == "True")
    })
}

struct Rules<'a> {
    spec: Node<'a>,
    /// The spec before an update.
    former: Option<Node<'a>>,
    found: Vec<Cause>,
}

impl<'a> Rules<'a> {
    fn metadata(&mut self, name: &str) {
        let names = self.spec.node("names");
        let plural = names.map_or("", |names| names.text("plural"));
        let mut rules: Vec<String> = dns_1123_subdomain_fault(name).into_iter().collect();
        if name != format!("{plural}.{}", self.spec.text("group")) {
            rules.push("must be spec.names.plural+\".\"+spec.group".into());
        }
        let causes = rules.iter().map(|rule| invalid("metadata.name", &name.into(), rule));
        self.found.extend(causes);
    }

    fn group_and_scope(&mut self) {
        let group = self.spec.text("group");
        let why = match group {
            "" => None,
            _ => dns_1123_subdomain_fault(group).or_else(|| {
                (!group.contains('.')).then(|| "should be a domain with at least one dot".into())
            }),
        };
        if group.is_empty() {
            self.found.push(required("spec.group", ""));
        }
        self.found.extend(why.map(|why| invalid("spec.group", &group.into(), &why)));
        self.found.extend(match self.spec.text("scope") {
            "" => Some(required("spec.scope", "")),
            "Cluster" | "Namespaced" => None,
            scope => Some(not_supported("spec.scope", &scope.into(), &["Cluster", "Namespaced"])),
        });
    }

    fn preserved_fields(&mut self) {
        if self.spec.flag("preserveUnknownFields") {
            let rule = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                        spec.versions[*].schema instead";
            self.found.push(invalid("spec.preserveUnknownFields", &Value::Bool(true), rule));
        }
    }

    fn of_versions(&self) -> Vec<Node<'a>> {
        self.spec.listed("versions").map(|(_, version)| version).collect()
    }

    /// Returns the value of a field that all versions have in common.
    fn common(&self, field: &str) -> Option<Option<&'a Value>> {
        let versions = self.of_versions();
        let first = versions.first()?.get(field);
        versions.iter().all(|version| version.get(field) == first).then_some(first)
    }

    fn versions(&mut self) {
        let versions = self.of_versions();
        for (index, version) in versions.iter().enumerate() {
            let schema = version.node("schema").and_then(|schema| schema.node("openAPIV3Schema"));
            if schema.is_none() {
                self.found.push(required(&format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
            }
        }
        if self.spec.flag("preserveUnknownFields") && versions.iter().any(has_defaults) {
            let rule = "must be false in order to use defaults in the schema";
            self.found.push(invalid("spec.preserveUnknownFields", &Value::Bool(true), rule));
        }
        let (mut stored, mut names) = (0, HashSet::new());
        for (index, version) in versions.iter().enumerate() {
            let (path, name) = (format!("spec.versions[{index}]"), version.text("name"));
            stored += usize::from(version.flag("storage"));
            names.insert(name);
            let why = dns_1035_fault(name);
            self.found.extend(why.map(|why| invalid(&format!("{path}.name"), &name.into(), &why)));
            self.found.extend(columns::deprecation_faults(*version, &path));
            for (field, _) in SHARED {
                if self.common(field).is_none() {
                    let has_status =
                        version.node("subresources").is_some_and(|of| of.get("status").is_some());
                    self.part(*version, field, &format!("{path}.{field}"), has_status);
                }
            }
        }
        let rules = [
            (names.len() < versions.len(), "must contain unique version names"),
            (stored != 1, "must have exactly one version marked as storage version"),
        ];
        for (_, rule) in rules.into_iter().filter(|(is_broken, _)| *is_broken) {
            let listed = internal::versions(&versions, |field| self.common(field).is_some());
            self.found.push(invalid_text("spec.versions", &listed, rule));
        }
        if let Some(first) = versions.first() {
            let name = first.text("name");
            let why = dns_1035_fault(name).filter(|_| !name.is_empty());
            self.found.extend(why.map(|why| invalid("spec.version", &name.into(), &why)));
        }
    }

    /// Whether the schema of a version is as before.
    fn is_unchanged(&self, version: Node<'_>) -> bool {
        let former = self.former.into_iter().flat_map(|former| former.listed("versions"));
        let mut former = former.filter(|(_, of)| of.text("name") == version.text("name"));
        former.next().is_some_and(|(_, of)| of.get("schema") == version.get("schema"))
    }

    /// Checks the parts that all versions have in common.
    fn shared(&mut self) {
        let versions = self.of_versions();
        let Some(first) = versions.first() else { return };
        let has_status =
            |version: &Node<'_>| version.node("subresources").is_some_and(|of| of.get("status").is_some());
        let has_status = versions.iter().any(has_status);
        for (field, name) in SHARED {
            if self.common(field).is_some() {
                self.part(*first, field, &format!("spec.{name}"), has_status);
            }
        }
    }

    fn part(&mut self, version: Node<'a>, field: &str, path: &str, has_status: bool) {
        match field {
            "schema" => {
                let Some(schema) = version.node("schema").and_then(|of| of.node("openAPIV3Schema")) else {
                    return;
                };
                let (path, is_unchanged) = (format!("{path}.openAPIV3Schema"), self.is_unchanged(version));
                self.found.extend(schema_faults(schema, &path, has_status, is_unchanged));
            }
            "subresources" => {
                let scale = version.node("subresources").and_then(|of| of.node("scale"));
                self.found
                    .extend(scale.map(|scale| columns::scale_faults(scale, path)).into_iter().flatten());
            }
            "additionalPrinterColumns" => {
                for (index, column) in version.listed(field) {
                    self.found.extend(columns::column_faults(column, &format!("{path}[{index}]")));
                }
            }
            _ => {
                let is_shared = self.common(field).is_some();
                // the schemas and the fields have to be in the same place
                if version.is_filled(field) && is_shared != self.common("schema").is_some() {
                    let rule = if is_shared {
                        "may only be set when validations.schema is included"
                    } else {
                        "may only be set when `version.schema.openAPIV3Schema` is not included"
                    };
                    self.found.push(invalid(path, &"".into(), rule));
                } else {
                    self.found.extend(columns::selectable_faults(version, path));
                }
            }
        }
    }

    fn names(&mut self) {
        let empty = Map::new();
        let names = self.spec.node("names").unwrap_or(Node(&empty));
        for field in ["plural", "singular", "kind", "listKind"] {
            if names.text(field).is_empty() {
                self.found.push(required(&format!("spec.names.{field}"), ""));
            }
        }
        self.found.extend(name_faults(names, "spec.names"));
    }

    fn immutable(&mut self, before: Node<'_>, is_established: bool) {
        let text = |node: Node<'_>, path: &[&str]| match path {
            [field] => node.text(field).to_owned(),
            [outer, field] => node.node(outer).map_or("", |node| node.text(field)).to_owned(),
            _ => String::new(),
        };
        let fixed: [(&[&str], bool); 4] = [
            (&["scope"], is_established),
            (&["names", "kind"], is_established),
            (&["group"], true),
            (&["names", "plural"], true),
        ];
        for (path, is_fixed) in fixed {
            let now = text(self.spec, path);
            if is_fixed && now != text(before, path) {
                let path = format!("spec.{}", path.join("."));
                self.found.push(invalid(&path, &now.into(), "field is immutable"));
            }
        }
    }
}

fn has_defaults(version: &Node<'_>) -> bool {
    let schema = version.node("schema").and_then(|schema| schema.node("openAPIV3Schema"));
    schema.is_some_and(|schema| schema.has(&|node| node.get("default").is_some()))
}

/// Follows Kubernetes 1.37 (`ValidateCustomResourceDefinitionNames`).
fn name_faults(names: Node<'_>, path: &str) -> Vec<Cause> {
    let mut found = Vec::new();
    for field in ["plural", "singular", "kind", "listKind"] {
        let name = names.text(field);
        let is_kind = matches!(field, "kind" | "listKind");
        let why = if is_kind {
            dns_1035_fault(&name.to_lowercase())
                .map(|why| format!("may have mixed case, but should otherwise match: {why}"))
        } else {
            dns_1035_fault(name)
        };
        let why = why.filter(|_| !name.is_empty());
        found.extend(why.map(|why| invalid(&format!("{path}.{field}"), &name.into(), &why)));
    }
    let label = |field: &str, index: usize, name: &str| {
        let path = format!("{path}.{field}[{index}]");
        dns_1035_fault(name).map(|why| invalid(&path, &name.into(), &why))
    };
    let short = names.texts("shortNames").enumerate();
    found.extend(short.filter_map(|(index, name)| label("shortNames", index, name)));
    let kind = names.text("kind");
    if !kind.is_empty() && kind == names.text("listKind") {
        let rule = "kind and listKind may not be the same";
        found.push(invalid(&format!("{path}.listKind"), &kind.into(), rule));
    }
    let categories = names.texts("categories").enumerate();
    found.extend(categories.filter_map(|(index, name)| label("categories", index, name)));
    found
}

/// The fields that the root of a schema may have beside a status subresource.
const ROOT_FIELDS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

fn schema_faults(schema: Node<'_>, path: &str, has_status: bool, is_unchanged: bool) -> Vec<Cause> {
    let mut found = Vec::new();
    if has_status {
        let declared = schema.text("type");
        if !declared.is_empty() && declared != "object" {
            let rule = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                        enabled";
            found.push(invalid(&format!("{path}.type"), &declared.into(), rule));
        } else if schema.0.keys().any(|field| {
            internal::is_known(field) && !ROOT_FIELDS.contains(&field.as_str()) && schema.is_filled(field)
        }) {
            let names = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                         MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                         ExternalDocs Example XPreserveUnknownFields XValidations]";
            let rule = format!(
                "only {names} fields are allowed at the root of the schema if the status subresource is enabled"
            );
            found.push(invalid_text(path, &internal::schema(schema), &rule));
        }
    }
    if schema.flag("nullable") {
        found.push(forbidden(&format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    let mut typed = None;
    if !structure::is_unsupported(schema) {
        let mut causes = structure::faults(path, schema);
        if causes.is_empty() {
            let mut parsed = Structural::parse(&Value::Object(schema.0.clone()));
            parsed.is_embedded = true;
            #[cfg(feature = "cel")]
            super::super::cel::compile(&mut parsed);
            causes = faults_of_defaults(path, &parsed);
            typed = Some(parsed).filter(|_| causes.is_empty());
        }
        found.extend(causes);
    }
    found.extend(nodes::faults(path, schema, typed.as_ref(), is_unchanged));
    if found.is_empty() && structure::is_unsupported(schema) {
        found.push(invalid_text(path, "\"\"", "OpenAPIV3Schema 'schema' is not supported"));
    }
    found
}
