//! The measured operator of kinformer. That of controller-runtime is `e2e/controller-runtime`.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{LabelSelector, ObjectKey, SharedInformerFactory};
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::kinformer_serve::Server;
use kinformer_controller::{Action, CancellationToken, Controller, Manager, Queue, Request, Task};
use nix::sys::signal::{Signal, raise};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cache::Measured;
use crate::controller_peers::WORKERS;
use crate::failure::Failure;
use crate::operator::{LEASE, Line, NAMESPACE};
use crate::peers;

/// Reports the reconciliations.
struct Progress {
    objects: usize,
    began: AtomicBool,
    /// The keys of the first reconciliations, until each object was reconciled.
    first: Mutex<Option<HashSet<ObjectKey>>>,
    /// The number of reconciliations that a request waits for.
    left: AtomicUsize,
    done: Notify,
}

impl Progress {
    fn begin(&self) {
        if !self.began.swap(true, Ordering::Relaxed) {
            print(&Line::First);
        }
    }

    /// Counts a reconciliation that has succeeded.
    fn complete(&self, key: &ObjectKey) {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left == Ok(1) {
            self.done.notify_one();
        }
        let mut first = self.first.lock();
        if let Some(keys) = &mut *first
            && keys.insert(key.clone())
            && keys.len() == self.objects
        {
            *first = None;
            print(&Line::All);
        }
    }

    /// Enqueues all objects and waits until each is reconciled, this many times.
    fn repeat(&self, runtime: &Handle, keys: &[ObjectKey], queue: &Queue<ObjectKey>, times: u32) -> Measured {
        let start = Instant::now();
        for _ in 0..times {
            self.left.store(keys.len(), Ordering::Relaxed);
            for key in keys {
                queue.add(key.clone());
            }
            runtime.block_on(self.done.notified());
        }
        Measured { seconds: start.elapsed().as_secs_f64(), objects: keys.len(), ..Measured::default() }
    }
}

fn print(line: &impl Serialize) {
    println!("{}", serde_json::to_string(line).unwrap_or_default());
}

/// Runs an operator until the process receives SIGTERM, or its input ends. Each line of the input is a number of times to
/// reconcile all objects.
pub(crate) async fn kinformer(kubeconfig: &Path, objects: usize) -> Result<(), Failure> {
    let client = kinformer::client(peers::config(kubeconfig).await?)?;
    let factory = SharedInformerFactory::builder(client.clone()).namespace(NAMESPACE).build();
    let elector = LeaderElector::builder(client, NAMESPACE, LEASE).build()?; // with client-go's periods
    let config_maps = factory.informer::<ConfigMap>().lister();
    let progress = Arc::new(Progress {
        objects,
        began: AtomicBool::default(),
        first: Mutex::new(Some(HashSet::new())),
        left: AtomicUsize::default(),
        done: Notify::new(),
    });
    let (reading, counting) = (config_maps.clone(), progress.clone());
    let reconcile = move |request: Request<ObjectKey>| {
        let (config_maps, progress) = (reading.clone(), counting.clone());
        async move {
            progress.begin();
            let Ok(config_map) = config_maps.get(&request.key) else { return Ok(Action::none()) };
            let config_map = config_map.decode_arc()?;
            if let Some(reason) = config_map.data.as_ref().and_then(|data| data.get("fail")) {
                return Err(reason.clone().into());
            }
            progress.complete(&request.key);
            Ok(Action::none())
        }
    };
    let controller =
        Controller::of(&factory).reconciles::<ConfigMap>().workers(WORKERS.into()).build(reconcile);
    let queue = controller.queue().clone();
    let started = Task::new("started", async |shutdown: CancellationToken| {
        print(&Line::Started);
        shutdown.cancelled().await;
        Ok::<_, Infallible>(())
    });
    let manager = Manager::new().factory(&factory).leader_election(&elector).add(controller)?;
    let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).metrics_only();
    let manager = manager.add(started.need_leader_election(false))?.serve(server).await?;
    let runtime = Handle::current();
    std::thread::spawn(move || {
        let requests = std::io::stdin().lines().map_while(|line| line.ok()?.parse().ok());
        for times in requests {
            let Ok(objects) = config_maps.list(&LabelSelector::everything()) else { break };
            let keys: Vec<ObjectKey> =
                objects.iter().filter_map(|object| object.key().try_into().ok()).collect();
            print(&progress.repeat(&runtime, &keys, &queue, times));
        }
        raise(Signal::SIGTERM)
    });
    Ok(manager.run_until_signal().await?)
}
