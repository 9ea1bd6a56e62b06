//! The program `kinformer`: a Kubernetes cluster seen through shared informers, on a terminal and in shells.

mod api_server;
mod args;
mod connect;
mod demo;
mod embedded;
mod exit;
mod get;
mod indexes;
mod informers;
mod lines;
mod logs;
mod objects;
mod output;
mod plain_http;
mod printer;
mod private_file;
mod resources;
mod selectors;
mod session;
mod shown;
mod stop;
mod table;
mod text;
mod token;
mod usage;
mod verdict;
mod watch;

use std::process::ExitCode;

use crate::args::{Cli, Command};
use crate::exit::Error;
use crate::stop::Stop;

fn main() -> ExitCode {
    usage::begin();
    text::report_panics();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    logs::start(cli.verbosity());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::code(Err(Error::Runtime(error))),
    };
    let result = runtime.block_on(run(cli));
    // A thread that is stuck in a write to a full pipe must not keep the program.
    runtime.shutdown_background();
    exit::code(result)
}

async fn run(cli: Cli) -> Result<(), Error> {
    let stop = Stop::on_signals()?;
    match cli.into_command() {
        Command::Demo(args) => demo::run(args, stop).await,
        Command::Watch(args) => watch::run(args, stop).await,
        Command::Get(args) => get::run(args, stop).await,
        Command::ApiServer(args) => api_server::run(args, stop).await,
    }
}
