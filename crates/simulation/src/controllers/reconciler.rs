//! The reconcile function of simulated users: slow, failing, and writing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures::future::{BoxFuture, FutureExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::{Lister, SharedInformerFactory};
use kinformer_controller::{Action, Key, ReconcileError, Request, set_controller_reference};
use kube_client::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube_client::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::judge::{Judge, Outcome, Run};
use crate::random::pick;

/// The annotation of a secret with the value of its owner.
pub(crate) const ANNOTATION: &str = "value";

/// How long a reconciliation waits for the response of a write.
const LONGEST_WRITE: Duration = Duration::from_secs(10);

/// A reconcile function.
pub(crate) struct Reconciler {
    judge: Judge,
    rng: Mutex<Rng>,
    behaviour: Behaviour,
    /// How many more reconciliations may take as long as there are faults.
    hangs: AtomicUsize,
    factory: SharedInformerFactory,
    /// Whether all informers of the manager have synced.
    has_synced: Box<dyn Fn() -> bool + Send + Sync>,
    writes: Option<Writes>,
    is_calm: Arc<AtomicBool>,
}

/// How often, of 100 times, a reconciliation ends in a way.
#[derive(Clone, Copy, Debug)]
struct Behaviour {
    fails: u8,
    longest: u64,
    /// Keys with this end fail always.
    broken: Option<&'static str>,
}

/// The writes of a reconciler: each config map has a secret with its value.
struct Writes {
    maps: Lister<ConfigMap>,
    secrets: Lister<Secret>,
    client: Client,
}

impl Reconciler {
    pub(crate) fn new(
        rng: &mut Rng,
        judge: &Judge,
        factory: &SharedInformerFactory,
        hangs: usize,
        broken: Option<&'static str>,
        has_synced: impl Fn() -> bool + Send + Sync + 'static,
        is_calm: &Arc<AtomicBool>,
    ) -> Self {
        let behaviour =
            Behaviour { fails: pick(rng, [0, 5, 30]), longest: pick(rng, [0, 50, 500, 20_000]), broken };
        judge.recorder.note(&judge.name, format_args!("{behaviour:?}, {hangs} hang"));
        Self {
            judge: judge.clone(),
            rng: Mutex::new(rng.fork()),
            behaviour,
            hangs: AtomicUsize::new(hangs),
            factory: factory.clone(),
            has_synced: Box::new(has_synced),
            writes: None,
            is_calm: is_calm.clone(),
        }
    }

    /// Also writes a secret for each config map.
    pub(crate) fn writes(mut self, client: Client) -> Self {
        let (maps, secrets) = (self.factory.informer().lister(), self.factory.informer().lister());
        self.writes = Some(Writes { maps, secrets, client });
        self
    }

