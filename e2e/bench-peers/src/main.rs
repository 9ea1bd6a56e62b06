//! Measures kinformer, client-go, controller-runtime and kube-runtime on the same objects in one run:
//! `cargo xtask bench-peers`.
//!
//! Each peer is a process of its own. Peers take turns, so that other load on the machine affects all of them.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a command prints")]

mod cache;
mod cache_peer;
mod controller;
mod controller_peers;
mod environment;
mod failure;
mod foos;
mod operator;
mod operator_peer;
mod peers;
mod pods;
mod process;
mod report;
mod updates;
mod used;

use std::path::Path;

use environment::{Environment, PEERS};
use failure::Failure;
use report::{KINFORMER, KINFORMER_EAGER, KUBE_RUNTIME, Report};

/// The phases, in order.
const PHASES: [&str; 7] =
    ["sync", "relist", "updates", "latency", controller::PHASE, cache::PHASE, operator::PHASE];
/// The phases that have objects and peers of their own.
const OWN: [&str; 3] = [controller::PHASE, cache::PHASE, operator::PHASE];

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        // The measured Rust peers are this program too.
        [KINFORMER, kubeconfig] => peers::kinformer(Path::new(kubeconfig)).await,
        [KINFORMER_EAGER, kubeconfig] => peers::kinformer_eager(Path::new(kubeconfig)).await,
        [KUBE_RUNTIME, kubeconfig] => peers::kube_runtime(Path::new(kubeconfig)).await,
        [controller::PHASE, KINFORMER, kubeconfig, foos] => {
            controller_peers::kinformer(Path::new(kubeconfig), foos.parse()?).await
        }
        [controller::PHASE, KUBE_RUNTIME, kubeconfig, foos] => {
            controller_peers::kube_runtime(Path::new(kubeconfig), foos.parse()?).await
        }
        [operator::PHASE, kubeconfig, objects] => {
            operator_peer::kinformer(Path::new(kubeconfig), objects.parse()?).await
        }
        [cache::PHASE, kubeconfig] => cache_peer::kinformer(Path::new(kubeconfig)).await,
        [pods, runs, rate, phases @ ..] if phases.iter().all(|phase| PHASES.contains(phase)) => {
            let (pods, runs, rate) = (pods.parse()?, runs.parse()?, rate.parse()?);
            if pods == 0 || runs == 0 || rate == 0 {
                return Err("the numbers of pods, runs and updates must not be 0".into());
            }
            let of_pods: Vec<&str> = phases.iter().copied().filter(|phase| !OWN.contains(phase)).collect();
            if !of_pods.is_empty() {
                compare(pods, runs, rate, &of_pods).await?;
            }
            if phases.contains(&controller::PHASE) {
                controller::compare(pods, runs).await?;
            }
            if phases.contains(&cache::PHASE) {
                cache::compare(pods, runs).await?;
            }
            if phases.contains(&operator::PHASE) {
                operator::compare(pods, runs).await?;
            }
            Ok(())
        }
        _ => {
            Err(format!("expected the numbers of pods, runs and updates per second, and some of {PHASES:?}")
                .into())
        }
    }
}

async fn compare(pods: usize, runs: usize, rate: usize, phases: &[&str]) -> Result<(), Failure> {
    let mut environment = Environment::begin(pods).await?;
    let mut report = Report::new(&PEERS);
    for phase in phases {
        // The first round warms up the caches and is not counted.
        let first = usize::from(*phase != "sync");
        for round in first..=runs {
            for place in 0..PEERS.len() {
                // The order rotates, so that no peer always follows the same one.
                let peer = (place + round) % PEERS.len();
                let figures = match *phase {
                    "sync" => environment.sync(peer).await,
                    "relist" => environment.relist(peer).await,
                    "updates" => environment.updates(peer, rate).await,
                    _ => environment.latency(peer).await,
                };
                let name = PEERS.get(peer).copied().unwrap_or_default();
                let figures = figures.map_err(|problem| format!("{phase} of {name}: {problem}"))?;
                if round == 0 {
                    eprintln!("warming up: {name}: {figures}");
                } else {
                    eprintln!("{round} of {runs}: {name}: {figures}");
                    report.add(peer, figures);
                }
            }
        }
    }
    println!("{pods} pods; {}; medians of {runs} runs\n\n{report}", environment.size());
    environment.end().await;
    Ok(())
}
