//! The rules of structural schemas.
//!
//! Follows Kubernetes 1.37 (`schema.ValidateStructural`).

use serde_json::{Value, json};

use crate::status::Cause;

use super::super::pattern::Pattern;
use super::internal;
use super::node::Node;
use crate::causes::{forbidden, invalid, required};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// The fields that no schema may have. They are reported by the rules of nodes, but for `$schema`.
const UNSUPPORTED: [&str; 7] =
    ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];

/// Whether a schema has a form that cannot be structural, which is reported elsewhere.
pub(super) fn is_unsupported(node: Node<'_>) -> bool {
    let is_wrong = UNSUPPORTED
        .iter()
        .any(|field| node.is_filled(field) || *field == "additionalItems" && node.get(field).is_some())
        || node.get("items").is_some_and(Value::is_array)
        || node.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false));
    is_wrong
        || ["items", "additionalProperties", "not"]
            .iter()
            .any(|field| node.node(field).is_some_and(is_unsupported))
        || ["allOf", "anyOf", "oneOf"]
            .iter()
            .any(|field| node.listed(field).any(|(_, node)| is_unsupported(node)))
        || node.named("properties").any(|(_, node)| is_unsupported(node))
}

/// Returns what makes a schema at a path not structural, sorted.
pub(super) fn faults(path: &str, root: Node<'_>) -> Vec<Cause> {
    let mut rules = Rules { found: Vec::new() };
    rules.structure(root, Level::Root, path);
    rules.complete_values(root, Some(root), path, path);
    rules.found.sort_by(|a, b| (&a.field, &a.message).cmp(&(&b.field, &b.message)));
    rules.found
}

