//! Schemas of custom resources: definitions that are refused, and objects that are pruned, defaulted and validated.

mod definitions;
mod embedded;
mod form;
mod names;
mod objects;
#[cfg(feature = "cel")]
mod rules;
mod selectors;
mod updates;
mod versions;

use kinformer_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::common::{Answer, Client, server};

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// A definition with one version of this schema.
pub(crate) fn definition(schema: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// A definition whose objects have a field `x`.
pub(crate) fn with_field(x: &Value) -> Value {
    definition(&json!({"type": "object", "properties": {"x": x}}))
}

pub(crate) fn thing(fields: &Value) -> Value {
    let mut thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
    for (name, value) in fields.as_object().unwrap() {
        thing[name] = value.clone();
    }
    thing
}

/// Starts a server with a definition.
pub(crate) async fn serving(definition: &Value) -> (ApiServer, Client) {
    let server = server().await;
    let client = Client::new(&server);
    client.post(DEFINITIONS, definition).await.ok();
    (server, client)
}

/// Returns the causes as lines: field, reason, message.
pub(crate) fn causes(answer: &Answer) -> Vec<String> {
    let causes = answer.body["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or("").to_owned();
    let line = |cause: &Value| {
        let reason = text(cause, "reason").replace("FieldValue", "");
        format!("{} {reason}: {}", text(cause, "field"), text(cause, "message"))
    };
    causes.iter().map(line).collect()
}
