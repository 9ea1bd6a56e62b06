//! 500 pods on 50 nodes of an API server in this process. After each step, the objects of the server are checked.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::{BoxError, CancellationToken};
use kinformer_apiserver::{ApiServer, Fault, Verb};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::node::NodeInfo;
use crate::pod::{PodInfo, Uid};
use crate::scheduler::{Options, Progress, Scheduler};

/// The scheduler name of the pods.
pub(crate) const SCHEDULER: &str = "example-scheduler";
/// The longest duration of a step.
const STEP_LIMIT: Duration = Duration::from_secs(20);

pub(crate) async fn run() -> Result<(), BoxError> {
    let server = ApiServer::builder().start().await?;
    let options = Options { name: SCHEDULER.to_owned(), limit: Duration::from_secs(2) };
    let scheduler = Scheduler::new(kinformer::client(server.config()?)?, options);
    let stop = CancellationToken::new();
    let demo = Demo { progress: scheduler.progress(), server: &server, nodes: HashMap::new() };
    tokio::try_join!(scheduler.run(stop.clone()), async {
        demo.steps().await?;
        stop.cancel();
        Ok(())
    })?;
    server.shutdown().await;
    Ok(())
}

struct Demo<'a> {
    server: &'a ApiServer,
    progress: watch::Receiver<Progress>,
    /// The nodes of the pods that are bound, in the last step.
    nodes: HashMap<Uid, String>,
}

impl Demo<'_> {
    async fn steps(mut self) -> Result<(), BoxError> {
        let server = self.server;
        let bindings = |fault: Fault| fault.on(Verb::Create).resource("pods");
        (0..49).try_for_each(|n| server.create(node(n, n == CORDONED)).map(drop))?;
        for (app, count) in [("batch", 90), ("job", 50), ("large", 10), ("web", 350)] {
            (0..count).try_for_each(|n| server.create(pod(app, n)).map(drop))?;
        }
        self.step("500 pods; 49 nodes: 9 are tainted, 1 is cordoned", 480).await?;

        // The binding is written, but its answer is lost: the informer confirms it.
        server.faults().inject(bindings(Fault::truncate()));
        server.delete("v1", "Pod", "default", "web-0")?;
        self.step("a pod is deleted; the answer to a binding is lost", 480).await?;
        server.create(pod("web", 0))?;
        self.step("a pod of the same name is created", 480).await?;

        // The watch of the pods is silent until their assumptions have expired. They are read, and stay where they are.
        server.faults().inject(Fault::stall().on(Verb::Watch).resource("pods"));
        server.faults().inject(bindings(Fault::forbidden()));
        server.update(node(CORDONED, false))?;
        self.until(|progress| progress.late >= 10).await?;
        server.drop_connections();
        self.step("uncordoned; a binding is refused, and events are late", 490).await?;

        // The binding is not written, and there is no answer: the assumption expires.
        server.faults().inject(bindings(Fault::stall()));
        server.create(node(49, false))?;
        self.step("a large node is added; a binding has no answer", 500).await?;

        let mut pods_of = BTreeMap::<_, usize>::new();
        self.nodes.values().for_each(|node| *pods_of.entry(node).or_default() += 1);
        let most = pods_of.values().max().copied().unwrap_or(0);
        println!("{} nodes have pods, none more than {most}", pods_of.len());
        let Progress { refused, expired, underway, .. } = *self.progress.borrow();
        let sent = server.metrics().requests_for(Verb::Create, "pods");
        println!("{sent} bindings were sent for 501 pods: {refused} was refused, {expired} expired");
        println!("{underway} pods are queued or assumed at the end");
        println!(
            "on the server, each node had room for its pods in each step, and no pod has changed its node"
        );
        Ok(())
    }

    async fn until(&mut self, is_done: impl FnMut(&Progress) -> bool) -> Result<(), BoxError> {
        let reached = timeout(STEP_LIMIT, self.progress.wait_for(is_done)).await.is_ok();
        let state = *self.progress.borrow();
        if reached { Ok(()) } else { Err(format!("the scheduler stays at {state:?}").into()) }
    }

    /// Waits until so many pods are bound and all others wait, and checks the objects of the server.
    async fn step(&mut self, name: &str, bound: usize) -> Result<(), BoxError> {
        let pods = self.server.list("v1", "Pod", "default")?.len();
        let is_done = |progress: &Progress| {
            progress.underway == 0 && progress.bound == bound && progress.bound + progress.waiting == pods
        };
        self.until(is_done).await?;
        let waiting: Vec<String> = self.check(bound)?.iter().map(|(app, n)| format!("{n} {app}")).collect();
        let waiting = if waiting.is_empty() { "none".to_owned() } else { waiting.join(", ") };
        println!("{name:<55}{bound} bound, waiting: {waiting}");
        Ok(())
    }

    /// Checks that so many pods are bound, that each node accepts its pods, with the sum of their requests, and that no
    /// pod has changed its node. Returns how many pods of each app are not bound.
    fn check(&mut self, bound: usize) -> Result<BTreeMap<String, usize>, BoxError> {
        let mut nodes = HashMap::new();
        for node in self.server.list("v1", "Node", "")? {
            let node: Node = serde_json::from_value(node)?;
            let mut info = NodeInfo::default();
            info.set(&node);
            nodes.insert(node.metadata.name.unwrap_or_default(), info);
        }
        let before = std::mem::take(&mut self.nodes);
        let mut unbound = BTreeMap::new();
        for pod in self.server.list("v1", "Pod", "default")? {
            let pod = PodInfo::of(&serde_json::from_value::<Pod>(pod)?);
            let Some(name) = pod.node.clone() else {
                let app = pod.name.split('-').next().unwrap_or_default();
                *unbound.entry(app.to_owned()).or_default() += 1;
                continue;
            };
            let node = nodes.get_mut(&name).filter(|node| node.accepts(&pod));
            let node = node.ok_or_else(|| format!("{name} does not accept {}", pod.name))?;
            node.requested.add(pod.requests, 1);
            if before.get(&pod.uid).is_some_and(|before| *before != name) {
                return Err(format!("{} has changed its node", pod.name).into());
            }
            self.nodes.insert(pod.uid, name);
        }
        if self.nodes.len() == bound {
            Ok(unbound)
        } else {
            Err(format!("{} pods are bound, not {bound}", self.nodes.len()).into())
        }
    }
}

