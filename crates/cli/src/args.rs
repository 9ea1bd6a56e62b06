//! What can be said on the command line. Flags that kubectl has too are spelled as there.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use kinformer::Encoding;

use crate::token::TokenArgs;
use crate::{exit, text};

/// Watch and read a Kubernetes cluster through shared informers
///
/// Without a command, `kinformer demo`: an API server of its own, a small cluster in it, and what informers
/// see of it, live.
#[derive(Debug, Parser)]
#[command(
    name = "kinformer",
    version,
    args_conflicts_with_subcommands = true,
    after_long_help = exit::HELP,
    after_help = "Exit codes: 0 ok, 1 error, 2 usage, 3 unreachable or too late, 4 refused. More with --help.",
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    demo: DemoArgs,
    #[command(flatten)]
    logs: LogArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Log more: -v what the program does, -vv what its informers do, -vvv everything; RUST_LOG overrides it
    #[arg(short, long = "verbose", action = ArgAction::Count, global = true)]
    verbosity: u8,
}

impl Cli {
    /// Reads the command line of this process. Help, and what is wrong with it, is printed here.
    ///
    /// # Errors
    /// The exit code, where there is nothing more to do.
    pub(crate) fn read() -> Result<Self, ExitCode> {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        Self::try_parse_from(&arguments).map_err(|error| {
            let shown = Self::shown_error(error, &arguments);
            // Without a terminal there is no one left to tell.
            let _ = shown.print();
            ExitCode::from(u8::try_from(shown.exit_code()).unwrap_or(1))
        })
    }

    /// The error with arguments as they can be shown: clap repeats them as they are.
    fn shown_error(error: clap::Error, arguments: &[OsString]) -> clap::Error {
        let shown: Vec<String> =
            arguments.iter().map(|argument| text::escaped(&argument.to_string_lossy())).collect();
        if shown.iter().zip(arguments).all(|(shown, argument)| argument == shown.as_str()) {
            return error;
        }
        match Self::try_parse_from(shown) {
            Err(shown) if shown.kind() == error.kind() => shown,
            // What is wrong is the very character that cannot be shown.
            _ => Self::command().error(error.kind(), "an argument has characters that cannot be shown"),
        }
    }

    /// How often `-v` was said.
    pub(crate) fn verbosity(&self) -> u8 {
        self.logs.verbosity
    }

    /// What to do: the demo when nothing is said.
    pub(crate) fn into_command(self) -> Command {
        self.command.unwrap_or(Command::Demo(self.demo))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show informers at work on a small cluster that lives in this process
    Demo(DemoArgs),
    /// Print every change of some resources
    Watch(WatchArgs),
    /// Read objects once, through an informer and its indexes
    Get(GetArgs),
    /// Run the embedded API server for other clients
    ApiServer(ApiServerArgs),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArgs {
    /// End after this long (10s, 2m); without it, Ctrl-C ends it
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) period: Option<Duration>,
    /// Seed of the changes: the same seed makes the same cluster do the same
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// What to watch, as kubectl names it: pods, po, deploy, deployments.apps, crontabs.stable.example.com;
    /// several separated by commas or spaces
    #[arg(value_name = "RESOURCE", required = true, value_delimiter = ',')]
    pub(crate) resources: Vec<String>,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Only objects that this label selector selects: app=web,tier in (a,b),!legacy
    #[arg(short = 'l', long, value_name = "SELECTOR", allow_hyphen_values = true)]
    pub(crate) selector: Option<String>,
    /// Only objects that this field selector selects: spec.nodeName=node-1,status.phase!=Running
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) field_selector: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// End after this long (10s, 2m)
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) period: Option<Duration>,
    /// End when everything that was there has been printed; with --for, an error when that takes longer
    #[arg(long)]
    pub(crate) until_synced: bool,
    /// Ask for metadata only, which is all that is printed except by -o wide
    #[arg(long)]
    pub(crate) metadata_only: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// What to read, as kubectl names it
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: String,
    /// One object: its name, or namespace/name
    #[arg(value_name = "KEY", conflicts_with_all = ["index", "list_indexes"])]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Only objects that this index has under this value: node=node-1, label=app=web, namespace=default
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) index: Option<String>,
    /// Print the indexes, and how many objects each value has
    #[arg(long, conflicts_with = "index")]
    pub(crate) list_indexes: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ScopeArgs {
    /// Only this namespace; by default the one of the kubeconfig's context
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(crate) namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

/// How the cluster is read. None of it changes what is printed.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct ReadingArgs {
    /// Decode objects as they arrive; by default they are kept as they come, and what is printed of them is decoded then
    #[arg(long)]
    pub(crate) eager: bool,
    /// What to ask the server for; by default protobuf for the kinds that have it, and else JSON
    #[arg(long, value_name = "ENCODING", value_parser = encodings())]
    pub(crate) encoding: Option<Encoding>,
    /// Ask for what is there by a watch; =false asks by lists
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = ArgAction::Set
    )]
    pub(crate) watch_list: bool,
}

