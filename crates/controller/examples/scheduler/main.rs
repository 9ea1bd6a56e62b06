//! A scheduler: what kube-scheduler does with informers, without its plugins.
//!
//! One informer has the pods that are not finished, selected by fields. The pods without a node go through a queue, by
//! priority: each gets the node with the lowest allocation among those that accept it. It is assumed there, its binding is
//! written while the next pods are decided, and the informer confirms it. A binding that fails is repeated, an assumption
//! that is not confirmed expires, and a pod that fits on no node waits until a node has changed.
//!
//! `cargo run -p kinformer-controller --example scheduler` schedules 500 pods on 50 nodes of an API server in this
//! process, with some faults, and checks the objects of the server after each step. It ends by itself.
//!
//! With `-- KUBECONFIG`, or the variable `$KUBECONFIG`, it schedules the pods of that cluster whose
//! `spec.schedulerName` is `example-scheduler`, until it receives Ctrl-C. `--scheduler-name default-scheduler` is for a
//! cluster without kube-scheduler; `--until-bound N` ends it when N pods are bound. It knows requests of CPU and memory, node
//! selectors, taints and cordoned nodes, but neither affinity nor volumes nor preemption.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example program prints")]

mod binding;
mod cache;
mod demo;
mod node;
mod pod;
mod queue;
mod resources;
mod scheduler;

use std::time::Duration;

use kinformer::{BoxError, CancellationToken};
use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::watch;

use scheduler::{Options, Progress, Scheduler};

const USAGE: &str = "usage: scheduler [KUBECONFIG] [--scheduler-name NAME] [--until-bound N]";

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut kubeconfig = std::env::var("KUBECONFIG").ok();
    let (mut name, mut until_bound) = (demo::SCHEDULER.to_owned(), usize::MAX);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--scheduler-name" => name = arguments.next().ok_or(USAGE)?,
            "--until-bound" => until_bound = arguments.next().ok_or(USAGE)?.parse()?,
            option if option.starts_with('-') => return Err(USAGE.into()),
            _ => kubeconfig = Some(argument),
        }
    }
    match kubeconfig {
        Some(kubeconfig) => run(&kubeconfig, name, until_bound).await,
        None => demo::run().await,
    }
}

/// Schedules the pods of a cluster.
async fn run(kubeconfig: &str, name: String, until_bound: usize) -> Result<(), BoxError> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let options = Options { name, limit: Duration::from_secs(10) };
    let scheduler = Scheduler::new(kinformer::client(config)?, options);
    let (progress, stop) = (scheduler.progress(), CancellationToken::new());
    tokio::try_join!(scheduler.run(stop.clone()), async {
        tokio::select! {
            done = report(progress, until_bound) => done?,
            signal = tokio::signal::ctrl_c() => signal?,
        }
        stop.cancel();
        Ok(())
    })?;
    Ok(())
}

/// Prints the progress, until so many pods are bound.
async fn report(mut progress: watch::Receiver<Progress>, until_bound: usize) -> Result<(), BoxError> {
    loop {
        progress.changed().await?;
        let now = *progress.borrow_and_update();
        println!("{} pods are bound, {} are under way, {} wait", now.bound, now.underway, now.waiting);
        if now.bound >= until_bound {
            println!("{} bindings were refused, {} assumptions expired", now.refused, now.expired);
            return Ok(());
        }
    }
}
