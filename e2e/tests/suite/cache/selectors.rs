//! The table of selectors of controller-runtime's suite: each by lists and gets, through each view.

use serde_json::{Value, json};

use super::fixtures::pods;
use super::script::{Script, keys};

/// The name of a case, its options, and the numbers of its pods.
fn cases() -> Vec<(&'static str, Value, Vec<u8>)> {
    let of_pods = |own: Value| json!({"byObject": {"Pod": own}});
    let in_2 = |own: Value| json!({"namespaces": {"test-2": own}});
    let name_2 = || json!({"fields": "metadata.name=test-pod-2"});
    let no_name = || json!({"fields": "metadata.name=test-pod-doesn-exist"});
    let label_2 = || json!({"labels": "test-label=test-pod-2"});
    let no_label = || json!({"labels": "test-label=test-pod-doesn-exist"});
    let in_namespace_2 = || json!({"fields": "metadata.namespace=test-2"});
    let label_4 = || json!({"labels": "test-label=test-pod-4"});
    let common = || json!({"labels": "common-label=common"});
    let common_in_2 = || json!({"labels": "common-label=common", "fields": "metadata.namespace=test-2"});
    let new_label = || json!({"labels": "new-label=new"});
    let new_namespace = || json!({"fields": "metadata.namespace=new"});
    let others_and_1 = || json!({"namespaces": {"": {}, "test-1": {"labels": "no-present=not-present"}}});
    let everything = json!({"namespaces": {"test-1": {}}, "labels": "does-not=match-anything",
        "byObject": {"Pod": {"labels": ""}}});
    let global =
        json!({"namespaces": {"test-2": {}}, "labels": "common-label=common", "byObject": {"Pod": {}}});
    vec![
        ("no selectors", json!({}), vec![1, 2, 3, 4, 5, 6]),
        ("type-level field selector matches one pod", of_pods(name_2()), vec![2]),
        ("global field selector matches one pod", name_2(), vec![2]),
        ("type-level field selector matches multiple pods", of_pods(in_namespace_2()), vec![2, 3, 6]),
        ("global field selector matches multiple pods", in_namespace_2(), vec![2, 3, 6]),
        ("type-level label selector matches one pod", of_pods(label_4()), vec![4]),
        (
            "namespaces, type-level label selector matches everything and overrides the global one",
            everything,
            vec![1, 5],
        ),
        ("namespaces, global selector is used", global, vec![3]),
        ("global label selector matches one pod", label_4(), vec![4]),
        ("type-level label selector matches multiple pods", of_pods(common()), vec![3, 4]),
        ("global label selector matches multiple pods", common(), vec![3, 4]),
        ("type-level label and field selector match one pod", of_pods(common_in_2()), vec![3]),
        ("global label and field selector match one pod", common_in_2(), vec![3]),
        ("type-level label selector does not match", of_pods(new_label()), vec![]),
        ("global label selector does not match", new_label(), vec![]),
        ("type-level field selector does not match", of_pods(new_namespace()), vec![]),
        ("global field selector does not match", new_namespace(), vec![]),
        ("type-level field selector on namespace matches one pod", of_pods(in_2(name_2())), vec![2]),
        ("type-level field selector on namespace does not match", of_pods(in_2(no_name())), vec![]),
        ("global field selector on namespace matches one pod", in_2(name_2()), vec![2]),
        ("global field selector on namespace does not match", in_2(no_name()), vec![]),
        ("type-level label selector on namespace matches one pod", of_pods(in_2(label_2())), vec![2]),
        ("type-level label selector on namespace does not match", of_pods(in_2(no_label())), vec![]),
        ("global label selector on namespace matches one pod", in_2(label_2()), vec![2]),
        ("global label selector on namespace does not match", in_2(no_label()), vec![]),
        ("only all namespaces", json!({"namespaces": {"": {}}}), vec![1, 2, 3, 4, 5, 6]),
        ("only all namespaces of the type", of_pods(json!({"namespaces": {"": {}}})), vec![1, 2, 3, 4, 5, 6]),
        ("all namespaces that have no entry", others_and_1(), vec![2, 3, 4, 6]),
        ("all namespaces that have no entry of the type", of_pods(others_and_1()), vec![2, 3, 4, 6]),
    ]
}

pub(super) fn scripts() -> Vec<Script> {
    let cases = cases();
    assert_eq!(cases.len(), 29);
    cases.into_iter().map(|(name, options, expected)| script(name, options, &expected)).collect()
}

fn script(name: &str, options: Value, expected: &[u8]) -> Script {
    let mut script = Script::new(name).cache(options);
    for view in ["typed", "dynamic", "metadata"] {
        let list = json!({"call": "list", "kind": "Pod", "view": view});
        script = script.call(list, keys(pods(expected)));
        for key in pods(expected) {
            let (namespace, name) = key.split_once('/').unwrap();
            let list = json!({"call": "list", "kind": "Pod", "view": view, "namespace": namespace,
                "labels": format!("test-label={name}")});
            script = script.call(list, keys([&key]));
        }
    }
    script
}
