//! Our informers against client-go's and kube-runtime's, on a real kube-apiserver.

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
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let mut command = files::command("cargo");
    for program in [&CONTROL_PLANE, &CLIENT_GO] {
        command.env(program.variable, program.built()?);
    }
    command.args(["run", "--release", "--package", "e2e", "--bin", "bench-peers", "--"]);
    command.args([args.pods.to_string(), args.runs.to_string()]);
    e2e::finish(&mut command)
}
