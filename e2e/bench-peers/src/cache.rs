//! The phase of the cache: reads of pods, alone, beside updates, and after own writes.

use std::path::Path;
use std::time::Duration;

use e2e::{ControlPlane, Options, programs};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::environment::{ETCD_QUOTA, PAUSE};
use crate::failure::Failure;
use crate::pods;
use crate::process::Program;
use crate::report::{
    CACHE_FIELD, CACHE_GET, CACHE_LABEL, CACHE_NAMESPACE, CACHE_OWN_GET, CACHE_OWN_LIST, CACHE_READERS,
    CACHE_STALE, CACHE_UPDATES, CONTROLLER_RUNTIME, CONTROLLER_RUNTIME_OWN_WRITES, CONTROLLER_RUNTIME_SHARED,
    Figures, KINFORMER, Metric, Report,
};
use crate::updates::Updates;

/// The name of this phase, which has peers of its own.
pub(crate) const PHASE: &str = "cache";
/// The peers that are compared.
const PEERS: [&str; 4] =
    [KINFORMER, CONTROLLER_RUNTIME, CONTROLLER_RUNTIME_SHARED, CONTROLLER_RUNTIME_OWN_WRITES];
/// The seconds for which each read is repeated.
const SECONDS: u64 = 2;
/// The seconds of the reads beside updates, and the updates per second.
const BESIDE_UPDATES: u64 = 10;
const RATE: usize = 1_000;
/// The number of writes, each followed by a read.
const WRITES: usize = 100;

/// The first line of a peer.
#[derive(Deserialize, Serialize)]
pub(crate) struct Stored {
    pub(crate) stored: usize,
}

/// The answer to a request: the seconds of one read, and what it returned.
#[derive(Default, Deserialize, Serialize)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// The seconds of a list of another namespace after a write.
    pub(crate) list: f64,
    pub(crate) objects: usize,
    /// The number of reads without the write before them.
    pub(crate) stale: usize,
}

/// Measures the reads of each peer, of this many pods.
pub(crate) async fn compare(pods: usize, runs: usize) -> Result<(), Failure> {
    eprintln!("starting etcd and kube-apiserver ...");
    let control_plane = ControlPlane::start(Options::new().etcd_flag(ETCD_QUOTA)).await?;
    let client = control_plane.client().await?;
    pods::write(&client, pods).await?;
    let mut updates = Updates::of(control_plane.etcd()?).await?;
    let mut report = Report::new(&PEERS);
    let mut objects = Vec::new();
    for round in 1..=runs {
        for place in 0..PEERS.len() {
            let peer = (place + round) % PEERS.len();
            let name = PEERS.get(peer).copied().unwrap_or_default();
            let measured = measure(name, &control_plane.kubeconfig(), pods, &mut updates).await;
            let (figures, lists) = measured.map_err(|problem| format!("{PHASE} of {name}: {problem}"))?;
            eprintln!("{round} of {runs}: {name}: {figures}");
            report.add(peer, figures);
            objects.extend((!lists.is_empty()).then_some(lists));
            control_plane.compact().await?;
        }
    }
    objects.dedup();
    let [lists] = objects.as_slice() else {
        return Err(format!("the lists of the peers had these numbers of objects: {objects:?}").into());
    };
    println!(
        "{pods} pods; lists by namespace, field and label have {lists:?} of them; medians of {runs} runs\n\n{report}"
    );
    control_plane.stop().await;
    Ok(())
}

/// Measures one peer. Returns also the numbers of objects of its lists.
async fn measure(
    peer: &str,
    kubeconfig: &Path,
    pods: usize,
    updates: &mut Updates,
) -> Result<(Figures, Vec<usize>), Failure> {
    let (mut program, Stored { stored }, _) = Program::start(command(peer, kubeconfig)?).await?;
    if stored != pods {
        return Err(format!("{stored} of {pods} pods are cached").into());
    }
    tokio::time::sleep(PAUSE).await;
    let (mut figures, mut lists) = (Vec::new(), Vec::new());
    if peer != CONTROLLER_RUNTIME_OWN_WRITES {
        let reads: [(&str, &'static Metric); 4] = [
            ("get", &CACHE_GET),
            ("namespace", &CACHE_NAMESPACE),
            ("field", &CACHE_FIELD),
            ("label", &CACHE_LABEL),
        ];
        for (read, metric) in reads {
            let measured: Measured = program.request(&format!("{read} {SECONDS}")).await?;
            figures.push((metric, measured.seconds * 1e6));
            lists.push(measured.objects);
        }
        let request = format!("readers {BESIDE_UPDATES}");
        let reading = program.request::<Measured>(&request);
        let (measured, written) =
            tokio::join!(reading, updates.write(RATE, Duration::from_secs(BESIDE_UPDATES)));
        let (measured, written) = (measured?, written?);
        figures.push((&CACHE_READERS, measured.seconds * 1e6));
        figures.push((&CACHE_UPDATES, written.begun.len() as f64 / written.seconds));
    }
    if peer != CONTROLLER_RUNTIME_SHARED {
        tokio::time::sleep(PAUSE).await;
        let measured: Measured = program.request(&format!("writes {WRITES}")).await?;
        figures.extend([
            (&CACHE_OWN_GET, measured.seconds * 1e3),
            (&CACHE_OWN_LIST, measured.list * 1e3),
            (&CACHE_STALE, measured.stale as f64),
        ]);
    }
    program.end().await?;
    Ok((Figures(figures), lists))
}

fn command(peer: &str, kubeconfig: &Path) -> Result<Command, Failure> {
    if peer == KINFORMER {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(PHASE).arg(kubeconfig);
        return Ok(command);
    }
    let mut command = programs::controller_runtime_reads(kubeconfig)?;
    command.args((peer == CONTROLLER_RUNTIME_SHARED).then_some("-shared"));
    command.args((peer == CONTROLLER_RUNTIME_OWN_WRITES).then_some("-own-writes"));
    Ok(command)
}
