//! Parts of a definition as Go prints its internal form of them, in messages.

use serde_json::Value;

use crate::apply::{go_json, quoted};

use super::node::Node;

/// How a field of a schema is printed.
#[derive(Clone, Copy)]
enum Print {
    Text,
    Flag,
    /// The value, or null.
    Plain,
    Node,
    Nodes,
    Named,
    Items,
    Values,
}

/// The fields of Go's `JSONSchemaProps`, in their order.
const FIELDS: [(&str, &str, Print); 43] = [
    ("ID", "id", Print::Text),
    ("Schema", "$schema", Print::Text),
    ("Ref", "$ref", Print::Plain),
    ("Description", "description", Print::Text),
    ("Type", "type", Print::Text),
    ("Nullable", "nullable", Print::Flag),
    ("Format", "format", Print::Text),
    ("Title", "title", Print::Text),
    ("Default", "default", Print::Plain),
    ("Maximum", "maximum", Print::Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Print::Flag),
    ("Minimum", "minimum", Print::Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Print::Flag),
    ("MaxLength", "maxLength", Print::Plain),
    ("MinLength", "minLength", Print::Plain),
    ("Pattern", "pattern", Print::Text),
    ("MaxItems", "maxItems", Print::Plain),
    ("MinItems", "minItems", Print::Plain),
    ("UniqueItems", "uniqueItems", Print::Flag),
    ("MultipleOf", "multipleOf", Print::Plain),
    ("Enum", "enum", Print::Plain),
    ("MaxProperties", "maxProperties", Print::Plain),
    ("MinProperties", "minProperties", Print::Plain),
    ("Required", "required", Print::Plain),
    ("Items", "items", Print::Items),
    ("AllOf", "allOf", Print::Nodes),
    ("OneOf", "oneOf", Print::Nodes),
    ("AnyOf", "anyOf", Print::Nodes),
    ("Not", "not", Print::Node),
    ("Properties", "properties", Print::Named),
    ("AdditionalProperties", "additionalProperties", Print::Values),
    ("PatternProperties", "patternProperties", Print::Named),
    ("Dependencies", "dependencies", Print::Plain),
    ("AdditionalItems", "additionalItems", Print::Values),
    ("Definitions", "definitions", Print::Named),
    ("ExternalDocs", "externalDocs", Print::Plain),
    ("Example", "example", Print::Plain),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Print::Plain),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Print::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Print::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Print::Plain),
    ("XListType", "x-kubernetes-list-type", Print::Plain),
    ("XMapType", "x-kubernetes-map-type", Print::Plain),
];

/// Whether the type has a field.
pub(super) fn is_known(field: &str) -> bool {
    field == "x-kubernetes-validations" || FIELDS.iter().any(|(_, known, _)| *known == field)
}

fn fields(fields: impl Iterator<Item = (String, String)>) -> String {
    let fields: Vec<String> = fields.map(|(name, value)| format!("{}:{value}", quoted(&name))).collect();
    format!("{{{}}}", fields.join(","))
}

/// Prints a schema.
pub(super) fn schema(node: Node<'_>) -> String {
    let printed = FIELDS.iter().map(|(name, field, print)| ((*name).to_owned(), value(node, field, *print)));
    let rules: Vec<String> =
        node.listed("x-kubernetes-validations").map(|(_, rule)| super::validations::printed(rule)).collect();
    let rules = if rules.is_empty() { "null".to_owned() } else { format!("[{}]", rules.join(",")) };
    fields(printed.chain([("XValidations".to_owned(), rules)]))
}

/// Prints the `items` of a schema.
pub(super) fn items(node: Node<'_>) -> String {
    value(node, "items", Print::Items)
}

fn value(node: Node<'_>, field: &str, print: Print) -> String {
    let null = || "null".to_owned();
    match print {
        Print::Text => go_json(&node.text(field).into()),
        Print::Flag => node.flag(field).to_string(),
        Print::Plain => node.get(field).map_or_else(null, go_json),
        Print::Node => node.node(field).map_or_else(null, schema),
        Print::Nodes => match node.get(field) {
            None => null(),
            Some(_) => {
                let nodes: Vec<String> = node.listed(field).map(|(_, node)| schema(node)).collect();
                format!("[{}]", nodes.join(","))
            }
        },
        Print::Named => match node.get(field) {
            None => null(),
            Some(_) => fields(node.named(field).map(|(name, node)| (name.clone(), schema(node)))),
        },
        Print::Items => match node.get(field) {
            None => null(),
            Some(Value::Array(_)) => {
                format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", value(node, field, Print::Nodes))
            }
            Some(_) => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", value(node, field, Print::Node)),
        },
        Print::Values => match node.get(field) {
            None => null(),
            Some(Value::Bool(allowed)) => format!("{{\"Allows\":{allowed},\"Schema\":null}}"),
            Some(_) => format!("{{\"Allows\":true,\"Schema\":{}}}", value(node, field, Print::Node)),
        },
    }
}

/// Prints versions, without the parts that are moved to the top of the definition.
pub(super) fn versions(versions: &[Node<'_>], is_moved: impl Fn(&str) -> bool) -> String {
    let null = |value: Option<&Value>| value.map_or_else(|| "null".to_owned(), go_json);
    let printed = versions.iter().map(|version| {
        let part = |field: &str| if is_moved(field) { "null".to_owned() } else { null(version.get(field)) };
        let of_schema = |node: Node<'_>| {
            let schema = node.node("openAPIV3Schema").map_or_else(|| "null".to_owned(), schema);
            format!("{{\"OpenAPIV3Schema\":{schema}}}")
        };
        let schema = match version.node("schema") {
            Some(node) if !is_moved("schema") => of_schema(node),
            _ => "null".to_owned(),
        };
        let parts = [
            ("Name", go_json(&version.text("name").into())),
            ("Served", version.flag("served").to_string()),
            ("Storage", version.flag("storage").to_string()),
            ("Deprecated", version.flag("deprecated").to_string()),
            ("DeprecationWarning", null(version.get("deprecationWarning"))),
            ("Schema", schema),
            // the members of these have other names in Go
            ("Subresources", part("subresources")),
            ("AdditionalPrinterColumns", part("additionalPrinterColumns")),
            ("SelectableFields", part("selectableFields")),
        ];
        fields(parts.into_iter().map(|(name, value)| (name.to_owned(), value)))
    });
    if versions.is_empty() {
        "null".to_owned()
    } else {
        format!("[{}]", printed.collect::<Vec<_>>().join(","))
    }
}
