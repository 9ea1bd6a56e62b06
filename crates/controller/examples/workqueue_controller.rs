//! A controller by hand: an informer enqueues keys, and workers reconcile them from the informer's store, with retries.
//!
//! `cargo run -p kinformer-controller --example workqueue_controller` runs it on an API server in this process, changes
//! pods and ends by itself. With `-- KUBECONFIG`, or the variable `$KUBECONFIG`, it runs on that cluster until Ctrl-C.
//!
//! Follows client-go's example `workqueue`.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::pin::pin;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{Added, Event, Lister, ObjectKey, SharedInformerFactory};
use kinformer_apiserver::ApiServer;
use kinformer_workqueue::{Add, Item, LOW_PRIORITY, WorkQueue};
use kube_client::Client;
use kube_client::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const WORKERS: usize = 2;
const MAX_RETRIES: u32 = 5;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    match std::env::args().nth(1).or_else(|| std::env::var("KUBECONFIG").ok()) {
        Some(kubeconfig) => run(&kubeconfig).await,
        None => tokio::time::timeout(Duration::from_secs(60), demo()).await?,
    }
}

/// Runs on a cluster until Ctrl-C.
async fn run(kubeconfig: &str) -> Result<(), BoxError> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let mut controller = Controller::start(kinformer::client(config)?).await?;
    let mut stop = pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            signal = &mut stop => break signal?,
            Some((key, outcome)) = controller.reconciled.recv() => println!("{key} {outcome}"),
        }
    }
    controller.shut_down().await
}

async fn demo() -> Result<(), BoxError> {
    let server = ApiServer::builder().start().await?; // a cluster in this process
    server.create(pod("web-0", "busybox:1"))?;
    server.create(pod("web-1", "busybox"))?; // without a tag, its reconciliation fails
    let mut controller = Controller::start(kinformer::client(server.config()?)?).await?;
    let reconciled = &mut controller.reconciled;

    wait_for(reconciled, "default/web-0", "runs busybox:1").await?;
    wait_for(reconciled, "default/web-1", "failed: no tag").await?; // it is retried with backoff
    let mut web = server.get("v1", "Pod", "default", "web-1")?.ok_or("the pod is gone")?;
    *web.pointer_mut("/spec/containers/0/image").ok_or("the pod has no container")? = json!("busybox:2");
    server.update(web)?;
    wait_for(reconciled, "default/web-1", "runs busybox:2").await?;
    server.delete("v1", "Pod", "default", "web-0")?;
    wait_for(reconciled, "default/web-0", "is gone").await?;
    controller.shut_down().await?;
    server.shutdown().await;
    Ok(())
}

struct Controller {
    factory: SharedInformerFactory,
    queue: WorkQueue<ObjectKey>,
    workers: JoinSet<()>,
    /// The outcomes of reconciliations, as keys and texts.
    reconciled: mpsc::Receiver<(String, String)>,
}

impl Controller {
    async fn start(client: Client) -> Result<Self, BoxError> {
        let factory = SharedInformerFactory::new(client);
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

        let (done, reconciled) = mpsc::channel(16);
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(work(queue.clone(), pods.lister(), done.clone()));
        }
        Ok(Self { factory, queue, workers, reconciled })
    }

    /// Ends after all queued keys are reconciled.
    async fn shut_down(mut self) -> Result<(), BoxError> {
        self.queue.shut_down_with_drain().await;
        while let Some(ended) = self.workers.join_next().await {
            ended?;
        }
        println!("{} keys were added, {} retries", self.queue.metrics().adds, self.queue.metrics().retries);
        self.factory.shutdown().await?;
        Ok(())
    }
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
        Some(image) if image.contains(':') => Ok(format!("runs {image}")),
        _ => Err("no tag".into()),
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

/// Waits until this key has this outcome, and prints it.
async fn wait_for(
    reconciled: &mut mpsc::Receiver<(String, String)>,
    key: &str,
    outcome: &str,
) -> Result<(), BoxError> {
    loop {
        let (of, actual) = reconciled.recv().await.ok_or("the workers have ended")?;
        if of == key && actual == outcome {
            println!("{of} {actual}");
            return Ok(());
        }
    }
}

fn pod(name: &str, image: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": image}]}})
}
