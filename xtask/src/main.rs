//! The project's own tasks: `cargo xtask --help`.

mod bench_peers;
mod ci;
mod circles;
mod codegen;
mod contract;
mod e2e;
mod files;
mod imports;
mod kinds;
mod map;
mod rules;
mod source;
mod tidy;
mod trees;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The tasks of the kinformer workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that has to hold before a change lands; what `.ci/run` runs.
    Ci(ci::Args),
    /// Write the facade's accessors from the sources of k8s-openapi, and the tables of protobuf from Go's.
    Codegen(codegen::Args),
    /// A real kube-apiserver and etcd on this machine, built from their sources.
    E2e(e2e::Args),
    /// Our informers against client-go's and kube-runtime's, on such a kube-apiserver, in one run.
    BenchPeers(bench_peers::Args),
    /// Build programs with one kind and with thirty, and show what each further kind costs.
    Kinds(kinds::Args),
    /// Check the structure: layers, the map, circles between files, sizes, lints, banned calls.
    Tidy,
    /// List the contract's promises with the tests that name them.
    Contract(contract::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::Ci(args) => ci::run(&args),
        Task::Codegen(args) => codegen::run(&args),
        Task::E2e(args) => e2e::run(&args),
        Task::BenchPeers(args) => bench_peers::run(&args),
        Task::Kinds(args) => kinds::run(&args),
        Task::Tidy => tidy::run(),
        Task::Contract(args) => contract::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}
