//! An operator that reads from the cache: each Website has one Deployment for each of its zones. The names of the
//! Deployments are generated, so an operator that read a state before its own writes would create too many of them.
//!
//! `cargo run -p kinformer-cache --example cache_operator` runs it on an API server in this process, changes objects, counts
//! the requests of its reads, and ends by itself. With `-- KUBECONFIG`, or the variable `$KUBECONFIG`, it runs on that
//! cluster, where the kind must be defined, until it receives Ctrl-C.
#![allow(clippy::print_stdout, reason = "an example program prints")]
#![allow(clippy::indexing_slicing, reason = "indexing a JSON value returns null for a missing field")]

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinformer::kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kinformer::kube_client::config::{KubeConfigOptions, Kubeconfig};
use kinformer::kube_client::{Api, Client, Config};
use kinformer::{LabelSelector, ObjectKey};
use kinformer_apiserver::{ApiServer, Verb};
use kinformer_cache::{Cache, Error as CacheError, Query};
use kinformer_controller::{
    Action, CancellationToken, Controller, Manager, ReconcileError, Request, set_controller_reference,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Website {
    metadata: ObjectMeta,
    spec: WebsiteSpec,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct WebsiteSpec {
    zones: Vec<String>,
}

impl kube_core::Resource for Website {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Website".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "websites".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Reads from the cache, and writes with its client.
async fn reconcile(cache: &Cache, request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
    let website = match cache.get::<Website>(&request.key).await {
        Ok(website) => website.decode_arc()?,
        // It was deleted; the garbage collector deletes its Deployments.
        Err(CacheError::NotFound { .. }) => return Ok(Action::none()),
        Err(error) => return Err(error.into()),
    };
    let namespace = request.namespace().unwrap_or_default();
    let deployments: Api<Deployment> = Api::namespaced(cache.client(), namespace);
    let own: LabelSelector = format!("website={}", request.name()).parse()?;
    let own = Query::new().namespace(namespace).labels(own);
    let mut missing = website.spec.zones.clone();
    for deployment in cache.list::<Deployment>(&own).await? {
        let zone = deployment.label("zone").unwrap_or_default();
        match missing.iter().position(|wanted| wanted == zone) {
            Some(found) => _ = missing.swap_remove(found),
            None => {
                println!("delete the deployment of {} in {zone}", request.key);
                deployments.delete(deployment.name(), &DeleteParams::default()).await?;
            }
        }
    }
    for zone in missing {
        println!("create a deployment of {} in {zone}", request.key);
        deployments.create(&PostParams::default(), &deployment(&website, &zone)?).await?;
    }
    // The cache has what was just written.
    let status =
        Patch::Merge(json!({"status": {"deployments": cache.list::<Deployment>(&own).await?.len()}}));
    let websites: Api<Website> = Api::namespaced(cache.client(), namespace);
    websites.patch_status(request.name(), &PatchParams::default(), &status).await?;
    Ok(Action::none())
}

fn deployment(website: &Website, zone: &str) -> Result<Deployment, ReconcileError> {
    let labels = json!({"website": website.metadata.name, "zone": zone});
    let mut deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"generateName": "website-", "namespace": website.metadata.namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
            },
        },
    }))?;
    set_controller_reference(website, &mut deployment)?;
    Ok(deployment)
}

/// Returns the cache, and a manager of a controller that shares its informers.
async fn operator(client: Client) -> Result<(Cache, Manager), Box<dyn Error>> {
    let cache = Cache::builder(client).build().await?;
    cache.start()?;
    let reading = Arc::new(cache.clone());
    let controller =
        Controller::of(cache.factory()).reconciles::<Website>().owns::<Deployment>().workers(2).build(
            move |request| {
                let cache = reading.clone();
                async move { reconcile(&cache, request).await }
            },
        );
    Ok((cache, Manager::new().add(controller)?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).or_else(|| std::env::var("KUBECONFIG").ok()) {
        Some(kubeconfig) => run(&kubeconfig).await,
        None => tokio::time::timeout(Duration::from_secs(60), demo()).await?,
    }
}

/// Runs on a cluster until the process receives a signal.
async fn run(kubeconfig: &str) -> Result<(), Box<dyn Error>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let (cache, manager) = operator(kinformer::client(config)?).await?;
    manager.run_until_signal().await?;
    cache.shutdown().await?;
    Ok(())
}

async fn demo() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().start().await?; // a cluster in this process
    server.create(definition())?;
    let (cache, manager) = operator(kinformer::client(server.config()?)?).await?;
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(manager.run(shutdown.clone()));

    println!("# create three websites in two zones");
    for number in 0..3 {
        server.create(website(number, &["east", "west"]))?;
    }
    wait(&server, &["east", "west"]).await?;
    println!("# replace a zone");
    for number in 0..3 {
        server.update(website(number, &["east", "north"]))?;
    }
    wait(&server, &["east", "north"]).await?;
    shutdown.cancel();
    running.await??;
    cache.shutdown().await?;

    let metrics = server.metrics();
    for resource in ["websites", "deployments"] {
        let [gets, lists, watches] =
            [Verb::Get, Verb::List, Verb::Watch].map(|verb| metrics.requests_for(verb, resource));
        println!("{resource}: {gets} gets, {lists} lists, {watches} watches");
    }
    server.shutdown().await;
    Ok(())
}

/// Waits until each website has one deployment in each of these zones, and its status says so.
async fn wait(server: &ApiServer, zones: &[&str]) -> Result<(), Box<dyn Error>> {
    loop {
        let mut found = Vec::new();
        for deployment in server.list("apps/v1", "Deployment", "default")? {
            let labels = &deployment["metadata"]["labels"];
            found.push((labels["website"].to_string(), labels["zone"].to_string()));
        }
        let ready = server.list("example.com/v1", "Website", "default")?;
        let is_ready = ready.iter().all(|website| website["status"]["deployments"] == zones.len());
        let is_wanted = found.iter().all(|(_, zone)| zones.iter().any(|wanted| zone.contains(wanted)));
        if is_ready && is_wanted && found.len() == 3 * zones.len() {
            println!("each website has {} deployments", zones.len());
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

fn website(number: u32, zones: &[&str]) -> serde_json::Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Website",
        "metadata": {"name": format!("website-{number}"), "namespace": "default"},
        "spec": {"zones": zones},
    })
}

fn definition() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Website", "plural": "websites"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}
