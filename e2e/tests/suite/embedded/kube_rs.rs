//! kube-rs' watchers, with their events as lines like those of the programs.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::{Line, ObjectEvent, RESOURCES};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube_client::{Api, Client};
use kube_core::DynamicObject;
use kube_core::discovery::ApiResource;
use kube_runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(super) struct KubeRs {
    lines: watch::Receiver<Vec<Line>>,
    errors: watch::Receiver<Vec<String>>,
    tasks: JoinSet<()>,
}

impl KubeRs {
    pub(super) fn start(client: &Client, config: &watcher::Config) -> Self {
        let (sender, lines) = watch::channel(Vec::new());
        let (error_sender, errors) = watch::channel(Vec::new());
        let mut tasks = JoinSet::new();
        let kinds = [
            ApiResource::erase::<Pod>(&()),
            ApiResource::erase::<Deployment>(&()),
            ApiResource::erase::<Node>(&()),
        ];
        for (resource, kind) in RESOURCES.into_iter().zip(kinds) {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
            let events = watcher::watcher(api, config.clone()).default_backoff();
            let (sender, errors) = (sender.clone(), error_sender.clone());
            tasks.spawn(async move {
                let mut events = std::pin::pin!(events);
                let mut cache = Cache { resource, ..Cache::default() };
                while let Some(event) = events.next().await {
                    match event {
                        Ok(event) => {
                            let new_lines = cache.lines(event);
                            sender.send_modify(|lines| lines.extend(new_lines));
                        }
                        // The watcher continues after errors.
                        Err(error) => errors.send_modify(|errors| errors.push(error.to_string())),
                    }
                }
            });
        }
        Self { lines, errors, tasks }
    }

    pub(super) async fn until(
        &mut self,
        what: &str,
        bound: Duration,
        wanted: impl Fn(&[Line]) -> bool,
    ) -> Result<(), String> {
        let errors = self.errors.clone();
        let waited = tokio::time::timeout(bound, self.lines.wait_for(|lines| wanted(lines))).await;
        match waited.map(|waited| waited.map(drop)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(format!("kube-rs: waiting for {what}: its streams have ended")),
            Err(_) => {
                let errors = errors.borrow().clone();
                Err(format!("kube-rs: waiting for {what}: not within {bound:?}; its errors: {errors:?}"))
            }
        }
    }

    pub(super) async fn stop(mut self) -> Vec<Line> {
        self.tasks.shutdown().await;
        self.lines.borrow().clone()
    }
}

/// The known objects of a resource, since a watcher delivers new states without the old ones.
#[derive(Default)]
struct Cache {
    resource: &'static str,
    /// Versions by key.
    known: BTreeMap<String, String>,
    /// The objects of an unfinished list.
    listed: BTreeMap<String, String>,
    is_synced: bool,
}

impl Cache {
    fn lines(&mut self, event: watcher::Event<DynamicObject>) -> Vec<Line> {
        match event {
            watcher::Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                self.listed.insert(key(&object), version(&object));
                Vec::new()
            }
            watcher::Event::InitDone => self.replaced(),
            watcher::Event::Apply(object) => vec![self.written(key(&object), version(&object))],
            watcher::Event::Delete(object) => {
                let key = key(&object);
                self.known.remove(&key);
                vec![Line::Delete(self.line(key, version(&object), None))]
            }
        }
    }

    fn replaced(&mut self) -> Vec<Line> {
        let listed = std::mem::take(&mut self.listed);
        let mut lines = Vec::new();
        let gone: Vec<String> = self.known.keys().filter(|key| !listed.contains_key(*key)).cloned().collect();
        for key in gone {
            let last = self.known.remove(&key).unwrap_or_default();
            let event = ObjectEvent { final_state_unknown: true, ..self.line(key, last, None) };
            lines.push(Line::Delete(event));
        }
        for (key, version) in listed {
            if self.known.get(&key) != Some(&version) {
                lines.push(self.written(key, version));
            }
        }
        if !std::mem::replace(&mut self.is_synced, true) {
            lines.push(Line::Synced { resource: self.resource.to_owned(), count: self.known.len() as u64 });
        }
        lines
    }

    fn written(&mut self, key: String, version: String) -> Line {
        match self.known.insert(key.clone(), version.clone()) {
            None => Line::Add(ObjectEvent { initial: !self.is_synced, ..self.line(key, version, None) }),
            old => Line::Update(self.line(key, version, old)),
        }
    }

    fn line(&self, key: String, version: String, old: Option<String>) -> ObjectEvent {
        ObjectEvent {
            resource: self.resource.to_owned(),
            key,
            resource_version: Some(version),
            old_resource_version: old,
            initial: false,
            final_state_unknown: false,
            content: None,
        }
    }
}

fn key(object: &DynamicObject) -> String {
    let name = object.metadata.name.clone().unwrap_or_default();
    match &object.metadata.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    }
}

fn version(object: &DynamicObject) -> String {
    object.metadata.resource_version.clone().unwrap_or_default()
}
