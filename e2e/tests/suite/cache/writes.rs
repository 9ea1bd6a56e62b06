//! Writes of the client, followed by reads: in controller-runtime with `EnableReadYourWritesConsistency`.

use serde_json::{Value, json};

use super::script::{Script, error, keys, ok, with};

/// The number of objects that are created, each followed by a read.
const MANY: usize = 30;

pub(super) fn scripts() -> Vec<Script> {
    vec![
        one_object("typed"),
        finalizers(),
        errors(),
        excluded(),
        collection(),
        many("typed", &json!({"ownWrites": true})),
        dynamic_writes(),
    ]
}

fn of(call: &str, view: &str, more: Value) -> Value {
    with(json!({"call": call, "kind": "ConfigMap", "view": view, "namespace": "writes", "name": "map"}), more)
}

fn map(content: Value) -> Value {
    with(
        json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        json!({"metadata": with(json!({"name": "map", "namespace": "writes"}), content)}),
    )
}

fn object(labels: Value, deleting: bool, finalizers: u8) -> Value {
    json!({"object": {"key": "writes/map", "kind": "v1/ConfigMap", "labels": labels, "annotations": {},
        "managedFields": false, "deleting": deleting, "finalizers": finalizers}})
}

fn own_writes() -> Value {
    json!({"ownWrites": true, "strip": true})
}

fn one_object(view: &str) -> Script {
    let get = || of("get", view, json!({}));
    let list = || json!({"call": "list", "kind": "ConfigMap", "view": view, "namespace": "writes"});
    let create =
        |value: &str| of("create", view, json!({"object": map(json!({"labels": {"value": value}}))}));
    let patch = json!({"patch": {"metadata": {"labels": {"value": "patched"}}}});
    let update = json!({"object": map(json!({"labels": {"value": "updated"}}))});
    let labels = |value: &str| json!({"value": value});
    let by_value = |value: &str| with(list(), json!({"labels": format!("value={value}")}));
    Script::new(format!("writes and reads of one object, {view}"))
        .cache(own_writes())
        .call(get(), error("notFound"))
        .call(create("created"), ok())
        .call(get(), object(labels("created"), false, 0))
        .call(list(), keys(["writes/map"]))
        .call(of("patch", view, patch), ok())
        .call(get(), object(labels("patched"), false, 0))
        .call(of("update", view, update), ok())
        .call(by_value("updated"), keys(["writes/map"]))
        .call(by_value("patched"), keys::<&str>([]))
        .call(create("again"), error("alreadyExists"))
        .call(of("delete", view, json!({})), ok())
        .call(get(), error("notFound"))
        .call(list(), keys::<&str>([]))
        .call(of("delete", view, json!({})), error("notFound"))
        .call(create("recreated"), ok())
        .call(get(), object(labels("recreated"), false, 0))
        .call(of("delete", view, json!({})), ok())
        .call(create("recreated-at-once"), ok())
        .call(get(), object(labels("recreated-at-once"), false, 0))
        .call(of("delete", view, json!({})), ok())
        .call(list(), keys::<&str>([]))
}

fn finalizers() -> Script {
    let get = || of("get", "typed", json!({}));
    let create = of("create", "typed", json!({"object": map(json!({"finalizers": ["example.com/wait"]}))}));
    let release = of("patch", "typed", json!({"patch": {"metadata": {"finalizers": null}}}));
    Script::new("a deletion with finalizers")
        .cache(own_writes())
        .call(create, ok())
        .call(get(), object(json!({}), false, 1))
        .call(of("delete", "typed", json!({})), ok())
        .call(get(), object(json!({}), true, 1))
        .call(release, ok())
        // Its response has the version before the deletion, so controller-runtime does not wait for that.
        .call_late(get(), error("notFound"))
}

fn errors() -> Script {
    let stale = map(json!({"resourceVersion": "1"}));
    let dry_run = json!({"object": map(json!({})), "dryRun": true});
    Script::new("writes without an effect")
        .cache(own_writes())
        .call(of("create", "typed", json!({"object": map(json!({}))})), ok())
        .call(of("update", "typed", json!({"object": stale})), error("conflict"))
        .call(of("get", "typed", json!({})), object(json!({}), false, 0))
        .call(of("delete", "typed", json!({})), ok())
        .call(of("get", "typed", json!({})), error("notFound"))
        .differs("C-08e", of("create", "typed", dry_run), ok(), error("noVersion"))
        .call(of("get", "typed", json!({})), error("notFound"))
}

/// A write of an object that the selectors of the cache exclude.
fn excluded() -> Script {
    let options = json!({"ownWrites": true, "strip": true, "labels": "is=cached"});
    let get = || of("get", "typed", json!({}));
    let get_soon = of("get", "typed", json!({"timeout": 1_500}));
    Script::new("writes of what is not cached")
        .cache(options)
        .call(of("create", "typed", json!({"object": map(json!({"labels": {"is": "cached"}}))})), ok())
        .call(get(), object(json!({"is": "cached"}), false, 0))
        // Once it no longer has the label, it is deleted from the cache.
        .call(of("patch", "typed", json!({"patch": {"metadata": {"labels": {"is": "not"}}}})), ok())
        .call(get(), error("notFound"))
        .call(of("patch", "typed", json!({"patch": {"metadata": {"labels": {"is": "still-not"}}}})), ok())
        .differs("C-08e", get_soon, error("notFound"), error("timeout"))
        .call(json!({"call": "outside", "kind": "ConfigMap", "view": "delete", "namespace": "writes", "name": "map"}), ok())
}

fn collection() -> Script {
    let all = json!({"call": "list", "kind": "ConfigMap", "view": "typed", "namespace": "writes"});
    Script::new("a deletion of a collection")
        .cache(own_writes())
        .call(of("create", "typed", json!({"object": map(json!({}))})), ok())
        .call(all.clone(), keys(["writes/map"]))
        .differs("C-08c", of("deleteAll", "typed", json!({})), ok(), error("unsupported"))
        .differs("C-08c", all, keys::<&str>([]), keys(["writes/map"]))
        .call(
            json!({"call": "outside", "kind": "ConfigMap", "view": "deleteAll", "namespace": "writes"}),
            ok(),
        )
}

fn many(view: &str, options: &Value) -> Script {
    let create = of("createMany", view, json!({"count": MANY}));
    Script::new(format!("many writes, each followed by a read, {view}"))
        .cache(options.clone())
        .call(create, json!({"allSeen": true}))
}

/// Writes of dynamic objects are seen as well; in controller-runtime only those of types are.
fn dynamic_writes() -> Script {
    let create = of("createMany", "dynamic", json!({"count": MANY}));
    Script::new("many writes of dynamic objects, each followed by a read").cache(own_writes()).differs(
        "C-08a",
        create,
        json!({"allSeen": true}),
        json!({"allSeen": false}),
    )
}
