//! The informers of others, and ours, on our embedded API server: what it tells them is what it did, whatever fails;
//! and when nothing fails it tells them what kube-apiserver would have told.

mod kube_rs;

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
use kube_rs::KubeRs;

/// client-go waits up to a minute between its tries.
const BOUND: Duration = Duration::from_secs(120);

/// Who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Kinformer,
    ClientGo,
    ClientGoMetadata,
    KubeRs,
    KubeRsStreaming,
}

const ALL: [Who; 5] =
    [Who::Kinformer, Who::ClientGo, Who::ClientGoMetadata, Who::KubeRs, Who::KubeRsStreaming];

enum Listener {
    Program(Box<InformerProgram>),
    KubeRs(KubeRs),
}

impl Listener {
    fn start(who: Who, kubeconfig: &Path, client: &Client) -> Result<Self, String> {
        let resources = GROUP_VERSION_RESOURCES.into_iter();
        let program = match who {
            Who::Kinformer => {
                let words = ["pods,nodes,deployments.apps", "-A", "-o", "json", "-v"];
                programs::kinformer_watch(kubeconfig, words)
            }
            Who::ClientGo => programs::client_go(kubeconfig, resources),
            Who::ClientGoMetadata => {
                programs::client_go(kubeconfig, std::iter::once("-metadata").chain(resources))
            }
            Who::KubeRs => return Ok(Self::KubeRs(KubeRs::start(client, &watcher::Config::default()))),
            Who::KubeRsStreaming => {
                let config = watcher::Config::default().streaming_lists();
                return Ok(Self::KubeRs(KubeRs::start(client, &config)));
            }
        };
        let started = InformerProgram::start(&format!("{who:?}"), program.map_err(text)?)?;
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

/// What fails between writes.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// All connections break off.
    Connections,
    /// All watches end.
    Watches,
    /// All watches end, and it has forgotten what they would go on from.
    Forgotten,
    /// Watches are told that their version is too old.
    ExpiredInStream,
    /// Watches end, and those that want to go on are told so.
    Expired,
    /// Watches break off within an event.
    DisconnectWithin,
    /// Watches end, and the next requests are too many.
    TooMany,
    /// Watches end, and the next requests fail.
    Internal,
    /// It cannot be reached for a while, in which it forgets all history.
    Away,
}

/// How often a failure happens that does not happen to all.
const SOME: u64 = 5;

const FAILURES: [Failure; 9] = [
    Failure::Connections,
    Failure::Watches,
    Failure::Forgotten,
    Failure::ExpiredInStream,
    Failure::Expired,
    Failure::DisconnectWithin,
    Failure::TooMany,
    Failure::Internal,
    Failure::Away,
];

impl Failure {
    async fn happen(self, server: &ApiServer, writer: &mut Writer, number: usize) -> Result<(), String> {
        // Some of the watches, of whichever informers come first.
        let some = |fault: Fault| server.faults().inject(fault.times(SOME));
        match self {
            Self::Connections => server.drop_connections(),
            Self::Watches => server.drop_watches(),
            Self::Forgotten => {
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
            Self::Away => {
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
async fn whatever_fails_they_are_told_what_it_did() {
    for seed in seeds() {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut failures = FAILURES.to_vec();
        random.shuffle(&mut failures);
        let server = ApiServer::builder().start().await.unwrap();
        let cluster = Cluster::embedded(&server);
        let (history, told) = cluster.follow(seed, &ALL, Some((&server, &failures))).await.unwrap_or_else(
            |problem| panic!("seed {seed}: {failures:?}: {problem}\nagain: cargo xtask e2e embedded --first-seed {seed} --seeds 1"),
        );
        for (who, lines) in &told {
            let again = history.explain(lines);
            let again = again.unwrap_or_else(|why| panic!("seed {seed}: {failures:?}: {who:?}: {why}"));
            println!("seed {seed}: {who:?}: {} lines, {again} told again", lines.len());
        }
        // In streams: too old, broken off. Answers to watches: too old, too many, failed.
        let fired = server.faults().fired();
        assert!(fired >= 5 * SOME, "seed {seed}: only {fired} failures have happened");
        server.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_nothing_fails_they_are_told_the_same_as_by_kube_apiserver() {
    let control_plane = ControlPlane::start(Options::new()).await.unwrap();
    let real = Cluster::real(&control_plane).await;
    let seed = seeds().start;
    let server = ApiServer::builder().start().await.unwrap();
    let ours = Cluster::embedded(&server);
    let (theirs, told_there) = real.follow(seed, &ALL, None).await.unwrap();
    let (history, told_here) = ours.follow(seed, &ALL, None).await.unwrap();
    for who in ALL {
        let (there, here) = (&told_there[&who], &told_here[&who]);
        theirs.explain(there).unwrap_or_else(|why| panic!("kube-apiserver: {who:?}: {why}"));
        history.explain(here).unwrap_or_else(|why| panic!("embedded: {who:?}: {why}"));
        let (mut there, here) = (sequences(&theirs, there), sequences(&history, here));
        there.iter_mut().for_each(|((resource, _), kinds)| without_marks(resource, kinds));
        assert!(there.len() > 20, "{who:?}: {} objects", there.len());
        for (object, there) in &there {
            assert_eq!(Some(there), here.get(object), "{who:?}: {object:?}");
        }
        assert_eq!(there.len(), here.len(), "{who:?}");
    }
    server.shutdown().await;
    control_plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_go_streams_its_first_lists() {
    for who in [Who::ClientGo, Who::ClientGoMetadata, Who::Kinformer, Who::KubeRsStreaming] {
        let server = ApiServer::builder().start().await.unwrap();
        let cluster = Cluster::embedded(&server);
        let (history, told) = cluster.follow(7, &[who], None).await.unwrap();
        history.explain(&told[&who]).unwrap_or_else(|why| panic!("{who:?}: {why}"));
        let metrics = server.metrics();
        for resource in ["pods", "deployments", "nodes"] {
            let (lists, watches) =
                (metrics.requests_for(Verb::List, resource), metrics.requests_for(Verb::Watch, resource));
            assert_eq!((lists, watches), (0, 1), "{who:?}: lists and watches of {resource}");
        }
        server.shutdown().await;
    }
}

/// A cluster, as clients come to it.
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

    /// Has them listen while is written by a seed, and maybe something fails. Gives what was written and what each
    /// was told.
    async fn follow(
        &self,
        seed: u64,
        who: &[Who],
        failing: Option<(&ApiServer, &[Failure])>,
    ) -> Result<(History, BTreeMap<Who, Vec<Line>>), String> {
        let mut writer = Writer::begin(self.client.clone(), seed).await.map_err(text)?;
        writer.write(60).await.map_err(text)?;
        let mut listeners = Vec::new();
        for who in who {
            listeners.push((*who, Listener::start(*who, &self.kubeconfig, &self.client)?));
        }
        let synced =
            |lines: &[Line]| RESOURCES.iter().all(|name| lines.iter().any(|line| line.is_synced(name)));
        for (_, listener) in &mut listeners {
            listener.until("the first lists", synced).await?;
        }
        for failure in failing.map_or(&[][..], |(_, failures)| failures) {
            writer.write(15).await.map_err(text)?;
            if let Some((server, _)) = failing {
                failure.happen(server, &mut writer, 15).await?;
            }
        }
        writer.write(60).await.map_err(text)?;
        writer.end().await.map_err(text)?;
        let mut told = BTreeMap::new();
        for (who, mut listener) in listeners {
            listener.until("the last objects", |lines| has_last(lines, &RESOURCES)).await?;
            // A list after a failure may be told in any order. What stays missing is for the judge to say.
            let history = writer.history();
            let _ = listener.until("everything", |lines| history.explain(lines).is_ok()).await;
            told.insert(who, listener.stop().await?);
        }
        Ok((writer.history().clone(), told))
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
                    Line::Add(told) if told.initial => "initial add",
                    Line::Add(_) => "add",
                    Line::Update(_) => "update",
                    Line::Delete(told) if told.final_state_unknown => "lost",
                    Line::Delete(_) => "delete",
                    Line::Synced { .. } | Line::Stopped(_) => continue,
                });
            }
            ((resource.to_owned(), key.to_owned()), kinds)
        })
        .collect()
}

/// kube-apiserver marks a pod as going before it goes, even when there is no kubelet that it would have to wait for. Our
/// server knows no grace: its pods go at once, as other objects do.
fn without_marks(resource: &str, kinds: &mut Vec<&'static str>) {
    if resource != "pods" {
        return;
    }
    while let Some(place) = kinds.windows(2).position(|pair| pair == ["update", "delete"]) {
        kinds[place + 1] = "deleted after a mark";
        kinds.remove(place);
    }
    assert!(!kinds.contains(&"delete"), "a pod without a mark: {kinds:?}");
    for kind in kinds.iter_mut().filter(|kind| **kind == "deleted after a mark") {
        *kind = "delete";
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
