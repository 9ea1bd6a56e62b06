//! The cache of a scheduler: nodes, their capacity and the requests of their pods. Informers keep it up to date, and
//! the scheduler adds its own decisions before the cluster confirms them.
//!
//! `cargo run -p kinformer --example scheduler_cache` schedules on a cluster in this process and ends by itself.
//!
//! `… --example scheduler_cache -- KUBECONFIG [--until-bound N]` watches that cluster, or that of `$KUBECONFIG`, changes
//! nothing there, and ends when N pods are bound, with a last line in JSON.
#![allow(clippy::print_stdout, reason = "an example program prints")]
#![allow(clippy::indexing_slicing, reason = "indexing a JSON value returns null for a missing field")]

mod cache;
mod resources;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::{
    KubeListerWatcher, KubeObject, Object, ResourceVersion, SharedIndexInformer, SharedInformerFactory,
};
use kinformer_apiserver::ApiServer;
use kube_client::api::PostParams;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::sync::watch;

use cache::{Cache, is_finished, node_of};

/// The informers, and the cache that their handlers update. Every event wakes the tasks that wait for a state of the
/// cache.
struct Scheduler {
    bindings: Api<Pod>,
    factory: SharedInformerFactory,
    nodes: SharedIndexInformer<KubeObject<Node>>,
    pods: SharedIndexInformer<KubeObject<Pod>>,
    cache: Arc<watch::Sender<Cache>>,
    changes: watch::Receiver<Cache>,
    audits: usize,
}

impl Scheduler {
    async fn start(client: Client) -> Result<Self, Box<dyn Error>> {
        let factory = SharedInformerFactory::new(client.clone());
        // The handlers read every object, so objects are decoded on arrival.
        let nodes = factory.informer_with(|factory| {
            factory.builder_for(KubeListerWatcher::<Node>::new(client.clone()), "nodes").build()
        })?;
        let pods = factory.informer_with(|factory| {
            factory.builder_for(KubeListerWatcher::<Pod>::new(client.clone()), "pods").build()
        })?;
        let (cache, changes) = watch::channel(Cache::default());
        let cache = Arc::new(cache);
        // Events of nodes and pods are not ordered: a pod may be delivered before its node.
        let node_cache = cache.clone();
        nodes.handler().for_each(move |event| node_cache.send_modify(|cache| cache.on_node_event(event)))?;
        let pod_cache = cache.clone();
        pods.handler().for_each(move |event| pod_cache.send_modify(|cache| cache.on_pod_event(event)))?;
        factory.start()?;
        factory.wait_for_cache_sync().await.into_result()?;
        let bindings = Api::default_namespaced(client);
        Ok(Self { bindings, factory, nodes, pods, cache, changes, audits: 0 })
    }

    /// Waits until `condition` returns a value and all events are delivered. Audits the cache after every change.
    async fn until<R>(&mut self, condition: impl Fn(&Cache) -> Option<R>) -> Result<R, Box<dyn Error>> {
        loop {
            {
                let cache = self.changes.borrow_and_update();
                // While the cache is locked, so that no handler can be ahead of the snapshots.
                let behind = cache.audit(&self.nodes.snapshot(), &self.pods.snapshot())?;
                self.audits += 1;
                if let (0, Some(answer)) = (behind, condition(&cache)) {
                    return Ok(answer);
                }
            }
            self.changes.changed().await?;
        }
    }

    /// Decides for every pending pod, then binds them all, without waiting for events in between.
    async fn schedule(&self) {
        let mut decided = Vec::new();
        for pod in self.pods.snapshot().ordered() {
            if node_of(pod).is_none() && !is_finished(pod) && !self.cache.borrow().knows(pod) {
                decided.extend(self.decide(pod).map(|node| (pod.clone(), node)));
            }
        }
        for (pod, node) in decided {
            self.bind(&pod, &node).await;
        }
    }

    /// Finds a node for a pod and places the pod there.
    fn decide(&self, pod: &Arc<KubeObject<Pod>>) -> Option<String> {
        let mut decided = None;
        self.cache.send_modify(|cache| {
            decided = cache.best_node(pod).filter(|node| cache.assume(pod, node));
        });
        if decided.is_none() {
            println!("{} stays pending: no node has room for it", pod.key());
        }
        decided
    }