    /// Reconciles a key.
    pub(crate) fn reconcile<K: Key + ToString>(
        self: &Arc<Self>,
        request: &Request<K>,
    ) -> BoxFuture<'static, Result<Action, ReconcileError>> {
        let run = self.judge.begin(request, (self.has_synced)());
        let (key, mut rng) = (request.key.to_string(), self.rng.lock().fork());
        let is_calm = self.is_calm.load(Ordering::Relaxed);
        let fails = !is_calm && rng.u8(..100) < self.behaviour.fails;
        let way = if fails { rng.u8(..8) } else { u8::MAX };
        if way == 0 {
            panic(run);
        }
        let this = self.clone();
        async move {
            let longest = if is_calm { this.behaviour.longest.min(500) } else { this.behaviour.longest };
            let mut time = Duration::from_millis(rng.u64(..=longest));
            if is_calm {
                // A reconciler whose reconciliations mostly time out does not converge.
                time = time.min(this.judge.timeout().unwrap_or(Duration::MAX) / 4);
            }
            if time.is_zero() && rng.bool() {
                tokio::task::yield_now().await;
            } else {
                sleep(time).await;
            }
            this.end(run, &key, way, &mut rng).await
        }
        .boxed()
    }

    async fn end(&self, mut run: Run, key: &str, way: u8, rng: &mut Rng) -> Result<Action, ReconcileError> {
        match way {
            1 => panic(run),
            2 | 3 => {
                run.ends(Outcome::Permanent);
                return Err(ReconcileError::permanent("simulated permanent error"));
            }
            4 | 5 => {
                let delay = Duration::from_millis(rng.u64(1..20_000));
                run.ends(Outcome::Requeued(delay));
                return Ok(Action::requeue_after(delay));
            }
            6 => {
                let less = |left: usize| left.checked_sub(1);
                if self.hangs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
                    self.judge
                        .recorder
                        .note(&self.judge.name, format_args!("{key} does not return before the faults end"));
                    while !self.is_calm.load(Ordering::Relaxed) {
                        sleep(Duration::from_secs(1)).await;
                    }
                }
            }
            7 => {
                run.ends(Outcome::Failed);
                return Err("simulated error".into());
            }
            _ => {}
        }
        if self.behaviour.broken.is_some_and(|end| key.ends_with(end)) {
            run.ends(Outcome::Failed);
            return Err("simulated error of each reconciliation".into());
        }
        if let Err(error) = self.write(key, rng).await {
            run.ends(Outcome::Failed);
            return Err(error);
        }
        run.ends(Outcome::Succeeded);
        Ok(Action::none())
    }

    /// Makes the secret of a config map have its value, if this reconciler writes.
    async fn write(&self, key: &str, rng: &mut Rng) -> Result<(), ReconcileError> {
        let Some(writes) = &self.writes else { return Ok(()) };
        let written = timeout(LONGEST_WRITE, writes.write(key, rng)).await;
        if let Some(done) = written.unwrap_or_else(|_| Err("no response in time".into()))? {
            self.judge.recorder.note(&self.judge.name, format_args!("{done} secret {key}"));
        }
        Ok(())
    }
}

impl Writes {
    /// Makes the secret of a config map have its value. Returns what was done.
    async fn write(&self, key: &str, rng: &mut Rng) -> Result<Option<&'static str>, ReconcileError> {
        let map = self.maps.get(key).ok();
        let secret = self.secrets.get(key).ok();
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let version = secret.as_ref().map(|secret| secret.object().resource_version().to_string());
        let Some(map) = map else {
            if secret.is_none() {
                return Ok(None);
            }
            let preconditions = Some(Preconditions { resource_version: version, uid: None });
            let deleted = api.delete(name, &DeleteParams { preconditions, ..DeleteParams::default() }).await;
            return match deleted {
                Err(kube_client::Error::Api(status)) if status.code == 404 => Ok(None),
                deleted => Ok(deleted.map(|_| Some("deletes"))?),
            };
        };
        let map = map.decode()?;
        let value = map.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default();
        let has_value = secret.as_ref().is_some_and(|secret| {
            let annotations = secret.object().annotations().unwrap_or_default();
            annotations.get(ANNOTATION).is_some_and(|has| *has == value)
        });
        if has_value {
            return Ok(None);
        }
        let metadata = ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            annotations: Some([(ANNOTATION.to_owned(), value.clone())].into()),
            resource_version: version.clone(),
            ..ObjectMeta::default()
        };
        let mut wanted = Secret { metadata, ..Secret::default() };
        set_controller_reference(&*map, &mut wanted)?;
        Ok(match version {
            None => api.create(&PostParams::default(), &wanted).await.map(|_| Some("creates"))?,
            Some(_) if rng.bool() => {
                api.replace(name, &PostParams::default(), &wanted).await.map(|_| Some("replaces"))?
            }
            Some(version) => {
                let metadata = json!({"resourceVersion": version, "annotations": {ANNOTATION: value},
                    "ownerReferences": wanted.metadata.owner_references});
                let patch = Patch::Merge(json!({"metadata": metadata}));
                api.patch(name, &PatchParams::default(), &patch).await.map(|_| Some("patches"))?
            }
        })
    }
}

fn panic(mut run: Run) -> ! {
    run.ends(Outcome::Panicked);
    drop(run);
    #[expect(clippy::panic, reason = "the controller contains it")]
    {
        panic!("simulated panic of a reconciliation")
    }
}
