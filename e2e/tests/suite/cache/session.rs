//! kinformer-cache: answers the calls that `e2e/controller-runtime` answers by controller-runtime.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kinformer::{Event, FieldPath, Informer, Packed};
use kinformer_cache::{Cache, Error, Kind};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client, Config};
use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, TypeMeta};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::call::Call;
use super::script::{error, ok};

/// How often a state is looked at that nothing notifies of.
const AGAIN: Duration = Duration::from_millis(5);
/// How many lists are compared with their order.
const LISTS: usize = 40;

/// The class of an error.
struct Class(String);

impl Class {
    fn of(class: &str) -> Self {
        Self(class.to_owned())
    }
}

impl From<Error> for Class {
    fn from(error: Error) -> Self {
        Self::of(match &error {
            Error::NotFound { .. } => "notFound",
            Error::NotStarted { .. } => "notStarted",
            Error::NotCached { .. } => "notCached",
            Error::UnknownNamespace { .. } => "unknownNamespace",
            Error::NotSynced { .. } | Error::WriteNotSeen { .. } => "timeout",
            Error::FieldSelector { .. } => "badSelector",
            Error::NoFieldIndex { .. } => "noIndex",
            Error::UnknownKind { .. } => "unknownKind",
            Error::ClusterScoped { .. } => "clusterScoped",
            Error::Informer(kinformer::Error::Informer(kinformer::InformerError::Indexers { .. })) => {
                "exists"
            }
            other => return Self(format!("other: {other}")),
        })
    }
}

