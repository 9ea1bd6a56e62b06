//! A controller by hand: an informer enqueues keys, and workers reconcile them from the informer's store, with retries.
//! The program ends by itself.
//!
//! `cargo run -p kinformer-controller --example workqueue_controller`
//!
//! Follows client-go's example `workqueue`.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use k8s_openapi::api::core::v1::Pod;
use kinformer::{Added, Event, Lister, ObjectKey, SharedInformerFactory};
use kinformer_apiserver::ApiServer;
use kinformer_workqueue::{Add, Item, LOW_PRIORITY, WorkQueue};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const WORKERS: usize = 2;
const MAX_RETRIES: u32 = 5;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = ApiServer::builder().start().await?;
    server.create(pod("web-0", "busybox:1"))?;
    server.create(pod("web-1", ""))?; // without an image, its reconciliation fails

    let factory = SharedInformerFactory::new(kinformer::client(server.config()?)?);
    let pods = factory.informer::<Pod>();
    let queue = WorkQueue::new();
    pods.for_each({
        let queue = queue.clone();
        move |event| {
            let Ok(key) = ObjectKey::try_from(event.key()) else { return }; // a stored object has a valid key
            // Live changes are reconciled before the initial list.
            let priority = match event {
                Event::Added(Added { in_initial_list: true, .. }) => LOW_PRIORITY,
                _ => 0,
            };
            queue.add_with(key, Add::new().priority(priority));
        }
    })?;
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;

    let (done, mut reconciled) = mpsc::channel(16);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(queue.clone(), pods.lister(), done.clone()));
    }

    wait_for(&mut reconciled, "default/web-0", "runs busybox:1").await?;
    wait_for(&mut reconciled, "default/web-1", "failed: no image").await?; // it is retried with backoff
    server.update(pod("web-1", "busybox:2"))?;
    wait_for(&mut reconciled, "default/web-1", "runs busybox:2").await?;
    server.delete("v1", "Pod", "default", "web-0")?;
    wait_for(&mut reconciled, "default/web-0", "is gone").await?;

    queue.shut_down_with_drain().await;
    while let Some(ended) = workers.join_next().await {
        ended?;
    }
    println!("{} keys were added, {} retries", queue.metrics().adds, queue.metrics().retries);
    factory.shutdown().await?;
    server.shutdown().await;
    Ok(())
}

/// A worker: takes one key after the other, until the queue is shut down.
async fn work(queue: WorkQueue<ObjectKey>, pods: Lister<Pod>, done: mpsc::Sender<(String, String)>) {
    while let Some(item) = queue.next().await {
        let key = item.key().to_string();
        let result = reconcile(&pods, item.key());
        let outcome = result.as_ref().map_or_else(|error| format!("failed: {error}"), String::clone);
        finish(item, result);
        _ = done.try_send((key, outcome)); // the main task reads only what it waits for
    }
}

/// Reads the newest state of the object; there may be several changes since the key was added.
fn reconcile(pods: &Lister<Pod>, key: &ObjectKey) -> Result<String, BoxError> {
    let pod = match pods.get(key) {
        Ok(pod) => pod,
        Err(kinformer::Error::NotFound { .. }) => return Ok("is gone".to_owned()),
        Err(error) => return Err(error.into()),
    };
    let pod = pod.decode()?;
    let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.as_deref());
    match image {
        Some(image) if !image.is_empty() => Ok(format!("runs {image}")),
        _ => Err("no image".into()),
    }
}

/// Forgets the failures of a key after a success. Retries it with backoff after a failure, but not forever.
fn finish(item: Item<ObjectKey>, result: Result<String, BoxError>) {
    match result {
        Ok(_) => item.done(),
        Err(_) if item.retries() < MAX_RETRIES => item.retry(),
        Err(error) => {
            println!("{}: {error}; no more retries until it changes", item.key());
            item.done();
        }
    }
}

/// Prints what the workers do, until this key has this outcome.
async fn wait_for(
    reconciled: &mut mpsc::Receiver<(String, String)>,
    key: &str,
    outcome: &str,
) -> Result<(), BoxError> {
    loop {
        let (of, actual) = reconciled.recv().await.ok_or("the workers have ended")?;
        println!("{of} {actual}");
        if of == key && actual == outcome {
            return Ok(());
        }
    }
}

fn pod(name: &str, image: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": image}]}})
}
