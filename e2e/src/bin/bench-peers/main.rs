//! Ours, client-go's and kube-runtime's informers of the same pods, measured in one run: `cargo xtask bench-peers`.
//!
//! Each is a process of its own, which ends its work when it has a store and a handler that have all there is. They
//! alternate, so that what else the machine does falls on all of them.

mod measure;
mod peers;
mod pods;
mod report;

use std::error::Error;
use std::path::{Path, PathBuf};

use e2e::{ControlPlane, Options, programs};
use tokio::process::Command;

use measure::Run;
use report::Report;

type Failure = Box<dyn Error + Send + Sync>;

/// The words by which this program is one of those that are measured.
const KINFORMER_PACKED: &str = "kinformer-packed";
const KINFORMER: &str = "kinformer";
const KUBE_RUNTIME: &str = "kube-runtime";
const CLIENT_GO: &str = "client-go";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [KINFORMER_PACKED, kubeconfig] => peers::kinformer_packed(Path::new(kubeconfig)).await,
        [KINFORMER, kubeconfig] => peers::kinformer(Path::new(kubeconfig)).await,
        [KUBE_RUNTIME, kubeconfig] => peers::kube_runtime(Path::new(kubeconfig)).await,
        [pods, runs] => compare(pods.parse()?, runs.parse()?).await,
        _ => Err("how many pods, and how many runs?".into()),
    }
}

async fn compare(pods: usize, runs: usize) -> Result<(), Failure> {
    if pods == 0 || runs == 0 {
        return Err("there is nothing to measure in no pods or no runs".into());
    }
    eprintln!("starting etcd and kube-apiserver ...");
    let control_plane = ControlPlane::start(Options::new()).await?;
    let size = pods::write(&control_plane.client().await?, pods).await?;
    let mut report = Report::new([KINFORMER_PACKED, KINFORMER, CLIENT_GO, KUBE_RUNTIME]);
    // The first round finds nothing warm and does not count.
    for round in 0..=runs {
        for place in 0..report.peers().len() {
            // Nobody always comes after the same one.
            let number = (place + round) % report.peers().len();
            let Some(&peer) = report.peers().get(number) else { continue };
            let run = Run::of(command(peer, &control_plane.kubeconfig())?, pods).await;
            let run = run.map_err(|problem| format!("{peer}: {problem}"))?;
            if round == 0 {
                eprintln!("warming up: {peer}: {run}");
            } else {
                eprintln!("round {round} of {runs}: {peer}: {run}");
                report.add(number, run);
            }
        }
    }
    println!("{pods} pods; {size}; medians of {runs} runs\n\n{report}");
    control_plane.stop().await;
    Ok(())
}

fn command(peer: &str, kubeconfig: &Path) -> Result<Command, Failure> {
    if peer == CLIENT_GO {
        let mut command = programs::client_go(kubeconfig, [])?;
        // Before what is not a flag, of which there is nothing.
        command.arg("-until-synced");
        return Ok(command);
    }
    let program: PathBuf = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.arg(peer).arg(kubeconfig);
    Ok(command)
}
