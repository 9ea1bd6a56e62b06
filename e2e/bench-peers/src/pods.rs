//! Pods as created by a controller and updated by a kubelet.

use std::fmt;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_client::{Api, Client};
use kube_core::params::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::failure::Failure;

const NAMESPACES: usize = 20;
/// Pods per deployment.
const REPLICAS: usize = 20;
const NODES: usize = 200;
/// The number of concurrent writes.
pub(crate) const AT_A_TIME: usize = 16;

/// The size of a pod as JSON, in bytes.
pub(crate) struct Size {
    whole: usize,
    without_managed_fields: usize,
    managers: usize,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whole, without_managed_fields, managers } = self;
        write!(
            f,
            "each {whole} bytes of JSON, {without_managed_fields} of them without managedFields of {managers} managers"
        )
    }
}

/// Writes this many pods, and prints progress.
pub(crate) async fn write(client: &Client, pods: usize) -> Result<Size, Failure> {
    write_namespaces(client).await?;
    let mut written = stream::iter(0..pods).map(|number| one(client, number)).buffer_unordered(AT_A_TIME);
    let (mut count, step) = (0, pods.div_ceil(10));
    let mut last = None;
    while let Some(pod) = written.try_next().await? {
        count += 1;
        if count % step == 0 || count == pods {
            eprintln!("{count} of {pods} pods written");
        }
        last = Some(pod);
    }
    let mut pod = serde_json::to_value(last.ok_or("no pod was written")?)?;
    let whole = pod.to_string().len();
    let managed = pod.pointer_mut("/metadata/managedFields").map(Value::take);
    let managers = managed.as_ref().and_then(Value::as_array).map_or(0, Vec::len);
    // The remaining `null` and its field name.
    let left = r#""managedFields":null,"#.len();
    Ok(Size { whole, without_managed_fields: pod.to_string().len() - left, managers })
}

/// Writes the namespaces of the pods.
pub(crate) async fn write_namespaces(client: &Client) -> Result<(), Failure> {
    for number in 0..NAMESPACES {
        let name = namespace(number);
        let created: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        Api::all(client.clone()).create(&PostParams::default(), &created).await?;
        // Pods need a service account, and no controller creates it here.
        let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
        Api::namespaced(client.clone(), &name).create(&PostParams::default(), &account).await?;
    }
    Ok(())
}

async fn one(client: &Client, number: usize) -> Result<Pod, Failure> {
    create(client, &namespace(number / REPLICAS), number, serde_json::from_value(pod(number))?).await
}

/// Creates the pod with this number, in a namespace, with another name and owner.
pub(crate) async fn create_owned(
    client: &Client,
    namespace: &str,
    number: usize,
    name: String,
    owner: OwnerReference,
) -> Result<Pod, Failure> {
    let mut created: Pod = serde_json::from_value(pod(number))?;
    created.metadata.name = Some(name);
    created.metadata.owner_references = Some(vec![owner]);
    create(client, namespace, number, created).await
}

/// Creates a pod as a controller does, and updates its status as a kubelet does.
async fn create(client: &Client, namespace: &str, number: usize, pod: Pod) -> Result<Pod, Failure> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let manager =
        PostParams { field_manager: Some("kube-controller-manager".into()), ..PostParams::default() };
    let name = pods.create(&manager, &pod).await?.metadata.name.unwrap_or_default();
    let manager = PatchParams { field_manager: Some("kubelet".into()), ..PatchParams::default() };
    Ok(pods.patch_status(&name, &manager, &Patch::Strategic(status(number))).await?)
}

/// Changes a pod, and returns its key and new version.
pub(crate) async fn touch(client: &Client) -> Result<(String, u64), Failure> {
    let (namespace, name) = (namespace(0), name(0));
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let before = pods.get(&name).await?.metadata.resource_version;
    let patch = json!({"metadata": {"annotations": {"touched": before}}});
    let pod = pods.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    let version = pod.metadata.resource_version.ok_or("a pod without a version")?;
    Ok((format!("{namespace}/{name}"), version.parse()?))
}

