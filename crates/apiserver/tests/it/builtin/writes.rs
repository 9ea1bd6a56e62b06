//! What writes of built-in kinds keep, set and allow.

use http::Method;
use kinformer_apiserver::{ApiServer, Validation, valid_pod};
use serde_json::{Value, json};

use super::{PODS, SERVICES};
use crate::common::{Client, job, server};

/// The numbers of `default/echo:8443` and `default/echo:15672` would be equal.
// contract: E-24e
#[tokio::test]
async fn the_ports_of_a_service_have_different_numbers() {
    let server = server().await;
    let client = Client::new(&server);
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"}, "spec": {
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"name": "a", "port": 8443},
            {"name": "b", "port": 15672}, {"name": "c", "port": 53}, {"name": "d", "port": 53, "protocol": "UDP"}]}});
    let numbers = |service: &Value| {
        let ports = service["spec"]["ports"].as_array().unwrap().iter().map(|port| port["nodePort"].as_i64());
        ports.map(Option::unwrap).collect::<Vec<i64>>()
    };
    let created = client.post(SERVICES, &service).await.ok();
    let first = numbers(&created);
    assert_eq!((first[0] + 1, first[2]), (first[1], first[3]));
    assert!(!first.contains(&created["spec"]["healthCheckNodePort"].as_i64().unwrap()));

    // a port keeps its number by its name
    service["spec"]["ports"] = json!([{"name": "b", "port": 1}, {"name": "e", "port": 2, "nodePort": first[0]},
        {"name": "a", "port": 3}]);
    let updated = client.put(&format!("{SERVICES}/echo"), &service).await.ok();
    let second = numbers(&updated);
    assert_eq!(&second[..2], [first[1], first[0]]);
    assert!(!first.contains(&second[2]));
    assert_eq!(updated["spec"]["healthCheckNodePort"], created["spec"]["healthCheckNodePort"]);

    service["metadata"]["name"] = json!("other");
    service["spec"]["ports"] =
        json!([{"name": "a", "port": 1, "nodePort": 30001}, {"name": "b", "port": 2, "nodePort": 30001}]);
    let refused = client.post(SERVICES, &service).await.status(422, "Invalid");
    assert!(
        refused.ends_with("spec.ports[1].nodePort: Invalid value: 30001: provided port is already allocated"),
        "{refused}"
    );
}

// contract: E-24a
#[tokio::test]
async fn a_service_of_another_type_has_no_load_balancer() {
    let server = server().await;
    let client = Client::new(&server);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    client.post(SERVICES, &service).await.ok();
    let path = format!("{SERVICES}/a");
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}});
    let status = client.patch(&format!("{path}/status"), "merge-patch", &status).await.ok()["status"].clone();
    assert_eq!(status["loadBalancer"]["ingress"][0]["ipMode"], "VIP");
    let changed = client.patch(&path, "merge-patch", &json!({"spec": {"type": "ClusterIP"}})).await.ok();
    assert_eq!(changed["status"], json!({"loadBalancer": {}}));
}

/// The pods of a cluster have a service account, so that their projected tokens are accepted.
// contract: E-24c
#[tokio::test]
async fn a_projected_token_needs_no_service_account() {
    let server = server().await;
    let mut pod = valid_pod("a");
    pod["spec"]["volumes"] =
        json!([{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]);
    Client::new(&server).post(PODS, &pod).await.ok();
}

// contract: E-24a
#[tokio::test]
async fn new_pods_have_the_selectors_and_resources_of_their_parts() {
    let server = server().await;
    let mut pod = valid_pod("a");
    pod["metadata"]["labels"] = json!({"app": "web", "tier": "front"});
    let term = json!({"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["app", "none"],
        "mismatchLabelKeys": ["tier"]});
    pod["spec"]["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}});
    pod["spec"]["resources"] = json!({"requests": {"cpu": "100m"}});
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "64Mi"}});
    let limits = |memory: &str| json!({"limits": {"cpu": "500m", "memory": memory}});
    pod["spec"]["initContainers"] = json!([
        {"name": "sidecar", "image": "a", "restartPolicy": "Always", "resources": limits("32Mi")},
        {"name": "init", "image": "a", "resources": limits("128Mi")},
    ]);
    let pod = Client::new(&server).post(PODS, &pod).await.ok();
    let preferred =
        "/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm";
    assert_eq!(
        pod.pointer(preferred).unwrap()["labelSelector"]["matchExpressions"],
        json!([{"key": "app", "operator": "In", "values": ["web"]}, {"key": "tier", "operator": "NotIn", "values": ["front"]}])
    );
    assert_eq!(
        pod["spec"]["resources"],
        json!({"limits": {"cpu": "1500m", "memory": "160Mi"}, "requests": {"cpu": "100m", "memory": "160Mi"}})
    );
}

