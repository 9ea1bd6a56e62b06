//! Writes: create, update, patch, delete, and the fields that the server sets.

use crate::common::{Client, config_map, names, pod, server, version_of, widget, widget_definition};
use http::Method;
use kinformer_apiserver::ApiServer;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}}}})
}

/// A created object gets the fields that the server sets.
// contract: E-01a
#[tokio::test]
async fn created_object_gets_server_fields() {
    let server = server().await;
    let client = Client::new(&server);
    let mut object = pod("a");
    object["status"] = json!({"phase": "Running"});
    server
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"}}))
        .unwrap();
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]);
    object["metadata"]["managedFields"] = json!([]);
    let answer = client.post(PODS, &object).await;
    assert_eq!(answer.code, 201);
    let made = answer.body;
    assert_eq!(made["apiVersion"], "v1");
    assert_eq!(made["kind"], "Pod");
    assert_eq!(made["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert!(made["metadata"]["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(version_of(&made), server.version());
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "u");
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "unknown");
    assert_eq!(made["status"]["phase"], "Pending", "clients cannot set the status on creation");
    assert_eq!(client.get(&format!("{PODS}/a")).await.ok(), made);

    let again = client.post(PODS, &object).await;
    assert_eq!(again.status(409, "AlreadyExists"), "pods \"a\" already exists");
    assert_eq!(again.body["details"], json!({"name": "a", "kind": "pods"}));
    let missing = client.get("/apis/apps/v1/namespaces/default/deployments/x").await;
    assert_eq!(missing.status(404, "NotFound"), "deployments.apps \"x\" not found");
    assert_eq!(missing.body["details"], json!({"name": "x", "group": "apps", "kind": "deployments"}));
}

// contract: E-01a
#[tokio::test]
async fn names_can_be_generated() {
    let server = server().await;
    let client = Client::new(&server);
    let object = json!({"metadata": {"generateName": "job-"}, "data": {"a": "b"}});
    let mut made = Vec::new();
    for _ in 0..20 {
        let object = client.post(MAPS, &object).await.ok();
        made.push(object["metadata"]["name"].as_str().unwrap().to_owned());
    }
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 20);
    assert!(made.iter().all(|name| name.len() == 9 && name.starts_with("job-")));
    let none = client.post(MAPS, &json!({"data": {}})).await;
    assert_eq!(
        none.status(422, "Invalid"),
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
}

/// A stale update is a conflict and changes nothing.
// contract: E-01c
#[tokio::test]
async fn stale_update_is_a_conflict() {
    let server = server().await;
    let client = Client::new(&server);
    let first = client.post(MAPS, &config_map("a", "1")).await.ok();
    let mut second = first.clone();
    second["data"]["key"] = "2".into();
    let path = format!("{MAPS}/a");
    let second = client.put(&path, &second).await.ok();
    assert!(version_of(&second) > version_of(&first));
    let mut stale = first.clone();
    stale["data"]["key"] = "3".into();
    let answer = client.put(&path, &stale).await;
    assert_eq!(
        answer.status(409, "Conflict"),
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    assert_eq!(client.get(&path).await.ok(), second);

    // Without a version the last writer wins; another uid is another object.
    let mut unversioned = stale.clone();
    unversioned["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let third = client.put(&path, &unversioned).await.ok();
    assert_eq!(third["data"]["key"], "3");
    assert_eq!(third["metadata"]["uid"], first["metadata"]["uid"]);
    unversioned["metadata"]["uid"] = "other".into();
    let key = "Key: /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID";
    assert!(client.put(&path, &unversioned).await.status(409, "Conflict").contains(key));

    // An update without a change takes no version.
    let same = client.put(&path, &third).await.ok();
    assert_eq!(same, third);
    assert_eq!(server.version(), version_of(&third));
}

// contract: E-01g
#[tokio::test]
async fn status_and_spec_are_written_separately() {
    let server = server().await;
    let client = Client::new(&server);
    let made = client.post(DEPLOYMENTS, &deployment("d")).await.ok();
    assert_eq!(made["spec"]["replicas"], 1);
    assert_eq!(made["metadata"]["generation"], 1);
    let path = format!("{DEPLOYMENTS}/d");
    let mut both = made.clone();
    both["spec"]["replicas"] = 3.into();
    both["status"] = json!({"replicas": 2});
    let status = client.put(&format!("{path}/status"), &both).await.ok();
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(1), &json!(2)));
    assert_eq!(status["metadata"]["generation"], 1, "a status update does not change the generation");
    both["metadata"]["resourceVersion"] = status["metadata"]["resourceVersion"].clone();
    both["status"] = json!({"replicas": 9});
    let spec = client.put(&path, &both).await.ok();
    assert_eq!((&spec["spec"]["replicas"], &spec["status"]["replicas"]), (&json!(3), &json!(2)));
    assert_eq!(spec["metadata"]["generation"], 2);
    let read = client.get(&format!("{path}/status")).await.ok();
    assert_eq!(read, spec);
    client.get(&format!("{MAPS}/x/status")).await.status(404, "NotFound");
}

