//! The tasks of the project: `cargo xtask --help`.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a command prints")]

mod bench_peers;
mod book;
mod browser;
mod ci;
mod codegen;
mod contract;
mod counted;
mod cycles;
mod dashboard;
mod e2e;
mod examples;
mod files;
mod go_blocks;
mod imports;
mod kinds;
mod links;
mod map;
mod minimal_versions;
mod names;
mod packages;
mod pictures;
mod release;
mod rules;
mod semver;
mod simulate;
mod source;
mod tidy;
mod trees;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the kinformer workspace
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run all checks that a change must pass, like `.ci/run`
    Ci(ci::Args),
    /// Generate the code in `src/generated/`: accessors from the sources of k8s-openapi, protobuf tables from Go types
    Codegen(codegen::Args),
    /// Run the suite on a real kube-apiserver and etcd, built from source on this machine
    E2e(e2e::Args),
    /// Make a site of docs with mdBook, in target/book, and check its links
    Book,
    /// Draw the pictures of the documentation again
    Pictures,
    /// Write the dashboard of the documentation again
    Dashboard,
    /// Test the page of `kinformer serve` in a real browser, or write its screenshots
    Browser(browser::Args),
    /// Compare kinformer with client-go, controller-runtime and kube-runtime on such a kube-apiserver
    BenchPeers(bench_peers::Args),
    /// Count the instructions of hot paths with valgrind, and compare them with the recorded figures
    Counted(counted::Args),
    /// Build programs with one kind and with thirty, and report the cost of each additional kind
    Kinds(kinds::Args),
    /// Run seeds of the simulation on all cores, print the story of one, or run its mutants
    Simulate(simulate::Args),
    /// Run the example programs, and compare their output with their pages in `docs/examples`
    Examples(examples::Args),
    /// Check the structure: layers, the map, import cycles, file sizes, lints, words
    Tidy,
    /// List the lines of the contract with the tests that prove them
    Contract(contract::Args),
    /// Publish the packages and the program, with notes from the changelog.
    Release(release::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::Ci(args) => ci::run(&args),
        Task::Codegen(args) => codegen::run(&args),
        Task::E2e(args) => e2e::run(&args),
        Task::Book => book::run(),
        Task::Pictures => pictures::run(),
        Task::Dashboard => dashboard::run(),
        Task::Browser(args) => browser::run(&args),
        Task::BenchPeers(args) => bench_peers::run(&args),
        Task::Counted(args) => counted::run(&args),
        Task::Kinds(args) => kinds::run(&args),
        Task::Simulate(args) => simulate::run(&args),
        Task::Examples(args) => examples::run(&args),
        Task::Tidy => tidy::run(),
        Task::Contract(args) => contract::run(&args),
        Task::Release(args) => release::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}