// contract: E-24c
#[tokio::test]
async fn events_of_both_groups_are_validated() {
    let server = server().await;
    let client = Client::new(&server);
    let new = "/apis/events.k8s.io/v1/namespaces/default/events";
    let mut event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"},
        "eventTime": "2026-01-02T03:04:05.000006Z", "reportingController": "example.com/a", "reportingInstance": "a",
        "action": "A", "reason": "R", "type": "Normal", "regarding": {"kind": "Node", "name": "n"}});
    client.post(new, &event).await.ok();
    event["metadata"]["name"] = json!("b");
    event["action"] = json!("");
    event["type"] = json!("Other");
    event["deprecatedCount"] = json!(1);
    let refused = client.post(new, &event).await.status(422, "Invalid");
    for field in [
        "action: Required value",
        "type: Invalid value: \"\": has invalid value: Other",
        "count: Invalid value",
    ] {
        assert!(refused.contains(field), "{refused}");
    }
    let changed = client.patch(&format!("{new}/a"), "merge-patch", &json!({"note": "n"})).await;
    assert!(changed.status(422, "Invalid").contains("message: Invalid value: \"n\": field is immutable"));
    let core = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "c"}, "involvedObject": {},
        "eventTime": "2026-01-02T03:04:05.000006Z"});
    let refused = client.post("/api/v1/namespaces/default/events", &core).await.status(422, "Invalid");
    assert!(refused.contains("reportingComponent: Required value"), "{refused}");
}

/// Objects that were stored without defaults get them by a write.
// contract: E-24a, E-24f
#[tokio::test]
async fn objects_without_defaults_can_be_updated() {
    let incomplete = ApiServer::builder().validation(Validation::Off).start().await.unwrap();
    incomplete.create(valid_pod("a")).unwrap();
    incomplete.create(job("b")).unwrap();
    let server = ApiServer::builder().snapshot(&incomplete.snapshot()).start().await.unwrap();
    let client = Client::new(&server);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let pod = client.patch(&format!("{PODS}/a"), "merge-patch", &labels).await.ok();
    assert_eq!(pod["spec"]["dnsPolicy"], "ClusterFirst");
    client.patch("/apis/batch/v1/namespaces/default/jobs/b", "merge-patch", &labels).await.ok();
}

// contract: E-24d
#[tokio::test]
async fn the_in_process_api_assigns_nodes() {
    let server = server().await;
    server.create(valid_pod("a")).unwrap();
    let mut pod = server.get("v1", "Pod", "default", "a").unwrap().unwrap();
    pod["spec"]["nodeName"] = json!("n");
    let mut pod = server.update(pod).unwrap();
    pod["spec"]["nodeName"] = json!("m");
    assert!(server.update(pod).unwrap_err().to_string().contains("pod updates may not change fields"));
}

/// The storage keeps decisions and times.
// contract: E-24a
#[tokio::test]
async fn statuses_have_times() {
    let server = server().await;
    let client = Client::new(&server);
    let path = "/api/v1/persistentvolumes";
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}});
    let mut volume = client.post(path, &volume).await.ok();
    volume["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": "2026-01-02T03:04:05Z"});
    let path = format!("{path}/a/status");
    let put = async |status: Value| {
        let changes = json!({"status": status});
        client
            .send(
                Method::PATCH,
                &path,
                &[("content-type", "application/merge-patch+json")],
                changes.to_string(),
            )
            .await
            .ok()["status"]
            .clone()
    };
    put(volume["status"].clone()).await;
    let same = put(json!({"phase": "Pending", "lastPhaseTransitionTime": null, "message": "m"})).await;
    assert_eq!(same["lastPhaseTransitionTime"], "2026-01-02T03:04:05Z");
    let other = put(json!({"phase": "Available"})).await;
    assert_ne!(other["lastPhaseTransitionTime"], "2026-01-02T03:04:05Z");

    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let sample = super::samples::samples("default").pop().unwrap();
    let mut request = client.post(requests, &sample.object).await.ok();
    request["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "R"}]});
    let approved = server.update(request).unwrap();
    let mut changed = approved.clone();
    changed["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "other"},
        {"type": "Failed", "status": "True"}]);
    let written = client.put(&format!("{requests}/sample/status"), &changed).await.ok();
    let conditions = written["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions[0]["reason"], "R");
    assert!(conditions[1]["lastUpdateTime"].is_string() && conditions[1]["lastTransitionTime"].is_string());
}
