//! The defaults and the validation of built-in kinds.

mod kinds;
mod quadratic;
mod samples;
mod transitions;
mod writes;

use http::Method;
use kinformer_apiserver::{ApiServer, Validation, valid_pod};
use serde_json::{Value, json};

use crate::common::{Client, server};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

// contract: E-24a, E-24b
#[tokio::test]
async fn defaults_are_set() {
    let server = server().await;
    let client = Client::new(&server);
    let mut object = valid_pod("a");
    object["spec"]["unknown"] = json!(1);
    object["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1000m"}});
    let pod = client.post(PODS, &object).await.ok();
    let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
    assert_eq!(spec.get("unknown"), None);
    assert_eq!((&spec["restartPolicy"], &spec["dnsPolicy"]), (&json!("Always"), &json!("ClusterFirst")));
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(container["resources"], json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}));
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "Burstable"}));
    assert_eq!(server.create(valid_pod("b")).unwrap()["spec"]["dnsPolicy"], "ClusterFirst");
}

/// A manager that applies does not own defaults, and an apply that changes nothing is no write.
// contract: E-24a
#[tokio::test]
async fn defaults_are_not_owned_by_managers_that_apply() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{PODS}/a?fieldManager=m");
    let apply = async || {
        let headers = [("content-type", "application/apply-patch+yaml")];
        client.send(Method::PATCH, &path, &headers, valid_pod("a").to_string()).await.ok()
    };
    let first = apply().await;
    let fields = &first["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    assert_eq!(fields.as_object().unwrap().keys().collect::<Vec<_>>(), ["f:containers"]);
    assert_eq!(apply().await, first);
}

/// The faults of an object are refused with all causes, by each way to write it.
// contract: E-24b, E-24c, E-24d
#[tokio::test]
async fn invalid_objects_are_refused() {
    let server = server().await;
    let client = Client::new(&server);
    let mut broken = valid_pod("a");
    broken["spec"] = json!({"restartPolicy": "Sometimes", "containers": [{"name": "A"}]});
    let refused = client.post(PODS, &broken).await;
    let causes = refused.body["details"]["causes"].as_array().unwrap().clone();
    let fields: Vec<&Value> = causes.iter().map(|cause| &cause["field"]).collect();
    assert_eq!(fields, ["spec.containers[0].name", "spec.containers[0].image", "spec.restartPolicy"]);
    assert_eq!(
        causes[2]["message"],
        "Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\""
    );
    refused.status(422, "Invalid");
    assert!(
        server.create(broken).unwrap_err().to_string().contains("spec.containers[0].image: Required value")
    );

    client.post(PODS, &valid_pod("a")).await.ok();
    let moved = client.patch(&format!("{PODS}/a"), "merge-patch", &json!({"spec": {"nodeName": "n"}})).await;
    assert!(moved.status(422, "Invalid").contains("pod updates may not change fields other than"));
    let mut bad = valid_pod("b");
    bad["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "much"}});
    assert!(client.post(PODS, &bad).await.status(400, "BadRequest").contains("quantities must match"));
}

// contract: E-24e
#[tokio::test]
async fn addresses_follow_from_names() {
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
    };
    let mut seen = Vec::new();
    for _ in 0..2 {
        let server = server().await;
        let client = Client::new(&server);
        let [a, b] = [
            client.post(SERVICES, &service("a")).await.ok()["spec"].clone(),
            client.post(SERVICES, &service("b")).await.ok()["spec"].clone(),
        ];
        assert_ne!(a["clusterIP"], b["clusterIP"]);
        assert_eq!(a["clusterIPs"], json!([a["clusterIP"]]));
        assert!((30000..32768).contains(&a["ports"][0]["nodePort"].as_i64().unwrap()));
        seen.push((a, b));
    }
    assert_eq!(seen[0], seen[1]);
}

// contract: E-24f
#[tokio::test]
async fn validation_can_be_off() {
    let server = ApiServer::builder().validation(Validation::Off).start().await.unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}, "spec": {"x": 1}});
    let stored = Client::new(&server).post(PODS, &pod).await.ok();
    assert_eq!((&stored["spec"]["x"], stored["spec"].get("dnsPolicy")), (&json!(1), None));
}
