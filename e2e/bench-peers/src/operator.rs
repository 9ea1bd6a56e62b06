//! The phase of operators: memory, reconciliations in a second, and the time until the next leader reconciles.

use std::path::Path;
use std::time::Duration;

use e2e::{ControlPlane, Options, programs};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{WatchEvent, WatchParams};
use kube_client::{Api, Client};
use kube_core::params::PostParams;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::process::Command;
use tokio::time::Instant;

use crate::cache::Measured;
use crate::environment::{ETCD_QUOTA, PAUSE};
use crate::failure::Failure;
use crate::pods::AT_A_TIME;
use crate::process::Program;
use crate::report::{
    CONTROLLER_RUNTIME, CONTROLLER_RUNTIME_WARM, Figures, KINFORMER, OPERATOR_CPU, OPERATOR_FAIL_OVER,
    OPERATOR_MEMORY, OPERATOR_RATE, OPERATOR_RECONCILE, OPERATOR_WITHOUT_WAIT, Report, median,
};

/// The name of this phase, which has objects and peers of its own.
pub(crate) const PHASE: &str = "operator";
/// The namespace of the config maps and of the Lease, and the name of the Lease, as in `e2e/controller-runtime`.
pub(crate) const NAMESPACE: &str = "default";
pub(crate) const LEASE: &str = "operator";
/// The peers that are compared.
const PEERS: [&str; 3] = [KINFORMER, CONTROLLER_RUNTIME, CONTROLLER_RUNTIME_WARM];
/// How often all objects are reconciled again.
const REPETITIONS: usize = 20;
/// How often the leader is ended in a run.
const ENDS: usize = 5;
/// A candidate tries again after this time and 1.2 times as much at most.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// A line of an operator, in JSON.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase")]
pub(crate) enum Line {
    /// It has started, and may wait for the leadership.
    Started,
    /// It begins to reconcile.
    First,
    /// Each object was reconciled.
    All,
}

/// Measures the operators of each peer, with this many config maps.
pub(crate) async fn compare(objects: usize, runs: usize) -> Result<(), Failure> {
    eprintln!("starting etcd and kube-apiserver ...");
    let control_plane = ControlPlane::start(Options::new().etcd_flag(ETCD_QUOTA)).await?;
    let client = control_plane.client().await?;
    let size = write(&client, objects).await?;
    let leases = Api::namespaced(client, NAMESPACE);
    let mut report = Report::new(&PEERS);
    for round in 1..=runs {
        for place in 0..PEERS.len() {
            let peer = (place + round) % PEERS.len();
            let name = PEERS.get(peer).copied().unwrap_or_default();
            let figures = measure(name, &control_plane.kubeconfig(), objects, &leases).await;
            let figures = figures.map_err(|problem| format!("{PHASE} of {name}: {problem}"))?;
            eprintln!("{round} of {runs}: {name}: {figures}");
            report.add(peer, figures);
        }
    }
    println!("{objects} config maps, each {size} bytes of JSON; medians of {runs} runs\n\n{report}");
    control_plane.stop().await;
    Ok(())
}

/// Writes this many config maps, and prints progress. Returns the size of one.
async fn write(client: &Client, objects: usize) -> Result<usize, Failure> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let one = async |number: usize| {
        let file: String =
            (0..20).map(|line| format!("option-{line}: value {line} of {number}, as set\n")).collect();
        let object = json!({
            "metadata": {
                "name": format!("settings-{number:05}"),
                "labels": {"app.kubernetes.io/name": format!("service-{number}"), "tier": "backend"},
                "annotations": {"example.com/description": "the settings of a service"},
            },
            "data": {"application.yaml": file, "level": "info"},
        });
        Ok::<_, Failure>(api.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
    };
    let mut written = stream::iter(0..objects).map(one).buffer_unordered(AT_A_TIME);
    let (mut count, step, mut size) = (0, objects.div_ceil(10), 0);
    while let Some(object) = written.try_next().await? {
        count += 1;
        if count % step == 0 || count == objects {
            eprintln!("{count} of {objects} config maps written");
        }
        size = serde_json::to_string(&object)?.len();
    }
    Ok(size)
}

