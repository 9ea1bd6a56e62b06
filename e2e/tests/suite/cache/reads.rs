//! Reads of pods and nodes, in each shape of a cache and through each view.

use serde_json::{Value, json};

use super::fixtures::{pod, pods};
use super::script::{KIND_OF_METADATA, Script, count, error, keys, kind_of, ok, with};

const VIEWS: [&str; 3] = ["typed", "dynamic", "metadata"];

/// A shape of a cache: its name, its options, and whether it has the pods of this namespace.
type Shape = (&'static str, Value, fn(&str) -> bool);

fn shapes() -> [Shape; 4] {
    let others = json!({"fields": "metadata.namespace=test-1"});
    [
        ("plain", json!({}), |_| true),
        (
            "several namespaces, and the others with a selector",
            json!({"namespaces": {"": others, "test-2": {}, "default": {}}}),
            |namespace| namespace != "test-3",
        ),
        ("missing informers are errors", json!({"failOnMissing": true}), |_| true),
        ("without managed fields", json!({"strip": true}), |_| true),
    ]
}

pub(super) fn scripts() -> Vec<Script> {
    let mut all = Vec::new();
    for (name, options, has) in shapes() {
        for view in VIEWS {
            all.push(script(name, &options, view, has));
        }
    }
    all
}

fn script(name: &str, options: &Value, view: &str, has: fn(&str) -> bool) -> Script {
    let of_pods = |call: &str, more: Value| with(json!({"call": call, "kind": "Pod", "view": view}), more);
    let get = |namespace: &str, name: &str| of_pods("get", json!({"namespace": namespace, "name": name}));
    let list = |more: Value| of_pods("list", more);
    let visible =
        |numbers: &[u8]| keys(pods(numbers).into_iter().filter(|key| has(key.split('/').next().unwrap())));
    let informer = |kind: &str| json!({"call": "informer", "kind": kind, "view": view});
    let (known, pod_1) = (visible(&[1, 2, 3, 4, 5, 6]), pod(1));

    let mut script = Script::new(format!("{name}, {view}")).cache(options.clone());
    if options["failOnMissing"] == true {
        script = script
            .call(get("test-1", "test-pod-1"), error("notCached"))
            .call(list(json!({})), error("notCached"))
            .call(with(informer("Pod"), json!({"withoutWait": true})), ok())
            .call(with(informer("Node"), json!({"withoutWait": true})), ok());
    }
    script = script.call(list(json!({})), known.clone());
    let object = |kind: &str, managed_fields: bool| {
        let labels = json!({"test-label": "test-pod-1"});
        json!({"object": {"key": pod_1, "kind": kind, "labels": labels, "annotations": {"number": "1"},
            "managedFields": managed_fields, "deleting": false, "finalizers": 0}})
    };
    let (kind, get_1) = (kind_of(view, "v1/Pod"), get("test-1", "test-pod-1"));
    script = match (options["strip"] == true, view) {
        (true, "metadata") => {
            script.differs(KIND_OF_METADATA, get_1, object(kind, false), object("v1/Pod", false))
        }
        (true, _) => script.call(get_1, object(kind, false)),
        (false, _) => script.differs("C-06c", get_1, object(kind, false), object("v1/Pod", true)),
    };
    let in_2 = |more: Value| list(with(json!({"namespace": "test-2"}), more));
    script = script
        .call(get("test-1", "none"), error("notFound"))
        .call(get("none", "test-pod-1"), error("notFound"))
        .call(list(json!({"namespace": "test-1"})), keys(pods(&[1, 5])))
        .call(in_2(json!({})), keys(pods(&[2, 3, 6])))
        .call(list(json!({"namespace": "none"})), keys::<&str>([]))
        .call(in_2(json!({"labels": "test-label=test-pod-2"})), keys(pods(&[2])))
        .call(in_2(json!({"labels": "test-label=test-pod-1"})), keys::<&str>([]))
        .call(list(json!({"labels": "common-label=common"})), visible(&[3, 4]))
        .call(list(json!({"labels": "test-label in (test-pod-1,test-pod-3)"})), visible(&[1, 3]))
        .call(list(json!({"labels": "!common-label,test-label!=test-pod-1"})), visible(&[2, 5, 6]))
        .call(list(json!({"limit": 1})), count(1))
        .call(list(json!({"limit": 4})), count(4))
        .call(list(json!({"limit": 100})), count(known["keys"].as_array().unwrap().len()))
        .call(in_2(json!({"limit": 2})), count(2))
        .call(in_2(json!({"limit": 2, "labels": "test-label=test-pod-2"})), count(1))
        .differs("C-02d", of_pods("ordered", json!({})), json!({"ordered": true}), json!({"ordered": false}));
    let pages = of_pods("pages", json!({"count": 2}));
    let of_one_state = json!({"keys": known["keys"], "pages": 3});
    script = script.differs("C-02c", pages, of_one_state, error("continueUnsupported"));
    nodes(fields(script, view, visible), view)
}

/// Lists by the fields of indexes.
fn fields(script: Script, view: &str, visible: impl Fn(&[u8]) -> Value) -> Script {
    let of_pods = |call: &str, more: Value| with(json!({"call": call, "kind": "Pod", "view": view}), more);
    let list = |more: Value| of_pods("list", more);
    let by = |fields: &str| list(json!({"fields": fields}));
    let index = |field: &str, path: &[&str]| of_pods("index", json!({"field": field, "path": path}));
    let script = script
        .call(by("metadata.name=test-pod-1"), error("noIndex"))
        .call(index("metadata.name", &["metadata", "name"]), ok())
        .call(index("metadata.name", &["metadata", "name"]), error("exists"))
        .call(index("label", &["metadata", "labels", "common-label"]), ok())
        .call(by("metadata.name=test-pod-1"), visible(&[1]))
        .call(by("metadata.name==test-pod-1"), visible(&[1]))
        .call(by("metadata.name=none"), keys::<&str>([]))
        .call(by("label=common"), visible(&[3, 4]))
        .call(by("label=common,metadata.name=test-pod-3"), visible(&[3]))
        .call(by("label=common,metadata.name=test-pod-1"), keys::<&str>([]))
        .call(by("metadata.name=test-pod-1,metadata.name=test-pod-2"), keys::<&str>([]))
        .call(list(json!({"fields": "label=common", "namespace": "test-2"})), visible(&[3]))
        .call(list(json!({"fields": "label=common", "namespace": "test-1"})), keys::<&str>([]))
        .call(list(json!({"fields": "label=common", "labels": "test-label=test-pod-3"})), visible(&[3]))
        .call(list(json!({"fields": "label=common", "labels": "test-label=test-pod-1"})), keys::<&str>([]))
        .call(list(json!({"fields": "metadata.name=test-pod-3", "limit": 1})), count(1))
        .call(by("metadata.name!=test-pod-1"), error("badSelector"))
        .call(by("label=common,metadata.name!=test-pod-1"), error("badSelector"))
        .call(by("none=1"), error("noIndex"))
        .call(by("label=common,none=1"), error("noIndex"))
        .differs("C-03b", by("label=none,none=1"), error("noIndex"), keys::<&str>([]));
    if view == "metadata" {
        return script;
    }
    script
        .call(index("images", &[]), ok())
        .call(by("images=nginx"), visible(&[1, 2, 3, 4, 5, 6]))
        .call(by("images=test-pod-2"), visible(&[2]))
        .call(index("spec.restartPolicy", &["spec", "restartPolicy"]), ok())
        .call(index("deadline", &["spec", "activeDeadlineSeconds"]), ok())
        .call(by("spec.restartPolicy=Never"), visible(&[1, 4, 5]))
        .call(by("spec.restartPolicy=Never,images=test-pod-5,deadline=3"), visible(&[5]))
        .call(list(json!({"fields": "spec.restartPolicy=Always", "namespace": "test-2"})), visible(&[2, 6]))
}

/// Reads of a kind that is not in namespaces.
fn nodes(script: Script, view: &str) -> Script {
    let of_nodes = |call: &str, more: Value| with(json!({"call": call, "kind": "Node", "view": view}), more);
    let list = |more: Value| of_nodes("list", more);
    let both = || keys(["test-node-1", "test-node-2"]);
    let informer = of_nodes("informer", json!({}));
    let added = |kind: &str| json!({"added": [format!("test-node-1 {kind}"), format!("test-node-2 {kind}")]});
    let index = of_nodes("index", json!({"field": "label", "path": ["metadata", "labels", "test-label"]}));
    let script = match view {
        "metadata" => {
            script.differs(KIND_OF_METADATA, informer, added(kind_of(view, "v1/Node")), added("v1/Node"))
        }
        _ => script.call(informer, added("v1/Node")),
    };
    script
        .call(list(json!({})), both())
        .call(list(json!({"labels": "test-label=test-node-2"})), keys(["test-node-2"]))
        .call(list(json!({"limit": 1})), count(1))
        .differs(
            "`List` of a cluster-scoped kind in a namespace finds nothing",
            list(json!({"namespace": "test-1"})),
            both(),
            keys::<&str>([]),
        )
        .call(of_nodes("get", json!({"name": "none"})), error("notFound"))
        .call(index.clone(), ok())
        .call(index, error("exists"))
        .call(list(json!({"fields": "label=test-node-1"})), keys(["test-node-1"]))
        .call(list(json!({"fields": "label=test-node-1,label=test-node-2"})), keys::<&str>([]))
}
