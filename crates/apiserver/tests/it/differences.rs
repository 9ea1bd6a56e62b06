//! Requests whose effect is not simulated, and writes with unknown options or fields.

use http::Method;
use serde_json::{Value, json};

use crate::common::{Answer, Client, config_map, server, widget_definition};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect()
}

/// Objects that ask for an effect are stored with a warning, whatever request writes them; others are not.
// contract: E-17b
#[tokio::test]
async fn effects_that_are_missing_are_warned_of() {
    let server = server().await;
    let client = Client::new(&server);
    let path = "/api/v1/namespaces/default/resourcequotas";
    let text = "299 - \"resourcequotas of kinformer-apiserver: quotas are neither counted nor enforced; use \
        kube-apiserver\"";
    let quota = json!({"metadata": {"name": "a"}, "spec": {}});
    let created = client.post(path, &quota).await;
    assert_eq!(warnings(&created), [text]);
    created.ok();
    let path = format!("{path}/a");
    assert_eq!(warnings(&client.put(&path, &quota).await), [text]);
    assert_eq!(
        warnings(&client.patch(&path, "merge-patch", &json!({"metadata": {"labels": {"a": "b"}}})).await),
        [text]
    );
    let applied = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "a"}});
    let headers = [("content-type", "application/apply-patch+yaml")];
    let applied =
        client.send(Method::PATCH, &format!("{path}?fieldManager=m"), &headers, applied.to_string()).await;
    assert_eq!(warnings(&applied), [text]);
    applied.ok();
    assert_eq!(warnings(&client.get(&path).await), Vec::<&str>::new());
    assert_eq!(warnings(&client.delete(&path).await), Vec::<&str>::new());

    let mut pod = crate::common::pod("a");
    assert_eq!(warnings(&client.post(PODS, &pod).await), Vec::<&str>::new());
    pod["metadata"]["name"] = "b".into();
    pod["spec"]["priorityClassName"] = "high".into();
    let created = client.post(PODS, &pod).await;
    assert_eq!(
        warnings(&created),
        ["299 - \"pods of kinformer-apiserver: the priority of the class is not set; set spec.priority\""]
    );
    assert_eq!(created.ok()["spec"]["priorityClassName"], "high");
}

// contract: E-17c
#[tokio::test]
async fn parts_that_are_not_simulated_are_refused() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(PODS, &crate::common::pod("a")).await.ok();
    let refused = |path: String| {
        let client = client.clone();
        async move { client.get(&path).await.status(501, "NotImplemented") }
    };
    assert_eq!(
        refused(format!("{PODS}/a/log")).await,
        "kinformer-apiserver does not simulate pods/log: there are no kubelets and no containers; use a cluster"
    );
    refused("/api/v1/namespaces/default/services/a/proxy".to_owned()).await;
    refused("/api/v1/componentstatuses".to_owned()).await;
    let migrations = "/apis/storagemigration.k8s.io/v1/storageversionmigrations";
    let answer = client.post(migrations, &json!({"spec": {}})).await;
    assert_eq!(
        answer.status(501, "NotImplemented"),
        "kinformer-apiserver does not simulate storageversionmigrations: objects are stored in one version; use \
         kube-apiserver"
    );
    client.get(&format!("{PODS}/a/nothing")).await.status(404, "NotFound");
}

