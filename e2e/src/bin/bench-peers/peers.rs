//! What is measured in Rust. The other is `e2e/client-go` with `-measured`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinformer::{Informer, KeyRef, SharedInformerFactory};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use kube_runtime::reflector::ObjectRef;
use kube_runtime::{WatchStreamExt, reflector, watcher};
use serde_json::json;

use crate::failure::Failure;
use crate::process::{ALOUD, Answer, Synced};

/// Ours as it comes: objects are decoded when they are read, which nobody does here.
pub(crate) async fn kinformer(kubeconfig: &Path) -> Result<(), Failure> {
    let factory = factory(kubeconfig).await?;
    let pods = factory.informer::<Pod>();
    measured(&factory, &pods).await
}

/// Ours with objects that are decoded as they come.
pub(crate) async fn kinformer_eager(kubeconfig: &Path) -> Result<(), Failure> {
    let factory = factory(kubeconfig).await?;
    let pods = factory.informer::<Pod>();
    pods.decode_on_arrival();
    measured(&factory, &pods).await
}

async fn factory(kubeconfig: &Path) -> Result<SharedInformerFactory, Failure> {
    Ok(SharedInformerFactory::new(kinformer::client(config(kubeconfig).await?)?))
}

async fn measured(factory: &SharedInformerFactory, pods: &Informer<Pod>) -> Result<(), Failure> {
    let told = Arc::new(Told::default());
    let hears = told.clone();
    let handler = pods.handler().for_each(move |event| {
        hears.event(|| Some(event.object()?.resource_version().to_string()));
    })?;
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;
    handler.synced().await?;
    answer(pods.len(), &told, |key| Some(pods.get(KeyRef::parse(key).ok()?)?.resource_version().to_string()))
}

/// kube-runtime's reflector at its best: the list is streamed, and nobody keeps managed fields.
pub(crate) async fn kube_runtime(kubeconfig: &Path) -> Result<(), Failure> {
    let pods: Api<Pod> = Api::all(Client::try_from(config(kubeconfig).await?)?);
    let (store, writer) = reflector::store();
    let mut stream = watcher(pods, watcher::Config::default().streaming_lists())
        .default_backoff()
        .modify(|pod| pod.metadata.managed_fields = None)
        .reflect(writer)
        .applied_objects()
        .boxed();
    let told = Arc::new(Told::default());
    let first = async {
        while let Some(next) = stream.next().await {
            // It would go on; but a first list with a failure in it is none.
            let pod = next?;
            told.event(|| pod.metadata.resource_version);
        }
        Err("the stream has ended".into())
    };
    tokio::select! {
        biased;
        ready = store.wait_until_ready() => ready?,
        end = first => return end,
    }
    let hears = told.clone();
    tokio::spawn(stream.for_each(move |next| {
        if let Ok(pod) = next {
            hears.event(|| pod.metadata.resource_version);
        }
        std::future::ready(())
    }));
    let version = |key: &str| {
        let (namespace, name) = key.split_once('/')?;
        store.get(&ObjectRef::new(name).within(namespace))?.metadata.resource_version.clone()
    };
    answer(store.len(), &told, version)
}

async fn config(kubeconfig: &Path) -> Result<Config, Failure> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// What a handler was told of.
#[derive(Default)]
struct Told {
    events: AtomicUsize,
    /// Whether each is to be said.
    aloud: AtomicBool,
}

impl Told {
    fn event(&self, version: impl FnOnce() -> Option<String>) {
        self.events.fetch_add(1, Ordering::Relaxed);
        if self.aloud.load(Ordering::Relaxed) {
            self.say(version());
        }
    }

    fn say(&self, version: Option<String>) {
        println!("{}", json!(Answer { told: self.events.load(Ordering::Relaxed), version }));
    }
}

/// Says that it has all, and then what it has of each pod that it is asked for, until nobody asks any more. It waits on
/// a thread on which nothing else runs.
fn answer(kept: usize, told: &Told, version: impl Fn(&str) -> Option<String>) -> Result<(), Failure> {
    println!("{}", json!(Synced { kept, told: told.events.load(Ordering::Relaxed) }));
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            ALOUD => told.aloud.store(true, Ordering::Relaxed),
            key => told.say(version(key)),
        }
    }
    Ok(())
}
