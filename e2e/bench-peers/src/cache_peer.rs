//! The measured cache of kinformer. That of controller-runtime is `e2e/controller-runtime`.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{FieldPath, ObjectKey, Packed};
use kinformer_cache::{Cache, Kind, Query};
use kube_client::{Api, Client};
use kube_core::params::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::cache::{Measured, Stored};
use crate::failure::Failure;
use crate::peers;

/// The number of tasks that read at the same time.
const READERS: usize = 50;

/// A cache of pods whose reads are measured.
struct Pods {
    client: Client,
    pods: Kind<Pod>,
    keys: Vec<ObjectKey>,
}

/// Answers each request of the input by a line: a name and a number, of seconds or of writes.
pub(crate) async fn kinformer(kubeconfig: &Path) -> Result<(), Failure> {
    let cache = Cache::builder(kinformer::client(peers::config(kubeconfig).await?)?).build().await?;
    let pods = cache.kind::<Pod>();
    pods.index_by_field("spec.nodeName", &["spec", "nodeName"])?;
    cache.start()?;
    let all = pods.list(&Query::new()).await?;
    let keys: Vec<ObjectKey> = all.iter().map(|pod| pod.key().try_into()).collect::<Result<_, _>>()?;
    drop(all);
    let pods = Pods { client: cache.client(), pods, keys };
    println!("{}", json!(Stored { stored: pods.keys.len() }));
    // Read on the main thread, on which no other task runs.
    for line in std::io::stdin().lines() {
        let line = line?;
        let (name, number) = line.split_once(' ').ok_or("a request without a number")?;
        println!("{}", json!(pods.measure(name, number.parse()?).await?));
    }
    cache.shutdown().await?;
    Ok(())
}

/// Reads a pod that was returned: one of its labels.
fn is_read(pod: &Packed<Pod>) -> bool {
    pod.label("tier").is_some()
}

impl Pods {
    async fn measure(&self, name: &str, number: u32) -> Result<Measured, Failure> {
        let until = Duration::from_secs(number.into());
        let all = Query::new;
        let options = match name {
            "get" => return self.gets(until).await,
            "readers" => return self.read_at_once(until).await,
            "writes" => return self.writes(number as usize).await,
            "namespace" => all().namespace("team-7"),
            "field" => all().field("spec.nodeName", "node-7"),
            "label" => all().labels("app.kubernetes.io/name=service-7".parse()?),
            _ => return Err(format!("there is no measurement {name:?}").into()),
        };
        let (start, mut count, mut objects) = (Instant::now(), 0_u32, 0);
        while start.elapsed() < until {
            objects = self.list(&options).await?;
            count += 1;
        }
        Ok(Measured {
            seconds: start.elapsed().as_secs_f64() / f64::from(count),
            objects,
            ..Measured::default()
        })
    }

    async fn list(&self, options: &Query) -> Result<usize, Failure> {
        Ok(self.pods.list(options).await?.iter().filter(|pod| is_read(pod)).count())
    }

    fn key(&self, number: usize) -> Result<&ObjectKey, Failure> {
        Ok(self.keys.get(number % self.keys.len().max(1)).ok_or("there are no pods")?)
    }

    async fn gets(&self, until: Duration) -> Result<Measured, Failure> {
        let (start, mut count, mut objects) = (Instant::now(), 0_u32, 0);
        while start.elapsed() < until {
            count += 1;
            objects = usize::from(is_read(&self.pods.get(self.key(count as usize * 7_919)?).await?));
        }
        Ok(Measured {
            seconds: start.elapsed().as_secs_f64() / f64::from(count),
            objects,
            ..Measured::default()
        })
    }

    async fn read_at_once(&self, until: Duration) -> Result<Measured, Failure> {
        let start = Instant::now();
        let readers = (0..READERS).map(|reader| {
            let (pods, keys) = (self.pods.clone(), self.keys.clone());
            tokio::spawn(async move {
                let mut count = 0;
                while start.elapsed() < until {
                    let number = (reader * 200 + count * 7_919) % keys.len().max(1);
                    let Some(key) = keys.get(number) else { break };
                    if !is_read(&pods.get(key).await?) {
                        break;
                    }
                    count += 1;
                    tokio::task::consume_budget().await;
                }
                Ok::<_, kinformer_cache::Error>(count)
            })
        });
        let mut gets = 0;
        for reader in readers.collect::<Vec<_>>() {
            gets += reader.await??;
        }
        let seconds = start.elapsed().as_secs_f64() / gets as f64;
        Ok(Measured { seconds, objects: 1, ..Measured::default() })
    }

    /// Patches pods, each followed by a get of it, and again, each followed by a list of another namespace.
    async fn writes(&self, count: usize) -> Result<Measured, Failure> {
        let (mut gets, mut lists, mut measured) = (Vec::new(), Vec::new(), Measured::default());
        let written = FieldPath::new(&["metadata", "annotations", "written"]);
        for number in 0..count {
            let key = self.key(number * 97)?;
            let value = format!("{}-{number}", std::process::id());
            self.patch(key, &value).await?;
            let start = Instant::now();
            let pod = self.pods.get(key).await?;
            gets.push(start.elapsed().as_secs_f64());
            measured.stale += usize::from(pod.field::<String>(&written)?.as_deref() != Some(&*value));
            self.patch(key, &format!("{value}-again")).await?;
            let other = if key.namespace() == Some("team-7") { "team-8" } else { "team-7" };
            let start = Instant::now();
            measured.objects = self.list(&Query::new().namespace(other)).await?;
            lists.push(start.elapsed().as_secs_f64());
        }
        (measured.seconds, measured.list) = (median(gets), median(lists));
        Ok(measured)
    }

    async fn patch(&self, key: &ObjectKey, value: &str) -> Result<(), Failure> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), key.namespace().unwrap_or_default());
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"written": value}}}));
        pods.patch(key.name(), &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}
