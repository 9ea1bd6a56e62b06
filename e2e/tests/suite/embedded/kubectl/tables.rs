//! The columns of every kind, as the servers define them.

use std::collections::BTreeMap;

use kube_client::Client;
use serde_json::{Value, json};

/// Kinds whose tables have only the name and the creation time on the embedded server.
const PLAIN: &[&str] = &[
    "/api/v1/podtemplates",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    "/apis/apps/v1/controllerrevisions",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "/apis/networking.k8s.io/v1/ipaddresses",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/networking.k8s.io/v1/servicecidrs",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/resource.k8s.io/v1/resourceclaims",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/storage.k8s.io/v1/volumeattributesclasses",
];

pub(super) async fn have_the_same_columns(real: &Client, ours: &Client) {
    let mut problems = Vec::new();
    let (real, ours) = (columns(real).await, columns(ours).await);
    assert!(ours.len() > 50, "{} kinds", ours.len());
    for (path, columns) in &ours {
        let same = real.get(path) == Some(columns);
        if same == PLAIN.contains(&path.as_str()) {
            problems.push(format!("{path}: {:?}\n    ours {columns:?}", real.get(path)));
        }
    }
    assert!(problems.is_empty(), "{} kinds:\n{}", problems.len(), problems.join("\n"));
}

/// Returns the columns of all resources that can be listed, by path.
async fn columns(client: &Client) -> BTreeMap<String, Vec<String>> {
    let groups = get(client, "/apis").await;
    let groups = groups["groups"].as_array().unwrap().iter();
    let versions = groups.flat_map(|group| group["versions"].as_array().unwrap());
    let versions = versions.map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
    let mut found = BTreeMap::new();
    for version in std::iter::once("/api/v1".to_owned()).chain(versions) {
        let resources = get(client, &version).await;
        for resource in resources["resources"].as_array().unwrap() {
            let listed = resource["verbs"].as_array().unwrap().contains(&json!("list"));
            let path = format!("{version}/{}", resource["name"].as_str().unwrap());
            if listed {
                let table = get(client, &path).await;
                let columns = table["columnDefinitions"].as_array().unwrap().iter();
                let shown = |column: &Value| {
                    let of = |member: &str| column[member].to_string();
                    format!("{} {} {} {}", of("name"), of("type"), of("format"), of("priority"))
                };
                found.insert(path, columns.map(shown).collect());
            }
        }
    }
    found
}

async fn get(client: &Client, path: &str) -> Value {
    let request = http::Request::get(path)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
    let answer = client.request_text(request.body(Vec::new()).unwrap()).await;
    serde_json::from_str(&answer.unwrap_or_else(|error| panic!("{path}: {error}"))).unwrap()
}
