//! `TestCluster`: typed objects, YAML, waits, the log of requests, snapshots, and an operator of kube-runtime on it.

mod finalizers;
mod manifests;
mod objects;
mod operator;
mod requests;
mod snapshot_model;
mod snapshots;
mod waits;

use std::borrow::Cow;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinformer_apiserver::TestCluster;
use kube_client::core::metadata::ObjectMeta;
use kube_client::core::{NamespaceResourceScope, Resource};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A custom resource: its config map lists its members.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Team {
    metadata: ObjectMeta,
    spec: TeamSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<TeamStatus>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct TeamSpec {
    members: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct TeamStatus {
    observed_generation: i64,
}

impl Resource for Team {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Team".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "teams".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Team {
    fn new(name: &str, members: &[&str]) -> Self {
        let members = members.iter().map(ToString::to_string).collect();
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        Self { metadata, spec: TeamSpec { members }, status: None }
    }

    /// As `Team::crd()` of a derived type.
    fn crd() -> CustomResourceDefinition {
        let members = json!({"type": "array", "items": {"type": "string"}});
        let object = |properties| json!({"type": "object", "properties": properties});
        let schema = object(json!({
            "spec": object(json!({"members": members})),
            "status": object(json!({"observedGeneration": {"type": "integer"}})),
        }));
        serde_json::from_value(json!({
            "metadata": {"name": "teams.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "teams", "kind": "Team"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema}}],
            },
        }))
        .unwrap()
    }
}

fn config_map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

async fn cluster() -> TestCluster {
    TestCluster::builder().crd(Team::crd()).start().await.unwrap()
}