// contract: E-01h
#[tokio::test]
async fn scale_reads_and_writes_the_replicas() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(DEPLOYMENTS, &deployment("d")).await.ok();
    let path = format!("{DEPLOYMENTS}/d/scale");
    let mut scale = client.get(&path).await.ok();
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["apiVersion"], "autoscaling/v1");
    assert_eq!(scale["spec"]["replicas"], 1);
    assert_eq!(scale["status"]["selector"], "app=d");
    scale["spec"]["replicas"] = 4.into();
    assert_eq!(client.put(&path, &scale).await.ok()["spec"]["replicas"], 4);
    client.put(&path, &scale).await.status(409, "Conflict");
    let patched = client.patch(&path, "merge-patch", &json!({"spec": {"replicas": 6}})).await.ok();
    assert_eq!(patched["spec"]["replicas"], 6);
    let object = client.get(&format!("{DEPLOYMENTS}/d")).await.ok();
    assert_eq!((&object["spec"]["replicas"], &object["metadata"]["generation"]), (&json!(6), &json!(3)));
    let below = client.patch(&path, "merge-patch", &json!({"spec": {"replicas": -1}})).await;
    assert!(below.status(422, "Invalid").contains("must be greater than or equal to 0"));
}

/// JSON patches, merge patches and strategic merge patches are applied; other formats are refused.
// contract: E-01d
#[tokio::test]
async fn patch_formats_are_applied() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(DEPLOYMENTS, &deployment("d")).await.ok();
    let path = format!("{DEPLOYMENTS}/d");
    let containers = |object: &Value| {
        let list = object["spec"]["template"]["spec"]["containers"].as_array().unwrap().iter();
        list.map(|container| json!({"name": container["name"], "image": container["image"]}))
            .collect::<Value>()
    };
    let strategic = json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "2"}]}}}});
    let object = client.patch(&path, "strategic-merge-patch", &strategic).await.ok();
    assert_eq!(containers(&object), json!([{"name": "a", "image": "2"}, {"name": "b", "image": "1"}]));
    let object = client.patch(&path, "merge-patch", &strategic).await.ok();
    assert_eq!(containers(&object), json!([{"name": "a", "image": "2"}]));
    let operations = json!([{"op": "test", "path": "/metadata/name", "value": "d"},
        {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]);
    let object = client.patch(&path, "json-patch", &operations).await.ok();
    assert_eq!(object["metadata"]["labels"]["x"], "y");

    let failing = json!([{"op": "test", "path": "/metadata/name", "value": "e"}]);
    client.patch(&path, "json-patch", &failing).await.status(422, "Invalid");
    let renaming = json!({"metadata": {"name": "e"}});
    client.patch(&path, "merge-patch", &renaming).await.status(400, "BadRequest");
    let stale = json!({"metadata": {"resourceVersion": "1"}});
    client.patch(&path, "merge-patch", &stale).await.status(409, "Conflict");
    let cbor =
        client.send(Method::PATCH, &path, &[("content-type", "application/apply-patch+cbor")], "a: b").await;
    assert!(cbor.status(415, "UnsupportedMediaType").ends_with(", application/apply-patch+yaml"));
    assert_eq!(client.get(&path).await.ok(), object);
}

