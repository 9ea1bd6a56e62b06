//! A cluster without machines: informers follow the writes of Kubernetes' own controllers and scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use e2e::{ControlPlane, Options, Proxy, programs};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kinformer::{Added, Event, KubeObject, Object, ResourceVersion, Updated};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::mode::{Informer, Kind, KubeEvent, assert_negotiated_encodings, factory, informer};
use crate::output::Output;

const NODES: usize = 20;
const MANY: usize = 200;
const FEW: usize = 50;
const DEADLINE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn deployment_is_scheduled_scaled_and_deleted() {
    let control_plane = ControlPlane::start(Options::new().controllers().scheduler()).await.unwrap();
    let client = control_plane.client().await.unwrap();
    make_nodes(&client).await;
    let factory = factory(client.clone()).build();
    let cluster = Cluster {
        nodes: Followed::new(&client, informer!(factory.core().v1().nodes())),
        pods: Followed::new(&client, informer!(factory.core().v1().pods())),
        deployments: Followed::new(&client, informer!(factory.apps().v1().deployments())),
        replica_sets: Followed::new(&client, informer!(factory.apps().v1().replica_sets())),
    };
    let kubelets = tokio::spawn(kubelets(client.clone(), cluster.pods.informer.clone()));
    factory.start().unwrap();
    factory.wait_for_cache_sync().await.into_result().unwrap();

    make_deployment(&client).await;
    scale(&client, MANY).await;
    cluster.has_running(MANY).await;
    cluster.agrees().await;
    scale(&client, FEW).await;
    cluster.has_running(FEW).await;
    cluster.agrees().await;
    Api::<Deployment>::default_namespaced(client.clone())
        .delete("web", &DeleteParams::background())
        .await
        .unwrap();
    cluster.has_running(0).await;
    eventually("the deletion of the replica sets", async || {
        let left = cluster.replica_sets.informer.len();
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    cluster.agrees().await;

    let counts = cluster.pods.handler.lock().counts;
    assert!(counts.added >= MANY && counts.deleted == counts.added, "{counts:?}");
    assert_negotiated_encodings();
    factory.shutdown().await.unwrap();
    kubelets.await.unwrap();
}

/// The example fails on its own if its stores disagree.
#[tokio::test(flavor = "multi_thread")]
async fn scheduler_cache_example_matches_the_bindings() {
    // Without a watch cache, a compaction of etcd makes missed events unavailable.
    let options = Options::new().controllers().scheduler().apiserver_flag("--watch-cache=false");
    let control_plane = ControlPlane::start(options).await.unwrap();
    let client = control_plane.client().await.unwrap();
    make_nodes(&client).await;
    make_deployment(&client).await;
    let mut proxy = Proxy::start(control_plane.port()).await.unwrap();
    let kubeconfig = control_plane.kubeconfig_through(proxy.port()).unwrap();
    let mut example = programs::scheduler_cache(&kubeconfig, MANY).unwrap();
    let mut example = example.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut output = Output::of(&mut example);

    scale(&client, FEW).await;
    bound(&client, FEW).await;
    output.line(|line| line == format!("{FEW} pods are bound")).await;
    proxy.refuse().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete_collection(&at_once, &ListParams::default()).await.unwrap();
    bound(&client, FEW).await;
    control_plane.compact().await.unwrap();
    proxy.accept().await.unwrap();
    scale(&client, MANY).await;
    // Disconnect during these events.
    proxy.disconnect_after(30_000);

    let last = output.line(|line| line.starts_with('{')).await;
    let last: Value = serde_json::from_str(&last).unwrap();
    assert!(example.wait().await.unwrap().success());
    assert!(last["audits"].as_u64() > Some(1), "{last}");
    assert!(last["missed"].as_u64() >= Some(1), "{last}");
    let expected = bound(&client, MANY).await;
    let nodes = last["nodes"].as_object().unwrap();
    assert_eq!(nodes.len(), NODES, "{last}");
    for (node, info) in nodes {
        let expected = expected.get(node).cloned().unwrap_or_default();
        let count = expected.len();
        assert_eq!(info["pods"], json!(expected), "on {node}");
        assert_eq!(info["milliCpu"], 250 * count, "on {node}");
        assert_eq!(info["memory"], (256 << 20) * count, "on {node}");
        assert_eq!(info["allocatableMilliCpu"], 8000, "on {node}");
    }
}

/// Waits until there are this many pods and all are bound, and returns their keys by node.
async fn bound(client: &Client, count: usize) -> BTreeMap<String, BTreeSet<String>> {
    let pods: Api<Pod> = Api::all(client.clone());
    eventually(&format!("{count} pods to be bound"), async || {
        let list = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let mut bound: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for pod in &list.items {
            if let Some(node) = node_of(pod) {
                bound.entry(node.into()).or_default().insert(format!(
                    "{}/{}",
                    pod.namespace().unwrap(),
                    pod.name_any()
                ));
            }
        }
        let seen = (list.items.len(), bound.values().map(BTreeSet::len).sum::<usize>());
        if seen == (count, count) { Ok(bound) } else { Err(format!("{seen:?} (pods, bound)")) }
    })
    .await
}

struct Cluster {
    nodes: Followed<Node>,
    pods: Followed<Pod>,
    deployments: Followed<Deployment>,
    replica_sets: Followed<ReplicaSet>,
}

impl Cluster {
    /// Waits until there are this many pods, each running on a known node.
    async fn has_running(&self, count: usize) {
        eventually(&format!("{count} pods to run and no others"), async || {
            let pods = self.pods.informer.objects();
            let runs = |pod: &&Arc<KubeObject<Pod>>| {
                let node = node_of(pod).and_then(|node| self.nodes.informer.get(node));
                node.is_some() && phase_of(pod) == "Running" && !is_terminating(pod)
            };
            let running = pods.iter().filter(runs).count();
            let seen = (pods.len(), running);
            if seen == (count, count) { Ok(()) } else { Err(format!("{seen:?} (pods, running)")) }
        })
        .await;
    }

    /// Waits until server, stores and handlers have the same objects.
    async fn agrees(&self) {
        self.nodes.agrees().await;
        self.pods.agrees().await;
        self.deployments.agrees().await;
        self.replica_sets.agrees().await;
    }
}

/// An informer with the state that its handler builds from the events.
struct Followed<K> {
    api: Api<K>,
    informer: Informer<K>,
    handler: Arc<Mutex<HandlerState<K>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    added: usize,
    updated: usize,
    deleted: usize,
}

struct HandlerState<K> {
    objects: BTreeMap<String, Arc<KubeObject<K>>>,
    counts: Counts,
    /// Events that must not be delivered.
    wrong: Vec<String>,
}

type Versions = BTreeMap<String, ResourceVersion>;

impl<K> Followed<K>
where
    K: Kind + kube_client::Resource<DynamicType = ()>,
{
    fn new(client: &Client, informer: Informer<K>) -> Self {
        let handler = HandlerState { objects: BTreeMap::new(), counts: Counts::default(), wrong: Vec::new() };
        let handler = Arc::new(Mutex::new(handler));
        let state = handler.clone();
        informer.on_event(move |event| state.lock().on_event(&event));
        Self { api: Api::all(client.clone()), informer, handler }
    }

    /// Waits until server, store and handler have the same objects.
    async fn agrees(&self) {
        let kind = K::kind(&());
        eventually(&format!("the {kind}s to agree"), async || {
            let list = self.api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let items: Vec<_> = list.items.into_iter().map(KubeObject).collect();
            let server = versions(&items);
            let store = versions(self.informer.objects().iter().map(|object| &**object));
            let state = self.handler.lock();
            let handler = versions(state.objects.values().map(|object| &**object));
            assert_eq!(state.wrong, Vec::<String>::new(), "events of {kind}s");
            if server == store && store == handler {
                return Ok(());
            }
            let sizes = (server.len(), store.len(), handler.len());
            Err(format!("{sizes:?} (server, store, handler): {:?}", differing([&server, &store, &handler])))
        })
        .await;
    }
}

impl<K: Kind> HandlerState<K> {
    fn on_event(&mut self, event: &KubeEvent<K>) {
        let key = event.key().to_string();
        let version = event.object().map(|object| object.resource_version());
        let known = self.objects.get(&key).map(|object| object.resource_version());
        // A missed deletion has no version of its own.
        let backwards = match (&known, &version) {
            (Some(known), Some(version)) => !version.reaches(known),
            _ => false,
        };
        let expected = match event {
            Event::Added(Added { object, .. }) => {
                self.counts.added += 1;
                self.objects.insert(key.clone(), object.clone()).is_none()
            }
            Event::Updated(Updated { old, new, .. }) => {
                self.counts.updated += 1;
                let before = self.objects.insert(key.clone(), new.clone());
                before.is_some_and(|before| Arc::ptr_eq(&before, old)) && version != known
            }
            Event::Deleted(_) => {
                self.counts.deleted += 1;
                self.objects.remove(&key).is_some()
            }
            Event::Left(_) => unreachable!("the scope is fixed"),
        };
        if backwards || !expected {
            let event = match event {
                Event::Added(_) => "added",
                Event::Updated(_) => "updated",
                Event::Deleted(_) => "deleted",
                Event::Left(_) => unreachable!("the scope is fixed"),
            };
            self.wrong.push(format!("{event} {key}, version {version:?}, known version {known:?}"));
        }
    }
}

fn versions<'a, K: Object>(objects: impl IntoIterator<Item = &'a K>) -> Versions {
    objects.into_iter().map(|object| (object.key().to_string(), object.resource_version())).collect()
}

/// Returns a few of the keys whose versions differ.
fn differing(all: [&Versions; 3]) -> Vec<(String, [Option<ResourceVersion>; 3])> {
    let mut keys: Vec<_> = all.iter().flat_map(|versions| versions.keys()).collect();
    keys.sort();
    keys.dedup();
    let row = |key: &String| all.map(|versions| versions.get(key).cloned());
    let rows = keys.into_iter().map(|key| (key.clone(), row(key)));
    rows.filter(|(_, row)| row[0] != row[1] || row[1] != row[2]).take(5).collect()
}

/// Polls until `poll` succeeds, since other processes do not notify this one.
async fn eventually<T, E: Debug>(what: &str, poll: impl AsyncFn() -> Result<T, E>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match tokio::time::timeout_at(deadline, poll()).await {
            Ok(Ok(value)) => return value,
            Ok(Err(last)) if Instant::now() > deadline => {
                panic!("waited for {what}; the last result was {last:?}")
            }
            Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(_) => panic!("waited for {what}; the last request did not end"),
        }
    }
}

