//! Informers of client-go, kube-rs and kinformer on the embedded API server. Their events must match its changes
//! despite failures, and without failures must be the same as from kube-apiserver.

mod answers;
mod client_go;
mod kube_rs;
mod kubectl;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::{
    ControlPlane, GROUP_VERSION_RESOURCES, History, InformerProgram, Line, Options, RESOURCES, Writer,
    programs,
};
use kinformer_apiserver::{ApiServer, Fault, Verb};
use kube_client::Client;
use kube_runtime::watcher;

use crate::differential::seeds;
use crate::main_job::has_last;
use crate::planes;
use kube_rs::KubeRs;

/// The timeout of every wait: client-go waits up to a minute between retries.
const BOUND: Duration = Duration::from_secs(120);

/// An implementation of informers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Implementation {
    Kinformer,
    ClientGo,
    ClientGoMetadata,
    KubeRs,
    KubeRsStreaming,
}

const ALL: [Implementation; 5] = [
    Implementation::Kinformer,
    Implementation::ClientGo,
    Implementation::ClientGoMetadata,
    Implementation::KubeRs,
    Implementation::KubeRsStreaming,
];

enum Listener {
    Program(Box<InformerProgram>),
    KubeRs(KubeRs),
}

impl Listener {
    fn start(implementation: Implementation, kubeconfig: &Path, client: &Client) -> Result<Self, String> {
        let resources = GROUP_VERSION_RESOURCES.into_iter();
        let program = match implementation {
            Implementation::Kinformer => {
                let words = ["pods,nodes,deployments.apps", "-A", "-o", "json", "-v"];
                programs::kinformer_watch(kubeconfig, words)
            }
            Implementation::ClientGo => programs::client_go(kubeconfig, resources),
            Implementation::ClientGoMetadata => {
                programs::client_go(kubeconfig, std::iter::once("-metadata").chain(resources))
            }
            Implementation::KubeRs => {
                return Ok(Self::KubeRs(KubeRs::start(client, &watcher::Config::default())));
            }
            Implementation::KubeRsStreaming => {
                let config = watcher::Config::default().streaming_lists();
                return Ok(Self::KubeRs(KubeRs::start(client, &config)));
            }
        };
        let started = InformerProgram::start(&format!("{implementation:?}"), program.map_err(text)?)?;
        Ok(Self::Program(Box::new(started)))
    }

    async fn until(&mut self, what: &str, wanted: impl Fn(&[Line]) -> bool) -> Result<(), String> {
        match self {
            Self::Program(program) => program.until(what, BOUND, wanted).await,
            Self::KubeRs(watchers) => watchers.until(what, BOUND, wanted).await,
        }
    }

    async fn stop(self) -> Result<Vec<Line>, String> {
        match self {
            Self::Program(program) => program.stop().await,
            Self::KubeRs(watchers) => Ok(watchers.stop().await),
        }
    }
}

/// A failure between writes.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// All connections are closed.
    Connections,
    /// All watches end.
    Watches,
    /// All watches end, and the versions that they have reached are compacted.
    Compaction,
    /// Some watches receive an error event: their version is expired.
    ExpiredInStream,
    /// All watches end, and some new ones are rejected: their version is expired.
    Expired,
    /// Some watches are truncated within an event.
    DisconnectWithin,
    /// All watches end, and some new requests are rejected as too many.
    TooMany,
    /// All watches end, and some new requests fail.
    Internal,
    /// The server is unreachable for a while, and compacts its history.
    Outage,
}

/// The number of requests or watches that a partial failure affects.
const SOME: u64 = 5;

const FAILURES: [Failure; 9] = [
    Failure::Connections,
    Failure::Watches,
    Failure::Compaction,
    Failure::ExpiredInStream,
    Failure::Expired,
    Failure::DisconnectWithin,
    Failure::TooMany,
    Failure::Internal,
    Failure::Outage,
];

