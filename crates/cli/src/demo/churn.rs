//! The simulation of the demo: deployments are scaled and rolled out, pods start, crash and are deleted, nodes fail
//! and recover. A random generator with a seed starts these changes; the rest of each step does what the controllers
//! and kubelets would do next.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kinformer_apiserver::{ApiServer, Error};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::cluster::{self, Counts, NAMESPACES, NODES, Pod, Stage, WORKLOADS, Workload};
use super::lag::LagRecorder;

/// The time between two steps.
const STEP: Duration = Duration::from_millis(250);
/// The range of replicas of a deployment.
const REPLICAS: Range<usize> = 3..20;

/// The desired state of the cluster, and the server that stores it.
pub(crate) struct Churn {
    server: Arc<ApiServer>,
    lag: LagRecorder,
    rng: Rng,
    deployments: Vec<Deployment>,
    nodes: [bool; NODES],
    ips: usize,
}

struct Deployment {
    workload: &'static Workload,
    wanted: usize,
    revision: u32,
    pods: Vec<Pod>,
}

impl Churn {
    /// Creates the cluster in an empty server, with all pods running.
    ///
    /// # Errors
    /// The server already has objects of these names.
    pub(crate) fn begin(server: Arc<ApiServer>, seed: u64) -> Result<Self, Error> {
        let mut churn = Self {
            server,
            lag: LagRecorder::default(),
            rng: Rng::with_seed(seed),
            deployments: Vec::with_capacity(WORKLOADS.len()),
            nodes: [true; NODES],
            ips: 0,
        };
        for name in NAMESPACES {
            churn.create(cluster::namespace(name))?;
        }
        for number in 0..NODES {
            churn.create(cluster::node(number, true))?;
        }
        for workload in &WORKLOADS {
            let mut deployment =
                Deployment { workload, wanted: workload.replicas, revision: 1, pods: Vec::new() };
            for _ in 0..workload.replicas {
                let mut pod = churn.new_pod(&deployment);
                pod.stage = Stage::Running;
                churn.create(cluster::pod(workload, &pod))?;
                deployment.pods.push(pod);
            }
            let counts = deployment.counts(1);
            churn.create(cluster::replica_set(workload, 1, counts))?;
            churn.create(cluster::deployment(workload, 1, deployment.totals()))?;
            churn.deployments.push(deployment);
        }
        Ok(churn)
    }

    /// Returns the recorder of write times.
    pub(crate) fn lag_recorder(&self) -> LagRecorder {
        self.lag.clone()
    }

