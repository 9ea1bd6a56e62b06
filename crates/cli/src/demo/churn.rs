//! What happens in the demo's cluster: deployments are scaled and rolled, pods start, crash and go, nodes fail and
//! come back. What a person or a mishap would begin is drawn by lot from a seed; what follows from it, controllers
//! would do, a little with every step.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kinformer_apiserver::{ApiServer, Error};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::cluster::{self, Counts, NAMESPACES, NODES, Pod, Stage, WORKLOADS, Workload};

/// The time between two steps.
const STEP: Duration = Duration::from_millis(250);
/// How many pods a deployment may be scaled to.
const REPLICAS: Range<usize> = 3..20;

/// The cluster as it should be, and the server that has it.
pub(crate) struct Churn {
    server: Arc<ApiServer>,
    clock: Clock,
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
    /// Fills an empty server: all is well, and every pod runs.
    ///
    /// # Errors
    /// The server has such objects already.
    pub(crate) fn begin(server: Arc<ApiServer>, seed: u64) -> Result<Self, Error> {
        let mut churn = Self {
            server,
            clock: Clock::default(),
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

    /// Knows when what was written.
    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// A step every quarter of a second until it is told to stop.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut steps = tokio::time::interval_at(Instant::now() + STEP, STEP);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = steps.tick() => {}
            }
            // Others may use this server as well, and have removed what was to be changed.
            if let Err(error) = self.step() {
                tracing::debug!(%error, "a step was refused");
            }
        }
    }

    /// One thing that begins, perhaps, and what follows from those before.
    ///
    /// # Errors
    /// The server refuses a change, which is taken for done.
    pub(crate) fn step(&mut self) -> Result<(), Error> {
        let follow = (0..self.deployments.len()).map(|at| self.follow(at)).fold(Ok(()), Result::and);
        let begin = match self.rng.u32(..100) {
            0..20 => self.scale(),
            20..28 => self.roll(),
            28..45 => self.evict(),
            45..60 => self.crash(),
            60..66 => self.fail_node(),
            66..90 => self.heartbeat(),
            _ => Ok(()),
        };
        follow.and(begin)
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

    fn any(&mut self) -> usize {
        self.rng.usize(..self.deployments.len().max(1))
    }

    /// What a deployment's controller and the kubelets do next.
    fn follow(&mut self, at: usize) -> Result<(), Error> {
        // Taken out meanwhile, so that both can be changed.
        let mut deployments = std::mem::take(&mut self.deployments);
        let result = deployments.get_mut(at).map_or(Ok(()), |deployment| self.follow_one(deployment));
        self.deployments = deployments;
        result
    }

    fn follow_one(&mut self, deployment: &mut Deployment) -> Result<(), Error> {
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

    /// Shrinks the replica set of an old revision; one without pods goes.
    fn retire(&self, deployment: &Deployment, revision: u32) -> Result<(), Error> {
        let workload = deployment.workload;
        let counts = deployment.counts(revision);
        if counts.there > 0 {
            return self.update(cluster::replica_set(workload, revision, counts));
        }
        let name = cluster::replica_set_name(workload, revision);
        self.delete("apps/v1", "ReplicaSet", workload.namespace, &name)
    }

    /// Writes how far a deployment is.
    fn report(&self, deployment: &Deployment) -> Result<(), Error> {
        let Deployment { workload, revision, .. } = *deployment;
        let set = self.update(cluster::replica_set(workload, revision, deployment.counts(revision)));
        set.and(self.update(cluster::deployment(workload, revision, deployment.totals())))
    }

    fn scale(&mut self) -> Result<(), Error> {
        let (at, by) = (self.any(), self.rng.usize(1..4));
        let up = self.rng.bool();
        let Some(deployment) = self.deployments.get_mut(at) else { return Ok(()) };
        let wanted = if up { deployment.wanted + by } else { deployment.wanted.saturating_sub(by) };
        deployment.wanted = wanted.clamp(REPLICAS.start, REPLICAS.end - 1);
        self.deployments.get(at).map_or(Ok(()), |deployment| self.report(deployment))
    }

    /// A new image, unless the last one is not everywhere yet.
    fn roll(&mut self) -> Result<(), Error> {
        let at = self.any();
        let Some(deployment) = self.deployments.get_mut(at) else { return Ok(()) };
        if deployment.pods.iter().any(|pod| pod.revision != deployment.revision) {
            return Ok(());
        }
        deployment.revision += 1;
        let Some(deployment) = self.deployments.get(at) else { return Ok(()) };
        let Deployment { workload, revision, .. } = *deployment;
        let set =
            self.create(cluster::replica_set(workload, revision, deployment.counts(revision))).map(drop);
        set.and(self.update(cluster::deployment(workload, revision, deployment.totals())))
    }

    fn evict(&mut self) -> Result<(), Error> {
        let at = self.any();
        let Some(deployment) = self.deployments.get_mut(at).filter(|deployment| !deployment.pods.is_empty())
        else {
            return Ok(());
        };
        let gone = deployment.pods.swap_remove(self.rng.usize(..deployment.pods.len()));
        let namespace = deployment.workload.namespace;
        self.delete("v1", "Pod", namespace, &gone.name)
    }

    fn crash(&mut self) -> Result<(), Error> {
        let at = self.any();
        let Some(deployment) = self.deployments.get_mut(at) else { return Ok(()) };
        let workload = deployment.workload;
        let running = deployment.pods.iter_mut().filter(|pod| pod.stage == Stage::Running);
        let Some(pod) = self.rng.choice(running.collect::<Vec<_>>()) else { return Ok(()) };
        pod.stage = Stage::Crashed;
        pod.restarts += 1;
        let object = cluster::pod(workload, pod);
        self.update(object)
    }

    /// A node fails, when all are well; else the one that has failed comes back.
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

    /// What is heard of a write gets the next version, unless somebody else writes at the same moment.
    fn writing(&self) {
        self.clock.writing(self.server.version() + 1);
    }

    fn create(&self, object: Value) -> Result<(), Error> {
        self.writing();
        self.server.create(object).map(drop)
    }

    fn update(&self, object: Value) -> Result<(), Error> {
        self.writing();
        self.server.update(object).map(drop)
    }

    fn delete(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<(), Error> {
        self.writing();
        self.server.delete(api_version, kind, namespace, name).map(drop)
    }
}

impl Deployment {
    /// How far one revision is.
    fn counts(&self, revision: u32) -> Counts {
        let pods = || self.pods.iter().filter(|pod| pod.revision == revision);
        let there = pods().count();
        let wanted = if revision == self.revision { self.wanted } else { there };
        let ready = pods().filter(|pod| pod.stage == Stage::Running).count();
        Counts { wanted, there, of_this_revision: there, ready }
    }

    /// How far it is as a whole.
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
    async fn the_cluster_begins_small_and_whole() {
        let (server, _churn) = begin(1).await;
        assert_eq!(server.count("v1", "Node").expect("served"), 5);
        assert_eq!(server.count("apps/v1", "Deployment").expect("served"), 6);
        assert_eq!(server.count("apps/v1", "ReplicaSet").expect("served"), 6);
        assert_eq!(server.count("v1", "Pod").expect("served"), 60);
    }

    #[tokio::test]
    async fn a_seed_decides_what_happens() {
        let mut ends = Vec::new();
        for seed in [1, 1, 2] {
            let (server, mut churn) = begin(seed).await;
            for _ in 0..200 {
                churn.step().expect("nobody else changes anything");
            }
            ends.push(pods(&server));
        }
        assert_eq!(ends.first(), ends.get(1));
        assert_ne!(ends.first(), ends.get(2));
    }

    #[tokio::test]
    async fn the_server_has_what_the_model_has_after_many_steps() {
        let (server, mut churn) = begin(3).await;
        for _ in 0..1_000 {
            churn.step().expect("nobody else changes anything");
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