// contract: E-01e
#[tokio::test]
async fn finalizers_delay_deletion() {
    let server = server().await;
    let client = Client::new(&server);
    let mut object = pod("a");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let made = client.post(PODS, &object).await.ok();
    let path = format!("{PODS}/a");
    let terminating = client.delete(&path).await.ok();
    assert_eq!(terminating["kind"], "Pod");
    assert!(terminating["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(client.delete(&path).await.ok(), terminating, "deleting again changes nothing");
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    client.patch(&path, "merge-patch", &more).await.status(422, "Invalid");
    let free = client.patch(&path, "merge-patch", &json!({"metadata": {"finalizers": null}})).await.ok();
    assert!(version_of(&free) > version_of(&made));
    client.get(&path).await.status(404, "NotFound");

    let mut deployment = deployment("a");
    deployment["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let made = client.post(path, &deployment).await.ok();
    let terminating = client.delete(&format!("{path}/a")).await.ok();
    let generations = [made, terminating].map(|object| object["metadata"]["generation"].as_i64());
    assert_eq!(generations, [Some(1), Some(2)], "a deletion that begins is a change of the specification");
}

// contract: E-01e, E-01f
#[tokio::test]
async fn deletion_with_preconditions_and_selectors() {
    let server = server().await;
    let client = Client::new(&server);
    for name in ["a", "b", "c"] {
        client.post(PODS, &pod(name)).await.ok();
    }
    let options =
        |uid: &str| json!({"preconditions": {"uid": uid}, "propagationPolicy": "Background"}).to_string();
    let path = format!("{PODS}/a");
    let wrong = client.send(Method::DELETE, &path, &[], options("x")).await;
    wrong.status(409, "Conflict");
    let uid = client.get(&path).await.ok()["metadata"]["uid"].as_str().unwrap().to_owned();
    let gone = client.send(Method::DELETE, &path, &[], options(&uid)).await.ok();
    assert_eq!((&gone["kind"], &gone["metadata"]["uid"]), (&json!("Pod"), &json!(uid)));
    client.delete(&path).await.status(404, "NotFound");
    let uid = client.post(MAPS, &config_map("a", "1")).await.ok()["metadata"]["uid"].clone();
    let gone = client.delete(&format!("{MAPS}/a")).await.ok();
    assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(gone["details"], json!({"name": "a", "kind": "configmaps", "uid": uid}));

    let deleted = client.delete(&format!("{PODS}?labelSelector=app%3Db")).await.ok();
    assert_eq!(names(&deleted), ["b"]);
    assert_eq!(names(&client.get(PODS).await.ok()), ["c"]);
    client
        .send(Method::DELETE, &format!("{PODS}/c"), &[], r#"{"propagationPolicy":"Never"}"#)
        .await
        .status(422, "Invalid");
}

// contract: E-01i
#[tokio::test]
async fn dry_run_changes_nothing() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(MAPS, &config_map("a", "1")).await.ok();
    let version = server.version();
    assert_eq!(client.post(&format!("{MAPS}?dryRun=All"), &config_map("b", "1")).await.code, 201);
    let tried = client.put(&format!("{MAPS}/a?dryRun=All"), &config_map("a", "2")).await.ok();
    assert_eq!(tried["data"]["key"], "2");
    client.delete(&format!("{MAPS}/a?dryRun=All")).await.ok();
    assert_eq!(server.version(), version);
    assert_eq!(client.get(&format!("{MAPS}/a")).await.ok()["data"]["key"], "1");
    client.post(&format!("{MAPS}?dryRun=Some"), &config_map("c", "1")).await.status(422, "Invalid");
}

/// Objects need an existing namespace, and a deleted namespace deletes its objects.
// contract: E-01e
#[tokio::test]
async fn deleted_namespace_deletes_its_objects() {
    let server = server().await;
    let client = Client::new(&server);
    let missing = client.post("/api/v1/namespaces/x/configmaps", &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(missing.status(404, "NotFound"), "namespaces \"x\" not found");
    let made = client.post("/api/v1/namespaces", &json!({"metadata": {"name": "x"}})).await.ok();
    assert_eq!(made["status"]["phase"], "Active");
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "x");
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/f"]}});
    client.post("/api/v1/namespaces/x/configmaps", &held).await.ok();
    client.post("/api/v1/namespaces/x/configmaps", &json!({"metadata": {"name": "free"}})).await.ok();
    let terminating = client.delete("/api/v1/namespaces/x").await.ok();
    assert_eq!(terminating["status"]["phase"], "Terminating");
    assert_eq!(names(&client.get("/api/v1/namespaces/x/configmaps").await.ok()), ["held"]);
    let refused =
        client.post("/api/v1/namespaces/x/configmaps", &json!({"metadata": {"name": "late"}})).await;
    assert!(refused.status(403, "Forbidden").contains("because it is being terminated"));
    let free = json!({"metadata": {"finalizers": []}});
    client.patch("/api/v1/namespaces/x/configmaps/held", "merge-patch", &free).await.ok();
    client.get("/api/v1/namespaces/x").await.status(404, "NotFound");
    client.delete("/api/v1/namespaces/kube-system").await.status(403, "Forbidden");
    let elsewhere = json!({"metadata": {"name": "a", "namespace": "kube-system"}});
    client.post(MAPS, &elsewhere).await.status(400, "BadRequest");
}

// contract: E-01b, E-01h
#[tokio::test]
async fn definition_adds_and_removes_its_resource() {
    let server = server().await;
    let client = Client::new(&server);
    client.get(WIDGETS).await.status(404, "NotFound");
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = client.post(definition, &widget_definition()).await.ok();
    let established =
        made["status"]["conditions"].as_array().unwrap().iter().any(|c| c["type"] == "Established");
    assert!(established);
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));

    let object = client.post(WIDGETS, &widget("w")).await.ok();
    assert_eq!(object.get("status"), None);
    assert_eq!(object["metadata"]["generation"], 1);
    let beta = client.get("/apis/example.com/v1beta1/namespaces/default/widgets/w").await.ok();
    assert_eq!(beta["apiVersion"], "example.com/v1beta1");
    assert_eq!(beta["spec"], object["spec"]);
    let list = client.get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dred")).await.ok();
    assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("WidgetList"), &json!("Widget")));
    let scale = json!({"spec": {"replicas": 7}});
    client.patch(&format!("{WIDGETS}/w/scale"), "merge-patch", &scale).await.ok();
    assert_eq!(client.get(&format!("{WIDGETS}/w")).await.ok()["spec"]["replicas"], 7);
    let unversioned = client.put(&format!("{WIDGETS}/w"), &widget("w")).await;
    assert!(unversioned.status(422, "Invalid").contains("must be specified for an update"));
    client
        .patch(&format!("{WIDGETS}/w"), "strategic-merge-patch", &scale)
        .await
        .status(415, "UnsupportedMediaType");

    let mut watch = client.watch(&format!("{WIDGETS}?watch=1&resourceVersion={}", server.version())).await;
    client.delete(&format!("{definition}/widgets.example.com")).await.ok();
    assert_eq!(watch.kind_and_name().await, crate::common::pair("DELETED", "w"));
    assert_eq!(watch.next().await, Err(crate::common::WatchEnd::Regular));
    client.get(WIDGETS).await.status(404, "NotFound");
    client.get("/apis/example.com").await.status(404, "NotFound");
}

