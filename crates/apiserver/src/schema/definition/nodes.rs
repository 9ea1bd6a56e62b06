//! The rules of each node of a schema.
//!
//! Follows Kubernetes 1.37 (`ValidateCustomResourceDefinitionOpenAPISchema`).

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::status::Cause;

use super::super::prune::is_meta;
use super::super::structural::Structural;
use super::node::Node;
use super::{internal, validations};
use crate::causes::{forbidden, invalid, invalid_text, not_supported, required};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Where a node is.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    is_root: bool,
    is_meta: bool,
    /// Why a default is forbidden.
    no_default: Option<&'a str>,
    /// The parsed node with its compiled rules; `None` where rules are not checked.
    typed: Option<&'a Structural>,
    /// The node around it whose old values cannot be found.
    uncorrelated: Option<&'a str>,
    /// How many values of the node an object may have; `None` if there is no limit.
    cardinality: Option<u64>,
}

/// Returns what is wrong with a schema at a path. The rules in CEL are checked if it is parsed; they may cost any amount if
/// the schema is as before.
pub(super) fn faults(
    path: &str,
    root: Node<'_>,
    typed: Option<&Structural>,
    is_unchanged: bool,
) -> Vec<Cause> {
    let mut rules = Rules {
        found: Vec::new(),
        of_checks: Vec::new(),
        #[cfg(feature = "cel")]
        costs: validations::Costs::new(is_unchanged),
    };
    rules.node(root, path, Place { is_root: true, typed, cardinality: Some(1), ..Place::default() });
    rules.found.append(&mut rules.of_checks);
    #[cfg(feature = "cel")]
    rules.found.extend(rules.costs.faults(path));
    #[cfg(not(feature = "cel"))]
    let _ = is_unchanged;
    rules.found
}

/// Returns how many values the children of a node have for each of its values; `None` if there is no limit.
fn children(node: Node<'_>) -> Option<u64> {
    let limit = match node.text("type") {
        "object" if node.get("additionalProperties").is_some() => node.get("maxProperties"),
        "array" => node.get("maxItems"),
        _ => return Some(1),
    };
    limit.and_then(Value::as_i64).map(|limit| u64::try_from(limit).unwrap_or(0))
}

struct Rules {
    found: Vec<Cause>,
    /// The errors of expressions, which come last.
    of_checks: Vec<Cause>,
    #[cfg(feature = "cel")]
    costs: validations::Costs,
}

impl Rules {
    fn node(&mut self, node: Node<'_>, path: &str, place: Place<'_>) {
        let (known, cardinality) = (self.found.len(), place.cardinality);
        let inner = cardinality.and_then(|own| children(node).map(|each| own.saturating_mul(each)));
        let place = Place { cardinality: inner, ..place };
        self.standard(node, path, place);
        if node.flag("uniqueItems") {
            let rule = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.found.push(forbidden(&format!("{path}.uniqueItems"), rule));
        }
        self.values(node, path, Place { is_root: false, ..place });
        self.properties(node, path, place);
        let inner = Place { is_root: false, typed: None, ..place };
        if let Some(not) = node.node("not") {
            self.node(not, &format!("{path}.not"), inner);
        }
        for field in ["allOf", "oneOf", "anyOf"] {
            for (index, node) in node.listed(field) {
                self.node(node, &format!("{path}.{field}[{index}]"), inner);
            }
        }
        for (name, node) in node.named("definitions") {
            self.node(node, &format!("{path}.definitions[{name}]"), inner);
        }
        if let Some(items) = node.node("items") {
            let uncorrelated =
                if node.text("x-kubernetes-list-type") == "map" { place.uncorrelated } else { Some(path) };
            let typed = place.typed.and_then(|typed| typed.items.as_deref());
            self.node(items, &format!("{path}.items"), Place { typed, uncorrelated, ..inner });
        }
        for (index, node) in node.listed("items") {
            self.node(node, &format!("{path}.items[{index}]"), inner);
        }
        for (name, node) in node.named("dependencies") {
            self.node(node, &format!("{path}.dependencies[{name}]"), inner);
        }
        let field = "x-kubernetes-preserve-unknown-fields";
        if let Some(kept @ Value::Bool(false)) = node.get(field) {
            self.found.push(invalid(&format!("{path}.{field}"), kept, "must be true or undefined"));
        }
        self.map_type(node, path);
        self.list_type(node, path);
        self.found.extend(validations::faults(node, path));
        #[cfg(feature = "cel")]
        if let Some(typed) = place.typed.filter(|_| self.found.len() == known) {
            let around = validations::Around { uncorrelated: place.uncorrelated, cardinality };
            let found = validations::expression_faults(node, typed, path, &around, &mut self.costs);
            self.of_checks.extend(found);
        }
        #[cfg(not(feature = "cel"))]
        let _ = (known, cardinality);
    }

