//! The table of the inheritance of options of controller-runtime's suite. The secrets that are found have the name of the
//! selector by which they were found.

use serde_json::{Value, json};

use super::fixtures::SECRETS;
use super::script::{Script, error, keys, kind_of, ok};

fn cases() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let from = |name: &str| json!({"labels": format!("from={name}")});
    let by_field = |name: &str| json!({"fields": format!("metadata.name={name}")});
    let of_kind = |own: Value| json!({"byObject": {"Secret": own}});
    let both = |mut one: Value, other: Value| {
        one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        one
    };
    let namespace = |own: Value| json!({"namespaces": {"defaults": own}});
    let all_keys = || SECRETS.iter().map(|(namespace, name)| key(namespace, name)).collect::<Vec<_>>();
    let system = |others: Value| json!({"namespaces": {"public": from("public"), "system": from("system"), "": others}});
    let (all, of_namespace) = (|| from("all"), || namespace(from("by-namespace")));
    let defaults_and_other = ["all", "by-kind", "by-namespace"];
    let others: Vec<&str> = (["defaults", "other"].iter())
        .flat_map(|namespace| defaults_and_other.map(|name| key(namespace, name)))
        .chain(["public/public", "system/system"])
        .collect();
    let others_by_kind = vec!["defaults/by-kind", "other/by-kind", "public/public", "system/system"];
    vec![
        (
            "the namespaces of a kind have the selector of the kind",
            both(both(of_kind(both(namespace(json!({})), from("by-kind"))), of_namespace()), all()),
            vec!["defaults/by-kind"],
        ),
        (
            "then that of the same namespace of all kinds",
            both(both(of_kind(namespace(json!({}))), of_namespace()), all()),
            vec!["defaults/by-namespace"],
        ),
        ("then that of all", both(of_kind(namespace(json!({}))), all()), vec!["defaults/all"]),
        (
            "a kind without namespaces has those of all kinds",
            both(of_kind(json!({})), of_namespace()),
            vec!["defaults/by-namespace"],
        ),
        (
            "no namespaces of a kind mean all",
            both(of_kind(json!({"namespaces": {}})), of_namespace()),
            all_keys(),
        ),
        (
            "labels of all",
            both(of_kind(json!({})), all()),
            vec!["defaults/all", "other/all", "public/all", "system/all"],
        ),
        (
            "labels of a kind",
            both(of_kind(from("by-kind")), all()),
            vec!["defaults/by-kind", "other/by-kind"],
        ),
        (
            "fields of all",
            both(of_kind(json!({})), by_field("all")),
            vec!["defaults/all", "other/all", "public/all", "system/all"],
        ),
        (
            "fields of a kind",
            both(of_kind(by_field("by-kind")), by_field("all")),
            vec!["defaults/by-kind", "other/by-kind"],
        ),
        (
            "a namespace of all kinds has the selector of all",
            both(namespace(json!({})), all()),
            vec!["defaults/all"],
        ),
        ("its own selector comes first", both(of_namespace(), all()), vec!["defaults/by-namespace"]),
        (
            "everything is a value",
            both(namespace(json!({"labels": ""})), all()),
            vec!["defaults/all", "defaults/by-kind", "defaults/by-namespace"],
        ),
        (
            "the namespaces of all kinds have the selector of the kind",
            both(of_kind(from("by-kind")), namespace(json!({}))),
            vec!["defaults/by-kind"],
        ),
        ("all others", system(json!({})), others.clone()),
        ("all others with a field selector", system(by_field("by-kind")), others_by_kind.clone()),
        ("all others of a kind", of_kind(system(json!({}))), others),
        ("all others of a kind with a field selector", of_kind(system(by_field("by-kind"))), others_by_kind),
        (
            "labels and fields are inherited each",
            both(both(of_kind(from("all")), by_field("all")), namespace(json!({}))),
            vec!["defaults/all"],
        ),
        ("nothing", json!({}), all_keys()),
    ]
}

fn key(namespace: &str, name: &str) -> &'static str {
    let found = SECRETS.iter().find(|known| **known == (namespace, name)).unwrap();
    Box::leak(format!("{}/{}", found.0, found.1).into_boxed_str())
}

