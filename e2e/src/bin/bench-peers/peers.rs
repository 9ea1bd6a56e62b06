//! The two in Rust that are measured. The third is `e2e/client-go` with `-until-synced`.

use std::io::Read;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinformer::{Event, SharedInformerFactory};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use kube_runtime::{WatchStreamExt, reflector, watcher};

use crate::Failure;
use crate::measure::Synced;

/// Ours, as it comes.
pub(crate) async fn kinformer(kubeconfig: &Path) -> Result<(), Failure> {
    let factory = SharedInformerFactory::new(kinformer::client(config(kubeconfig).await?)?);
    let pods = factory.core().v1().pods();
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let handler = pods.informer().handler().for_each(move |_: &Event<Pod>| {
        count.fetch_add(1, Ordering::Relaxed);
    })?;
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;
    handler.synced().await?;
    say(&Synced { kept: pods.informer().store().len(), told: told.load(Ordering::Relaxed) })
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