    /// Binds a pod, by UID, so that a new pod with the same name is not bound. The informer's event confirms the
    /// placement.
    async fn bind(&self, pod: &KubeObject<Pod>, node: &str) {
        let name = pod.key().name();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let params = PostParams::default();
        match self.bindings.create_subresource::<_, Value>("binding", name, &params, &binding).await {
            Ok(_) => println!("bound {name} to {node}"),
            Err(error) => {
                let reason = match error {
                    kube_client::Error::Api(status) => status.message,
                    other => other.to_string(),
                };
                println!("cannot bind {name} to {node}: {reason}");
                self.cache.send_modify(|cache| cache.forget(pod));
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() {
        args.extend(std::env::var("KUBECONFIG").ok());
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [] => tokio::time::timeout(Duration::from_secs(60), demo()).await?,
        [kubeconfig] => observe(kubeconfig, usize::MAX).await,
        [kubeconfig, "--until-bound", count] => observe(kubeconfig, count.parse()?).await,
        _ => Err("usage: scheduler_cache [KUBECONFIG [--until-bound N]]".into()),
    }
}

/// Observes a cluster that has its own scheduler.
async fn observe(kubeconfig: &str, until_bound: usize) -> Result<(), Box<dyn Error>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let mut scheduler = Scheduler::start(kinformer::client(config)?).await?;
    let mut last = None;
    loop {
        let state = |cache: &Cache| (cache.bound(), cache.missed, cache.to_json());
        let new = |cache: &Cache| (last != Some(cache.bound())).then(|| state(cache));
        let (bound, missed, nodes) = scheduler.until(new).await?;
        println!("{bound} pods are bound");
        if bound >= until_bound {
            println!("{}", json!({"audits": scheduler.audits, "missed": missed, "nodes": nodes}));
            scheduler.factory.shutdown().await?;
            return Ok(());
        }
        for (name, node) in nodes.as_object().into_iter().flatten() {
            println!(
                "  {name}: {} pods, {} of {} thousandths of a CPU",
                node["pods"].as_array().map_or(0, Vec::len),
                node["milliCpu"],
                node["allocatableMilliCpu"]
            );
        }
        last = Some(bound);
    }
}

/// Schedules on a cluster in this process, in all situations that a scheduler's cache must handle.
async fn demo() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().start().await?;
    let mut scheduler = Scheduler::start(kinformer::client(server.config()?)?).await?;
    for name in ["a", "b", "c"] {
        server.create(node(name))?;
    }
    for n in 0..6 {
        server.create(pod(&format!("web-{n}"), "1500m", None))?;
    }
    let huge = server.create(pod("huge", "16", None))?;
    scheduler.pods.wait_for(("default", "huge"), &version(&huge)).await?;
    scheduler.until(|cache| cache.knows_node("c").then_some(())).await?;
    // Each node has room for two of the pods. Without assumed placements all would go to the first node.
    scheduler.schedule().await;
    scheduler.until(|cache| (cache.bound() == 6).then_some(())).await?;

    // A pod is created before its node.
    server.create(pod("early", "500m", Some("late")))?;
    scheduler.until(|cache| (cache.pods_on("late") == 1 && !cache.knows_node("late")).then_some(())).await?;
    server.create(node("late"))?;
    scheduler.until(|cache| cache.knows_node("late").then_some(())).await?;

    // Another pod takes the name between decision and binding: the room is released, and the new pod is placed.
    let first = server.create(pod("twice", "500m", None))?;
    scheduler.pods.wait_for(("default", "twice"), &version(&first)).await?;
    let first = scheduler.pods.get(("default", "twice")).ok_or("it is stored")?;
    let decided = scheduler.decide(&first).ok_or("there is room")?;
    server.delete("v1", "Pod", "default", "twice")?;
    let second = server.create(pod("twice", "500m", None))?;
    scheduler.bind(&first, &decided).await;
    scheduler.pods.wait_for(("default", "twice"), &version(&second)).await?;
    scheduler.schedule().await;
    scheduler.until(|cache| (cache.bound() == 8).then_some(())).await?;

    // The deletion of a pod is missed, so its final state is unknown.
    server.faults().refuse_connections().await;
    server.drop_connections();
    while server.metrics().open_watches > 0 {
        tokio::task::yield_now().await; // until none of them can deliver it
    }
    server.delete("v1", "Pod", "default", "web-0")?;
    server.compact();
    server.faults().clear();
    let missed = scheduler.until(|cache| (cache.bound() == 7).then_some(cache.missed)).await?;
    println!("missed deletions: {missed}");

    // A node is deleted before its pods.
    server.delete("v1", "Node", "", "late")?;
    scheduler.until(|cache| (cache.pods_on("late") == 2 && !cache.knows_node("late")).then_some(())).await?;
    for name in ["early", "twice"] {
        server.delete("v1", "Pod", "default", name)?;
    }
    let nodes = scheduler.until(|cache| (cache.bound() == 5).then(|| cache.to_json())).await?;
    println!("final state, after {} audits: {nodes:#}", scheduler.audits);
    scheduler.factory.shutdown().await?;
    server.shutdown().await;
    Ok(())
}

fn node(name: &str) -> Value {
    let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": resources}})
}

fn pod(name: &str, cpu: &str, node: Option<&str>) -> Value {
    let resources = json!({"requests": {"cpu": cpu, "memory": "64Mi"}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none", "resources": resources}]},
    })
}

fn version(written: &Value) -> ResourceVersion {
    written["metadata"]["resourceVersion"].as_str().unwrap_or_default().into()
}
