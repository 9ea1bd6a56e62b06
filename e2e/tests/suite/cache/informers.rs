//! The start, informers, and reads that wait.

use serde_json::{Value, json};

use super::fixtures::{pod, pods};
use super::script::{KIND_OF_METADATA, Script, error, keys, kind_of, ok, with};

pub(super) fn scripts() -> Vec<Script> {
    let mut all = vec![one_informer(), changes()];
    for view in ["typed", "dynamic", "metadata"] {
        all.extend([start(view), informers(view, &json!({})), informers(view, &several())]);
    }
    all.extend(["dynamic", "metadata"].map(stuck));
    all
}

/// Options with several namespaces, which hold the pods 1, 2, 3, 5, and 6.
fn several() -> Value {
    json!({"namespaces": {"test-1": {}, "test-2": {}}})
}

fn start(view: &str) -> Script {
    let of =
        |call: &str, kind: &str, more: Value| with(json!({"call": call, "kind": kind, "view": view}), more);
    let index = of("index", "Pod", json!({"field": "name", "path": ["metadata", "name"]}));
    let list = of("list", "Pod", json!({"fields": "name=test-pod-1"}));
    let get = of("get", "Pod", json!({"namespace": "test-1", "name": "none"}));
    Script::new(format!("the start, {view}"))
        .call(json!({"call": "cache", "options": {}}), ok())
        .call(get.clone(), error("notStarted"))
        .call(of("list", "Pod", json!({})), error("notStarted"))
        .call(index.clone(), ok())
        .call(index, error("exists"))
        .call(of("informer", "Pod", json!({"withoutWait": true})), ok())
        .call(json!({"call": "start"}), ok())
        .call(json!({"call": "sync"}), ok())
        .call(list.clone(), keys(pods(&[1])))
        .differs("C-06e", json!({"call": "start"}), ok(), error("startedTwice"))
        .call(list.clone(), keys(pods(&[1])))
        // What has been read can still be read, and nothing else.
        .call(json!({"call": "stop"}), ok())
        .call(list, keys(pods(&[1])))
        .call(get, error("notFound"))
        .call(of("list", "Node", json!({"timeout": 200})), error("timeout"))
        // A cache that has stopped cannot be started, and another one can.
        .cache(json!({}))
        .call(of("list", "Node", json!({})), keys(["test-node-1", "test-node-2"]))
}

fn informers(view: &str, options: &Value) -> Script {
    let of = |call: &str, more: Value| with(json!({"call": call, "kind": "Pod", "view": view}), more);
    let numbers: &[u8] = if *options == several() { &[1, 2, 3, 5, 6] } else { &[1, 2, 3, 4, 5, 6] };
    let added = |kind: &str| {
        let mut added: Vec<String> =
            numbers.iter().map(|number| format!("{} {kind}", pod(*number))).collect();
        added.sort();
        json!({"added": added})
    };
    let request = |script: Script, name: &str| {
        let call = of("informer", json!({"as": name}));
        match view {
            "metadata" => {
                script.differs(KIND_OF_METADATA, call, added(kind_of(view, "v1/Pod")), added("v1/Pod"))
            }
            _ => script.call(call, added("v1/Pod")),
        }
    };
    let stopped = |name: &str, timeout: u64| json!({"call": "stopped", "of": name, "timeout": timeout});
    let script = Script::new(format!("informers, {view}, {options}")).cache(options.clone());
    let script = request(script, "first")
        .call(of("list", json!({})), keys(pods(numbers)))
        .call(stopped("first", 100), json!({"stopped": false}))
        .call(of("remove", json!({})), ok())
        .call(stopped("first", 20_000), json!({"stopped": true}))
        .call(of("remove", json!({})), ok())
        .call(of("list", json!({})), keys(pods(numbers)));
    request(script, "second")
        .call(stopped("second", 100), json!({"stopped": false}))
        .call(json!({"call": "sync"}), ok())
}

