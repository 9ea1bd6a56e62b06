//! Discovery, version, health and OpenAPI.

use crate::common::{Client, server, widget_definition};
use http::Method;
use serde_json::{Value, json};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn find<'a>(list: &'a Value, member: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry[member] == name).unwrap_or(&Value::Null)
}

// contract: E-02b
#[tokio::test]
async fn plain_discovery() {
    let server = server().await;
    let client = Client::new(&server);
    assert_eq!(client.get("/api").await.ok()["versions"], json!(["v1"]));
    let core = client.get("/api/v1").await.ok();
    assert_eq!((&core["kind"], &core["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let pods = find(&core["resources"], "name", "pods");
    assert_eq!(pods["shortNames"], json!(["po"]));
    assert_eq!(pods["categories"], json!(["all"]));
    assert_eq!(
        (&pods["namespaced"], &pods["kind"], &pods["singularName"]),
        (&json!(true), &json!("Pod"), &json!("pod"))
    );
    assert!(pods["verbs"].as_array().unwrap().contains(&json!("watch")));
    assert_eq!(find(&core["resources"], "name", "pods/status")["kind"], "Pod");
    let apps = client.get("/apis/apps/v1").await.ok();
    let scale = find(&apps["resources"], "name", "deployments/scale");
    assert_eq!(
        (&scale["group"], &scale["version"], &scale["kind"]),
        (&json!("autoscaling"), &json!("v1"), &json!("Scale"))
    );
    let groups = client.get("/apis").await.ok();
    let autoscaling = find(&groups["groups"], "name", "autoscaling");
    assert_eq!(autoscaling["preferredVersion"]["groupVersion"], "autoscaling/v2");
    assert_eq!(client.get("/apis/autoscaling").await.ok()["kind"], "APIGroup");
    client.get("/apis/nothing.example.com").await.status(404, "NotFound");
    client.get("/apis/apps/v9").await.status(404, "NotFound");
    for group in [
        "apps",
        "batch",
        "networking.k8s.io",
        "rbac.authorization.k8s.io",
        "coordination.k8s.io",
        "storage.k8s.io",
        "policy",
        "discovery.k8s.io",
        "events.k8s.io",
        "apiextensions.k8s.io",
        "scheduling.k8s.io",
    ] {
        assert!(find(&groups["groups"], "name", group).is_object(), "{group}");
    }
}

// contract: E-02a
#[tokio::test]
async fn aggregated_discovery() {
    let server = server().await;
    let client = Client::new(&server);
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widget_definition()).await.ok();
    let accept = format!("{AGGREGATED},application/json");
    let core = client.get_as("/api", &accept).await;
    assert_eq!(core.headers["content-type"], AGGREGATED);
    assert_eq!(core.body["items"][0]["metadata"]["name"], "");
    let pods = find(&core.body["items"][0]["versions"][0]["resources"], "resource", "pods").clone();
    assert_eq!((&pods["scope"], &pods["responseKind"]["kind"]), (&json!("Namespaced"), &json!("Pod")));
    assert_eq!(find(&pods["subresources"], "subresource", "status")["responseKind"]["kind"], "Pod");
    let apis = client.get_as("/apis", &accept).await.ok();
    let group =
        apis["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "example.com").unwrap();
    let versions: Vec<&Value> = group["versions"].as_array().unwrap().iter().map(|v| &v["version"]).collect();
    assert_eq!(versions, ["v1", "v1beta1"]);
    let widgets = find(&group["versions"][0]["resources"], "resource", "widgets");
    assert_eq!((&widgets["shortNames"], &widgets["categories"]), (&json!(["wd"]), &json!(["all"])));
    let plain = client.get_as("/apis", "application/json").await.ok();
    assert_eq!(plain["kind"], "APIGroupList");
}

// contract: E-02c
#[tokio::test]
async fn version_and_health() {
    let server = server().await;
    let client = Client::new(&server);
    let version = client.get("/version").await.ok();
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("37")));
    for path in ["/healthz", "/readyz", "/livez", "/livez/ping"] {
        assert_eq!(client.get(path).await.ok(), "ok", "{path}");
    }
    assert!(client.get("/").await.ok()["paths"].as_array().unwrap().contains(&json!("/apis/apps/v1")));
    client.send(Method::POST, "/version", &[], "").await.status(405, "MethodNotAllowed");
    client.get("/nothing").await.status(404, "NotFound");
}

// contract: E-02e
#[tokio::test]
async fn openapi_has_the_paths_kubectl_reads() {
    let server = server().await;
    let client = Client::new(&server);
    let index = client.get("/openapi/v3").await.ok();
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let apps = client.get(url).await.ok();
    let patch = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    assert!(find(&patch["parameters"], "name", "fieldValidation").is_object());
    let v2 = client.get_as("/openapi/v2", "application/json").await.ok();
    assert_eq!(v2["swagger"], "2.0");
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let v2 = client.get_as("/openapi/v2", protobuf).await;
    // A media type cannot contain `@`, and kubectl parses this one.
    assert_eq!(v2.headers["content-type"], protobuf.replace('@', "."));
    client.get("/openapi/v3/apis/none/v1").await.status(404, "NotFound");
}

// contract: E-02g
#[tokio::test]
async fn openapi_has_the_schemas_of_custom_resources() {
    let server = server().await;
    let client = Client::new(&server);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut definition = client.post(definitions, &widget_definition()).await.ok();
    let url = async || {
        let index = client.get("/openapi/v3").await.ok();
        index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_owned()
    };
    let first = url().await;
    let document = client.get(&first).await.ok();
    let schemas = &document["components"]["schemas"];
    let widget = &schemas["com.example.v1.Widget"];
    assert_eq!(widget["properties"]["spec"]["properties"]["color"], json!({"type": "string"}));
    assert_eq!(widget["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.color"}]));
    let own = json!([{"group": "example.com", "version": "v1", "kind": "Widget"}]);
    assert_eq!(widget["x-kubernetes-group-version-kind"], own);
    let items = &schemas["com.example.v1.WidgetList"]["properties"]["items"]["items"]["$ref"];
    assert_eq!(items, "#/components/schemas/com.example.v1.Widget");
    let meta = &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"];
    assert_eq!(meta["labels"]["additionalProperties"], json!({"type": "string"}));

    let resources = client.get("/apis/example.com/v1beta1").await.ok();
    // the hash of `example.com/v1/Widget`, the version that is stored
    assert_eq!(find(&resources["resources"], "name", "widgets")["storageVersionHash"], "gIwvi5rymmg=");
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["description"] = json!("A widget.");
    }
    client.put(&format!("{definitions}/widgets.example.com"), &definition).await.ok();
    assert_ne!(url().await, first);
}