/// Custom objects have a type, a version for an update, and managers that an empty list does not reset.
// contract: E-01b, E-01q, E-15f
#[tokio::test]
async fn custom_objects_of_clients_are_complete() {
    let server = server().await;
    let client = Client::new(&server);
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widget_definition()).await.ok();
    let with = |field: &str, value: Value| {
        let mut widget = widget("w");
        widget[field] = value;
        widget
    };
    let refused = client.post(WIDGETS, &with("kind", Value::Null)).await;
    assert!(refused.status(400, "BadRequest").contains("Object 'Kind' is missing"));
    let refused = client.post(WIDGETS, &with("apiVersion", Value::Null)).await;
    assert!(refused.status(400, "BadRequest").contains("the API version in the data () does not match"));
    let refused = client.post(WIDGETS, &with("kind", "Gadget".into())).await;
    assert!(refused.status(422, "Invalid").contains("kind: Invalid value: \"Gadget\": must be Widget"));

    client.post(&format!("{WIDGETS}?fieldManager=a"), &widget("w")).await.ok();
    let reset = json!({"metadata": {"managedFields": [], "labels": {"a": "b"}}});
    let after = client.patch(&format!("{WIDGETS}/w?fieldManager=b"), "merge-patch", &reset).await.ok();
    let managers = after["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.iter().map(|entry| &entry["manager"]).collect::<Vec<_>>(), ["a", "b"]);
}

/// An update of some kinds must have the version that it replaces.
// contract: E-01q
#[tokio::test]
async fn updates_of_some_kinds_have_a_version() {
    let server = server().await;
    let client = Client::new(&server);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    let made = client.post(leases, &lease).await.ok();
    let refused = client.put(&format!("{leases}/l"), &lease).await;
    let why = "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!(refused.status(422, "Invalid"), why);
    client.put(&format!("{leases}/l"), &made).await.ok();
    client.patch(&format!("{leases}/l"), "merge-patch", &lease).await.ok();
}

