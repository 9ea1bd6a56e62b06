//! Random writes with a complete record.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_client::{Api, Client, Error};
use kube_core::discovery::ApiResource;
use kube_core::dynamic::DynamicObject;
use kube_core::params::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::History;

/// How long to investigate a failed write.
const SETTLED: Duration = Duration::from_secs(120);

/// The resources that are written, as `kinformer watch` names them.
pub const RESOURCES: [&str; 3] = ["pods", "deployments.apps", "nodes"];
/// The same resources, as the client-go program names them.
pub const GROUP_VERSION_RESOURCES: [&str; 3] = ["v1/pods", "apps/v1/deployments", "v1/nodes"];

/// How many names each resource uses. A small number, so that objects are deleted and created again.
const NAMES: usize = 24;

/// Writes pods, deployments and nodes, one after another, chosen by a seed.
pub struct Writer {
    client: Client,
    random: fastrand::Rng,
    run: u64,
    history: History,
    written: u64,
}

/// An object that may or may not exist.
struct Place {
    resource: &'static str,
    api: Api<DynamicObject>,
    name: String,
    key: String,
}

impl Writer {
    /// Creates a writer with the namespaces of the seed, which may exist without objects of these resources.
    ///
    /// # Errors
    /// The namespaces cannot be created.
    pub async fn begin(client: Client, seed: u64) -> Result<Self, Error> {
        let writer = Self {
            client,
            random: fastrand::Rng::with_seed(seed),
            run: seed,
            history: History::default(),
            written: 0,
        };
        let named = |name: String| ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        let namespaces: Api<Namespace> = Api::all(writer.client.clone());
        for number in 0..2 {
            let namespace = writer.namespace(number);
            let created = Namespace { metadata: named(namespace.clone()), ..Namespace::default() };
            unless_exists(namespaces.create(&PostParams::default(), &created).await)?;
            // Pods need a service account, and no controller creates it here.
            let account = ServiceAccount { metadata: named("default".into()), ..ServiceAccount::default() };
            let accounts: Api<ServiceAccount> = Api::namespaced(writer.client.clone(), &namespace);
            unless_exists(accounts.create(&PostParams::default(), &account).await)?;
        }
        Ok(writer)
    }

    /// Returns the record of all writes so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Makes this many writes.
    ///
    /// # Errors
    /// A write failed, and its effect cannot be determined.
    pub async fn write(&mut self, times: usize) -> Result<(), Error> {
        for _ in 0..times {
            let place = self.place();
            self.write_one(&place).await?;
        }
        Ok(())
    }

    /// Writes one last object of each resource, and returns their key. An informer that has received them has
    /// received all writes.
    ///
    /// # Errors
    /// The same as [`Self::write`].
    pub async fn end(&mut self) -> Result<(), Error> {
        for resource in RESOURCES {
            let place = self.named(resource, 0, "last".to_owned());
            self.create(&place).await?;
        }
        Ok(())
    }

    /// Whether a key is that of the last object of a resource.
    pub fn is_last(key: &str) -> bool {
        key.ends_with("-last")
    }

    /// Deletes all remaining objects, without recording it.
    ///
    /// # Errors
    /// A deletion fails.
    pub async fn clean_up(self) -> Result<(), Error> {
        for resource in RESOURCES {
            for namespace in 0..2 {
                let names = (0..NAMES).map(|number| number.to_string()).chain(["last".to_owned()]);
                for name in names {
                    let place = self.named(resource, namespace, name);
                    if self.history.version(resource, &place.key).is_some() {
                        place.api.delete(&place.name, &DeleteParams::background()).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn namespace(&self, number: usize) -> String {
        format!("work-{}-{number}", self.run)
    }

    fn place(&mut self) -> Place {
        let resource = self.random.choice(RESOURCES).unwrap_or(RESOURCES[0]);
        let (namespace, name) = (self.random.usize(..2), self.random.usize(..NAMES));
        self.named(resource, namespace, name.to_string())
    }

    fn named(&self, resource: &'static str, namespace: usize, name: String) -> Place {
        let client = self.client.clone();
        let namespace = self.namespace(namespace);
        let namespaced = |of: ApiResource| Api::namespaced_with(client.clone(), &namespace, &of);
        let api = match resource {
            "pods" => namespaced(ApiResource::erase::<Pod>(&())),
            "deployments.apps" => namespaced(ApiResource::erase::<Deployment>(&())),
            _ => {
                let name = format!("{namespace}-{name}");
                let api = Api::all_with(client, &ApiResource::erase::<Node>(&()));
                return Place { resource, api, key: name.clone(), name };
            }
        };
        let name = format!("work-{name}");
        Place { resource, api, key: format!("{namespace}/{name}"), name }
    }

    async fn write_one(&mut self, place: &Place) -> Result<(), Error> {
        if self.history.version(place.resource, &place.key).is_none() {
            return self.create(place).await;
        }
        if self.random.u8(..4) == 0 {
            let answer = place.api.delete(&place.name, &DeleteParams::background()).await;
            match answer {
                Ok(_) => self.history.deleted(place.resource, &place.key),
                Err(error) => self.settle(place, error).await?,
            }
            return Ok(());
        }
        self.written += 1;
        let patch = json!({"metadata": {"labels": {"written": self.written.to_string()}}});
        let answer = place.api.patch(&place.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        self.note(place, answer).await
    }

    async fn create(&mut self, place: &Place) -> Result<(), Error> {
        let object = serde_json::from_value(object(place)).map_err(Error::SerdeError)?;
        let answer = place.api.create(&PostParams::default(), &object).await;
        self.note(place, answer).await
    }

    async fn note(&mut self, place: &Place, answer: Result<DynamicObject, Error>) -> Result<(), Error> {
        match answer {
            Ok(object) => {
                self.history.written(place.resource, &place.key, version(&object));
                Ok(())
            }
            Err(error) => self.settle(place, error).await,
        }
    }

    /// Determines the effect of a failed write, which may or may not have been applied, by reading the object until
    /// the server responds. Fails if the server keeps rejecting requests.
    async fn settle(&mut self, place: &Place, error: Error) -> Result<(), Error> {
        if matches!(&error, Error::Api(status) if [400, 401, 403, 405, 415, 422].contains(&status.code)) {
            return Err(error);
        }
        let deadline = Instant::now() + SETTLED;
        loop {
            match place.api.get_opt(&place.name).await {
                Ok(found) => {
                    let (now, before) =
                        (found.as_ref().map(version), self.history.version(place.resource, &place.key));
                    match now {
                        Some(version) if now != before => {
                            self.history.written(place.resource, &place.key, version);
                        }
                        None if before.is_some() => self.history.deleted(place.resource, &place.key),
                        _ => {}
                    }
                    return Ok(());
                }
                Err(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(_) => return Err(error),
            }
        }
    }
}

fn unless_exists<K>(created: Result<K, Error>) -> Result<(), Error> {
    match created {
        Err(Error::Api(status)) if status.code == 409 => Ok(()),
        created => created.map(drop),
    }
}

fn version(object: &DynamicObject) -> u64 {
    object.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn object(place: &Place) -> Value {
    let metadata = json!({"name": place.name});
    let containers = json!({"containers": [{"name": "c", "image": "i"}]});
    match place.resource {
        "pods" => json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": containers}),
        "deployments.apps" => {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {
                "selector": {"matchLabels": {"app": "work"}},
                "template": {"metadata": {"labels": {"app": "work"}}, "spec": containers},
            }})
        }
        _ => json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}),
    }
}
