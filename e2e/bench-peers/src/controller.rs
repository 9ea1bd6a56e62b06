//! The phase of controllers: the time, CPU and memory until a controller has reconciled all its objects.

use std::path::Path;

use e2e::{ControlPlane, Options, programs};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::environment::{ETCD_QUOTA, PAUSE};
use crate::failure::Failure;
use crate::foos;
use crate::process::Program;
use crate::report::{
    CONTROLLER_CPU, CONTROLLER_PEAK, CONTROLLER_RUNTIME, CONTROLLER_RUNTIME_STRIPPED, CONTROLLER_STEADY,
    FIRST_RECONCILED, Figures, KINFORMER, KUBE_RUNTIME, Report,
};

/// The name of this phase, which has objects and peers of its own.
pub(crate) const PHASE: &str = "controller";
/// The peers that are compared.
const PEERS: [&str; 4] = [KINFORMER, CONTROLLER_RUNTIME, CONTROLLER_RUNTIME_STRIPPED, KUBE_RUNTIME];

/// The first line of a controller, in JSON, when it has reconciled each Foo with all its pods.
#[derive(Deserialize, Serialize)]
pub(crate) struct Reconciled {
    pub(crate) owners: usize,
    /// The number of ready pods that it has read.
    pub(crate) pods: usize,
}

/// Measures the controllers of each peer, with about this many pods.
pub(crate) async fn compare(pods: usize, runs: usize) -> Result<(), Failure> {
    let owners = (pods / foos::PODS).max(1);
    eprintln!("starting etcd and kube-apiserver ...");
    let control_plane = ControlPlane::start(Options::new().etcd_flag(ETCD_QUOTA)).await?;
    let client = control_plane.client().await?;
    foos::define(&client).await?;
    foos::write(&client, owners).await?;
    let mut report = Report::new(&PEERS);
    for round in 1..=runs {
        for place in 0..PEERS.len() {
            let peer = (place + round) % PEERS.len();
            let name = PEERS.get(peer).copied().unwrap_or_default();
            let figures = measure(name, &control_plane.kubeconfig(), owners).await;
            let figures = figures.map_err(|problem| format!("{PHASE} of {name}: {problem}"))?;
            eprintln!("{round} of {runs}: {name}: {figures}");
            report.add(peer, figures);
        }
    }
    println!("{owners} Foos with {} pods each; medians of {runs} runs\n\n{report}", foos::PODS);
    control_plane.stop().await;
    Ok(())
}

async fn measure(peer: &str, kubeconfig: &Path, owners: usize) -> Result<Figures, Failure> {
    let (program, reconciled, seconds) = Program::start(command(peer, kubeconfig, owners)?).await?;
    let Reconciled { owners: reconciled, pods } = reconciled;
    if (reconciled, pods) != (owners, owners * foos::PODS) {
        return Err(format!("{reconciled} of {owners} Foos were reconciled, with {pods} pods").into());
    }
    // The pods of the initial list enqueue their owners again.
    tokio::time::sleep(PAUSE).await;
    let used = program.used()?;
    program.end().await?;
    Ok(Figures(vec![
        (&FIRST_RECONCILED, seconds),
        (&CONTROLLER_CPU, used.cpu_seconds),
        (&CONTROLLER_PEAK, used.peak_mebibytes),
        (&CONTROLLER_STEADY, used.resident_mebibytes),
    ]))
}

fn command(peer: &str, kubeconfig: &Path, owners: usize) -> Result<Command, Failure> {
    if peer == CONTROLLER_RUNTIME || peer == CONTROLLER_RUNTIME_STRIPPED {
        let mut command = programs::controller_runtime(kubeconfig, owners)?;
        command.args((peer == CONTROLLER_RUNTIME_STRIPPED).then_some("-strip-managed-fields"));
        return Ok(command);
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args([PHASE, peer]).arg(kubeconfig).arg(owners.to_string());
    Ok(command)
}