impl From<kinformer::Error> for Class {
    fn from(error: kinformer::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<kube_client::Error> for Class {
    fn from(error: kube_client::Error) -> Self {
        match error {
            kube_client::Error::Api(status) if status.code == 404 => Self::of("notFound"),
            kube_client::Error::Api(status) if status.reason == "AlreadyExists" => Self::of("alreadyExists"),
            kube_client::Error::Api(status) if status.code == 409 => Self::of("conflict"),
            other => Self(format!("other: {other}")),
        }
    }
}

type Answer = Result<Value, Class>;

/// The cache that the calls are for.
pub(super) struct Session {
    client: Client,
    cache: Option<Cache>,
    informers: HashMap<String, Informer<()>>,
}

impl Session {
    pub(super) fn new(config: Config) -> Self {
        let client = kinformer::client(config).unwrap();
        Self { client, cache: None, informers: HashMap::new() }
    }

    pub(super) async fn answer(&mut self, call: &Value) -> Value {
        let call: Call = serde_json::from_value(call.clone()).unwrap();
        let timeout = call.timeout();
        let answer = tokio::time::timeout(timeout, self.result(&call)).await;
        match answer.unwrap_or_else(|_| Err(Class::of("timeout"))) {
            Ok(answer) => answer,
            Err(Class(class)) => error(&class),
        }
    }

    pub(super) async fn end(&mut self) {
        if let Some(cache) = self.cache.take() {
            cache.shutdown().await.unwrap();
        }
    }

    async fn result(&mut self, call: &Call) -> Answer {
        if call.call == "cache" {
            self.end().await;
            self.informers.clear();
            self.cache = Some(call.options.apply(Cache::builder(self.client.clone())).build().await?);
            return Ok(ok());
        }
        let cache = self.cache.clone().unwrap();
        match &*call.call {
            "start" => cache.start()?,
            "stop" => cache.shutdown().await?,
            "sync" => cache.wait_for_sync().await?,
            "stopped" => return Ok(json!({"stopped": stopped(&self.informers[&call.of], call).await})),
            "outside" => write(&self.client, &cache, &call.view, call).await?,
            "create" | "update" | "patch" | "status" | "delete" | "deleteAll" => {
                write(&cache.client(), &cache, &call.call, call).await?;
            }
            _ => return self.of_kind(&cache, call).await,
        }
        Ok(ok())
    }

    /// Answers a call for a kind, by its view.
    async fn of_kind(&mut self, cache: &Cache, call: &Call) -> Answer {
        match (&*call.view, &*call.kind) {
            ("typed", "Pod") => self.with(cache, cache.kind::<Pod>(), call, typed).await,
            ("typed", "Node") => self.with(cache, cache.kind::<Node>(), call, typed).await,
            ("typed", "Secret") => self.with(cache, cache.kind::<Secret>(), call, typed).await,
            ("typed", "ConfigMap") => self.with(cache, cache.kind::<ConfigMap>(), call, typed).await,
            ("metadata", "Pod") => self.with(cache, cache.metadata::<Pod>(), call, of_metadata).await,
            ("metadata", "Node") => self.with(cache, cache.metadata::<Node>(), call, of_metadata).await,
            ("metadata", _) => {
                self.with(cache, cache.dynamic_metadata(&call.gvk()).await?, call, of_metadata).await
            }
            ("dynamic", _) => {
                let types = |object: &Packed<DynamicObject>| object.decode().unwrap().types.clone();
                self.with(cache, cache.dynamic(&call.gvk()).await?, call, types).await
            }
            (view, kind) => panic!("there is no view {view} of {kind}"),
        }
    }

    async fn with<K: 'static>(
        &mut self,
        cache: &Cache,
        kind: Kind<K>,
        call: &Call,
        types: fn(&Packed<K>) -> Option<TypeMeta>,
    ) -> Answer {
        let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
        match &*call.call {
            "get" => Ok(json!({"object": describe(&kind.get(&*call.key()).await?, types)})),
            "list" => list(&kind, call).await,
            "ordered" => {
                let mut is_ordered = true;
                for _ in 0..LISTS {
                    is_ordered &= keys(&kind, call).await?.is_sorted();
                }
                Ok(json!({"ordered": is_ordered}))
            }
            "pages" => {
                let size = NonZeroUsize::new(call.count).unwrap();
                let pages = kind.pages(&call.query()?, size).await?;
                let (pages, mut keys) = (pages.len(), pages.flatten().map(key).collect::<Vec<_>>());
                keys.sort();
                Ok(json!({"keys": keys, "pages": pages}))
            }
            "index" if path.is_empty() => {
                let containers = FieldPath::new(&["spec", "containers"]);
                kind.index(&call.field, move |object, values| {
                    let containers: Option<Vec<Value>> = object.field(&containers)?;
                    for container in containers.iter().flatten() {
                        values.push(container["image"].as_str().unwrap_or_default());
                    }
                    Ok(())
                })?;
                Ok(ok())
            }
            "index" => {
                kind.index_by_field(&call.field, &path)?;
                Ok(ok())
            }
            "informer" => self.informer(&kind, call, types).await,
            "remove" => {
                kind.remove_informer().await;
                Ok(ok())
            }
            "createMany" => create_many(cache, &kind, call).await,
            other => panic!("there is no call {other}"),
        }
    }

    /// Requests an informer, and if it is waited for, returns the first additions of a handler.
    async fn informer<K: 'static>(
        &mut self,
        kind: &Kind<K>,
        call: &Call,
        types: fn(&Packed<K>) -> Option<TypeMeta>,
    ) -> Answer {
        let informer = kind.informer()?;
        if let Some(name) = &call.as_ {
            self.informers.insert(name.clone(), informer.cast());
        }
        if call.without_wait {
            return Ok(ok());
        }
        let informer = kind.synced_informer().await?;
        let added = Arc::new(Mutex::new(Vec::new()));
        let of_handler = added.clone();
        let handler = informer.for_each(move |event| {
            if let Event::Added(added) = event {
                let object = added.object.into_owned();
                let kind = kind_name(types(&object));
                of_handler.lock().push(format!("{} {kind}", object.key()));
            }
        })?;
        handler.synced().await.map_err(kinformer::Error::from)?;
        informer.remove_handler(&handler).await;
        let mut added = added.lock().clone();
        added.sort();
        Ok(json!({"added": added}))
    }
}

fn typed<K: k8s_openapi::Resource>(_: &Packed<K>) -> Option<TypeMeta> {
    Some(TypeMeta { api_version: K::API_VERSION.to_owned(), kind: K::KIND.to_owned() })
}

fn of_metadata<K>(object: &Packed<PartialObjectMeta<K>>) -> Option<TypeMeta>
where
    K: Send + Sync + 'static,
{
    object.decode().unwrap().types.clone()
}

fn kind_name(types: Option<TypeMeta>) -> String {
    types.map(|types| format!("{}/{}", types.api_version, types.kind)).unwrap_or_default()
}