async fn measure(
    peer: &str,
    kubeconfig: &Path,
    objects: usize,
    leases: &Api<Lease>,
) -> Result<Figures, Failure> {
    let start = async || start(peer, kubeconfig, objects).await;
    let mut leader = start().await?;
    next(&mut leader, &Line::First).await?;
    next(&mut leader, &Line::All).await?;
    tokio::time::sleep(PAUSE).await;
    let before = leader.used()?;
    let Measured { seconds, objects: repeated, .. } = leader.request(&REPETITIONS.to_string()).await?;
    let after = leader.used()?;
    if repeated != objects {
        return Err(format!("{repeated} of {objects} config maps were reconciled again").into());
    }
    let (took, without_wait) = end_leaders(leader, start, leases).await?;
    let reconciliations = (REPETITIONS * objects) as f64;
    Ok(Figures(vec![
        (&OPERATOR_MEMORY, before.resident_mebibytes),
        (&OPERATOR_RATE, reconciliations / seconds),
        (&OPERATOR_RECONCILE, seconds * 1e6 / reconciliations),
        (&OPERATOR_CPU, (after.cpu_seconds - before.cpu_seconds) * 1e6 / reconciliations),
        (&OPERATOR_FAIL_OVER, took),
        (&OPERATOR_WITHOUT_WAIT, without_wait),
    ]))
}

/// Ends leaders, each with another replica. Returns the seconds until that one reconciles, and the milliseconds without the
/// time in which the Lease had no holder: the medians.
async fn end_leaders(
    mut leader: Program,
    start: impl AsyncFn() -> Result<Program, Failure>,
    leases: &Api<Lease>,
) -> Result<(f64, f64), Failure> {
    let (mut took, mut without_wait) = (Vec::new(), Vec::new());
    for _ in 0..ENDS {
        let mut candidate = start().await?;
        // At any moment between two attempts of the candidate.
        tokio::time::sleep(RETRY_PERIOD.mul_f64(1.0 + 2.2 * fastrand::f64())).await;
        let events = changes(leases).await?;
        let ended = Instant::now();
        leader.terminate()?;
        let first = async {
            next(&mut candidate, &Line::First).await?;
            Ok::<_, Failure>(ended.elapsed())
        };
        let (first, wait) = tokio::try_join!(first, without_holder(events))?;
        took.push(first.as_secs_f64());
        without_wait.push(first.saturating_sub(wait).as_secs_f64() * 1e3);
        leader.ended().await?;
        next(&mut candidate, &Line::All).await?;
        leader = candidate;
    }
    leader.end().await?;
    Ok((median(took.into_iter()), median(without_wait.into_iter())))
}

/// Starts a replica, which may have to wait for the leadership.
async fn start(peer: &str, kubeconfig: &Path, objects: usize) -> Result<Program, Failure> {
    let (program, line, _) = Program::start::<Line>(command(peer, kubeconfig, objects)?).await?;
    if line == Line::Started { Ok(program) } else { Err(format!("{line:?} before the start").into()) }
}

async fn next(program: &mut Program, expected: &Line) -> Result<(), Failure> {
    let line: Line = program.line().await?;
    if line == *expected { Ok(()) } else { Err(format!("{line:?} instead of {expected:?}").into()) }
}

/// The changes of the Lease from now on.
async fn changes(
    leases: &Api<Lease>,
) -> Result<BoxStream<'static, kube_client::Result<WatchEvent<Lease>>>, Failure> {
    let version = leases.get(LEASE).await?.metadata.resource_version.unwrap_or_default();
    let params = WatchParams::default().fields(&format!("metadata.name={LEASE}"));
    Ok(leases.watch(&params, &version).await?.boxed())
}

/// Waits until the Lease has a holder again, and returns for how long it had none.
async fn without_holder(
    mut changes: BoxStream<'static, kube_client::Result<WatchEvent<Lease>>>,
) -> Result<Duration, Failure> {
    let mut released: Option<Instant> = None;
    while let Some(event) = changes.try_next().await? {
        let WatchEvent::Modified(lease) = event else { continue };
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        match released {
            None if holder.is_empty() => released = Some(Instant::now()),
            Some(since) if !holder.is_empty() => return Ok(since.elapsed()),
            _ => {}
        }
    }
    Err("the watch of the Lease ended".into())
}

fn command(peer: &str, kubeconfig: &Path, objects: usize) -> Result<Command, Failure> {
    if peer == KINFORMER {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(PHASE).arg(kubeconfig).arg(objects.to_string());
        return Ok(command);
    }
    let mut command = programs::controller_runtime_operator(kubeconfig, NAMESPACE)?;
    command.args(["-objects", &objects.to_string(), "-metrics", "127.0.0.1:0"]);
    if peer == CONTROLLER_RUNTIME_WARM {
        command.args(["-strip-managed-fields", "-warmup"]);
    }
    Ok(command)
}
