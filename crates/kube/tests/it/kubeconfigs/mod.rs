//! What is sent for each kubeconfig, compared with kubectl.

mod cases;
mod fixture;

use serde_json::json;

use crate::common::certificates;
use cases::cases;
use fixture::{Fixture, send};

/// The case, and what kubectl sends. A difference is followed by what is sent here: `case | kubectl | here`.
/// `e2e/tests/suite/kubeconfigs.rs` checks it with kubectl, and has the reasons of the differences.
const TABLE: &str = include_str!("table.txt");

// contract: L-31a, L-31b, L-31c, L-31d, L-31e, L-31f, L-31g, L-31h, L-31i
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_those_of_kubectl() {
    let fixture = Fixture::new().await;
    let path = fixture.folder.path().join("config");
    let mut expected = TABLE.lines();
    let mut differences = Vec::new();
    let cases = cases(&fixture.material);
    for case in &cases {
        std::fs::write(&path, &case.kubeconfig).unwrap();
        let before = fixture.requests();
        let result = send(&path).await;
        let sent = fixture.sent(before, result.is_ok());
        let row: Vec<_> = expected.next().unwrap_or_default().split(" | ").collect();
        let (name, wanted) = (row[0], row.last().copied().unwrap_or_default());
        if name != case.name || wanted != sent {
            differences.push(format!("{}: {sent} ({result:?}), expected {name}: {wanted}", case.name));
        }
    }
    assert_eq!(expected.next(), None);
    assert!(differences.is_empty(), "{} of {}:\n{}", differences.len(), cases.len(), differences.join("\n"));
}

/// A plugin that asks for it receives the cluster, with a CA as data.
// contract: L-31j
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugin_receives_the_cluster() {
    let fixture = Fixture::new().await;
    let folder = fixture.folder.path();
    let issued = std::fs::read_to_string(folder.join("plugin")).unwrap();
    let info = folder.join("info");
    std::fs::write(
        folder.join("plugin"),
        format!("printf %s \"$KUBERNETES_EXEC_INFO\" > '{}'\n{issued}", info.display()),
    )
    .unwrap();
    let ca = (fixture.material.base64)(fixture.material.ca.as_bytes());
    let server = &fixture.material.server;
    for (cluster, provides, expected) in [
        (
            json!({"server": server, "certificate-authority-data": ca, "tls-server-name": "127.0.0.1"}),
            true,
            json!({"server": server, "certificate-authority-data": ca, "tls-server-name": "127.0.0.1"}),
        ),
        (
            json!({"server": server, "certificate-authority": folder.join("ca")}),
            true,
            json!({"server": server, "certificate-authority-data": ca}),
        ),
        (
            json!({"server": server, "insecure-skip-tls-verify": true}),
            true,
            json!({"server": server, "insecure-skip-tls-verify": true}),
        ),
        (json!({"server": server, "certificate-authority-data": ca}), false, json!(null)),
    ] {
        let mut exec = fixture.material.exec.clone();
        exec["provideClusterInfo"] = provides.into();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "b", "cluster": cluster}],
            "users": [{"name": "c", "user": {"exec": exec}}],
            "contexts": [{"name": "a", "context": {"cluster": "b", "user": "c"}}],
        });
        let path = folder.join("config");
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        send(&path).await.unwrap();
        let received: serde_json::Value = serde_json::from_slice(&std::fs::read(&info).unwrap()).unwrap();
        assert_eq!(received["spec"]["cluster"], expected, "{cluster}");
    }
}
