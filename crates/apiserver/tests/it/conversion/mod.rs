//! Conversion webhooks.

mod failures;
mod objects;

use kinformer_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::admission::{Reply, WebhookServer};
use crate::common::Client;

/// The things of a version.
fn things(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/things")
}

fn thing(version: &str, name: &str, fields: &Value) -> Value {
    let mut thing =
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Thing", "metadata": {"name": name}});
    for (name, value) in fields.as_object().unwrap() {
        thing[name] = value.clone();
    }
    thing
}

/// A definition that stores `v1`, with the text `size`. In `v2` this is the number `count`. Both have a status.
fn definition(webhooks: &WebhookServer) -> Value {
    let version = |name: &str, field: &str, kind: &str| {
        json!({"name": name, "served": true, "storage": name == "v1", "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": format!(".{field}")}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                field: {"type": kind}, "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}}}})
    };
    let url = format!("https://{}/convert", webhooks.address);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"url": url, "caBundle": webhooks.authority}}},
            "versions": [version("v1", "size", "string"), version("v2", "count", "integer")]}})
}

/// Returns an object in a version.
fn converted(object: &Value, to: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = to.into();
    let fields = object.as_object_mut().unwrap();
    if to.ends_with("v2") {
        if let Some(size) = fields.remove("size") {
            fields.insert("count".into(), size.as_str().unwrap().parse::<i64>().unwrap().into());
        }
    } else if let Some(count) = fields.remove("count") {
        fields.insert("size".into(), count.to_string().into());
    }
    object
}

/// The answer to a review with these objects.
fn answer(request: &Value, objects: &Value) -> Reply {
    let response =
        json!({"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}});
    reply(&response)
}

fn reply(response: &Value) -> Reply {
    let review =
        json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response});
    Reply::Raw(200, "application/json", review.to_string())
}

fn convert(request: &Value) -> Reply {
    let to = request["desiredAPIVersion"].as_str().unwrap();
    let objects = request["objects"].as_array().unwrap().iter().map(|object| converted(object, to));
    answer(request, &objects.collect())
}

/// Starts a server with a webhook that answers like this.
async fn serving(
    answer: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> (ApiServer, Client, WebhookServer) {
    let webhooks = WebhookServer::start(move |_, request| answer(request)).await;
    let server = crate::common::server().await;
    server.create(definition(&webhooks)).unwrap();
    let client = Client::new(&server);
    (server, client, webhooks)
}