/// All views of a resource share an informer; controller-runtime has one for each.
fn one_informer() -> Script {
    let informer = |view: &str| json!({"call": "informer", "kind": "Pod", "view": view, "as": view, "withoutWait": true});
    let stopped = json!({"call": "stopped", "of": "dynamic", "timeout": 1_000});
    let remove = json!({"call": "remove", "kind": "Pod", "view": "typed"});
    let index = |view: &str| json!({"call": "index", "kind": "Pod", "view": view, "field": "name", "path": ["metadata", "name"]});
    let get = |view: &str| json!({"call": "get", "kind": "Pod", "view": view, "namespace": "test-1", "name": "none"});
    Script::new("the informers of the views")
        .cache(json!({"failOnMissing": true}))
        .call(informer("typed"), ok())
        .call(get("typed"), error("notFound"))
        .differs("F-01", get("dynamic"), error("notFound"), error("notCached"))
        .call(informer("dynamic"), ok())
        .call(index("typed"), ok())
        .differs("F-01", index("dynamic"), error("exists"), ok())
        .call(remove, ok())
        .differs("F-01", stopped, json!({"stopped": true}), json!({"stopped": false}))
}

/// Changes by others arrive.
fn changes() -> Script {
    let outside = |write: &str, more: Value| {
        with(
            json!({"call": "outside", "kind": "ConfigMap", "view": write, "namespace": "others", "name": "map"}),
            more,
        )
    };
    let list = |labels: &str, until: &[&str]| json!({"call": "list", "kind": "ConfigMap", "view": "typed", "namespace": "others", "labels": labels, "until": until});
    let map = json!({"metadata": {"name": "map", "namespace": "others", "labels": {"state": "new"}}});
    let patch = json!({"metadata": {"labels": {"state": "changed"}}});
    let index = json!({"call": "index", "kind": "ConfigMap", "view": "typed", "field": "state",
        "path": ["metadata", "labels", "state"]});
    let by_state = |state: &str, until: &[&str]| json!({"call": "list", "kind": "ConfigMap", "view": "typed", "fields": format!("state={state}"), "until": until});
    Script::new("changes by others")
        .cache(json!({}))
        .call(index, ok())
        .call(list("", &[]), keys::<&str>([]))
        .call(outside("create", json!({"object": map})), ok())
        .call(list("", &["others/map"]), keys(["others/map"]))
        .call(by_state("new", &["others/map"]), keys(["others/map"]))
        .call(outside("patch", json!({"patch": patch})), ok())
        .call(list("state=changed", &["others/map"]), keys(["others/map"]))
        .call(by_state("changed", &["others/map"]), keys(["others/map"]))
        .call(by_state("new", &[]), keys::<&str>([]))
        .call(outside("delete", json!({})), ok())
        .call(list("", &[]), keys::<&str>([]))
}

/// A kind whose informer does not sync, since its conversion fails, and a kind that does not exist.
fn stuck(view: &str) -> Script {
    let of =
        |call: &str, kind: &str, more: Value| with(json!({"call": call, "kind": kind, "view": view}), more);
    let get = |kind: &str, timeout: u64| {
        of("get", kind, json!({"namespace": "test-1", "name": "stuck", "timeout": timeout}))
    };
    Script::new(format!("a kind that cannot be read, {view}"))
        .cache(json!({}))
        .call(of("informer", "Stuck", json!({"withoutWait": true, "as": "stuck"})), ok())
        .call(
            of("index", "Stuck", json!({"field": "name", "path": ["metadata", "name"], "timeout": 1_000})),
            ok(),
        )
        .call(get("Stuck", 100), error("timeout"))
        .call(get("Stuck", 0), error("timeout"))
        .call(of("list", "Stuck", json!({"timeout": 100})), error("timeout"))
        .call(of("informer", "Stuck", json!({"timeout": 100})), error("timeout"))
        .call(json!({"call": "sync", "timeout": 100}), error("timeout"))
        .call(json!({"call": "stopped", "of": "stuck", "timeout": 100}), json!({"stopped": false}))
        .call(get("Missing", 10_000), error("unknownKind"))
        .call(of("list", "Missing", json!({})), error("unknownKind"))
        .call(of("informer", "Missing", json!({})), error("unknownKind"))
        // Others are read meanwhile.
        .call(of("list", "Node", json!({})), keys(["test-node-1", "test-node-2"]))
}