// contract: E-01b, E-01m
#[tokio::test]
async fn invalid_definition_reports_all_causes() {
    let server = server().await;
    let client = Client::new(&server);
    let mut bad = widget_definition();
    bad["metadata"]["name"] = "other.example.com".into();
    bad["spec"]["scope"] = "Galactic".into();
    bad["spec"]["versions"][1]["storage"] = true.into();
    let answer = client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &bad).await;
    let message = answer.status(422, "Invalid");
    for part in [
        "metadata.name: Invalid value",
        "spec.scope: Unsupported value: \"Galactic\"",
        "one version marked as storage",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // the fourth one is about the versions in the status
    assert_eq!(answer.body["details"]["causes"].as_array().unwrap().len(), 4);
    for (path, value, part) in [
        (
            "/spec/versions/1/name",
            "../v1",
            "spec.versions[1].name: Invalid value: \"../v1\": a DNS-1035 label",
        ),
        ("/spec/versions/1/name", "V1", "spec.versions[1].name: Invalid value"),
        ("/spec/versions/1/name", "", "spec.versions[1].name: Invalid value"),
        ("/spec/versions/1/name", "v1", "must contain unique version names"),
        ("/spec/names/kind", "Wid/get", "spec.names.kind: Invalid value"),
        ("/spec/names/kind", "7", "spec.names.kind: Invalid value"),
    ] {
        let mut bad = widget_definition();
        *bad.pointer_mut(path).unwrap() = value.into();
        let answer = client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &bad).await;
        let message = answer.status(422, "Invalid");
        assert!(message.contains(part), "{message}");
    }
}

