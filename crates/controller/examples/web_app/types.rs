//! The custom resource.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A web application: an image that runs with the configuration of a config map, behind a Service.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "WebApp",
    namespaced,
    status = "WebAppStatus",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type == 'Ready')].reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebAppSpec {
    pub(crate) image: String,
    /// The config map in the same namespace. Several applications may have the same.
    pub(crate) config_map: String,
    /// The number of pods. Without it, it is left to an autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct WebAppStatus {
    #[schemars(schema_with = "conditions")]
    pub(crate) conditions: Vec<Condition>,
}

/// Conditions by their types, so that others may add some.
fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64"},
            },
        },
    })
}
