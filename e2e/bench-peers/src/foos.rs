//! Custom objects that own pods, as an operator has them.

use std::borrow::Cow;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use kube_client::{Api, Client};
use kube_core::params::{Patch, PatchParams, PostParams};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::pods::{self, AT_A_TIME};
use crate::process::BOUND;

/// Pods of each Foo.
pub(crate) const PODS: usize = 5;
/// The resource of Foos.
const PLURAL: &str = "foos.bench.kinformer.dev";

/// As kube's derive macro makes it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Foo {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    metadata: ObjectMeta,
    pub(crate) spec: FooSpec,
    pub(crate) status: Option<FooStatus>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct FooSpec {
    pub(crate) replicas: usize,
    image: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FooStatus {
    pub(crate) ready_replicas: usize,
    #[serde(default)]
    conditions: Vec<Condition>,
}

impl kube_core::Resource for Foo {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Foo".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "bench.kinformer.dev".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "foos".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The name of a pod.
pub(crate) fn pod_name(owner: &str, number: usize) -> String {
    format!("{owner}-{number}")
}

/// Defines the kind, and waits until the server serves it.
pub(crate) async fn define(client: &Client) -> Result<(), Failure> {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": PLURAL},
        "spec": {
            "group": "bench.kinformer.dev", "scope": "Namespaced",
            "names": {"kind": "Foo", "listKind": "FooList", "plural": "foos", "singular": "foo"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    }))?;
    Api::all(client.clone()).create(&PostParams::default(), &definition).await?;
    let deadline = Instant::now() + BOUND;
    while let Err(error) = Api::<Foo>::all(client.clone()).list(&Default::default()).await {
        if Instant::now() > deadline {
            return Err(format!("{PLURAL} is not served: {error}").into());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Writes this many Foos with their pods, and prints progress.
pub(crate) async fn write(client: &Client, foos: usize) -> Result<(), Failure> {
    pods::write_namespaces(client).await?;
    let mut written = stream::iter(0..foos).map(|number| one(client, number)).buffer_unordered(AT_A_TIME);
    let (mut count, step) = (0, foos.div_ceil(10));
    while written.try_next().await?.is_some() {
        count += 1;
        if count % step == 0 || count == foos {
            eprintln!("{count} of {foos} Foos written, with {PODS} pods each");
        }
    }
    Ok(())
}

/// Creates a Foo with its pods and its status, so that a reconciliation has nothing to write.
async fn one(client: &Client, number: usize) -> Result<(), Failure> {
    let (namespace, name) = (pods::namespace(number), format!("foo-{number:05}"));
    let foos: Api<Foo> = Api::namespaced(client.clone(), &namespace);
    let owner: Foo = serde_json::from_value(json!({
        "apiVersion": "bench.kinformer.dev/v1", "kind": "Foo",
        "metadata": {
            "name": name, "labels": {"app.kubernetes.io/name": name},
            "annotations": {"example.com/description": "a service with five replicas"},
        },
        "spec": {"replicas": PODS, "image": format!("registry.example.com/shop/{name}:v1")},
    }))?;
    let uid = foos.create(&PostParams::default(), &owner).await?.metadata.uid.unwrap_or_default();
    for replica in 0..PODS {
        let owner = OwnerReference {
            api_version: "bench.kinformer.dev/v1".into(),
            kind: "Foo".into(),
            name: name.clone(),
            uid: uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        let pod = pod_name(&name, replica);
        pods::create_owned(client, &namespace, number * PODS + replica, pod, owner).await?;
    }
    let at = "2026-11-20T08:15:07Z";
    let status = json!({"status": {
        "readyReplicas": PODS,
        "conditions": [{"type": "Ready", "status": "True", "reason": "AllReady", "message": "", "lastTransitionTime": at}],
    }});
    let manager = PatchParams { field_manager: Some("foo-controller".into()), ..PatchParams::default() };
    foos.patch_status(&name, &manager, &Patch::Merge(status)).await?;
    Ok(())
}
