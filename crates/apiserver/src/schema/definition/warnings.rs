//! Warnings about definitions that are valid.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::formats::Format;
use super::node::Node;

/// Returns the warnings about a definition: formats that are not checked, and sets of lists or objects. Those about the
/// definition before an update are left out.
///
/// Follows Kubernetes 1.37 (`customresourcedefinition.strategy.WarningsOnCreate`, `WarningsOnUpdate`).
pub(crate) fn warnings(definition: &Map<String, Value>, before: Option<&Map<String, Value>>) -> Vec<String> {
    let mut found = all(definition);
    if let Some(before) = before.map(all) {
        found.retain(|warning| !before.contains(warning));
    }
    found
}

fn all(definition: &Map<String, Value>) -> Vec<String> {
    let spec = definition.get("spec").and_then(Node::of);
    let versions = spec.into_iter().flat_map(|spec| spec.listed("versions"));
    let mut warnings = Warnings::default();
    for (_, version) in versions {
        if let Some(schema) = version.node("schema").and_then(|schema| schema.node("openAPIV3Schema")) {
            warnings.node(schema);
        }
    }
    let mut found = Vec::new();
    for format in warnings.formats {
        let note = format!("unrecognized format {}", crate::apply::quoted(&format));
        if !found.contains(&note) {
            found.push(note);
        }
    }
    let sets = warnings.sets.iter().map(|kind| {
        format!(
            "x-kubernetes-list-type: set for items of type \"{kind}\" is not supported by server-side apply or CEL \
             validation rules"
        )
    });
    found.extend(sets);
    found
}

#[derive(Default)]
struct Warnings {
    formats: Vec<String>,
    sets: BTreeSet<String>,
}

impl Warnings {
    fn node(&mut self, node: Node<'_>) {
        let format = node.text("format");
        let is_known = match (node.flag("x-kubernetes-int-or-string"), node.text("type")) {
            (true, _) | (_, "" | "string") => Format::of(format).is_some(),
            (_, "integer") => matches!(format, "int32" | "int64"),
            (_, "number") => matches!(format, "float" | "double"),
            _ => false,
        };
        if !format.is_empty() && !is_known {
            self.formats.push(format.to_owned());
        }
        let items = node.node("items");
        if node.text("x-kubernetes-list-type") == "set"
            && let Some(kind @ ("object" | "array")) = items.map(|items| items.text("type"))
        {
            self.sets.insert(kind.to_owned());
        }
        items.into_iter().for_each(|items| self.node(items));
        for field in ["allOf", "anyOf", "oneOf"] {
            node.listed(field).for_each(|(_, node)| self.node(node));
        }
        node.node("not").into_iter().for_each(|not| self.node(not));
        node.named("properties").for_each(|(_, property)| self.node(property));
        node.node("additionalProperties").into_iter().for_each(|values| self.node(values));
    }
}