    /// Runs a step every 250 ms until `stop` is cancelled.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut steps = tokio::time::interval_at(Instant::now() + STEP, STEP);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = steps.tick() => {}
            }
            // Other clients of this server may have deleted the object to change.
            if let Err(error) = self.step() {
                tracing::debug!(%error, "simulation step rejected");
            }
        }
    }

    /// Starts at most one new change, and continues all earlier ones.
    ///
    /// # Errors
    /// The server rejects a change; the model treats it as applied.
    pub(crate) fn step(&mut self) -> Result<(), Error> {
        let reconcile =
            (0..self.deployments.len()).map(|index| self.reconcile(index)).fold(Ok(()), Result::and);
        let begin = match self.rng.u32(..100) {
            0..20 => self.scale(),
            20..28 => self.roll_out(),
            28..45 => self.evict(),
            45..60 => self.crash(),
            60..66 => self.fail_node(),
            66..90 => self.heartbeat(),
            _ => Ok(()),
        };
        reconcile.and(begin)
    }

    fn new_pod(&mut self, deployment: &Deployment) -> Pod {
        let Deployment { workload, revision, .. } = *deployment;
        let name = format!(
            "{}-{}",
            cluster::replica_set_name(workload, revision),
            cluster::letters(&mut self.rng, 5)
        );
        let ready: Vec<usize> =
            self.nodes.iter().enumerate().filter(|(_, ready)| **ready).map(|(number, _)| number).collect();
        let node = self.rng.choice(ready).unwrap_or(0);
        self.ips += 1;
        Pod { name, revision, node, ip: self.ips, stage: Stage::Pending, restarts: 0 }
    }

    fn random_deployment(&mut self) -> usize {
        self.rng.usize(..self.deployments.len().max(1))
    }

    /// Does the next step of a deployment's controller and of the kubelets.
    fn reconcile(&mut self, index: usize) -> Result<(), Error> {
        // Moved out, so that `self` and the deployment can be borrowed mutably together.
        let mut deployments = std::mem::take(&mut self.deployments);
        let result = deployments.get_mut(index).map_or(Ok(()), |deployment| self.reconcile_one(deployment));
        self.deployments = deployments;
        result
    }

    fn reconcile_one(&mut self, deployment: &mut Deployment) -> Result<(), Error> {
        let workload = deployment.workload;
        let before = deployment.totals();
        let mut result = Ok(());
        if let Some(pod) = deployment.pods.iter_mut().find(|pod| pod.stage != Stage::Running) {
            pod.stage = Stage::Running;
            result = result.and(self.update(cluster::pod(workload, pod)));
        }
        let current = deployment.revision;
        let old = deployment.pods.iter().position(|pod| pod.revision != current);
        let all_ready = deployment.pods.iter().all(|pod| pod.stage == Stage::Running);
        if deployment.pods.len() < deployment.wanted || old.is_some() && all_ready {
            let pod = self.new_pod(deployment);
            result = result.and(self.create(cluster::pod(workload, &pod)));
            deployment.pods.push(pod);
        }
        if deployment.pods.len() > deployment.wanted {
            let gone = deployment.pods.remove(old.unwrap_or(deployment.pods.len() - 1));
            result = result.and(self.delete("v1", "Pod", workload.namespace, &gone.name));
            if gone.revision != current {
                result = result.and(self.retire(deployment, gone.revision));
            }
        }
        if deployment.totals() != before {
            result = result.and(self.report(deployment));
        }
        result
    }

    /// Scales down the replica set of an old revision, and deletes it when it has no pods.
    fn retire(&self, deployment: &Deployment, revision: u32) -> Result<(), Error> {
        let workload = deployment.workload;
        let counts = deployment.counts(revision);
        if counts.there > 0 {
            return self.update(cluster::replica_set(workload, revision, counts));
        }
        let name = cluster::replica_set_name(workload, revision);
        self.delete("apps/v1", "ReplicaSet", workload.namespace, &name)
    }

    /// Writes the status of a deployment and its current replica set.
    fn report(&self, deployment: &Deployment) -> Result<(), Error> {
        let Deployment { workload, revision, .. } = *deployment;
        let set = self.update(cluster::replica_set(workload, revision, deployment.counts(revision)));
        set.and(self.update(cluster::deployment(workload, revision, deployment.totals())))
    }

    fn scale(&mut self) -> Result<(), Error> {
        let (index, by) = (self.random_deployment(), self.rng.usize(1..4));
        let up = self.rng.bool();
        let Some(deployment) = self.deployments.get_mut(index) else { return Ok(()) };
        let wanted = if up { deployment.wanted + by } else { deployment.wanted.saturating_sub(by) };
        deployment.wanted = wanted.clamp(REPLICAS.start, REPLICAS.end - 1);
        self.deployments.get(index).map_or(Ok(()), |deployment| self.report(deployment))
    }

    /// Starts a rollout of a new image, unless the previous rollout is still in progress.
    fn roll_out(&mut self) -> Result<(), Error> {
        let index = self.random_deployment();
        let Some(deployment) = self.deployments.get_mut(index) else { return Ok(()) };
        if deployment.pods.iter().any(|pod| pod.revision != deployment.revision) {
            return Ok(());
        }
        deployment.revision += 1;
        let Some(deployment) = self.deployments.get(index) else { return Ok(()) };
        let Deployment { workload, revision, .. } = *deployment;
        let set =
            self.create(cluster::replica_set(workload, revision, deployment.counts(revision))).map(drop);
        set.and(self.update(cluster::deployment(workload, revision, deployment.totals())))
    }

    fn evict(&mut self) -> Result<(), Error> {
        let index = self.random_deployment();
        let Some(deployment) =
            self.deployments.get_mut(index).filter(|deployment| !deployment.pods.is_empty())
        else {
            return Ok(());
        };
        let gone = deployment.pods.swap_remove(self.rng.usize(..deployment.pods.len()));
        let namespace = deployment.workload.namespace;
        self.delete("v1", "Pod", namespace, &gone.name)
    }

    fn crash(&mut self) -> Result<(), Error> {
        let index = self.random_deployment();
        let Some(deployment) = self.deployments.get_mut(index) else { return Ok(()) };
        let workload = deployment.workload;
        let running = deployment.pods.iter_mut().filter(|pod| pod.stage == Stage::Running);
        let Some(pod) = self.rng.choice(running.collect::<Vec<_>>()) else { return Ok(()) };
        pod.stage = Stage::Crashed;
        pod.restarts += 1;
        let object = cluster::pod(workload, pod);
        self.update(object)
    }

    /// Fails a node if all are ready; otherwise recovers the failed one.
    fn fail_node(&mut self) -> Result<(), Error> {
        let failed = self.nodes.iter().position(|ready| !ready);
        let number = failed.unwrap_or_else(|| self.rng.usize(..NODES));
        if let Some(ready) = self.nodes.get_mut(number) {
            *ready = failed.is_some();
        }
        self.update(cluster::node(number, failed.is_some()))
    }

    fn heartbeat(&mut self) -> Result<(), Error> {
        let number = self.rng.usize(..NODES);
        let ready = self.nodes.get(number).copied().unwrap_or(true);
        self.update(cluster::node(number, ready))
    }

    /// Records the start of a write. The write gets the next version, unless another client writes at the same time.
    fn record_write(&self) {
        self.lag.write_started(self.server.version() + 1);
    }

    fn create(&self, object: Value) -> Result<(), Error> {
        self.record_write();
        self.server.create(object).map(drop)
    }

    fn update(&self, object: Value) -> Result<(), Error> {
        self.record_write();
        self.server.update(object).map(drop)
    }

    fn delete(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<(), Error> {
        self.record_write();
        self.server.delete(api_version, kind, namespace, name).map(drop)
    }
}