    fn standard(&mut self, node: Node<'_>, path: &str, place: Place<'_>) {
        let declared = node.text("type");
        if !declared.is_empty() && !TYPES.contains(&declared) {
            self.found.push(not_supported(&format!("{path}.type"), &declared.into(), &TYPES));
        }
        if let (Some(_), Some(why)) = (node.get("default"), place.no_default) {
            self.found.push(forbidden(&format!("{path}.default"), &format!("must not be set {why}")));
        }
        let is_listed = node.get("items").and_then(Value::as_array).is_some_and(|items| !items.is_empty());
        let unsupported = [
            ("id", node.is_filled("id")),
            ("additionalItems", node.get("additionalItems").is_some()),
            ("patternProperties", node.is_filled("patternProperties")),
            ("definitions", node.is_filled("definitions")),
            ("dependencies", node.get("dependencies").is_some()),
            ("$ref", node.get("$ref").is_some()),
        ];
        for (field, _) in unsupported.iter().filter(|(_, is_set)| *is_set) {
            self.found.push(forbidden(&format!("{path}.{field}"), &format!("{field} is not supported")));
        }
        if declared == "null" {
            let rule = "type cannot be set to null, use nullable as an alternative";
            self.found.push(forbidden(&format!("{path}.type"), rule));
        }
        if is_listed {
            let rule = "items must be a schema object and not an array";
            self.found.push(forbidden(&format!("{path}.items"), rule));
        }
        if place.is_meta && node.flag("x-kubernetes-embedded-resource") {
            let at = format!("{path}.x-kubernetes-embedded-resource");
            self.found.push(forbidden(&at, "must not be used inside of resource meta"));
        }
    }

    fn values(&mut self, node: Node<'_>, path: &str, inner: Place<'_>) {
        let Some(values) = node.get("additionalProperties") else { return };
        let path = format!("{path}.additionalProperties");
        if node.is_filled("properties") && *values != Value::Bool(true) {
            self.found.push(forbidden(&path, "additionalProperties and properties are mutual exclusive"));
        }
        let Some(values) = Node::of(values) else { return };
        let why = "inside additionalProperties applying to object metadata";
        let no_default = if inner.is_meta { Some(why) } else { inner.no_default };
        let typed = inner.typed.and_then(|typed| typed.additional.schema());
        self.node(values, &path, Place { no_default, typed, ..inner });
    }

    fn properties(&mut self, node: Node<'_>, path: &str, place: Place<'_>) {
        for (name, property) in node.named("properties") {
            let at = format!("{path}.properties[{name}]");
            let typed = place.typed.and_then(|typed| typed.property(name));
            let mut inner = Place { is_root: false, typed, ..place };
            if node.get("x-kubernetes-map-type").is_some_and(|kind| kind != "granular" && kind != "atomic") {
                inner.uncorrelated = Some(path);
            }
            let why = format!("in top-level {name}");
            if (place.is_root || node.flag("x-kubernetes-embedded-resource")) && is_meta(name) {
                inner.is_meta = true;
                if place.is_root {
                    inner.no_default = Some(&why);
                }
            }
            self.node(property, &at, inner);
        }
    }

    fn type_for(&mut self, node: Node<'_>, path: &str, field: &str, needed: &str) -> bool {
        let declared = node.text("type");
        if node.get(field).is_none() || declared == needed {
            return true;
        }
        let (at, rule) = (format!("{path}.type"), format!("must be {needed} if {field} is specified"));
        self.found.push(match declared {
            "" => required(&at, &rule),
            _ => invalid(&at, &declared.into(), &rule),
        });
        false
    }

    fn map_type(&mut self, node: Node<'_>, path: &str) {
        let field = "x-kubernetes-map-type";
        self.type_for(node, path, field, "object");
        if let Some(kind) = node.get(field).filter(|kind| *kind != "atomic" && *kind != "granular") {
            self.found.push(not_supported(&format!("{path}.{field}"), kind, &["atomic", "granular"]));
        }
    }

