//! The example `scheduler` on a control plane without kube-scheduler.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Stdio;

use e2e::{ControlPlane, Options, programs};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube_client::api::{ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::output::Output;
use crate::recorder::{BOUND, check, eventually};

const NODES: usize = 50;
/// The room on each node: all nodes together have exactly the room for all pods.
const PODS_PER_NODE: usize = 10;
const PODS: usize = NODES * PODS_PER_NODE;
const CORDONED: &str = "node-7";

/// The program binds 500 pods to 50 nodes. kube-apiserver is killed while it binds the first half; one node is cordoned
/// until all others are full. Each pod is bound once, and no node has more pods than room.
#[tokio::test(flavor = "multi_thread")]
async fn pods_are_bound_through_a_kill_of_the_api_server() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let mut control_plane = ControlPlane::start(options(folder.path(), &log)).await.unwrap();
    let client = control_plane.client().await.unwrap();
    let cluster = Cluster { client: client.clone(), bound: Mutex::default() };
    cluster.create_nodes().await;
    cluster.create_pods(0..PODS / 2).await;
    let mut program = programs::scheduler(&control_plane.kubeconfig(), PODS).unwrap();
    let mut program = program.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut output = Output::of(&mut program);

    cluster.has_bound("the first bindings", |bound| bound > 0).await;
    control_plane.kill_apiserver();
    control_plane.restart_apiserver().await.unwrap();
    cluster.has_bound("the first half of the pods", |bound| bound == PODS / 2).await;
    cluster.create_pods(PODS / 2..PODS).await;
    let room = PODS - PODS_PER_NODE;
    cluster.has_bound("all nodes but one to be full", |bound| bound == room).await;
    output.line(|line| line == format!("{room} pods are bound, 0 are under way, {PODS_PER_NODE} wait")).await;

    let nodes: Api<Node> = Api::all(client);
    let uncordon = Patch::Merge(json!({"spec": {"unschedulable": false}}));
    nodes.patch(CORDONED, &PatchParams::default(), &uncordon).await.unwrap();
    cluster.has_bound("all pods", |bound| bound == PODS).await;
    println!("{}", output.line(|line| line.ends_with(" expired")).await);
    let ended = tokio::time::timeout(BOUND, program.wait()).await.unwrap().unwrap();
    assert!(ended.success(), "{ended}");

    control_plane.stop().await;
    let answers = bindings(&std::fs::read_to_string(log).unwrap());
    println!("answers to bindings: {:?}", totals(&answers));
    for (pod, codes) in &answers {
        assert!(codes.iter().filter(|code| **code == 201).count() <= 1, "{pod} was bound twice: {codes:?}");
        assert!(codes.iter().all(|code| *code != 409), "{pod} was bound already: {codes:?}");
    }
}

/// Without controllers, so pods have no service account and new nodes keep their taints; requests for bindings are logged.
fn options(folder: &Path, log: &Path) -> Options {
    let policy = folder.join("policy.yaml");
    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
        - {level: Metadata, resources: [{group: '', resources: [pods/binding]}]}\n- {level: None}\n";
    std::fs::write(&policy, rules).unwrap();
    Options::new()
        .apiserver_flag("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
        .apiserver_flag(format!("--audit-policy-file={}", policy.display()))
        .apiserver_flag(format!("--audit-log-path={}", log.display()))
}

/// Returns the codes of the answers to the bindings of each pod.
fn bindings(log: &str) -> BTreeMap<String, Vec<u64>> {
    let mut answers = BTreeMap::<_, Vec<_>>::new();
    for line in log.lines() {
        // kube-apiserver may have been killed in the middle of a line.
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let name = event["objectRef"]["name"].as_str().unwrap_or_default();
        answers.entry(name.to_owned()).or_default().extend(event["responseStatus"]["code"].as_u64());
    }
    answers
}

fn totals(answers: &BTreeMap<String, Vec<u64>>) -> BTreeMap<u64, usize> {
    let mut totals = BTreeMap::new();
    for code in answers.values().flatten() {
        *totals.entry(*code).or_default() += 1;
    }
    totals
}

struct Cluster {
    client: Client,
    /// The nodes of the pods that a read has found to be bound, by UID.
    bound: Mutex<HashMap<String, String>>,
}

impl Cluster {
    async fn create_nodes(&self) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        for number in 0..NODES {
            let name = format!("node-{number}");
            let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
            let node = json!({
                "metadata": {"name": name}, "spec": {"unschedulable": name == CORDONED},
                "status": {"allocatable": resources, "capacity": resources},
            });
            nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        }
    }

    async fn create_pods(&self, numbers: std::ops::Range<usize>) {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let created = stream::iter(numbers).map(Ok).try_for_each_concurrent(16, async |number| {
            let pod = json!({
                "metadata": {"name": format!("web-{number}")},
                "spec": {"containers": [{
                    "name": "main", "image": "none", "resources": {"requests": {"cpu": "400m", "memory": "256Mi"}},
                }]},
            });
            pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.map(drop)
        });
        created.await.unwrap();
    }

    /// Waits for a number of bound pods. Each read checks that no node has too many, and that no pod has another node than
    /// before.
    async fn has_bound(&self, what: &str, is_enough: impl Fn(usize) -> bool) {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        eventually(what, async || {
            let read = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let mut on_nodes = BTreeMap::<_, usize>::new();
            let mut bound = self.bound.lock();
            for pod in read {
                let Some(node) = pod.spec.and_then(|spec| spec.node_name) else { continue };
                *on_nodes.entry(node.clone()).or_default() += 1;
                let before = bound.insert(pod.metadata.uid.unwrap(), node.clone());
                assert!(before.is_none_or(|before| before == node), "{:?}", pod.metadata.name);
            }
            assert!(on_nodes.values().all(|count| *count <= PODS_PER_NODE), "{on_nodes:?}");
            check(is_enough(on_nodes.values().sum()), on_nodes)
        })
        .await;
    }
}