impl Deployment {
    /// The replica counts of one revision.
    fn counts(&self, revision: u32) -> Counts {
        let pods = || self.pods.iter().filter(|pod| pod.revision == revision);
        let there = pods().count();
        let wanted = if revision == self.revision { self.wanted } else { there };
        let ready = pods().filter(|pod| pod.stage == Stage::Running).count();
        Counts { wanted, there, of_this_revision: there, ready }
    }

    /// The replica counts of all revisions.
    fn totals(&self) -> Counts {
        Counts {
            wanted: self.wanted,
            there: self.pods.len(),
            of_this_revision: self.counts(self.revision).there,
            ready: self.pods.iter().filter(|pod| pod.stage == Stage::Running).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    async fn begin(seed: u64) -> (Arc<ApiServer>, Churn) {
        let server = Arc::new(ApiServer::builder().start().await.expect("starts"));
        let churn = Churn::begin(server.clone(), seed).expect("the server is empty");
        (server, churn)
    }

    fn pods(server: &ApiServer) -> BTreeMap<String, String> {
        let list = server.list("v1", "Pod", "").expect("pods are served");
        list.iter()
            .map(|pod| {
                let text = |value: &Value| value.as_str().expect("text").to_owned();
                (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]))
            })
            .collect()
    }

    #[tokio::test]
    async fn the_initial_cluster_is_complete() {
        let (server, _churn) = begin(1).await;
        assert_eq!(server.count("v1", "Node").expect("served"), 5);
        assert_eq!(server.count("apps/v1", "Deployment").expect("served"), 6);
        assert_eq!(server.count("apps/v1", "ReplicaSet").expect("served"), 6);
        assert_eq!(server.count("v1", "Pod").expect("served"), 60);
    }

    #[tokio::test]
    async fn a_seed_determines_the_changes() {
        let mut ends = Vec::new();
        for seed in [1, 1, 2] {
            let (server, mut churn) = begin(seed).await;
            for _ in 0..200 {
                churn.step().expect("no other writer");
            }
            ends.push(pods(&server));
        }
        assert_eq!(ends.first(), ends.get(1));
        assert_ne!(ends.first(), ends.get(2));
    }

    #[tokio::test]
    async fn the_server_matches_the_model_after_many_steps() {
        let (server, mut churn) = begin(3).await;
        for _ in 0..1_000 {
            churn.step().expect("no other writer");
        }
        let mut modelled: Vec<&str> =
            churn.deployments.iter().flat_map(|d| &d.pods).map(|pod| pod.name.as_str()).collect();
        modelled.sort_unstable();
        assert_eq!(pods(&server).keys().collect::<Vec<_>>(), modelled);
        for deployment in &churn.deployments {
            let Deployment { workload, revision, .. } = *deployment;
            assert!(revision > 1, "{} was never rolled", workload.name);
            let stored = server.get("apps/v1", "Deployment", workload.namespace, workload.name);
            let stored = stored.expect("served").expect("there");
            assert_eq!(stored["spec"]["replicas"], deployment.wanted);
            assert!(deployment.pods.len() <= REPLICAS.end + 1);
        }
    }
}