pub(super) fn scripts() -> Vec<Script> {
    let selectors = cases().into_iter().map(|(name, options, expected)| {
        let script = Script::new(name).cache(options);
        let list = json!({"call": "list", "kind": "Secret", "view": "typed"});
        script.call(list, keys(expected))
    });
    selectors.chain(transforms()).chain([errors()]).collect()
}

/// Transforms remove labels or annotations.
fn transforms() -> Vec<Script> {
    let labels = || json!({"transform": "labels"});
    let of_kind = |own: Value| json!({"byObject": {"Secret": own}});
    let mut all = Vec::new();
    for view in ["typed", "dynamic", "metadata"] {
        let get =
            || json!({"call": "get", "kind": "Secret", "view": view, "namespace": "defaults", "name": "all"});
        let object = |kind: &str, labels: bool, annotations: bool| {
            let from = |has: bool| if has { json!({"from": "all"}) } else { json!({}) };
            json!({"object": {"key": "defaults/all", "kind": kind, "labels": from(labels),
                "annotations": from(annotations), "managedFields": false, "deleting": false, "finalizers": 0}})
        };
        let with_managed = |mut object: Value| {
            object["object"]["managedFields"] = json!(true);
            object
        };
        let cases = [
            ("a transform of all", labels(), (false, true)),
            (
                "a transform of the kind instead",
                json!({"transform": "labels", "byObject": {"Secret": {"transform": "annotations"}}}),
                (true, false),
            ),
            (
                "a transform of all, with options of the kind",
                json!({"transform": "labels", "byObject": {"Secret": {}}}),
                (false, true),
            ),
            ("a transform of the kind", of_kind(json!({"transform": "annotations"})), (true, false)),
        ];
        for (name, options, (has_labels, has_annotations)) in cases {
            // A transform needs whole objects.
            let object = object("v1/Secret", has_labels, has_annotations);
            let script = Script::new(format!("{name}, {view}")).cache(options);
            all.push(script.differs("C-06c", get(), object.clone(), with_managed(object)));
        }
        let options = json!({"namespaces": {"defaults": {"transform": "labels"}}});
        let script = Script::new(format!("a transform of a namespace, {view}")).cache(options);
        let ours = object(kind_of(view, "v1/Secret"), true, true);
        all.push(script.differs("C-04f", get(), ours, with_managed(object("v1/Secret", false, true))));
    }
    all
}

/// Namespaces of a kind that is not in namespaces, and reads outside the namespaces.
fn errors() -> Script {
    let build = |options: Value| json!({"call": "cache", "options": options});
    let get = |namespace: &str| json!({"call": "get", "kind": "Secret", "view": "typed", "namespace": namespace, "name": "all"});
    let list =
        |namespace: &str| json!({"call": "list", "kind": "Secret", "view": "typed", "namespace": namespace});
    let of_nodes = |own: Value| json!({"byObject": {"Node": own}});
    let nodes = json!({"call": "list", "kind": "Node", "view": "typed"});
    let node =
        json!({"call": "get", "kind": "Node", "view": "typed", "namespace": "other", "name": "test-node-1"});
    let both = || keys(["test-node-1", "test-node-2"]);
    let in_defaults = || keys(["defaults/all", "defaults/by-kind", "defaults/by-namespace"]);
    let node_1 = |managed: bool| {
        json!({"object": {"key": "test-node-1", "kind": "v1/Node", "labels": {"test-label": "test-node-1"},
            "annotations": {}, "managedFields": managed, "deleting": false, "finalizers": 0}})
    };
    let mut script = Script::new("errors of options")
        .call(build(of_nodes(json!({"namespaces": {"defaults": {}}}))), error("clusterScoped"))
        .call(build(of_nodes(json!({"namespaces": {"": {}}}))), error("clusterScoped"));
    for options in [
        json!({"namespaces": {"defaults": {}}}),
        json!({"namespaces": {"other": {}}, "byObject": {"Secret": {"namespaces": {"defaults": {}}}}}),
    ] {
        script = script
            .cache(options)
            .call(get("other"), error("unknownNamespace"))
            .call(list("other"), error("unknownNamespace"))
            .call(list(""), in_defaults())
            .call(list("defaults"), in_defaults())
            .call(nodes.clone(), both())
            .differs("C-06c", node.clone(), node_1(false), node_1(true));
    }
    script
        .cache(of_nodes(json!({"labels": "test-label=test-node-2"})))
        .call(nodes, keys(["test-node-2"]))
        .call(build(json!({})), ok())
}
