//! Completion of the words of a command line, by clap's engine: the script of a shell runs this program for each word.

use std::ffi::OsStr;
use std::future::Future;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use kinformer::Kubeconfig;

use crate::args::{Cli, CompletionArgs, GlobalArgs};
use crate::connect::{self, Connection};
use crate::exit::Error;
use crate::get;
use crate::namespaces::Namespaces;
use crate::output::Output;
use crate::resources::Catalogue;
use crate::stop::Stop;
use crate::text::{self, Text};

/// The variable with the name of the shell, by which the script runs this program.
const VARIABLE: &str = "KINFORMER_COMPLETE";
/// How long a person waits for a completion.
const LIMIT: Duration = Duration::from_secs(3);

/// Completes a word and ends the process, if the script of a shell runs it.
pub(crate) fn complete() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// The command line, with the values that are completed.
fn command() -> Command {
    type Complete = fn(&OsStr) -> Vec<CompletionCandidate>;
    let completed = |values: Complete| move |arg: Arg| arg.add(ArgValueCompleter::new(values));
    Cli::command()
        .mut_arg("namespace", completed(namespaces))
        .mut_arg("exclude-namespace", completed(namespaces))
        .mut_arg("context", completed(contexts))
        .mut_arg("cluster", completed(clusters))
        .mut_arg("user", completed(users))
        .mut_subcommand("watch", |watch| watch.mut_arg("resources", completed(resources)))
        .mut_subcommand("serve", |serve| serve.mut_arg("resources", completed(resources)))
        .mut_subcommand("get", |get| get.mut_arg("words", completed(words)))
}

/// Prints the script of a shell.
///
/// # Errors
/// [`Error::Usage`], [`Error::Output`].
pub(crate) async fn run(args: CompletionArgs, stop: Stop) -> Result<(), Error> {
    let shells = Shells::builtins();
    let name = env!("CARGO_BIN_NAME");
    let mut script = Vec::new();
    let written = shells
        .completer(&args.shell)
        .map(|shell| shell.write_registration(VARIABLE, name, name, name, &mut script));
    match written {
        Some(Ok(())) => {}
        _ => return Err(Error::Usage(format!("no script for {}", args.shell))),
    }
    let (output, written) = Output::stdout()?;
    let mut text = Text::default();
    text.document(&String::from_utf8_lossy(&script));
    written.finish(output, text, &stop).await
}

/// The contexts of the kubeconfig.
fn contexts(current: &OsStr) -> Vec<CompletionCandidate> {
    of_kubeconfig(current, |kubeconfig| kubeconfig.contexts().map(str::to_owned).collect())
}

/// The clusters of the kubeconfig.
fn clusters(current: &OsStr) -> Vec<CompletionCandidate> {
    of_kubeconfig(current, |kubeconfig| kubeconfig.clusters().map(str::to_owned).collect())
}

/// The users of the kubeconfig.
fn users(current: &OsStr) -> Vec<CompletionCandidate> {
    of_kubeconfig(current, |kubeconfig| kubeconfig.users().map(str::to_owned).collect())
}

/// The namespaces of the cluster, after a comma as well.
fn namespaces(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let (before, last) = after_comma(&current);
    let found = ask(async |connection, catalogue, _| {
        let served = catalogue.find_all(&["namespaces".to_owned()], &["list"])?;
        get::names_of(connection, &served, &Namespaces::default(), None).await
    });
    candidates(before, last, found)
}

/// The resources of the cluster, after a comma as well.
fn resources(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let (before, last) = after_comma(&current);
    candidates(before, last, ask(async |_, catalogue, _| Ok(catalogue.names("list"))))
}

/// Resources, and names of objects after a resource or in `KIND/NAME`.
fn words(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    let matches = matches();
    let words = matches.subcommand_matches("get").and_then(|get| get.get_many::<String>("words"));
    let first = words.and_then(|mut words| words.next()).filter(|first| **first != text);
    let (before, kind, name) = match (text.split_once('/'), first) {
        (Some((kind, name)), _) => (format!("{kind}/"), kind.to_owned(), name),
        (None, Some(kind)) if !kind.contains('/') => (String::new(), kind.clone(), &*text),
        _ => return resources(current),
    };
    let found = ask(async |connection, catalogue, global: &GlobalArgs| {
        let served = catalogue.find_all(std::slice::from_ref(&kind), &["list"])?;
        get::names_of(connection, &served, &connection.namespaces(&global.scope), None).await
    });
    candidates(&before, name, found)
}

fn after_comma(text: &str) -> (&str, &str) {
    text.split_at(text.rfind(',').map_or(0, |comma| comma + 1))
}

/// Names that begin as the current word, without those that a terminal would interpret.
fn candidates(before: &str, current: &str, names: Vec<String>) -> Vec<CompletionCandidate> {
    let names = names.into_iter().filter(|name| name.starts_with(current) && text::escaped(name) == *name);
    names.map(|name| CompletionCandidate::new(format!("{before}{name}"))).collect()
}

/// The command line that is completed, as far as it can be parsed.
fn matches() -> ArgMatches {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    Cli::command().ignore_errors(true).try_get_matches_from(words).unwrap_or_default()
}

fn global() -> GlobalArgs {
    GlobalArgs::from_arg_matches(&matches()).unwrap_or_default()
}

fn of_kubeconfig(current: &OsStr, names: impl Fn(&Kubeconfig) -> Vec<String>) -> Vec<CompletionCandidate> {
    let found = connect::kubeconfig(&global().cluster).ok().flatten();
    candidates("", &current.to_string_lossy(), found.as_ref().map(names).unwrap_or_default())
}

/// Asks the cluster of the command line. Nothing is completed if that fails or takes too long.
fn ask(
    wanted: impl AsyncFnOnce(&Connection, &Catalogue, &GlobalArgs) -> Result<Vec<String>, Error>,
) -> Vec<String> {
    let global = global();
    let asked = async {
        let connection = Connection::open(&global.cluster).await?;
        let catalogue = Catalogue::discover(&connection.client, &connection.server).await?;
        let names = wanted(&connection, &catalogue, &global).await;
        connection.close().await;
        names
    };
    block_on(asked).and_then(Result::ok).unwrap_or_default()
}

fn block_on<T>(asked: impl Future<Output = T>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async { tokio::time::timeout(LIMIT, asked).await.ok() })
}