/// The node that is cordoned at first.
const CORDONED: usize = 7;

/// Nodes for 10 pods; the last one for 10 large pods.
fn node(number: usize, is_cordoned: bool) -> Value {
    let (cpu, memory) = if number == 49 { ("60", "64Gi") } else { ("4", "8Gi") };
    let (labels, taints) = match number {
        40..49 => {
            let taint = json!({"key": "dedicated", "value": "batch", "effect": "NoSchedule"});
            (json!({"dedicated": "batch"}), json!([taint]))
        }
        _ => (json!({}), json!([])),
    };
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{number}"), "labels": labels},
        "spec": {"unschedulable": is_cordoned, "taints": taints},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}},
    })
}

fn pod(app: &str, number: usize) -> Value {
    let (priority, cpu) = match app {
        "large" => (1000, "6"), // more than all nodes but the last one have
        "web" => (100, "400m"),
        _ => (0, "400m"),
    };
    let (selector, tolerations) = match app {
        "batch" => (json!({"dedicated": "batch"}), json!([{"key": "dedicated", "operator": "Exists"}])),
        _ => (json!({}), json!([])),
    };
    let resources = json!({"requests": {"cpu": cpu, "memory": "512Mi"}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{app}-{number}"), "namespace": "default"},
        "spec": {
            "schedulerName": SCHEDULER, "priority": priority, "nodeSelector": selector, "tolerations": tolerations,
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        },
    })
}
