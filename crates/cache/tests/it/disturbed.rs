//! Random writes and reads while informers are removed, reads and writes are dropped, and few writes are kept by key.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kinformer::Packed;
use kinformer_apiserver::{ApiServer, Fault, Verb};
use kinformer_cache::{Cache, Error, Kind, Query};
use kube_client::Api;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_core::DynamicObject;
use kube_core::gvk::GroupVersionKind;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::common::{builder, server};

const TASKS: usize = 3;
const STEPS: usize = 80;
const FINALIZER: &str = "example.com/f";

/// What a task knows about an object of its own.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    /// Its value, and whether its deletion has begun.
    Present(String, bool),
    Gone,
    /// It has left the selector of the cache.
    Hidden,
    /// The outcome of a write is not known, and it may still take effect.
    Unknown,
}

struct Task {
    rng: fastrand::Rng,
    number: usize,
    cache: Cache,
    dynamic: Kind<DynamicObject>,
    has_removals: bool,
    known: BTreeMap<(&'static str, String), Known>,
}

fn deployment(name: &str, task: usize, value: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"task": task.to_string(), "value": value}, "annotations": {"value": value}},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

fn labels(labels: Value) -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"labels": labels}}))
}

impl Task {
    fn api(&self, namespace: &str) -> Api<Deployment> {
        Api::namespaced(self.cache.client(), namespace)
    }

    fn key(&mut self) -> (&'static str, String) {
        let namespace = if self.rng.bool() { "team-a" } else { "team-b" };
        (namespace, format!("task-{}-{}", self.number, self.rng.u8(..4)))
    }

    /// Writes an object. The future of one write in ten is dropped at some time, if the outcome of others does not matter.
    async fn attempt(
        &mut self,
        step: usize,
        key: &(&'static str, String),
    ) -> Result<Option<Known>, kube_client::Error> {
        let value = step.to_string();
        let before = self.known.get(key).cloned().unwrap_or(Known::Gone);
        let api = self.api(key.0);
        let (name, post, patch) = (key.1.as_str(), PostParams::default(), PatchParams::default());
        let set =
            Patch::Merge(json!({"metadata": {"labels": {"value": value}, "annotations": {"value": value}}}));
        let written = match (self.rng.u8(..9), before) {
            (_, Known::Unknown) => return Ok(None),
            (0, _) => {
                let object = serde_json::from_value(deployment(name, self.number, &value)).unwrap();
                let write = api.create(&post, &object);
                let micros = self.rng.u64(..2_000);
                _ = timeout(Duration::from_micros(micros), write).await;
                Known::Unknown
            }
            (_, Known::Gone) => {
                let object = serde_json::from_value(deployment(name, self.number, &value)).unwrap();
                api.create(&post, &object).await?;
                Known::Present(value, false)
            }
            (_, Known::Hidden) => {
                api.patch(name, &patch, &labels(json!({"hidden": null, "value": value}))).await?;
                Known::Present(value, false)
            }
            (_, Known::Present(_, true)) => {
                let without = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                api.patch(name, &patch, &without).await?;
                Known::Gone
            }
            (1, Known::Present(..)) => {
                api.delete(name, &DeleteParams::default()).await?;
                Known::Gone
            }
            (2, Known::Present(..)) => {
                api.patch(name, &patch, &labels(json!({"hidden": "yes"}))).await?;
                Known::Hidden
            }
            (3, Known::Present(value, _)) => {
                let with = Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}));
                api.patch(name, &patch, &with).await?;
                api.delete(name, &DeleteParams::default()).await?;
                Known::Present(value, true)
            }
            (4, Known::Present(..)) => {
                let own = format!("task={},hidden!=yes", self.number);
                api.delete_collection(&DeleteParams::default(), &ListParams::default().labels(&own)).await?;
                let of_namespace = self.known.iter_mut().filter(|((namespace, _), _)| *namespace == key.0);
                of_namespace.for_each(|(_, known)| match known {
                    Known::Present(_, is_ending) if !*is_ending => *known = Known::Gone,
                    _ => {}
                });
                return Ok(None);
            }
            (5, Known::Present(value, _)) => {
                let scale = Patch::Merge(json!({"spec": {"replicas": step}}));
                api.patch_scale(name, &patch, &scale).await?;
                Known::Present(value, false)
            }
            (6, Known::Present(..)) => {
                api.patch_metadata(name, &patch, &set).await?;
                Known::Present(value, false)
            }
            (7, Known::Present(value, _)) => {
                let status = Patch::Merge(json!({"status": {"replicas": 1, "observedGeneration": step}}));
                api.patch_status(name, &patch, &status).await?;
                Known::Present(value, false)
            }
            _ => {
                api.patch(name, &patch, &set).await?;
                Known::Present(value, false)
            }
        };
        Ok(Some(written))
    }

    /// Writes an object. A connection may break when the future of another write is dropped.
    async fn write(&mut self, step: usize) {
        let key = self.key();
        match self.attempt(step, &key).await {
            Ok(written) => self.known.extend(written.map(|written| (key, written))),
            Err(error @ kube_client::Error::Api(_)) => panic!("{key:?}: {error}"),
            Err(_) => {
                self.known.insert(key.clone(), Known::Unknown);
                let of_namespace = self.known.iter_mut().filter(|((namespace, _), _)| *namespace == key.0);
                of_namespace.for_each(|(_, known)| *known = Known::Unknown);
            }
        }
    }

    /// Returns what a read has returned; `None` if its informer was removed.
    fn read_of<T>(&self, read: Result<T, Error>) -> Option<Result<T, Error>> {
        match read {
            Err(Error::Informer(_) | Error::NotSynced { .. }) if self.has_removals => None,
            read => Some(read),
        }
    }

    fn check(&self, key: &(&'static str, String), read: Option<String>) {
        let expected = match self.known.get(key) {
            Some(Known::Unknown) => return,
            Some(Known::Present(value, _)) => Some(value.clone()),
            Some(Known::Gone | Known::Hidden) | None => None,
        };
        assert_eq!(read, expected, "{key:?} {:?}", self.known.get(key));
    }

    async fn get<K>(&self, kind: Kind<K>, key: &(&'static str, String)) {
        match self.read_of(kind.get((key.0, &*key.1)).await) {
            Some(Ok(object)) => self.check(key, value(&object)),
            Some(Err(Error::NotFound { .. })) => self.check(key, None),
            Some(Err(error)) => panic!("{key:?}: {error}"),
            None => {}
        }
    }

    async fn list<K: 'static>(&self, kind: Kind<K>, namespace: Option<&'static str>, of: Option<&str>) {
        let mut options = Query::new().labels(format!("task={}", self.number).parse().unwrap());
        if let Some(namespace) = namespace {
            options = options.namespace(namespace);
        }
        if let Some(of) = of {
            // After a removal there is none. Another task may have added it.
            _ = kind.index_by_field("value", &["metadata", "annotations", "value"]);
            options = options.field("value", of);
        }
        let list = match self.read_of(kind.list(&options).await) {
            // Its informer was removed, or another task has begun to add the index and is not done.
            Some(Err(Error::NoFieldIndex { .. })) => return,
            Some(list) => list.unwrap(),
            None => return,
        };
        let read: BTreeMap<_, _> =
            list.iter().map(|object| (object.key().to_string(), value(object).unwrap())).collect();
        for (key, known) in &self.known {
            let value = read.get(&format!("{}/{}", key.0, key.1)).cloned();
            let is_selected = namespace.is_none_or(|namespace| namespace == key.0)
                && of.is_none_or(|of| matches!(known, Known::Present(value, _) if value == of));
            match is_selected {
                true => self.check(key, value),
                false => assert!(value.is_none() || *known == Known::Unknown, "{key:?} {known:?} {value:?}"),
            }
        }
    }

    async fn read(&mut self) {
        let key = self.key();
        let namespace = [None, Some("team-a"), Some("team-b")][self.rng.usize(..3)];
        let of = self.rng.usize(..STEPS).to_string();
        let (typed, metadata) = (self.cache.kind::<Deployment>(), self.cache.metadata::<Deployment>());
        match self.rng.u8(..8) {
            0 | 1 => self.get(typed, &key).await,
            2 => self.get(metadata, &key).await,
            3 => self.get(self.dynamic.clone(), &key).await,
            4 => self.list(typed, namespace, None).await,
            5 => self.list(metadata, namespace, None).await,
            6 => self.list(self.dynamic.clone(), namespace, Some(&of)).await,
            _ => {
                let micros = self.rng.u64(..1_000);
                _ = timeout(Duration::from_micros(micros), typed.list(&Query::new())).await;
            }
        }
        if self.has_removals && self.rng.u8(..20) == 0 {
            self.cache.kind::<Deployment>().remove_informer().await;
        }
    }

    async fn run(mut self) {
        // Some writes are before the start of the cache, and of the informer.
        for step in 0..5 {
            self.write(step).await;
        }
        self.cache.start().unwrap();
        for step in 5..STEPS {
            self.write(step).await;
            for _ in 0..self.rng.u8(..3) {
                self.read().await;
            }
        }
    }
}

