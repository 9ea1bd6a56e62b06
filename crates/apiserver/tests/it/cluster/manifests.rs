//! YAML: files, folders, documents, and their errors.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kinformer_apiserver::{Error, TestCluster, TestClusterBuilder};
use serde_json::json;

use super::{Team, cluster};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manifests");

/// The namespace of a document is created before the objects of those before it; what is no YAML is ignored.
// contract: E-16c
#[tokio::test]
async fn folders_are_read() {
    let team = "{apiVersion: example.com/v1, kind: Team, metadata: {name: a}, spec: {members: []}}";
    let builder = TestCluster::builder().yaml(team).manifests(FOLDER).crd(Team::crd());
    let cluster = builder.object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}));
    let cluster = cluster.start().await.unwrap();
    let limits = cluster.get::<ConfigMap>("teams/limits").unwrap();
    assert_eq!(limits.data.unwrap()["text"], "---indented\na: b\n");
    assert!(cluster.get::<Team>("a").is_ok() && cluster.get::<Namespace>("b").is_ok());
    let file = TestCluster::builder().manifests(format!("{FOLDER}/definitions.yaml")).start().await.unwrap();
    assert!(file.get::<Namespace>("teams").is_ok());
}

async fn error(builder: TestClusterBuilder) -> String {
    builder.start().await.unwrap_err().to_string()
}

// contract: E-16c
#[tokio::test]
async fn errors_name_file_document_and_object() {
    let text = "# comment\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n---\n\n---\n";
    let missing = format!("{text}{{apiVersion: v1, kind: ConfigMap, metadata: {{name: m, namespace: b}}}}");
    let found = error(TestCluster::builder().yaml(&missing)).await;
    assert_eq!(found, "YAML, document 2, ConfigMap b/m: namespaces \"b\" not found");
    let found = error(TestCluster::builder().yaml(format!("{text}a: [\n"))).await;
    assert!(found.starts_with("YAML, document 2: ") && found.contains("line 7"), "{found}");
    let found = error(TestCluster::builder().yaml(format!("{text}a: b"))).await;
    assert_eq!(found, "YAML, document 2: it is not an object with a kind");
    let found = error(TestCluster::builder().manifests(format!("{FOLDER}/notes.txt"))).await;
    assert!(found.contains("notes.txt, document 1: "), "{found}");
    let absent = TestCluster::builder().manifests(format!("{FOLDER}/absent")).start().await.unwrap_err();
    assert!(matches!(&absent, Error::Read { path, .. } if path.ends_with("absent")), "{absent}");
    let found = error(TestCluster::builder().object(Team::new("a", &[]))).await;
    assert!(found.starts_with("object of the builder, document 1, a: no resource for kind"), "{found}");
}

/// Objects of earlier documents are stored; an apply changes what exists, and keeps what others own.
// contract: E-16c
#[tokio::test]
async fn texts_are_created_and_applied() {
    let cluster = cluster().await;
    let map =
        |data: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: m}}, data: {{{data}}}}}");
    let made = cluster.apply_yaml(&map("a: '1', b: '1'")).unwrap();
    assert_eq!(made[0]["metadata"]["managedFields"][0]["manager"], "test-cluster");
    let other =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"c": "1"}});
    let maps = kube_client::Api::<ConfigMap>::default_namespaced(cluster.client());
    let (params, patch) =
        (kube_client::api::PatchParams::apply("other"), kube_client::api::Patch::Apply(other));
    maps.patch("m", &params, &patch).await.unwrap();
    cluster.apply_yaml(&map("b: '2'")).unwrap();
    let data = cluster.get::<ConfigMap>("m").unwrap().data.unwrap();
    let data: Vec<_> = data.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(data, [("b", "2"), ("c", "1")]);

    let both = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: other}}}}\n---\n{}", map(""));
    let error = cluster.create_yaml(&both).unwrap_err();
    assert_eq!(error.to_string(), "YAML, document 2, ConfigMap m: configmaps \"m\" already exists");
    assert!(cluster.get::<Namespace>("other").is_ok());
}