pub(crate) fn namespace(number: usize) -> String {
    format!("team-{}", number % NAMESPACES)
}

/// The name of the pod's deployment.
fn app(number: usize) -> String {
    format!("service-{}", number / REPLICAS)
}

fn replica_set(number: usize) -> String {
    format!("{}-{:08x}", app(number), 0x6c5f_7d9bu32.wrapping_add((number / REPLICAS) as u32))
}

fn name(number: usize) -> String {
    format!("{}-{number:06x}", replica_set(number))
}

fn pod(number: usize) -> Value {
    let (app, owner) = (app(number), replica_set(number));
    let hash = owner.rsplit('-').next().unwrap_or_default();
    let probe = |path: &str, period: u32| {
        json!({
            "httpGet": {"path": path, "port": "http"}, "initialDelaySeconds": 5, "periodSeconds": period,
            "timeoutSeconds": 2,
        })
    };
    json!({
        "metadata": {
            "name": name(number),
            "generateName": format!("{owner}-"),
            "labels": {
                "app.kubernetes.io/name": app, "pod-template-hash": hash,
                "tier": if number.is_multiple_of(2) { "backend" } else { "frontend" },
            },
            "annotations": {
                "prometheus.io/scrape": "true", "kubectl.kubernetes.io/restartedAt": "2026-11-20T08:15:00Z",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "controller": true,
                "blockOwnerDeletion": true,
                "uid": format!("5f0c3a52-7d1e-4a8b-9c51-{:012x}", number / REPLICAS),
            }],
        },
        "spec": {
            "nodeName": format!("node-{}", number % NODES),
            "containers": [{
                "name": "app",
                "image": format!("registry.example.com/shop/{app}:v1.{}", number % 7),
                "args": ["--listen=:8080", "--metrics=:9102", "--log-format=json"],
                "env": [
                    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "DATABASE_HOST", "value": "database.storage.svc.cluster.local"},
                ],
                "ports": [{"name": "http", "containerPort": 8080}],
                "resources": {
                    "requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"},
                },
                "livenessProbe": probe("/healthz", 10),
                "readinessProbe": probe("/readyz", 5),
                "volumeMounts": [{"name": "config", "mountPath": "/etc/app", "readOnly": true}],
            }],
            "volumes": [{"name": "config", "configMap": {"name": format!("{app}-config")}}],
        },
    })
}

fn status(number: usize) -> Value {
    let ip = format!("10.{}.{}.{}", 64 + number / 65_536, number / 256 % 256, number % 256);
    let host = format!("192.168.{}.{}", number % NODES / 250, number % NODES % 250 + 1);
    let at = "2026-11-20T08:15:07Z";
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let conditions = conditions.map(|name| {
        json!({"type": name, "status": "True", "lastProbeTime": null, "lastTransitionTime": at, "observedGeneration": 1})
    });
    let digest = |salt: u64| digest(number as u64 + salt);
    json!({
        "status": {
            "phase": "Running", "conditions": conditions, "hostIP": host, "hostIPs": [{"ip": host}],
            "podIP": ip, "podIPs": [{"ip": ip}], "qosClass": "Burstable", "startTime": at,
            "observedGeneration": 1,
            "containerStatuses": [{
                "name": "app", "ready": true, "started": true, "restartCount": 0,
                "image": format!("registry.example.com/shop/{}:v1.{}", app(number), number % 7),
                "imageID": format!("registry.example.com/shop/{}@sha256:{}", app(number), digest(1)),
                "containerID": format!("{CONTAINER_SCHEME}{}", digest(2)),
                "state": {"running": {"startedAt": at}}, "lastState": {},
            }],
        },
    })
}

/// The prefix of the digest that identifies a container.
pub(crate) const CONTAINER_SCHEME: &str = "containerd://";

pub(crate) fn digest(of: u64) -> String {
    format!("{:064x}", of.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
