//! The program `kinformer`: watches and reads a Kubernetes cluster through shared informers.

mod api_server;
mod args;
mod changes;
mod completion;
mod connect;
mod demo;
mod display_fields;
mod embedded;
mod exit;
mod fatal_errors;
mod get;
mod indexes;
mod informers;
mod lines;
mod logs;
mod man;
mod namespaces;
mod outages;
mod output;
mod plain_http;
mod printer;
mod private_file;
mod resources;
mod selectors;
mod serve;
mod session;
mod stop;
mod table;
mod text;
mod token;
mod usage;
mod version;
mod watch;

use std::process::ExitCode;

use crate::args::{Cli, Command};
use crate::exit::Error;
use crate::stop::Stop;

fn main() -> ExitCode {
    usage::begin();
    text::report_panics();
    completion::complete();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    logs::start(cli.global.verbosity);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::code(Err(Error::Runtime(error))),
    };
    let result = runtime.block_on(run(cli));
    // A thread that is blocked on a full pipe must not keep the program alive.
    runtime.shutdown_background();
    exit::code(result)
}

async fn run(cli: Cli) -> Result<(), Error> {
    let stop = Stop::on_signals()?;
    let (command, global) = cli.into_parts();
    match command {
        Command::Demo(args) => demo::run(args, stop).await,
        Command::Watch(args) => watch::run(args, &global, stop).await,
        Command::Get(args) => get::run(args, &global, stop).await,
        Command::Serve(args) => serve::run(args, &global, stop).await,
        Command::ApiServer(args) => api_server::run(args, &global.cluster.token, stop).await,
        Command::Version(args) => version::run(args, &global, stop).await,
        Command::Completion(args) => completion::run(args, stop).await,
        Command::Man(args) => man::run(&args),
    }
}