fn key<K>(object: Packed<K>) -> String {
    object.key().to_string()
}

fn describe<K>(object: &Packed<K>, types: fn(&Packed<K>) -> Option<TypeMeta>) -> Value {
    let metadata = |field: &str| -> Option<Value> {
        let value = object.field(&FieldPath::new(&["metadata", field])).unwrap();
        value.filter(|value| *value != Value::Null)
    };
    json!({
        "key": object.key().to_string(),
        "kind": kind_name(types(object)),
        "labels": metadata("labels").unwrap_or(json!({})),
        "annotations": metadata("annotations").unwrap_or(json!({})),
        "managedFields": metadata("managedFields").is_some(),
        "deleting": metadata("deletionTimestamp").is_some(),
        "finalizers": metadata("finalizers").and_then(|all| Some(all.as_array()?.len())).unwrap_or_default(),
    })
}

async fn keys<K: 'static>(kind: &Kind<K>, call: &Call) -> Result<Vec<String>, Class> {
    Ok(kind.list(&call.query()?).await?.into_iter().map(key).collect())
}

async fn list<K: 'static>(kind: &Kind<K>, call: &Call) -> Answer {
    loop {
        let mut found = keys(kind, call).await?;
        found.sort();
        if call.limit > 0 {
            return Ok(json!({"count": found.len()}));
        }
        if call.until.as_ref().is_none_or(|until| *until == found) {
            return Ok(json!({"keys": found}));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Returns whether an informer has stopped, or stops in time.
async fn stopped(informer: &Informer<()>, call: &Call) -> bool {
    let deadline = Instant::now() + call.timeout() / 2;
    while !informer.status().is_stopped() && Instant::now() < deadline {
        tokio::time::sleep(AGAIN).await;
    }
    informer.status().is_stopped()
}

async fn api(client: &Client, cache: &Cache, call: &Call) -> Result<Api<DynamicObject>, Class> {
    let (resource, _) = cache.mapper().resource(&call.gvk()).await?;
    Ok(Api::namespaced_with(client.clone(), &call.namespace, &resource))
}

fn object(call: &Call, content: &Value) -> DynamicObject {
    let mut content = content.clone();
    (content["apiVersion"], content["kind"]) = (json!(call.gvk().api_version()), json!(call.kind));
    serde_json::from_value(content).unwrap()
}

async fn write(client: &Client, cache: &Cache, name: &str, call: &Call) -> Result<(), Class> {
    let api = api(client, cache, call).await?;
    let post = PostParams { dry_run: call.dry_run, ..PostParams::default() };
    let content = call.object.clone().unwrap_or_default();
    let patch = Patch::Merge(call.patch.clone().unwrap_or_default());
    match name {
        "create" => drop(api.create(&post, &object(call, &content)).await?),
        "update" => drop(api.replace(&call.name, &post, &object(call, &content)).await?),
        "patch" => drop(api.patch(&call.name, &PatchParams::default(), &patch).await?),
        "status" => drop(api.patch_status(&call.name, &PatchParams::default(), &patch).await?),
        "delete" => drop(api.delete(&call.name, &DeleteParams::default()).await?),
        "deleteAll" => {
            drop(api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?);
        }
        other => panic!("there is no write {other}"),
    }
    Ok(())
}

/// Creates objects, each followed by a read, and reports whether the reads found all of them.
async fn create_many<K: 'static>(cache: &Cache, kind: &Kind<K>, call: &Call) -> Answer {
    let api = api(&cache.client(), cache, call).await?;
    let mut all_seen = true;
    for number in 0..call.count {
        let name = format!("{}-{number}", call.name);
        let content = json!({"metadata": {"name": name, "labels": {"many": call.name}}});
        api.create(&PostParams::default(), &object(call, &content)).await?;
        match kind.get((&*call.namespace, &*name)).await {
            Ok(_) => {}
            Err(Error::NotFound { .. }) => all_seen = false,
            Err(error) => return Err(error.into()),
        }
    }
    let many = ListParams::default().labels(&format!("many={}", call.name));
    api.delete_collection(&DeleteParams::default(), &many).await?;
    Ok(json!({"allSeen": all_seen}))
}
