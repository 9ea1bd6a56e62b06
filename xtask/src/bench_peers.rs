//! Compares kinformer with client-go, controller-runtime and kube-runtime on a real kube-apiserver.

use clap::ValueEnum;

use crate::e2e::{self, CLIENT_GO, CONTROL_PLANE, CONTROLLER_RUNTIME};
use crate::files;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of pods
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pods: u32,
    /// Number of runs of each peer, for the medians
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: u32,
    /// Updates per second in the phase of updates
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    rate: u32,
    /// Only this phase; may be repeated
    #[arg(long, value_name = "PHASE")]
    only: Vec<Phase>,
}

/// The phases of a run, in order.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Phase {
    /// From the start of a peer until it has synced, and its memory then.
    Sync,
    /// A relist of all pods.
    Relist,
    /// A minute of updates.
    Updates,
    /// The time from a write to the handler.
    Latency,
    /// A controller of objects that own five pods each, beside controller-runtime's.
    Controller,
    /// Reads from a cache, beside controller-runtime's.
    Cache,
    /// An operator of as many config maps: memory, reconciliations, and the next leader, beside controller-runtime's.
    Operator,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Relist => "relist",
            Self::Updates => "updates",
            Self::Latency => "latency",
            Self::Controller => "controller",
            Self::Cache => "cache",
            Self::Operator => "operator",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let mut command = files::command("cargo");
    for program in [&CONTROL_PLANE, &CLIENT_GO, &CONTROLLER_RUNTIME] {
        command.env(program.variable, program.built()?);
    }
    command.args(["run", "--profile", "dist", "--package", "bench-peers", "--"]);
    command.args([args.pods, args.runs, args.rate].map(|number| number.to_string()));
    let phases = if args.only.is_empty() { Phase::value_variants() } else { &args.only };
    command.args(phases.iter().map(|phase| phase.name()));
    e2e::finish(&mut command)
}
