//! The time that a large object takes grows with its size.

use serde_json::{Value, json};

use crate::common::{Client, server};

/// To compare the parts of one of these with each other takes longer than a client waits.
// contract: E-24c
#[tokio::test]
async fn large_broken_objects_are_refused_in_time() {
    const COUNT: usize = 12_000;
    let server = server().await;
    let client = Client::new(&server);
    let pod =
        |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
    let many = |of: &dyn Fn(usize) -> Value| (0..COUNT).map(of).collect::<Value>();
    let container = |fields: Value| {
        let mut container = json!({"name": "a", "image": "a"});
        for (name, value) in fields.as_object().unwrap() {
            container[name] = value.clone();
        }
        json!([container])
    };
    let mounts = many(&|index| json!({"name": format!("v{index}"), "mountPath": format!("/{index}")}));
    let devices = many(&|index| json!({"name": format!("w{index}"), "devicePath": format!("/d{index}")}));
    for spec in [
        json!({"containers": many(&|_| json!({}))}),
        json!({"containers": container(json!({"volumeMounts": mounts, "volumeDevices": devices})),
            "volumes": many(&|index| json!({"name": format!("v{index}"), "emptyDir": {}}))}),
        json!({"containers": container(json!({})), "topologySpreadConstraints": many(&|_| json!({}))}),
    ] {
        client.post("/api/v1/namespaces/default/pods", &pod(spec)).await.status(422, "Invalid");
    }
}
