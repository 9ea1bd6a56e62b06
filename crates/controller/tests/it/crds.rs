//! Definitions of custom resources.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinformer_apiserver::{Fault, Verb};
use kinformer_controller::crd::{self, CrdError};
use kube_client::Api;
use serde_json::{Value, json};

use crate::common::Cluster;

const TIMEOUT: Duration = Duration::from_secs(30);

fn definition(plural: &str, versions: &[&str]) -> CustomResourceDefinition {
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": *name == versions[0],
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    let versions: Vec<Value> = versions.iter().map(version).collect();
    serde_json::from_value(json!({"metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "kind": "Website", "listKind": "WebsiteList", "singular": "website"}}}))
    .unwrap()
}

/// A definition is created, upgraded and left as it is. Its resource is served when the call returns.
// contract: K-20a
#[tokio::test]
async fn definitions_are_installed_and_upgraded() {
    let cluster = Cluster::start().await;
    let client = cluster.factory.client();
    let install = async |versions: &[&str]| {
        crd::install(client, [definition("websites", versions)], "test", TIMEOUT).await
    };
    for versions in [&["v1alpha1"][..], &["v1alpha1", "v1"], &["v1alpha1", "v1"]] {
        install(versions).await.unwrap();
        for version in versions {
            let path = format!("/apis/example.com/{version}/websites");
            let list: Value =
                client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
            assert_eq!(list["kind"], "WebsiteList");
        }
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let stored = api.get("websites.example.com").await.unwrap();
    let manager = &stored.metadata.managed_fields.unwrap()[0];
    assert_eq!((manager.manager.as_deref(), manager.operation.as_deref()), (Some("test"), Some("Apply")));

    let refused = install(&["v1"]).await.unwrap_err();
    assert!(
        matches!(&refused, CrdError::Write(error) if error.to_string().contains("v1alpha1")),
        "{refused}"
    );
    cluster.end().await;
}

/// A definition whose names are taken is never established: the error names it, with the conditions.
// contract: K-20a
#[tokio::test]
async fn definition_that_is_not_established_is_an_error() {
    let cluster = Cluster::start().await;
    let client = cluster.factory.client();
    crd::install(client, [definition("websites", &["v1"])], "test", TIMEOUT).await.unwrap();
    tokio::time::pause();
    let taken = crd::install(client, [definition("pages", &["v1"])], "test", TIMEOUT).await.unwrap_err();
    let text = taken.to_string();
    assert!(
        text.starts_with("definition \"pages.example.com\" was not established within 30s")
            && text.contains("NamesAccepted is False"),
        "{text}"
    );
    let failing = cluster.server.faults().inject(Fault::internal_error().on(Verb::Get).always());
    let unknown = crd::install(client, [definition("pages", &["v1"])], "test", TIMEOUT).await.unwrap_err();
    assert!(unknown.to_string().contains("injected fault"), "{unknown}");
    cluster.server.faults().remove(failing);
    tokio::time::resume();
    cluster.end().await;
}

// contract: K-20b
#[test]
fn definitions_are_printed_as_documents() {
    let definitions = [definition("websites", &["v1"]), definition("pages", &["v1", "v2"])];
    let text = crd::yaml(&definitions).unwrap();
    let documents: Vec<_> = text.split("---\n").collect();
    assert_eq!(documents.len(), 2);
    for (document, definition) in documents.into_iter().zip(definitions) {
        assert!(
            document.starts_with("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n")
        );
        assert_eq!(serde_saphyr::from_str::<CustomResourceDefinition>(document).unwrap(), definition);
    }
}