impl Failure {
    async fn inject(self, server: &ApiServer, writer: &mut Writer, number: usize) -> Result<(), String> {
        // The first requests or watches of any informers.
        let some = |fault: Fault| server.faults().inject(fault.times(SOME));
        match self {
            Self::Connections => server.drop_connections(),
            Self::Watches => server.drop_watches(),
            Self::Compaction => {
                server.drop_watches();
                writer.write(number).await.map_err(text)?;
                server.compact();
                server.drop_watches();
            }
            Self::ExpiredInStream => drop(some(Fault::expired_event())),
            Self::Expired => {
                some(Fault::expired().on(Verb::Watch));
                server.drop_watches();
            }
            Self::DisconnectWithin => drop(some(Fault::truncate().on(Verb::Watch))),
            Self::TooMany => {
                some(Fault::too_many_requests(1).on(Verb::Watch));
                some(Fault::too_many_requests(1).on(Verb::List));
                server.drop_watches();
            }
            Self::Internal => {
                some(Fault::internal_error().on(Verb::Watch));
                some(Fault::internal_error().on(Verb::List));
                server.drop_watches();
            }
            Self::Outage => {
                server.faults().refuse_connections().await;
                server.drop_connections();
                server.compact();
                server.faults().accept_connections().await;
            }
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_match_the_history_despite_failures() {
    for seed in seeds() {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut failures = FAILURES.to_vec();
        random.shuffle(&mut failures);
        let server = ApiServer::builder().start().await.unwrap();
        let cluster = Cluster::embedded(&server);
        let (history, delivered) = cluster.follow(seed, &ALL, Some((&server, &failures))).await.unwrap_or_else(
            |problem| panic!("seed {seed}: {failures:?}: {problem}\nagain: cargo xtask e2e embedded --first-seed {seed} --seeds 1"),
        );
        for (implementation, lines) in &delivered {
            let again = history.explain(lines);
            let again =
                again.unwrap_or_else(|why| panic!("seed {seed}: {failures:?}: {implementation:?}: {why}"));
            println!("seed {seed}: {implementation:?}: {} lines, {again} delivered again", lines.len());
        }
        // Two failures within streams (expired, truncated), three as responses (expired, too many, internal).
        let fired = server.faults().fired();
        assert!(fired >= 5 * SOME, "seed {seed}: only {fired} failures were injected");
        server.shutdown().await;
    }
}

/// Without failures, every informer receives the same events from both servers.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_the_same_as_from_kube_apiserver() {
    let control_plane = planes::take(Options::new()).await;
    let real = Cluster::real(&control_plane).await;
    let seed = seeds().start;
    let server = ApiServer::builder().start().await.unwrap();
    let ours = Cluster::embedded(&server);
    let (real_history, from_real) = real.follow(seed, &ALL, None).await.unwrap();
    let (history, from_embedded) = ours.follow(seed, &ALL, None).await.unwrap();
    for implementation in ALL {
        let (real, embedded) = (&from_real[&implementation], &from_embedded[&implementation]);
        real_history.explain(real).unwrap_or_else(|why| panic!("kube-apiserver: {implementation:?}: {why}"));
        history.explain(embedded).unwrap_or_else(|why| panic!("embedded: {implementation:?}: {why}"));
        let (real, embedded) = (sequences(&real_history, real), sequences(&history, embedded));
        assert!(real.len() > 20, "{implementation:?}: {} objects", real.len());
        for (object, expected) in &real {
            assert_eq!(Some(expected), embedded.get(object), "{implementation:?}: {object:?}");
        }
        assert_eq!(real.len(), embedded.len(), "{implementation:?}");
    }
    server.shutdown().await;
    planes::keep(control_plane).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn initial_lists_are_streamed() {
    for implementation in [
        Implementation::ClientGo,
        Implementation::ClientGoMetadata,
        Implementation::Kinformer,
        Implementation::KubeRsStreaming,
    ] {
        let server = ApiServer::builder().start().await.unwrap();
        let cluster = Cluster::embedded(&server);
        let (history, delivered) = cluster.follow(7, &[implementation], None).await.unwrap();
        history
            .explain(&delivered[&implementation])
            .unwrap_or_else(|why| panic!("{implementation:?}: {why}"));
        let metrics = server.metrics();
        for resource in ["pods", "deployments", "nodes"] {
            let (lists, watches) =
                (metrics.requests_for(Verb::List, resource), metrics.requests_for(Verb::Watch, resource));
            assert_eq!((lists, watches), (0, 1), "{implementation:?}: lists and watches of {resource}");
        }
        server.shutdown().await;
    }
}

/// The access of clients to a cluster.
struct Cluster {
    kubeconfig: PathBuf,
    client: Client,
    _folder: Option<tempfile::TempDir>,
}

impl Cluster {
    fn embedded(server: &ApiServer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
        let client = kinformer::client(server.config().unwrap()).unwrap();
        Self { kubeconfig, client, _folder: Some(folder) }
    }

    async fn real(control_plane: &ControlPlane) -> Self {
        let client = control_plane.client().await.unwrap();
        Self { kubeconfig: control_plane.kubeconfig(), client, _folder: None }
    }

    /// Runs informers during the writes of a seed, with failures if given. Returns the history of the writes and the
    /// lines of each informer.
    async fn follow(
        &self,
        seed: u64,
        implementations: &[Implementation],
        failing: Option<(&ApiServer, &[Failure])>,
    ) -> Result<(History, BTreeMap<Implementation, Vec<Line>>), String> {
        let mut writer = Writer::begin(self.client.clone(), seed).await.map_err(text)?;
        writer.write(60).await.map_err(text)?;
        let mut listeners = Vec::new();
        for implementation in implementations {
            listeners
                .push((*implementation, Listener::start(*implementation, &self.kubeconfig, &self.client)?));
        }
        let synced =
            |lines: &[Line]| RESOURCES.iter().all(|name| lines.iter().any(|line| line.is_synced(name)));
        for (_, listener) in &mut listeners {
            listener.until("the first lists", synced).await?;
        }
        for failure in failing.map_or(&[][..], |(_, failures)| failures) {
            writer.write(15).await.map_err(text)?;
            if let Some((server, _)) = failing {
                failure.inject(server, &mut writer, 15).await?;
            }
        }
        writer.write(60).await.map_err(text)?;
        writer.end().await.map_err(text)?;
        let mut delivered = BTreeMap::new();
        for (implementation, mut listener) in listeners {
            listener.until("the last objects", |lines| has_last(lines, &RESOURCES)).await?;
            // A list after a failure may be delivered in any order. Callers report missing events.
            let history = writer.history();
            let _ = listener.until("everything", |lines| history.explain(lines).is_ok()).await;
            delivered.insert(implementation, listener.stop().await?);
        }
        let history = writer.history().clone();
        writer.clean_up().await.map_err(text)?;
        Ok((history, delivered))
    }
}

/// The kinds of events of each object, in their order.
fn sequences(history: &History, lines: &[Line]) -> BTreeMap<(String, String), Vec<&'static str>> {
    let objects = history.by_object(lines).into_iter();
    objects
        .map(|((resource, key), lines)| {
            let mut kinds = Vec::new();
            for line in lines {
                kinds.push(match line {
                    Line::Add(event) if event.initial => "initial add",
                    Line::Add(_) => "add",
                    Line::Update(_) => "update",
                    Line::Delete(event) if event.final_state_unknown => "lost",
                    Line::Delete(_) => "delete",
                    Line::Synced { .. } | Line::Stopped(_) => continue,
                });
            }
            ((resource.to_owned(), key.to_owned()), kinds)
        })
        .collect()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
