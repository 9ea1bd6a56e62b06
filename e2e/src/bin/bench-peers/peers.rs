//! What is measured in Rust. The other is `e2e/client-go` with `-until-synced`.

use std::io::Read;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinformer::{Event, Object, SharedIndexInformer, SharedInformerFactory};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use kube_runtime::{WatchStreamExt, reflector, watcher};

use crate::Failure;
use crate::measure::Synced;

/// Ours with objects that are decoded when they are read, which nobody does here.
pub(crate) async fn kinformer_packed(kubeconfig: &Path) -> Result<(), Failure> {
    let factory = factory(kubeconfig).await?;
    let pods = factory.informer_for::<Pod>();
    until_synced(&factory, &pods).await
}

/// Ours with objects that are decoded as they come.
pub(crate) async fn kinformer(kubeconfig: &Path) -> Result<(), Failure> {
    let factory = factory(kubeconfig).await?;
    let pods = factory.eager().informer_for::<Pod>();
    until_synced(&factory, &pods).await
}

async fn factory(kubeconfig: &Path) -> Result<SharedInformerFactory, Failure> {
    Ok(SharedInformerFactory::new(kinformer::client(config(kubeconfig).await?)?))
}

async fn until_synced<T: Object>(
    factory: &SharedInformerFactory,
    pods: &SharedIndexInformer<T>,
) -> Result<(), Failure> {
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let handler = pods.handler().for_each(move |_: &Event<T>| {
        count.fetch_add(1, Ordering::Relaxed);
    })?;
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;
    handler.synced().await?;
    say(&Synced { kept: pods.store().len(), told: told.load(Ordering::Relaxed) })
}

/// kube-runtime's reflector at its best: the list is streamed, and nobody keeps managed fields.
pub(crate) async fn kube_runtime(kubeconfig: &Path) -> Result<(), Failure> {
    let pods: Api<Pod> = Api::all(Client::try_from(config(kubeconfig).await?)?);
    let (store, writer) = reflector::store();
    let stream = watcher(pods, watcher::Config::default().streaming_lists())
        .default_backoff()
        .modify(|pod| pod.metadata.managed_fields = None)
        .reflect(writer)
        .applied_objects();
    let mut stream = pin!(stream);
    let mut ready = pin!(store.wait_until_ready());
    let mut told = 0;
    loop {
        tokio::select! {
            ready = &mut ready => break ready?,
            next = stream.next() => match next {
                Some(Ok(_)) => told += 1,
                // It would go on; but a run with a failure in it is none.
                Some(Err(error)) => return Err(error.into()),
                None => return Err("the stream has ended".into()),
            },
        }
    }
    say(&Synced { kept: store.len(), told })
}

async fn config(kubeconfig: &Path) -> Result<Config, Failure> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// Says it, and stays until it has been looked at.
fn say(synced: &Synced) -> Result<(), Failure> {
    println!("{}", serde_json::to_string(synced)?);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