/// Creates nodes that are marked as ready, without kubelets.
async fn make_nodes(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    for n in 0..NODES {
        let resources = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
        let node = object(json!({
            "metadata": {"name": format!("node-{n}")},
            "status": {
                "allocatable": resources, "capacity": resources,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }));
        nodes.create(&PostParams::default(), &node).await.unwrap();
        // Every new node has a taint as not ready; the controller that would remove it is disabled.
        let untainted = Patch::Merge(json!({"spec": {"taints": null}}));
        nodes.patch(&format!("node-{n}"), &PatchParams::default(), &untainted).await.unwrap();
    }
}

/// Creates a deployment without pods. Its pods need a service account, which a controller creates.
async fn make_deployment(client: &Client) {
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    eventually("the service account", async || accounts.get("default").await).await;
    let labels = json!({"app": "web"});
    let deployment = object(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "main", "image": "none",
                    "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
                }]},
            },
        },
    }));
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
}

async fn scale(client: &Client, replicas: usize) {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments.patch_scale("web", &PatchParams::default(), &patch).await.unwrap();
}

/// Acts like the kubelets of all nodes: marks bound pods as running, and deletes terminating pods.
async fn kubelets(client: Client, informer: Informer<Pod>) {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let running = Patch::Merge(json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
    }}));
    let mut events = informer.stream();
    while let Some(event) = events.next().await {
        let (Event::Added(Added { object: pod, .. }) | Event::Updated(Updated { new: pod, .. })) = event
        else {
            continue;
        };
        if node_of(&pod).is_none() {
            continue;
        }
        let name = pod.name_any();
        let done = if is_terminating(&pod) {
            pods.delete(&name, &DeleteParams::default().grace_period(0)).await.map(drop)
        } else if phase_of(&pod) == "Pending" {
            pods.patch_status(&name, &PatchParams::default(), &running).await.map(drop)
        } else {
            continue;
        };
        match done {
            Ok(()) => {}
            Err(kube_client::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("the kubelet of {name}: {error}"),
        }
    }
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn phase_of(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}