fn value<K>(object: &Packed<K>) -> Option<String> {
    object.label("value").map(str::to_owned)
}

fn disturb(server: &ApiServer, rng: &mut fastrand::Rng) {
    let fault = match rng.u8(..5) {
        0 => Fault::truncate(),
        1 => Fault::expired_event(),
        2 => Fault::duplicate_event(),
        3 => Fault::delay(Duration::from_millis(rng.u64(..20))).times(20),
        _ => Fault::internal_error().times(2),
    };
    server.faults().inject(fault.on(Verb::Watch).resource("deployments").after_events(rng.u64(..20)));
}

// contract: C-08a, C-08c, C-08d, C-08e, C-08g, C-08i
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_see_own_writes_whatever_happens() {
    for seed in 0..6 {
        let server = server().await;
        let mut rng = fastrand::Rng::with_seed(seed);
        let has_removals = seed % 2 == 1;
        let mut builder = builder(&server)
            .options(|options| options.of_kind::<Deployment>(|all| all.labels("hidden!=yes")));
        if seed % 3 == 1 {
            builder = builder.kept_writes(rng.usize(1..4), Duration::from_secs(600));
        }
        let cache = builder.build().await.unwrap();
        let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
        let dynamic = cache.dynamic(&kind).await.unwrap();
        (0..rng.u8(..5)).for_each(|_| disturb(&server, &mut rng));
        let tasks = (0..TASKS).map(|number| {
            let (cache, dynamic) = (cache.clone(), dynamic.clone());
            let task = Task { rng: rng.fork(), number, cache, dynamic, has_removals, known: BTreeMap::new() };
            tokio::spawn(task.run())
        });
        for task in tasks.collect::<Vec<_>>() {
            timeout(Duration::from_secs(120), task).await.unwrap().unwrap();
        }
        cache.shutdown().await.unwrap();
        server.shutdown().await;
    }
}
