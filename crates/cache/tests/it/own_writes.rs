//! Random writes through the cache's client by several tasks, each followed by reads that must see them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::Packed;
use kinformer_apiserver::{ApiServer, Fault, Verb};
use kinformer_cache::{Cache, Error, Query};
use kube_client::Api;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::common::{server, started};

const TASKS: usize = 3;
const WRITES: usize = 60;

/// A task that writes objects of its own, and what it has written: the value and the UID of each object.
struct Task {
    rng: fastrand::Rng,
    number: usize,
    cache: Cache,
    api: Api<ConfigMap>,
    /// `None` for an object that was deleted.
    written: BTreeMap<String, Option<(String, String)>>,
}

impl Task {
    fn name(&mut self) -> String {
        format!("task-{}-{}", self.number, self.rng.u8(..4))
    }

    fn is_stored(&self, name: &str) -> bool {
        matches!(self.written.get(name), Some(Some(_)))
    }

    fn map(&self, name: &str, value: &str) -> ConfigMap {
        let labels = json!({"task": self.number.to_string(), "value": value});
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
    }

    fn note(&mut self, written: ConfigMap) {
        let value = written.metadata.labels.unwrap()["value"].clone();
        self.written.insert(written.metadata.name.unwrap(), Some((value, written.metadata.uid.unwrap())));
    }

    async fn write(&mut self, number: usize) {
        let (name, value) = (self.name(), number.to_string());
        let is_stored = self.is_stored(&name);
        let patch = Patch::Merge(json!({"metadata": {"labels": {"value": value}}}));
        match self.rng.u8(..10) {
            0 | 1 if is_stored => {
                self.api.delete(&name, &DeleteParams::default()).await.unwrap();
                self.written.insert(name, None);
            }
            2 if is_stored => {
                self.api.delete(&name, &DeleteParams::default()).await.unwrap();
                let map = self.map(&name, &value);
                let created = self.api.create(&PostParams::default(), &map).await.unwrap();
                self.note(created);
            }
            3 => {
                let of_task = ListParams::default().labels(&format!("task={}", self.number));
                self.api.delete_collection(&DeleteParams::default(), &of_task).await.unwrap();
                self.written.values_mut().for_each(|written| *written = None);
            }
            4 => {
                let mut map = self.map(&name, &value);
                (map.metadata.name, map.metadata.generate_name) = (None, Some(format!("{name}-")));
                let created = self.api.create(&PostParams::default(), &map).await.unwrap();
                self.note(created);
            }
            5 if is_stored => {
                let map = self.map(&name, &value);
                let replaced = self.api.replace(&name, &PostParams::default(), &map).await.unwrap();
                self.note(replaced);
            }
            _ if is_stored => {
                let patched = self.api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
                self.note(patched);
            }
            _ => {
                let map = self.map(&name, &value);
                let created = self.api.create(&PostParams::default(), &map).await.unwrap();
                self.note(created);
            }
        }
    }

    /// Reads one object or all of them, through any view. No other task writes them, so the last write decides.
    async fn read(&mut self) {
        let options =
            Query::new().namespace("team-a").labels(format!("task={}", self.number).parse().unwrap());
        let of_task = |list: Vec<(String, String)>| list.into_iter().collect::<BTreeMap<_, _>>();
        let wanted: BTreeMap<String, String> = (self.written.iter())
            .filter_map(|(name, written)| Some((name.clone(), written.as_ref()?.0.clone())))
            .collect();
        match self.rng.u8(..4) {
            0 => {
                let list = self.cache.list::<ConfigMap>(&options).await.unwrap();
                assert_eq!(of_task(list.iter().map(name_and_value).collect()), wanted);
            }
            1 => {
                let list = self.cache.metadata::<ConfigMap>().list(&options).await.unwrap();
                assert_eq!(of_task(list.iter().map(name_and_value).collect()), wanted);
            }
            view => {
                let name = self.name();
                let key = ("team-a", &*name);
                let read = match view {
                    2 => self.cache.get::<ConfigMap>(key).await.map(|read| name_and_value(&read).1),
                    _ => {
                        self.cache.metadata::<ConfigMap>().get(key).await.map(|read| name_and_value(&read).1)
                    }
                };
                match (read, wanted.get(&name)) {
                    (Ok(value), Some(wanted)) => assert_eq!(value, *wanted, "{name}"),
                    (Err(Error::NotFound { .. }), None) => {}
                    (read, wanted) => panic!("{name}: {read:?} instead of {wanted:?}"),
                }
            }
        }
    }

    async fn run(mut self) {
        for number in 0..WRITES {
            self.write(number).await;
            for _ in 0..self.rng.u8(..3) {
                self.read().await;
            }
        }
    }
}

fn name_and_value<K>(object: &Packed<K>) -> (String, String) {
    (object.name().to_owned(), object.label("value").unwrap_or_default().to_owned())
}

/// Breaks watches, some with the loss of the history.
fn break_watch(server: &ApiServer, rng: &mut fastrand::Rng) {
    let fault = match rng.u8(..4) {
        0 => Fault::truncate(),
        1 => Fault::expired_event(),
        2 => Fault::duplicate_event(),
        _ => Fault::delay(std::time::Duration::from_millis(rng.u64(..50))).times(20),
    };
    server.faults().inject(fault.on(Verb::Watch).resource("configmaps").after_events(rng.u64(..20)));
}

// contract: C-08a, C-08c, C-08d
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_see_the_last_own_write() {
    for seed in 0..5 {
        let server = server().await;
        let cache = started(&server).await;
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..rng.u8(..4)).for_each(|_| break_watch(&server, &mut rng));
        let tasks = (0..TASKS).map(|number| {
            let api = Api::namespaced(cache.client(), "team-a");
            let (cache, written) = (cache.clone(), BTreeMap::new());
            tokio::spawn(Task { rng: rng.fork(), number, cache, api, written }.run())
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        cache.shutdown().await.unwrap();
        server.shutdown().await;
    }
}
