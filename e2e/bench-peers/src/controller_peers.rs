//! The measured controllers in Rust. That of controller-runtime is `e2e/controller-runtime`.
//!
//! Each does the same: a reconciliation reads a Foo and its pods from the stores, counts the pods that are ready, and
//! writes the status of the Foo if the count is another.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kinformer::{FieldPath, ObjectKey};
use kinformer_controller::{Action, CancellationToken, Controller, ReconcileError, Request};
use kube_client::{Api, Client};
use kube_core::params::{Patch, PatchParams};
use kube_runtime::reflector::{ObjectRef, Store};
use kube_runtime::{WatchStreamExt, controller, reflector, watcher};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

use crate::controller::Reconciled;
use crate::failure::Failure;
use crate::foos::{Foo, pod_name};
use crate::peers;

/// The number of reconciliations at a time, for all peers.
pub(crate) const WORKERS: u16 = 8;

/// Reports when all Foos have been reconciled.
struct Progress {
    owners: usize,
    /// The names of the reconciled Foos, and the number of their pods.
    reconciled: Mutex<(HashSet<String>, usize)>,
}

impl Progress {
    fn new(owners: usize) -> Self {
        Self { owners, reconciled: Mutex::default() }
    }

    /// Counts a Foo whose status is right.
    fn complete(&self, name: &str, pods: usize) {
        let (names, all) = &mut *self.reconciled.lock();
        if names.insert(name.to_owned()) {
            *all += pods;
            if names.len() == self.owners {
                println!("{}", json!(Reconciled { owners: self.owners, pods: *all }));
            }
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
    ready.is_some_and(|condition| condition.status == "True")
}

/// What a reconciliation reads of a condition.
#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

async fn write_status(client: Client, namespace: &str, name: &str, ready: usize) -> Result<(), Failure> {
    let status = Patch::Merge(json!({"status": {"readyReplicas": ready}}));
    Api::<Foo>::namespaced(client, namespace).patch_status(name, &PatchParams::default(), &status).await?;
    Ok(())
}

/// Runs a controller until standard input is closed. Reads it on a thread that runs nothing else.
async fn until_input_ends(controller: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let (end, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(|| {
        for line in std::io::stdin().lines() {
            drop(line);
        }
        _ = end.send(());
    });
    tokio::select! {
        biased;
        _ = ended => Ok(()),
        result = controller => result,
    }
}

pub(crate) async fn kinformer(kubeconfig: &Path, owners: usize) -> Result<(), Failure> {
    let factory = peers::factory(kubeconfig).await?;
    let client = Client::try_from(peers::config(kubeconfig).await?)?;
    let foos = factory.informer::<Foo>().lister();
    let pods = factory.informer::<Pod>().lister();
    let progress = Arc::new(Progress::new(owners));
    let reconcile = move |request: Request<ObjectKey>| {
        let (client, foos, pods, progress) = (client.clone(), foos.clone(), pods.clone(), progress.clone());
        async move {
            let Ok(owner) = foos.get(&request.key) else { return Ok(Action::none()) };
            let owner = owner.decode_arc()?;
            let (namespace, name) = (request.key.namespace().unwrap_or_default(), request.key.name());
            let conditions = FieldPath::new(&["status", "conditions"]);
            let mut ready = 0;
            for number in 0..owner.spec.replicas {
                let Ok(pod) = pods.get((namespace, &*pod_name(name, number))) else { continue };
                // Read in place: the pod is not decoded.
                let conditions: Option<Vec<Condition>> = pod.field(&conditions)?;
                let ready_condition =
                    conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
                ready += usize::from(ready_condition.is_some_and(|condition| condition.status == "True"));
            }
            if owner.status.as_ref().map(|status| status.ready_replicas) == Some(ready) {
                progress.complete(&request.key.to_string(), ready);
            } else {
                write_status(client, namespace, name, ready).await.map_err(ReconcileError::from)?;
            }
            Ok(Action::none())
        }
    };
    let controller =
        Controller::of(&factory).reconciles::<Foo>().owns::<Pod>().workers(WORKERS.into()).build(reconcile);
    until_input_ends(async { Ok(controller.run(CancellationToken::new()).await?) }).await
}

/// The stores and the client of kube-runtime's controller.
struct Context {
    client: Client,
    pods: Store<Pod>,
    progress: Progress,
}

/// kube-runtime's controller in its best configuration: lists are streamed, managed fields are dropped, and one watch of
/// the pods serves the store and the controller.
pub(crate) async fn kube_runtime(kubeconfig: &Path, owners: usize) -> Result<(), Failure> {
    let client = Client::try_from(peers::config(kubeconfig).await?)?;
    let config = || watcher::Config::default().streaming_lists();
    let (pods, writer) = reflector::store();
    let owned = watcher(Api::<Pod>::all(client.clone()), config())
        .default_backoff()
        .modify(|pod| pod.metadata.managed_fields = None)
        .reflect(writer)
        .touched_objects();
    let (reader, writer) = reflector::store();
    let foos = watcher(Api::<Foo>::all(client.clone()), config())
        .default_backoff()
        .modify(|owner| kube_core::ResourceExt::managed_fields_mut(owner).clear())
        .reflect(writer)
        .applied_objects();
    // The controller waits for the store of the Foos, so these are listed when the store of the pods is complete. A
    // reconciliation could not wait for it: while all workers wait, the controller does not read the pods.
    let complete = pods.clone();
    let foos = async move {
        // An error is that of a stream that was dropped, and ends the controller.
        _ = complete.wait_until_ready().await;
        foos
    };
    let context = Arc::new(Context { client, pods, progress: Progress::new(owners) });
    let controller = controller::Controller::for_stream(foos.flatten_stream(), reader)
        .owns_stream(owned)
        .with_config(controller::Config::default().concurrency(WORKERS))
        .run(reconcile, |_, _, _| controller::Action::requeue(std::time::Duration::from_secs(1)), context);
    until_input_ends(async {
        controller.for_each(|_| std::future::ready(())).await;
        Err("the controller ended".into())
    })
    .await
}

async fn reconcile(owner: Arc<Foo>, context: Arc<Context>) -> Result<controller::Action, Unreconciled> {
    let Context { client, pods, progress } = &*context;
    let key = ObjectRef::from_obj(&*owner);
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let is_ready = |number| {
        let pod = ObjectRef::new(&pod_name(&key.name, number)).within(namespace);
        pods.get(&pod).is_some_and(|pod| is_ready(&pod))
    };
    let ready = (0..owner.spec.replicas).filter(|number| is_ready(*number)).count();
    if owner.status.as_ref().map(|status| status.ready_replicas) == Some(ready) {
        progress.complete(&format!("{namespace}/{}", key.name), ready);
    } else {
        write_status(client.clone(), namespace, &key.name, ready).await.map_err(Unreconciled)?;
    }
    Ok(controller::Action::await_change())
}

/// kube-runtime's controller requires an error type, which a boxed error is not.
#[derive(Debug)]
struct Unreconciled(Failure);

impl std::fmt::Display for Unreconciled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Unreconciled {}