/// As in Kubernetes, the definition is an object, and has no effect on the built-in kinds.
// contract: E-01m
#[tokio::test]
async fn definitions_do_not_replace_built_in_kinds() {
    let server = server().await;
    let client = Client::new(&server);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    client.post(leases, &json!({"metadata": {"name": "held"}})).await.ok();
    for (group, plural, kind) in [
        ("coordination.k8s.io", "leases", "Lease"),
        ("coordination.k8s.io", "widgets", "Widget"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition"),
    ] {
        let mut shadow = widget_definition();
        shadow["metadata"]["name"] = format!("{plural}.{group}").into();
        shadow["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
        shadow["spec"]["group"] = group.into();
        shadow["spec"]["names"] = json!({"plural": plural, "kind": kind});
        client.post(definitions, &shadow).await.ok();
        // Its other version has no built-in kinds.
        let other = client.get(&format!("/apis/{group}/v1beta1/namespaces/default/{plural}")).await;
        assert_eq!(other.code, 200, "{}", other.body);
        client.get(&format!("{leases}/held")).await.ok();
        assert_eq!(client.get(definitions).await.ok()["kind"], "CustomResourceDefinitionList");
        client.delete(&format!("{definitions}/{plural}.{group}")).await.ok();
        client.get(&format!("{leases}/held")).await.ok();
        client.get(definitions).await.ok();
    }
    client.get("/apis/coordination.k8s.io/v1/namespaces/default/widgets").await.status(404, "NotFound");
}

/// Events and autoscalers are stored once and served in two versions.
// contract: E-01a
#[tokio::test]
async fn events_and_autoscalers_have_two_versions() {
    let server = server().await;
    let client = Client::new(&server);
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "message": "m",
        "reason": "R", "type": "Normal"});
    client.post("/api/v1/namespaces/default/events", &event).await.ok();
    let new = client.get("/apis/events.k8s.io/v1/namespaces/default/events/e").await.ok();
    assert_eq!((&new["note"], &new["regarding"]["name"]), (&json!("m"), &json!("p")));
    let by_field = |path: &str, field: &str| format!("{path}?fieldSelector={field}%3Dp");
    for (path, field) in
        [("/api/v1/events", "involvedObject.name"), ("/apis/events.k8s.io/v1/events", "regarding.name")]
    {
        assert_eq!(names(&client.get(&by_field(path, field)).await.ok()), ["e"], "{path}");
    }
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let old = json!({"metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50, "scaleTargetRef": target}});
    client.post("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", &old).await.ok();
    let new = client.get("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/h").await.ok();
    assert_eq!(new["spec"]["metrics"][0]["resource"]["name"], "cpu");
}

// contract: E-01h
#[tokio::test]
async fn pods_are_bound_and_evicted() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(PODS, &pod("a")).await.ok();
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    assert_eq!(client.post(&format!("{PODS}/a/binding"), &binding).await.code, 201);
    assert_eq!(client.get(&format!("{PODS}/a")).await.ok()["spec"]["nodeName"], "n1");
    client.post(&format!("{PODS}/a/binding"), &binding).await.status(409, "Conflict");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    assert_eq!(client.post(&format!("{PODS}/a/eviction"), &eviction).await.code, 201);
    client.get(&format!("{PODS}/a")).await.status(404, "NotFound");
}

/// The version in the `Status` of a write that answers with no object.
// contract: E-13
#[tokio::test]
async fn answers_of_two_versions_of_kubernetes() {
    for minor in [37, 38] {
        let server = ApiServer::builder().kubernetes(minor).start().await.unwrap();
        let client = Client::new(&server);
        assert_eq!(client.get("/version").await.ok()["minor"], minor.to_string());
        for name in ["a", "b", "c"] {
            client.post(PODS, &pod(name)).await.ok();
        }
        client.post(MAPS, &config_map("other", "1")).await.ok();
        let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
        let eviction =
            |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let check = |answer: Value, version: u64| {
            let written = (minor == 38).then(|| json!(version.to_string()));
            assert_eq!((&answer["kind"], &answer["status"]), (&json!("Status"), &json!("Success")));
            assert_eq!(answer["metadata"].get("resourceVersion"), written.as_ref(), "{answer}");
        };
        let bound = client.post(&format!("{PODS}/a/binding"), &binding).await.ok();
        let version = server.version();
        check(bound, version);
        assert_eq!(version_of(&client.get(&format!("{PODS}/a")).await.ok()), version);
        // A dry run writes nothing, so it has no version.
        let tried = client.delete(&format!("{MAPS}/other?dryRun=All")).await.ok();
        assert_eq!(tried["metadata"].get("resourceVersion"), None, "{tried}");
        check(client.post(&format!("{PODS}/a/eviction"), &eviction("a")).await.ok(), version + 1);
        let gone = client.delete(&format!("{MAPS}/other")).await.ok();
        check(gone, server.version());
        let evicted = client.post(&format!("{PODS}/b/eviction"), &eviction("b")).await.ok();
        check(evicted, server.version());
        // A pod with finalizers is terminating, at the version of the answer.
        let finalizers = json!({"metadata": {"finalizers": ["example.com/f"]}});
        client.patch(&format!("{PODS}/c"), "merge-patch", &finalizers).await.ok();
        let evicted = client.post(&format!("{PODS}/c/eviction"), &eviction("c")).await.ok();
        check(evicted, version_of(&client.get(&format!("{PODS}/c")).await.ok()));
    }
}

/// A binding is refused for a missing, another, bound, gated or terminating pod, and for a failed precondition.
// contract: E-01h, E-01i
#[tokio::test]
async fn binding_is_validated_against_its_pod() {
    let server = server().await;
    let client = Client::new(&server);
    let made = client.post(PODS, &pod("a")).await.ok();
    let path = format!("{PODS}/a/binding");
    let binding = |metadata: Value| json!({"metadata": metadata, "target": {"kind": "Node", "name": "n1"}});

    let other = client.post(&path, &binding(json!({"name": "a", "uid": "another"}))).await;
    assert!(other.status(409, "Conflict").contains("UID in precondition: another"));
    let old = client.post(&path, &binding(json!({"name": "a", "resourceVersion": "1"}))).await;
    assert!(old.status(409, "Conflict").contains("ResourceVersion in precondition: 1"));
    let missing = binding(json!({"name": "b"}));
    client.post(&format!("{PODS}/b/binding"), &missing).await.status(404, "NotFound");
    client.post(&path, &missing).await.status(400, "BadRequest");
    client.post(&format!("{path}?dryRun=All"), &binding(json!({"name": "a"}))).await.ok();
    assert_eq!(client.get(&format!("{PODS}/a")).await.ok(), made);

    let labels = json!({"name": "a", "uid": made["metadata"]["uid"], "labels": {"zone": "z"}});
    client.post(&path, &binding(labels)).await.ok();
    let bound = client.get(&format!("{PODS}/a")).await.ok();
    assert_eq!(bound["metadata"]["labels"]["zone"], "z");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    let again = client.post(&path, &binding(json!({"name": "a"}))).await.status(409, "Conflict");
    assert!(again.ends_with("pod a is already assigned to node \"n1\""), "{again}");

    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    client.post(PODS, &gated).await.ok();
    let refused = client.post(&format!("{PODS}/gated/binding"), &binding(json!({"name": "gated"}))).await;
    assert!(refused.status(409, "Conflict").contains("non-empty .spec.schedulingGates"));

    let mut ending = pod("ending");
    ending["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(PODS, &ending).await.ok();
    client.delete(&format!("{PODS}/ending")).await.ok();
    let refused = client.post(&format!("{PODS}/ending/binding"), &binding(json!({"name": "ending"}))).await;
    assert!(refused.status(409, "Conflict").contains("is being deleted"));
}

// contract: E-01a, E-01c
#[tokio::test]
async fn in_process_writes_can_set_the_status() {
    let server = server().await;
    let client = Client::new(&server);
    let mut object = pod("a");
    object["status"] = json!({"phase": "Running"});
    let made = server.create(object).unwrap();
    assert_eq!(made["status"]["phase"], "Running");
    assert_eq!(client.get(&format!("{PODS}/a")).await.ok(), made);
    let mut changed = made.clone();
    changed["status"]["phase"] = "Failed".into();
    assert_eq!(server.update(changed.clone()).unwrap()["status"]["phase"], "Failed");
    let stale = server.update(changed).unwrap_err();
    assert!(matches!(stale, kinformer_apiserver::Error::Status(status) if status.code() == 409));
    assert_eq!(server.count("v1", "Pod").unwrap(), 1);
    assert_eq!(server.list("v1", "Pod", "default").unwrap().len(), 1);
    server.delete("v1", "Pod", "default", "a").unwrap();
    assert_eq!(server.get("v1", "Pod", "default", "a").unwrap(), None);
    assert!(matches!(server.get("v9", "Pod", "", "a"), Err(kinformer_apiserver::Error::UnknownKind { .. })));
    assert!(matches!(server.create(json!([])), Err(kinformer_apiserver::Error::NotAnObject)));
}

// contract: E-01b
#[tokio::test]
async fn storage_version_can_change() {
    let server = server().await;
    let client = Client::new(&server);
    let mut definition = widget_definition();
    server.create(definition.clone()).unwrap();
    client.post(WIDGETS, &widget("w")).await.ok();
    for version in 0..2 {
        definition["spec"]["versions"][version]["storage"] = (version == 1).into();
    }
    server.update(definition).unwrap();
    for version in ["v1", "v1beta1"] {
        let path = format!("/apis/example.com/{version}/namespaces/default/widgets");
        let api_version = format!("example.com/{version}");
        assert_eq!(client.get(&format!("{path}/w")).await.ok()["apiVersion"], api_version);
        let mut watch = client.watch(&format!("{path}?watch=1")).await;
        assert_eq!(watch.next().await.unwrap()["object"]["apiVersion"], api_version);
        let label = json!({"metadata": {"labels": {"by": version}}});
        assert_eq!(
            client.patch(&format!("{path}/w"), "merge-patch", &label).await.ok()["apiVersion"],
            api_version
        );
        assert_eq!(watch.next().await.unwrap()["object"]["apiVersion"], api_version);
    }
}

// contract: E-01a
#[tokio::test]
async fn labels_and_annotations_are_validated() {
    let server = server().await;
    let client = Client::new(&server);
    let with = |field: &str, key: &str, value: &str| {
        let mut map = config_map("a", "1");
        map["metadata"][field] = json!({key: value});
        map
    };
    for (field, key, value) in
        [("labels", "a b", "c"), ("labels", "a", "b c"), ("labels", "/x", ""), ("annotations", "-", "")]
    {
        let refused = client.post(MAPS, &with(field, key, value)).await;
        let message = refused.status(422, "Invalid");
        assert!(message.contains(&format!("metadata.{field}: Invalid value")), "{message}");
    }
    assert_eq!(client.post(MAPS, &with("annotations", "Example.com/X", "any thing")).await.code, 201);
    let merge = "merge-patch";
    let labels = json!({"metadata": {"labels": {"a b": "c"}}});
    client.patch(&format!("{MAPS}/a"), merge, &labels).await.status(422, "Invalid");
    let nothing = json!({"metadata": {"annotations": {"Example.com/X": null}}});
    let left = client.patch(&format!("{MAPS}/a"), merge, &nothing).await.ok();
    assert_eq!(left["metadata"].get("annotations"), None, "empty fields are omitted");
}

// contract: E-01a
#[tokio::test]
async fn string_data_of_a_secret_is_encoded() {
    let server = server().await;
    let client = Client::new(&server);
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}, "data": {"a": "MQ=="}, "stringData": {"b": "two"}});
    let made = client.post(secrets, &secret).await.body;
    assert_eq!((&made["type"], made.get("stringData")), (&json!("Opaque"), None));
    assert_eq!(made["data"], json!({"a": "MQ==", "b": "dHdv"}));
    let merge = "merge-patch";
    let patched = client.patch(&format!("{secrets}/s"), merge, &json!({"stringData": {"a": "x"}})).await.ok();
    assert_eq!((&patched["data"]["a"], patched.get("stringData")), (&json!("eA=="), None));
}

