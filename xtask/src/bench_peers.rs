//! Our informers against client-go's and kube-runtime's, on a real kube-apiserver.

use clap::ValueEnum;

use crate::e2e::{self, CLIENT_GO, CONTROL_PLANE};
use crate::files;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many pods there are.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pods: u32,
    /// How many runs of each the medians are of.
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: u32,
    /// How many pods change in a second, in the phase of updates.
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    rate: u32,
    /// Only this phase; may be given again.
    #[arg(long, value_name = "PHASE")]
    only: Vec<Phase>,
}

/// What is measured, one after the other.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Phase {
    /// From the start of each until it has all, and what it holds then.
    Sync,
    /// All of it once more.
    Relist,
    /// A minute in which pods change.
    Updates,
    /// How long a change takes to a handler.
    Latency,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Relist => "relist",
            Self::Updates => "updates",
            Self::Latency => "latency",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let mut command = files::command("cargo");
    for program in [&CONTROL_PLANE, &CLIENT_GO] {
        command.env(program.variable, program.built()?);
    }
    command.args(["run", "--release", "--package", "e2e", "--bin", "bench-peers", "--"]);
    command.args([args.pods, args.runs, args.rate].map(|number| number.to_string()));
    let phases = if args.only.is_empty() { Phase::value_variants() } else { &args.only };
    command.args(phases.iter().map(|phase| phase.name()));
    e2e::finish(&mut command)
}
