//! The custom resource.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A website: an image that runs in some replicas, behind a Service.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type == 'Ready')].status"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The image of the web server, which listens on port 8080.
    #[schemars(length(min = 1))]
    pub image: String,
    /// The number of pods.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100))]
    pub replicas: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct WebsiteStatus {
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

fn one() -> i32 {
    1
}