/// Whether a list is that of the types of `x-kubernetes-int-or-string`.
fn is_int_or_string(list: Option<&Value>) -> bool {
    list == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

struct Rules {
    found: Vec<Cause>,
}

impl Rules {
    fn structure(&mut self, node: Node<'_>, level: Level, path: &str) {
        if node.text("type") == "array" && node.node("items").is_none() {
            self.found.push(required(&format!("{path}.items"), "must be specified"));
        }
        if let Some(items) = node.node("items") {
            self.structure(items, Level::Item, &format!("{path}.items"));
        }
        for (name, property) in node.named("properties") {
            self.structure(property, Level::Field, &format!("{path}.properties[{name}]"));
        }
        if node.get("additionalProperties").is_some() {
            let path = format!("{path}.additionalProperties");
            if level == Level::Root {
                self.found.push(forbidden(&path, "must not be used at the root"));
            }
            if let Some(values) = node.node("additionalProperties") {
                self.structure(values, Level::Field, &path);
            }
        }
        self.extensions(node, path);
        let first = node.listed("allOf").next().filter(|(index, _)| *index == 0);
        let skip_any_of = is_int_or_string(node.get("anyOf"));
        let skip_first = first.is_some_and(|(_, node)| is_int_or_string(node.get("anyOf")));
        self.values(node, (skip_any_of, skip_first), path);
        self.types(node, level, path);
        self.metadata(node, level, path);
    }

    fn extensions(&mut self, node: Node<'_>, path: &str) {
        if !node.flag("x-kubernetes-int-or-string") {
            return;
        }
        for field in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if node.flag(field) {
                let rule = "must be false if x-kubernetes-int-or-string is true";
                self.found.push(invalid(&format!("{path}.{field}"), &Value::Bool(true), rule));
            }
        }
    }

    fn types(&mut self, node: Node<'_>, level: Level, path: &str) {
        let (declared, at) = (node.text("type"), format!("{path}.type"));
        let is_embedded = node.flag("x-kubernetes-embedded-resource");
        let keeps_unknown = node.flag("x-kubernetes-preserve-unknown-fields");
        if is_embedded && declared != "object" {
            let rule = "must be object if x-kubernetes-embedded-resource is true";
            self.found.push(match declared {
                "" => required(&at, rule),
                _ => invalid(&at, &declared.into(), rule),
            });
        } else if declared.is_empty() && !node.flag("x-kubernetes-int-or-string") && !keeps_unknown {
            let rule = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.found.push(required(&at, rule));
        }
        if is_embedded && node.get("additionalProperties").is_some() {
            let rule = "must not be used if x-kubernetes-embedded-resource is set";
            self.found.push(forbidden(&format!("{path}.additionalProperties"), rule));
        }
        if level == Level::Root && !declared.is_empty() && declared != "object" {
            self.found.push(invalid(&at, &declared.into(), "must be object at the root"));
        }
        if is_embedded && !keeps_unknown && !node.is_filled("properties") {
            let rule = "must not be empty if x-kubernetes-embedded-resource is true without \
                        x-kubernetes-preserve-unknown-fields";
            self.found.push(required(&format!("{path}.properties"), rule));
        }
    }

    fn metadata(&mut self, node: Node<'_>, level: Level, path: &str) {
        let has_meta = level == Level::Root || node.flag("x-kubernetes-embedded-resource");
        for name in ["kind", "apiVersion"] {
            let Some(property) = node.property(name).filter(|_| has_meta) else { continue };
            if property.text("type") != "string" {
                let at = format!("{path}.properties[{name}].type");
                self.found.push(invalid(&at, &property.text("type").into(), "must be string"));
            }
        }
        let Some(metadata) = node.property("metadata") else { return };
        let at = format!("{path}.properties[metadata]");
        if has_meta && metadata.text("type") != "object" {
            self.found.push(invalid(&format!("{at}.type"), &metadata.text("type").into(), "must be object"));
        }
        if level != Level::Root {
            return;
        }
        let is_allowed = |field: &str| matches!(field, "type" | "default" | "properties");
        let names_only =
            metadata.named("properties").all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
        let mut others = metadata.0.keys().filter(|field| internal::is_known(field) && !is_allowed(field));
        let has_more = others.any(|field| metadata.is_filled(field));
        if has_more || !names_only {
            let rule = "must not specify anything other than name and generateName, but metadata is implicitly \
                        specified";
            self.found.push(forbidden(&at, rule));
        }
    }

    fn values(&mut self, node: Node<'_>, (skip_any_of, skip_first): (bool, bool), path: &str) {
        if !skip_any_of {
            for (index, node) in node.listed("anyOf") {
                self.nested(node, false, &format!("{path}.anyOf[{index}]"));
            }
        }
        for (index, node) in node.listed("allOf") {
            self.nested(node, skip_first && index == 0, &format!("{path}.allOf[{index}]"));
        }
        for (index, node) in node.listed("oneOf") {
            self.nested(node, false, &format!("{path}.oneOf[{index}]"));
        }
        if let Some(not) = node.node("not") {
            self.nested(not, false, &format!("{path}.not"));
        }
        let pattern = node.text("pattern");
        if !pattern.is_empty()
            && let Some(why) = Pattern::new(pattern).fault()
        {
            let rule = format!("must be a valid regular expression, but isn't: {why}");
            self.found.push(invalid(&format!("{path}.pattern"), &pattern.into(), &rule));
        }
    }

    fn nested(&mut self, node: Node<'_>, skip_any_of: bool, path: &str) {
        self.values(node, (skip_any_of, false), path);
        if let Some(items) = node.node("items") {
            self.nested(items, false, &format!("{path}.items"));
        }
        for (name, property) in node.named("properties") {
            self.nested(property, false, &format!("{path}.properties[{name}]"));
        }
        const EMPTY: &str = "must be empty to be structural";
        const UNDEFINED: &str = "must be undefined to be structural";
        const FALSE: &str = "must be false to be structural";
        for (field, rule) in [
            ("type", EMPTY),
            ("default", UNDEFINED),
            ("title", EMPTY),
            ("description", EMPTY),
            ("nullable", FALSE),
            ("x-kubernetes-preserve-unknown-fields", FALSE),
            ("x-kubernetes-embedded-resource", FALSE),
            ("x-kubernetes-int-or-string", FALSE),
            ("x-kubernetes-list-map-keys", EMPTY),
            ("x-kubernetes-list-type", UNDEFINED),
            ("x-kubernetes-map-type", UNDEFINED),
            ("x-kubernetes-validations", EMPTY),
        ] {
            if node.is_filled(field) || rule == UNDEFINED && node.get(field).is_some() {
                self.found.push(forbidden(&format!("{path}.{field}"), rule));
            }
        }
        if node.get("additionalProperties").is_some_and(|value| *value != Value::Bool(false)) {
            self.found.push(forbidden(&format!("{path}.additionalProperties"), UNDEFINED));
        }
        if node.property("metadata").is_some() {
            let at = format!("{path}.properties[metadata]");
            self.found.push(forbidden(&at, "must not be specified in a nested context"));
        }
    }

    /// Checks that everything with a rule is also declared.
    fn complete_values(&mut self, rules: Node<'_>, node: Option<Node<'_>>, path: &str, from: &str) {
        if let Some(not) = rules.node("not") {
            self.complete(not, node, path, &format!("{from}.not"));
        }
        for field in ["allOf", "anyOf", "oneOf"] {
            for (index, rules) in rules.listed(field) {
                self.complete(rules, node, path, &format!("{from}.{field}[{index}]"));
            }
        }
    }

    fn complete(&mut self, rules: Node<'_>, node: Option<Node<'_>>, path: &str, from: &str) {
        let Some(node) = node else {
            self.found.push(required(path, &format!("because it is defined in {from}")));
            return;
        };
        self.complete_values(rules, Some(node), path, from);
        if let Some(items) = rules.node("items") {
            self.complete(items, node.node("items"), &format!("{path}.items"), &format!("{from}.items"));
        }
        for (name, rules) in rules.named("properties") {
            let (path, from) = (format!("{path}.properties[{name}]"), format!("{from}.properties[{name}]"));
            self.complete(rules, node.property(name), &path, &from);
        }
    }
}