impl Default for ReadingArgs {
    fn default() -> Self {
        Self { eager: false, encoding: None, watch_list: true }
    }
}

/// The names of all encodings that the libraries know.
fn encodings() -> impl TypedValueParser<Value = Encoding> {
    let names = PossibleValuesParser::new(Encoding::ALL.iter().map(|encoding| encoding.name()));
    names.map(|name| {
        let named = |encoding: &&Encoding| encoding.name() == name;
        Encoding::ALL.iter().find(named).copied().unwrap_or_default()
    })
}

/// Which cluster, and as whom.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ConnectionArgs {
    /// The kubeconfig; by default KUBECONFIG, then ~/.kube/config, then the cluster this runs in
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The address of the API server
    #[arg(short, long, value_name = "URL")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) token: TokenArgs,
    /// Take any certificate of the server. Whoever is on the way can then read and change everything
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// No cluster: the small one of the demo, in this process
    #[arg(long, conflicts_with_all = ["kubeconfig", "context", "server", "token", "token_file", "insecure_skip_tls_verify"])]
    pub(crate) embedded: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApiServerArgs {
    /// Where to listen: a loopback address; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Write a kubeconfig for it to this file; with a token the server speaks HTTPS then
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,
    /// Also answer requests for this host name; may be repeated. By default only localhost, and addresses of this
    /// machine: a web page cannot talk to it by a name of its own
    #[arg(long = "accept-host", value_name = "NAME")]
    pub(crate) accept_hosts: Vec<String>,
    /// Objects to begin with
    #[arg(long, value_name = "pods=N", value_parser = pods)]
    pub(crate) load: Option<usize>,
    #[command(flatten, next_help_heading = "The token that requests must carry; without one they need none")]
    pub(crate) token: TokenArgs,
}

/// How objects and events are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON object a line
    Json,
    /// For people, with more columns
    Wide,
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; expected a duration such as 10s or 2m"))
}

fn pods(text: &str) -> Result<usize, String> {
    let number = text.strip_prefix("pods=").ok_or("expected pods=N, such as pods=1000")?;
    number.parse().map_err(|error| format!("{number:?} is no number of pods: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_command_is_the_demo() {
        for line in [&["kinformer", "--for", "10s"][..], &["kinformer", "demo", "--for", "10s"]] {
            let Command::Demo(args) = Cli::parse_from(line).into_command() else { panic!("not the demo") };
            assert_eq!(args.period, Some(Duration::from_secs(10)));
        }
    }

    #[test]
    fn verbosity_is_counted_wherever_it_stands() {
        assert_eq!(Cli::parse_from(["kinformer", "-vv"]).verbosity(), 2);
        assert_eq!(Cli::parse_from(["kinformer", "watch", "pods", "-v"]).verbosity(), 1);
    }

    #[test]
    fn resources_are_separated_by_commas_and_by_spaces() {
        let cli = Cli::parse_from(["kinformer", "watch", "pods,svc", "deploy", "-A", "-l", "!legacy"]);
        let Command::Watch(args) = cli.into_command() else { panic!("not watch") };
        assert_eq!(args.resources, ["pods", "svc", "deploy"]);
        assert_eq!(args.selector.as_deref(), Some("!legacy"));
        assert!(args.scope.all_namespaces);
    }

    #[test]
    fn the_cluster_is_read_as_it_is_said() {
        let reading = |flags: &str| {
            let line = format!("kinformer watch {flags} pods");
            let Command::Watch(args) = Cli::parse_from(line.split_whitespace()).into_command() else {
                panic!("not watch")
            };
            assert_eq!(args.resources, ["pods"], "{flags}");
            (args.reading.eager, args.reading.encoding, args.reading.watch_list)
        };
        assert_eq!(reading(""), (false, None, true));
        assert_eq!(reading("--eager --watch-list=false"), (true, None, false));
        assert_eq!(reading("--watch-list --encoding json"), (false, Some(Encoding::Json), true));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for line in [
            "watch",
            "watch pods -n a -A",
            "watch pods --embedded --server http://x",
            "watch pods --for soon",
            "get pods a/b --index node=x",
            "watch pods --encoding yaml",
            "watch pods --watch-list=no",
            "api-server --load 10",
            "api-server --token a --token-file b",
            "watch pods --token a --token-file b",
            "watch pods --embedded --token-file b",
            "nonsense",
        ] {
            let words = std::iter::once("kinformer").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }
}
