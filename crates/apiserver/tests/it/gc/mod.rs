//! What follows from deletions.

mod collections;
mod cycles;
mod definitions;
mod model;
mod namespaces;
mod options;
mod owners;
mod pods;
mod policies;
mod validation;

use http::Method;
use kinformer_apiserver::{ApiServer, Builder};
use serde_json::{Value, json};

use crate::common::{Answer, Client, config_map};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server and its client.
struct World {
    server: ApiServer,
    client: Client,
}

impl World {
    async fn new() -> Self {
        Self::of(ApiServer::builder()).await
    }

    async fn of(builder: Builder) -> Self {
        let server = builder.start().await.unwrap();
        let client = Client::new(&server);
        Self { server, client }
    }

    /// Creates a config map with these owners.
    async fn map(&self, name: &str, owners: &[Value]) -> Value {
        let mut map = config_map(name, "v");
        map["metadata"]["ownerReferences"] = owners.into();
        self.client.post(MAPS, &map).await.ok()
    }

    /// Creates a config map with these owners that a finalizer of a user holds.
    async fn held(&self, name: &str, owners: &[Value]) -> Value {
        let mut map = config_map(name, "v");
        map["metadata"]["ownerReferences"] = owners.into();
        map["metadata"]["finalizers"] = json!(["example.com/hold"]);
        self.client.post(MAPS, &map).await.ok()
    }

    /// Removes the finalizers of users from a config map.
    async fn release(&self, name: &str) {
        let patch = json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
        self.client.patch(&format!("{MAPS}/{name}"), "json-patch", &patch).await.ok();
    }

    async fn delete(&self, path: &str, options: Value) -> Answer {
        self.client.send(Method::DELETE, path, &[], options.to_string()).await
    }

    /// Deletes a config map with a policy.
    async fn delete_map(&self, name: &str, policy: &str) -> Value {
        self.delete(&format!("{MAPS}/{name}"), json!({"propagationPolicy": policy})).await.ok()
    }

    /// Returns a config map; `None` if it does not exist.
    async fn get(&self, name: &str) -> Option<Value> {
        let answer = self.client.get(&format!("{MAPS}/{name}")).await;
        (answer.code != 404).then(|| answer.ok())
    }

    /// The names of the config maps.
    async fn names(&self) -> Vec<String> {
        crate::common::names(&self.client.get(MAPS).await.ok())
    }

    /// Type and name of each event of a collection after a version, in order.
    async fn events(&self, path: &str, version: u64) -> Vec<String> {
        let mut watch = self.client.watch(&format!("{path}?watch=1&resourceVersion={version}")).await;
        let last = self.server.version();
        // A bookmark of its own: the watch has all events when it has this one.
        let mut marker = json!({"apiVersion": "v1", "metadata": {"name": "marker"}});
        if path.ends_with("/pods") {
            marker["spec"] = kinformer_apiserver::valid_pod("marker")["spec"].clone();
        }
        let marked = self.client.post(path, &marker).await.ok();
        let mut events = Vec::new();
        loop {
            let (kind, name, version) = watch.event().await;
            if name == "marker" {
                break;
            }
            assert!(version <= last, "an event after the marker");
            events.push(format!("{kind} {name}"));
        }
        let path = format!("{path}/{}", marked["metadata"]["name"].as_str().unwrap());
        self.client.delete(&path).await.ok();
        events
    }
}

/// A reference to an owner.
fn owner(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"]})
}

/// A reference to an owner that waits for the dependent.
fn blocking(object: &Value) -> Value {
    let mut owner = owner(object);
    owner["blockOwnerDeletion"] = true.into();
    owner
}

/// A reference to a config map that does not exist.
fn absent(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": uid})
}

fn owners_of(object: &Value) -> Vec<String> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().map(|owner| owner["name"].as_str().unwrap().to_owned()).collect()
}