/// Values that Kubernetes does not know are refused for each kind of write; parameters that it does not know are ignored.
// contract: E-18a
#[tokio::test]
async fn unknown_options() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(&format!("{MAPS}?nothing=1"), &config_map("a", "1")).await.ok();
    let before = server.version();
    let path = format!("{MAPS}/a");
    for (parameter, message) in [
        ("dryRun=x", "dryRun: Unsupported value: [\"x\"]: supported values: \"All\""),
        (
            "fieldValidation=x",
            "fieldValidation: Unsupported value: \"x\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        ),
    ] {
        let map = config_map("b", "1");
        let created = client.post(&format!("{MAPS}?{parameter}"), &map).await;
        let updated = client.put(&format!("{path}?{parameter}"), &config_map("a", "2")).await;
        let patched =
            client.patch(&format!("{path}?{parameter}"), "merge-patch", &json!({"data": {"b": "1"}})).await;
        let bound = client.post(&format!("{PODS}/a/binding?{parameter}"), &json!({})).await;
        for (answer, kind) in
            [(created, "Create"), (updated, "Update"), (patched, "Patch"), (bound, "Create")]
        {
            let expected = format!("{kind}Options.meta.k8s.io \"\" is invalid: {message}");
            assert_eq!(answer.status(422, "Invalid"), expected);
        }
    }
    assert_eq!(server.version(), before);
}

// contract: E-18b
#[tokio::test]
async fn unknown_fields() {
    let server = server().await;
    let client = Client::new(&server);
    let mut map = config_map("a", "1");
    map["foo"] = 1.into();
    map["metadata"]["bar"] = 1.into();
    let strict = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \
        \"foo\", unknown field \"metadata.bar\"";
    let refused = client.post(&format!("{MAPS}?fieldValidation=Strict"), &map).await;
    assert_eq!(refused.status(400, "BadRequest"), strict);
    let ignored = client.post(&format!("{MAPS}?fieldValidation=Ignore&dryRun=All"), &map).await;
    assert_eq!(warnings(&ignored), Vec::<&str>::new());
    ignored.ok();
    let expected = ["299 - \"unknown field \\\"foo\\\"\"", "299 - \"unknown field \\\"metadata.bar\\\"\""];
    let created = client.post(MAPS, &map).await;
    assert_eq!(warnings(&created), expected);
    created.ok();

    let path = format!("{MAPS}/a");
    assert_eq!(warnings(&client.put(&format!("{path}?fieldValidation=Warn"), &map).await), expected);
    let refused = client.put(&format!("{path}?fieldValidation=Strict"), &map).await;
    assert_eq!(refused.status(400, "BadRequest"), strict);
}

/// Patches are checked by their results.
// contract: E-18b
#[tokio::test]
async fn unknown_fields_of_patches() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(MAPS, &config_map("a", "1")).await.ok();
    let (path, before) = (format!("{MAPS}/a"), server.version());
    let strict = format!("{path}?fieldValidation=Strict");
    let patch = json!({"foo": {"a": 1}, "metadata": {"bar": null, "labels": {"x": "y"}}});
    let refused = client.patch(&strict, "strategic-merge-patch", &patch).await;
    assert_eq!(
        refused.status(422, "Invalid"),
        " \"\" is invalid: patch: Invalid value: \"map[foo:map[a:1] metadata:map[bar:<nil> labels:map[x:y]]]\": strict \
         decoding error: unknown field \"foo\""
    );
    let operations = json!([{"op": "add", "path": "/foo", "value": 1}]);
    for (format, patch) in [("merge-patch", &patch), ("json-patch", &operations)] {
        let message = client.patch(&strict, format, patch).await.status(422, "Invalid");
        let (start, end) = (
            " \"\" is invalid: patch: Invalid value: \"{",
            "}\": strict decoding error: unknown field \"foo\"",
        );
        assert!(message.starts_with(start) && message.ends_with(end), "{message}");
    }
    assert_eq!(server.version(), before);
    for (format, patch) in [("merge-patch", &patch), ("strategic-merge-patch", &json!({"kinds": 1}))] {
        let patched = client.patch(&path, format, patch).await;
        let name = if format == "merge-patch" { "foo" } else { "kinds" };
        assert_eq!(warnings(&patched), [format!("299 - \"unknown field \\\"{name}\\\"\"")]);
        patched.ok();
    }
}

