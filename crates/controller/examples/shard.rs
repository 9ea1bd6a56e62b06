//! A controller whose objects are shared out among processes by a ring: it writes into each ConfigMap with the label `shard` who
//! has reconciled it.
//!
//! `cargo run -p kinformer-controller --example shard` runs three processes' worth of it on an API server in this process, changes
//! objects, and ends by itself. With `-- KUBECONFIG NAME` it runs as the process NAME on that cluster, until it receives a signal.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{Informer, SharedInformerFactory};
use kinformer_apiserver::{ApiServer, ShardSelectors};
use kinformer_controller::kinformer_ring::Ring;
use kinformer_controller::{Action, CancellationToken, Controller, Manager, Sharding};
use kube_client::api::{Patch, PatchParams};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use serde_json::json;
use tokio::task::JoinHandle;

/// Who has reconciled an object, and the text that was there.
const BY: &str = "shard.example.com/by";
const TEXT: &str = "shard.example.com/text";

/// One process of the ring.
struct Process {
    sharding: Sharding,
    maps: Informer<ConfigMap>,
    manager: Manager,
}

impl Process {
    fn new(client: Client, name: &str) -> Result<Self, Box<dyn Error>> {
        let ring = Ring::leases(client.clone(), "default", "shard-example").identity(name).build()?;
        let sharding = Sharding::new(ring);
        let factory = SharedInformerFactory::builder(client.clone())
            .of_kind::<ConfigMap>(|maps| maps.labels("shard"))
            .build();
        let maps = factory.informer::<ConfigMap>();
        // Its writes are refused when another process may own the objects.
        let writer = sharding.client(&client);
        let (lister, name): (_, Arc<str>) = (maps.lister(), name.into());
        let controller = Controller::of(&factory).reconciles::<ConfigMap>().workers(8).sharded(&sharding);
        let controller = controller.build(move |request| {
            let (lister, writer, name) = (lister.clone(), writer.clone(), name.clone());
            async move {
                let Some(map) = lister.get_opt(&request.key)? else { return Ok(Action::none()) };
                let map = map.decode()?;
                let text = map.data.as_ref().and_then(|data| data.get("text"));
                let done = map.metadata.annotations.as_ref().and_then(|annotations| annotations.get(TEXT));
                if done == text {
                    return Ok(Action::none());
                }
                // With the version, so that the write fails if another process has written since.
                let version = &map.metadata.resource_version;
                let annotations = json!({BY: &*name, TEXT: text});
                let patch = json!({"metadata": {"annotations": annotations, "resourceVersion": version}});
                let namespace = request.namespace().unwrap_or_default();
                let maps: Api<ConfigMap> = Api::namespaced(writer, namespace);
                maps.patch(request.name(), &PatchParams::default(), &Patch::Merge(patch)).await?;
                Ok(Action::none())
            }
        });
        let manager = Manager::new().add(controller)?.sharding(&sharding)?;
        Ok(Self { sharding, maps, manager })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(name)) = (args.next(), args.next()) else { return demo().await };
    let config = Kubeconfig::read_from(path)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let process = Process::new(kinformer::client(config)?, &name)?;
    Ok(process.manager.run_until_signal().await?)
}

/// A process that runs as a task.
struct Running {
    name: &'static str,
    sharding: Sharding,
    maps: Informer<ConfigMap>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), kinformer_controller::Error>>,
}

impl Running {
    fn start(server: &ApiServer, name: &'static str) -> Result<Self, Box<dyn Error>> {
        let Process { sharding, maps, manager } = Process::new(kinformer::client(server.config()?)?, name)?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(manager.run(stop.clone()));
        Ok(Self { name, sharding, maps, stop, task })
    }

    async fn end(self) -> Result<(), Box<dyn Error>> {
        self.stop.cancel();
        Ok(self.task.await??)
    }
}

async fn demo() -> Result<(), Box<dyn Error>> {
    // as kube-apiserver with the feature gate ShardedListAndWatch; without it, the processes drop what is not theirs
    let server = ApiServer::builder().shard_selectors(ShardSelectors::Honoured).start().await?;
    for number in 0..300 {
        server.create(config_map(number, "one"))?;
    }
    println!("# one process");
    let a = Running::start(&server, "a")?;
    settled(&server, &[&a], "one").await?;
    println!("# two more");
    let (b, c) = (Running::start(&server, "b")?, Running::start(&server, "c")?);
    settled(&server, &[&a, &b, &c], "one").await?;
    println!("# each reconciles its part of the changes");
    for number in 0..300 {
        server.update(config_map(number, "two"))?;
    }
    settled(&server, &[&a, &b, &c], "two").await?;
    println!("# a ends, and hands its part over");
    a.end().await?;
    settled(&server, &[&b, &c], "two").await?;
    b.end().await?;
    c.end().await?;
    server.shutdown().await;
    Ok(())
}

fn config_map(number: u32, text: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": text},
        "metadata": {"name": format!("map-{number}"), "namespace": "default", "labels": {"shard": "yes"}}})
}

/// Waits until each process has its share and all objects are reconciled, and prints the shares.
async fn settled(server: &ApiServer, processes: &[&Running], text: &str) -> Result<(), Box<dyn Error>> {
    let owned = |process: &&Running| process.sharding.ring().status().owned.len();
    let held = |process: &&Running| process.maps.snapshot().map_or(0, |maps| maps.len());
    loop {
        let share = 1024 / processes.len();
        let is_shared = processes.iter().map(owned).all(|owned| (share..=share + 1).contains(&owned));
        let reconciled = reconciled(server, text)?;
        let all: usize = processes.iter().map(held).sum();
        if is_shared && all == 300 && reconciled.values().sum::<usize>() == 300 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for process in processes {
        println!("{} owns {} slots and holds {} objects", process.name, owned(process), held(process));
    }
    Ok(())
}

/// How many objects each process has reconciled since their text has changed.
fn reconciled(server: &ApiServer, text: &str) -> Result<BTreeMap<String, usize>, Box<dyn Error>> {
    let mut by = BTreeMap::new();
    for map in server.list("v1", "ConfigMap", "default")? {
        let annotations = map.pointer("/metadata/annotations").cloned().unwrap_or_default();
        if annotations.get(TEXT).and_then(serde_json::Value::as_str) == Some(text) {
            let name = annotations.get(BY).and_then(serde_json::Value::as_str).unwrap_or_default();
            *by.entry(name.to_owned()).or_default() += 1;
        }
    }
    Ok(by)
}
