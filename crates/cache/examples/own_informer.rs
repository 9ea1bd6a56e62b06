//! A user's own informer in a cache: devices are in a registry in this process instead of an API server. The informer of
//! the kind is replaced by one that lists and watches the registry, so reads, indexes and a controller work as for any kind.
//!
//! `cargo run -p kinformer-cache --example own_informer` needs no server, and ends by itself.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinformer::generic::{
    FromWire as _, List, ListOptions, ListerWatcher, WatchEvent, WatchOptions, WatchStream,
};
use kinformer::kube_client::Config;
use kinformer::{ObjectDecoder, ObjectKey, Packed, PackedObject, SourceError, Sources};
use kinformer_cache::{Cache, Error as CacheError, Query};
use kinformer_controller::{Action, CancellationToken, Controller, Manager, Request};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{mpsc, watch};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Device {
    metadata: ObjectMeta,
    rack: String,
}

impl kube_core::Resource for Device {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Device".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "devices.example.com".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "devices".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The devices, and all their changes. A version is the number of changes so far.
#[derive(Default)]
struct Devices {
    present: BTreeMap<String, Arc<PackedObject>>,
    changes: Vec<WatchEvent<PackedObject>>,
}

/// A registry of devices, which can be listed and watched. Clones are the same registry.
#[derive(Clone, Default)]
struct Registry(Arc<watch::Sender<Devices>>);

impl Registry {
    fn put(&self, name: &str, rack: &str) -> Result<(), Box<dyn Error>> {
        let version = self.0.borrow().changes.len().saturating_add(1).to_string();
        let device = json!({"apiVersion": "devices.example.com/v1", "kind": "Device", "rack": rack,
            "metadata": {"name": name, "uid": name, "resourceVersion": version}});
        let device = Packed::<Device>::from_wire(device.to_string().as_bytes(), &ObjectDecoder::json())?;
        let device = device.into_object();
        self.0.send_modify(|devices| {
            let before = devices.present.insert(name.to_owned(), device.clone());
            let added = before.is_none();
            devices.changes.push(if added {
                WatchEvent::Added(device)
            } else {
                WatchEvent::Modified(device)
            });
        });
        Ok(())
    }

    fn remove(&self, name: &str) {
        self.0.send_modify(|devices| {
            devices.changes.extend(devices.present.remove(name).map(WatchEvent::Deleted));
        });
    }
}

#[async_trait::async_trait]
impl ListerWatcher<PackedObject> for Registry {
    async fn list(&self, _: ListOptions<PackedObject>) -> Result<List<PackedObject>, SourceError> {
        let devices = self.0.borrow();
        Ok(List::new(devices.present.values().cloned(), devices.changes.len() as u64))
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, SourceError> {
        let from: usize = options.resource_version.to_string().parse().map_err(SourceError::other)?;
        let changes = stream::unfold((self.0.subscribe(), from), |(mut devices, version)| async move {
            let change = {
                let devices = devices.wait_for(|devices| devices.changes.len() > version).await.ok()?;
                devices.changes.get(version)?.clone()
            };
            Some((Ok(change), (devices, version.saturating_add(1))))
        });
        Ok(changes.boxed())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::default();
    registry.put("camera", "rack-1")?;
    registry.put("lamp", "rack-1")?;

    // No request of this program reaches the client: devices are its only kind.
    let client = kinformer::client(Config::new("http://127.0.0.1:1".parse()?))?;
    let source = registry.clone();
    let cache = Cache::builder(client)
        .options(|factory| {
            factory.of_kind::<Device>(|devices| {
                devices.informer(move |new| new.builder(Sources::one(source.clone())))
            })
        })
        .build()
        .await?;
    let devices = cache.kind::<Device>();
    devices.index_by_field("rack", &["rack"])?;
    cache.start()?;

    // A controller that reconciles devices, and reports what it has read from the cache.
    let (report, mut reports) = mpsc::channel(10);
    let reading = devices.clone();
    let controller =
        Controller::of(cache.factory()).reconciles::<Device>().build(move |request: Request<ObjectKey>| {
            let (devices, report) = (reading.clone(), report.clone());
            async move {
                let line = match devices.get(&request.key).await {
                    Ok(device) => format!("{} is in {}", request.key, device.decode()?.rack),
                    Err(CacheError::NotFound { .. }) => format!("{} is gone", request.key),
                    Err(error) => return Err(error.into()),
                };
                report.send(line).await?;
                Ok(Action::none())
            }
        });
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(Manager::new().add(controller)?.run(shutdown.clone()));

    let mut first = [reports.recv().await.unwrap_or_default(), reports.recv().await.unwrap_or_default()];
    first.sort();
    println!("reconciled: {}", first.join(", "));
    registry.put("lamp", "rack-2")?;
    println!("reconciled: {}", reports.recv().await.unwrap_or_default());
    registry.remove("camera");
    println!("reconciled: {}", reports.recv().await.unwrap_or_default());

    let found = devices.list(&Query::new().field("rack", "rack-2")).await?;
    let found: Vec<_> = found.iter().map(|device| device.name()).collect();
    println!("in rack-2: {}", found.join(", "));
    shutdown.cancel();
    running.await??;
    cache.shutdown().await?;
    Ok(())
}