/// Custom objects are checked by the schema of their definition.
// contract: E-18b
#[tokio::test]
async fn unknown_fields_of_custom_objects() {
    let server = server().await;
    let client = Client::new(&server);
    let mut definition = widget_definition();
    definition["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}});
    definition["spec"]["versions"][0]["selectableFields"] = json!([]);
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.ok();
    let widget = json!({"metadata": {"name": "w"}, "spec": {"a": "x", "b": 1}});
    let path = "/apis/example.com/v1/namespaces/default/widgets?fieldValidation=Strict";
    assert_eq!(
        client.post(path, &widget).await.status(400, "BadRequest"),
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.b\""
    );
}

/// A kubelet creates its node with a status. The status of other kinds is set by its subresource only.
// contract: E-18d
#[tokio::test]
async fn status_of_a_new_node() {
    let server = server().await;
    let client = Client::new(&server);
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}});
    let created = client.post("/api/v1/nodes", &node).await.ok();
    assert_eq!(created["status"]["allocatable"], json!({"cpu": "4"}));
    let changed = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8"}}});
    assert_eq!(client.put("/api/v1/nodes/n", &changed).await.ok()["status"]["allocatable"]["cpu"], "4");
    let mut pod = crate::common::pod("a");
    pod["status"] = json!({"phase": "Running"});
    assert_eq!(client.post(PODS, &pod).await.ok()["status"]["phase"], Value::from("Pending"));
}

/// An owner that an object has twice is stored once. Owners that differ in a field are kept, and refused or not as others.
// contract: E-22c
#[tokio::test]
async fn duplicate_owners() {
    let server = server().await;
    let client = Client::new(&server);
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"});
    let mut controller = owner.clone();
    controller["controller"] = true.into();
    let with = |owners: &Value| {
        let mut map = config_map("b", "1");
        map["metadata"]["ownerReferences"] = owners.clone();
        map
    };
    let warning = |when: &str| {
        format!(
            "299 - \".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in \
             1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: \
             u, u\""
        )
    };
    let (thrice, once) = (json!([owner, controller, owner, owner]), json!([owner, controller]));
    let created = client.post(&format!("{MAPS}?dryRun=All"), &with(&thrice)).await;
    assert_eq!(warnings(&created), [warning("")]);
    assert_eq!(created.ok()["metadata"]["ownerReferences"], once);

    client.post(MAPS, &config_map("b", "1")).await.ok();
    let path = format!("{MAPS}/b?dryRun=All");
    let updated = client.put(&path, &with(&thrice)).await;
    assert_eq!(warnings(&updated), [warning("")]);
    assert_eq!(updated.ok()["metadata"]["ownerReferences"], once);
    let patch = json!({"metadata": {"ownerReferences": thrice}});
    let patched = client.patch(&path, "merge-patch", &patch).await;
    assert_eq!(warnings(&patched), [warning(" after mutating admission happens")]);
    assert_eq!(patched.ok()["metadata"]["ownerReferences"], once);
}

// contract: E-22d
#[tokio::test]
async fn deprecated_kinds() {
    let server = server().await;
    let client = Client::new(&server);
    let all = "/api/v1/namespaces/default/endpoints";
    let expected = ["299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\""];
    let object = json!({"metadata": {"name": "a"}});
    assert_eq!(warnings(&client.post(all, &object).await), expected);
    assert_eq!(warnings(&client.get(all).await), expected);
    assert_eq!(warnings(&client.get(&format!("{all}?watch=1&resourceVersion=x")).await), expected);
    assert_eq!(warnings(&client.get(&format!("{all}/missing")).await), expected);
    assert_eq!(warnings(&client.delete(&format!("{all}/a")).await), expected);
    let mut definition = widget_definition();
    definition["spec"]["versions"][1]["deprecated"] = true.into();
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.ok();
    let widgets = client.get("/apis/example.com/v1beta1/namespaces/default/widgets").await;
    let expected = ["299 - \"example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget\""];
    assert_eq!(warnings(&widgets), expected);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    assert_eq!(warnings(&client.get(slices).await), Vec::<&str>::new());
}