// contract: E-01d
#[tokio::test]
async fn patch_of_immutable_fields_is_invalid() {
    let server = server().await;
    let client = Client::new(&server);
    let mut map = config_map("a", "1");
    map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(MAPS, &map).await;
    let merge = "merge-patch";
    let uid = json!({"metadata": {"uid": "other"}});
    let message = client.patch(&format!("{MAPS}/a"), merge, &uid).await.status(422, "Invalid").to_owned();
    assert!(message.contains("metadata.uid: Invalid value: \"other\": field is immutable"), "{message}");
    client.delete(&format!("{MAPS}/a")).await.ok();
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let message = client.patch(&format!("{MAPS}/a"), merge, &more).await.status(422, "Invalid").to_owned();
    assert!(message.ends_with("found new finalizers []string{\"example.com/more\"}"), "{message}");
}

/// `Debug` of an error is its message, because Rust prints it if `main` returns the error.
// contract: F-21
#[tokio::test]
async fn debug_of_errors_is_the_message() {
    let server = server().await;
    let unknown = server.get("v9", "Pod", "", "a").unwrap_err();
    assert_eq!(format!("{unknown:?}"), r#"no resource for kind "Pod" in version "v9""#);
    let missing = server.delete("v1", "Pod", "default", "a").unwrap_err();
    assert_eq!(format!("{missing:?}"), r#"pods "a" not found"#);
    let kinformer_apiserver::Error::Status(status) = missing else { panic!("not an API error") };
    assert_eq!(format!("{status:?}"), status.to_string());
    server.shutdown().await;
}

// contract: E-01n
#[tokio::test]
async fn an_update_creates_objects_of_some_kinds() {
    let server = server().await;
    let client = Client::new(&server);
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}});
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/r";
    assert_eq!(client.put(path, &role).await.code, 201);
    assert_eq!(client.put(path, &role).await.code, 200);
    let missing = client.put(&format!("{MAPS}/m"), &config_map("m", "x")).await;
    assert_eq!(missing.status(404, "NotFound"), "configmaps \"m\" not found");
    let status = "/api/v1/namespaces/default/services/s/status";
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    client.put(status, &service).await.status(404, "NotFound");
    assert_eq!(client.put(&format!("{path}?dryRun=All"), &role).await.code, 200);
}

