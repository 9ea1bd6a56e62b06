//! The measured Rust peers. The Go peer is `e2e/client-go` with `-measured`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinformer::{Informer, SharedInformerFactory};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use kube_runtime::reflector::ObjectRef;
use kube_runtime::{WatchStreamExt, reflector, watcher};
use serde_json::json;

use crate::failure::Failure;
use crate::process::{REPORT_EVENTS, Response, Synced};

/// kinformer with its defaults: objects are decoded on read, and are not read here.
pub(crate) async fn kinformer(kubeconfig: &Path) -> Result<(), Failure> {
    let factory = factory(kubeconfig).await?;
    let pods = factory.informer::<Pod>();
    measured(&factory, &pods).await
}

/// kinformer with objects that are decoded on arrival.
pub(crate) async fn kinformer_eager(kubeconfig: &Path) -> Result<(), Failure> {
    let factory = factory(kubeconfig).await?;
    let pods = factory.informer::<Pod>();
    pods.decode_on_arrival();
    measured(&factory, &pods).await
}

pub(crate) async fn factory(kubeconfig: &Path) -> Result<SharedInformerFactory, Failure> {
    Ok(SharedInformerFactory::new(kinformer::client(config(kubeconfig).await?)?))
}

async fn measured(factory: &SharedInformerFactory, pods: &Informer<Pod>) -> Result<(), Failure> {
    let delivered = Arc::new(Delivered::default());
    let counter = delivered.clone();
    let handler = pods.handler().for_each(move |event| {
        counter.event(|| Some(event.object()?.resource_version().to_string()));
    })?;
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;
    handler.synced().await?;
    answer(pods.snapshot()?.len(), &delivered, |key| {
        Some(pods.lister().get(key).ok()?.resource_version().to_string())
    })
}

/// kube-runtime's reflector in its best configuration: the list is streamed, and managed fields are dropped.
pub(crate) async fn kube_runtime(kubeconfig: &Path) -> Result<(), Failure> {
    let pods: Api<Pod> = Api::all(Client::try_from(config(kubeconfig).await?)?);
    let (store, writer) = reflector::store();
    let mut stream = watcher(pods, watcher::Config::default().streaming_lists())
        .default_backoff()
        .modify(|pod| pod.metadata.managed_fields = None)
        .reflect(writer)
        .applied_objects()
        .boxed();
    let delivered = Arc::new(Delivered::default());
    let first = async {
        while let Some(next) = stream.next().await {
            // The watcher would retry, but an initial list with an error does not count.
            let pod = next?;
            delivered.event(|| pod.metadata.resource_version);
        }
        Err("the stream ended".into())
    };
    tokio::select! {
        biased;
        ready = store.wait_until_ready() => ready?,
        end = first => return end,
    }
    let counter = delivered.clone();
    tokio::spawn(stream.for_each(move |next| {
        if let Ok(pod) = next {
            counter.event(|| pod.metadata.resource_version);
        }
        std::future::ready(())
    }));
    let version = |key: &str| {
        let (namespace, name) = key.split_once('/')?;
        store.get(&ObjectRef::new(name).within(namespace))?.metadata.resource_version.clone()
    };
    answer(store.len(), &delivered, version)
}

pub(crate) async fn config(kubeconfig: &Path) -> Result<Config, Failure> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// The events delivered to a handler.
#[derive(Default)]
struct Delivered {
    events: AtomicUsize,
    /// Whether to report each event.
    report_events: AtomicBool,
}

impl Delivered {
    fn event(&self, version: impl FnOnce() -> Option<String>) {
        self.events.fetch_add(1, Ordering::Relaxed);
        if self.report_events.load(Ordering::Relaxed) {
            self.report(version());
        }
    }

    fn report(&self, version: Option<String>) {
        println!("{}", json!(Response { delivered: self.events.load(Ordering::Relaxed), version }));
    }
}

/// Reports the sync, then answers requests until standard input is closed. Reads input on a thread that runs nothing
/// else.
fn answer(
    stored: usize,
    delivered: &Delivered,
    version: impl Fn(&str) -> Option<String>,
) -> Result<(), Failure> {
    println!("{}", json!(Synced { stored, delivered: delivered.events.load(Ordering::Relaxed) }));
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            REPORT_EVENTS => delivered.report_events.store(true, Ordering::Relaxed),
            key => delivered.report(version(key)),
        }
    }
    Ok(())
}