    fn list_type(&mut self, node: Node<'_>, path: &str) {
        let field = "x-kubernetes-list-type";
        let at = format!("{path}.{field}");
        let (kind, items) = (node.text(field), node.node("items"));
        if self.type_for(node, path, field, "array")
            && kind == "set"
            && let Some(items) = items
        {
            self.items_of_set(items, &format!("{path}.items"));
        }
        if let Some(kind) = node.get(field).filter(|_| !matches!(kind, "atomic" | "set" | "map")) {
            self.found.push(not_supported(&at, kind, &["atomic", "set", "map"]));
        }
        if node.is_filled("x-kubernetes-list-map-keys") && kind != "map" {
            let rule = "must be map if x-kubernetes-list-map-keys is non-empty";
            self.found.push(match node.get(field) {
                None => required(&at, rule),
                Some(kind) => invalid(&at, kind, rule),
            });
        }
        if kind == "map" {
            self.keyed(node, path);
        }
        if let Some(items) = items.filter(|_| matches!(kind, "set" | "map")) {
            self.items_of_keyed(node, items, kind, &format!("{path}.items"));
        }
    }

    fn items_of_set(&mut self, items: Node<'_>, path: &str) {
        let rule = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let kind = items.get("x-kubernetes-list-type");
        match items.text("type") {
            "array" if kind.is_some_and(|kind| kind != "atomic") => {
                let at = format!("{path}.x-kubernetes-list-type");
                self.found.push(invalid(&at, kind.unwrap_or(&Value::Null), rule));
            }
            "object" if items.text("x-kubernetes-map-type") != "atomic" => {
                // the value is that of the list type, as in Kubernetes
                let at = format!("{path}.x-kubernetes-map-type");
                self.found.push(invalid(&at, kind.unwrap_or(&Value::Null), rule));
            }
            _ => {}
        }
    }

    fn keyed(&mut self, node: Node<'_>, path: &str) {
        let at = format!("{path}.x-kubernetes-list-map-keys");
        if !node.is_filled("x-kubernetes-list-map-keys") {
            self.found.push(required(&at, "must not be empty if x-kubernetes-list-type is map"));
        }
        let Some(items) = node.node("items") else {
            let at = format!("{path}.items");
            self.found.push(match node.get("items") {
                None => required(&at, "must have a schema if x-kubernetes-list-type is map"),
                Some(_) => {
                    let rule = "must only have a single schema if x-kubernetes-list-type is map";
                    invalid_text(&at, &internal::items(node), rule)
                }
            });
            return;
        };
        if items.text("type") != "object" {
            let rule = "must be object if parent array's x-kubernetes-list-type is map";
            self.found.push(invalid(&format!("{path}.items.type"), &items.text("type").into(), rule));
            return;
        }
        let keys: Vec<&str> = node.texts("x-kubernetes-list-map-keys").collect();
        let mut seen = HashSet::new();
        for key in &keys {
            match items.property(key).map(|property| property.text("type")) {
                Some("array" | "object") => {
                    let at = format!("{path}.items.properties[{key}].type");
                    let rule = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.found.push(invalid(&at, &items.text("type").into(), rule));
                }
                Some(_) => {}
                None => {
                    self.found.push(invalid(
                        &at,
                        &json!(keys),
                        "entries must all be names of item properties",
                    ));
                }
            }
            if !seen.insert(key) {
                self.found.push(invalid(&at, &json!(keys), "must not contain duplicate entries"));
            }
        }
    }

    fn items_of_keyed(&mut self, node: Node<'_>, items: Node<'_>, kind: &str, path: &str) {
        if items.flag("nullable") {
            let rule = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
            self.found.push(forbidden(&format!("{path}.nullable"), &rule));
        }
        if kind != "map" {
            return;
        }
        for key in node.texts("x-kubernetes-list-map-keys") {
            let Some(property) = items.property(key) else { continue };
            let at = format!("{path}.properties[{key}]");
            let why = "this property is in x-kubernetes-list-map-keys, so it";
            let is_required = items.texts("required").any(|name| name == key);
            if !is_required && property.get("default").is_none() {
                let rule = format!("{why} must have a default or be a required property");
                self.found.push(required(&format!("{at}.default"), &rule));
            }
            if property.flag("nullable") {
                let rule = format!("{why} cannot be nullable");
                self.found.push(forbidden(&format!("{at}.nullable"), &rule));
            }
        }
    }
}