// contract: E-01o
#[tokio::test]
async fn empty_maps_and_lists_are_not_stored() {
    let server = server().await;
    let client = Client::new(&server);
    let mut map = config_map("m", "x");
    map["data"] = json!({});
    map["binaryData"] = Value::Null;
    map["metadata"]["labels"] = json!({});
    let created = client.post(MAPS, &map).await.ok();
    assert_eq!((created.get("data"), created.get("binaryData")), (None, None));
    assert_eq!(created["metadata"].get("labels"), None);
    let patched = client.patch(&format!("{MAPS}/m"), "merge-patch", &json!({"data": {"a": null}})).await.ok();
    assert_eq!(patched.get("data"), None);
    assert_eq!(patched["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);

    // An empty struct is a value, as are the empty parts of custom resources.
    let mut pod = pod("p");
    pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    pod["spec"]["tolerations"] = json!([]);
    let spec = client.post(PODS, &pod).await.ok()["spec"].clone();
    assert_eq!(spec["volumes"], json!([{"name": "v", "emptyDir": {}}]));
    assert_eq!(spec.get("tolerations"), None);
    server.create(widget_definition()).unwrap();
    let mut custom = widget("w");
    custom["spec"]["parts"] = json!([]);
    assert_eq!(client.post(WIDGETS, &custom).await.ok()["spec"]["parts"], json!([]));
}

// contract: E-01p
#[tokio::test]
async fn annotations_are_a_generation_of_deployments() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(DEPLOYMENTS, &deployment("d")).await.ok();
    let path = format!("{DEPLOYMENTS}/d");
    let annotate = json!({"metadata": {"annotations": {"a": "b"}}});
    for _ in 0..2 {
        let changed = client.patch(&path, "merge-patch", &annotate).await.ok();
        assert_eq!(changed["metadata"]["generation"], 2);
    }
    let labelled =
        client.patch(&path, "merge-patch", &json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    assert_eq!(labelled["metadata"]["generation"], 2);
}

/// The storage refuses the version of a new object. A dry run does not reach it.
// contract: E-01y
#[tokio::test]
async fn new_objects_have_no_version() {
    let server = server().await;
    let client = Client::new(&server);
    let mut map = config_map("a", "1");
    map["metadata"]["resourceVersion"] = "7".into();
    let refused = client.post(MAPS, &map).await.status(500, "");
    assert_eq!(refused, "resourceVersion should not be set on objects to be created");
    client.post(&format!("{MAPS}?dryRun=All"), &map).await.ok();
    map["metadata"]["resourceVersion"] = "0".into();
    client.post(MAPS, &map).await.ok();
}
