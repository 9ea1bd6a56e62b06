//! The command line. Flags that kubectl also has are spelled the same way.

mod global;
mod values;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ErrorKind};
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::env::Shells;
use kinformer::Encoding;

use crate::get::format::GetFormat;
use crate::token::ServeTokenArgs;
use crate::{exit, text};

use values::duration;

pub(crate) use global::{ClusterArgs, GlobalArgs, ScopeArgs};

/// Watch and read a Kubernetes cluster through shared informers
///
/// Without a command, runs `kinformer demo`: an in-memory API server with a small simulated cluster, a live view of the
/// informers that watch it, and a page for a browser.
#[derive(Debug, Parser)]
#[command(
    name = "kinformer",
    version,
    after_long_help = exit::HELP,
    after_help = "Exit codes: 0 ok, 1 error, 2 usage, 3 unreachable or timed out, 4 access denied. More with --help.",
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    demo: DemoArgs,
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
}

impl Cli {
    /// Parses the command line of this process, and prints help and usage errors.
    ///
    /// # Errors
    /// The exit code, if the process should exit now: after help, or after a usage error.
    pub(crate) fn read() -> Result<Self, ExitCode> {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        Self::parse_words(&arguments).map_err(|error| {
            let escaped = Self::escape_error(error, &arguments);
            // Printing can only fail when the output is closed; there is nowhere left to report it.
            let _ = escaped.print();
            ExitCode::from(u8::try_from(escaped.exit_code()).unwrap_or(1))
        })
    }

    fn parse_words<W: Into<OsString> + Clone>(
        words: impl IntoIterator<Item = W>,
    ) -> Result<Self, clap::Error> {
        let parsed = Self::try_parse_from(words).and_then(Self::checked);
        parsed.map_err(|mut error| {
            // The tip to write `-- -l`, which would make a flag the name of an object.
            error.remove(ContextKind::Suggested);
            error
        })
    }

    /// Checks what clap cannot: flags that may be on both sides of the command.
    fn checked(self) -> Result<Self, clap::Error> {
        let conflict = |text: &str| Err(Self::command().error(ErrorKind::ArgumentConflict, text));
        let is_demo = matches!(self.command, None | Some(Command::Demo(_)));
        if self.command.is_some() && self.demo != DemoArgs::default() {
            return conflict("--for and --seed belong after the command");
        }
        if is_demo && (self.global.cluster != ClusterArgs::default() || self.global.scope.is_given()) {
            return conflict(
                "the demo has a cluster of its own; watch, get and serve take the flags of a cluster",
            );
        }
        let token = self.global.cluster.token.clone();
        let only_token = ClusterArgs { token, ..ClusterArgs::default() };
        if matches!(self.command, Some(Command::ApiServer(_))) && self.global.cluster != only_token {
            return conflict(
                "the API server runs in this process, and takes no flags of a cluster but --token and --token-file",
            );
        }
        match self.global.cluster.conflict().or_else(|| self.global.scope.conflict()) {
            Some(text) => conflict(text),
            None => Ok(self),
        }
    }

    /// Replaces unsafe characters in the error: clap repeats arguments verbatim.
    fn escape_error(error: clap::Error, arguments: &[OsString]) -> clap::Error {
        let escaped: Vec<String> =
            arguments.iter().map(|argument| text::escaped(&argument.to_string_lossy())).collect();
        if escaped.iter().zip(arguments).all(|(escaped, argument)| argument == escaped.as_str()) {
            return error;
        }
        match Self::parse_words(escaped) {
            Err(escaped) if escaped.kind() == error.kind() => escaped,
            // The escaped arguments parse differently: the error is about the unsafe character itself.
            _ => Self::command().error(error.kind(), "an argument has characters that cannot be shown"),
        }
    }

    /// Returns the command, the demo by default, and the flags of all commands.
    pub(crate) fn into_parts(self) -> (Command, GlobalArgs) {
        (self.command.unwrap_or(Command::Demo(self.demo)), self.global)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a small simulated cluster in memory and show its informers live
    Demo(DemoArgs),
    /// Print every change to one or more resources
    Watch(WatchArgs),
    /// Print objects, as kubectl does, or those that an index of an informer finds
    Get(GetArgs),
    /// Serve informers over HTTP: their state, objects and events as JSON, metrics, and a page for a browser
    Serve(ServeArgs),
    /// Run the in-memory API server for other clients; --token and --token-file name the token that requests must carry
    ApiServer(ApiServerArgs),
    /// Print the versions of this program and of the server
    Version(VersionArgs),
    /// Print a script that completes the words of this program in a shell
    ///
    /// bash: source <(kinformer completion bash), in ~/.bashrc; zsh: the same in ~/.zshrc; fish: kinformer completion fish |
    /// source, in ~/.config/fish/config.fish. Resources, names, namespaces and contexts are completed by asking the cluster
    /// and the kubeconfig.
    Completion(CompletionArgs),
    /// Write man pages of this program and its commands into a directory
    #[command(hide = true)]
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Only the version of this program; sends no request
    #[arg(long)]
    pub(crate) client: bool,
    /// Output format: json or yaml
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<VersionFormat>,
}

/// Output format of `kinformer version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionFormat {
    Json,
    Yaml,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = PossibleValuesParser::new(Shells::builtins().names()))]
    pub(crate) shell: String,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// An existing directory
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
}

#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(crate) struct DemoArgs {
    /// Exit after this duration (10s, 2m); by default, run until Ctrl-C
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) period: Option<Duration>,
    /// Seed of the simulation: the same seed produces the same changes; by default 1
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The resources to watch, named as in kubectl: pods, po, deploy, deployments.apps, crontabs.stable.example.com;
    /// separate several with commas or spaces
    #[arg(value_name = "RESOURCE", required = true, value_delimiter = ',')]
    pub(crate) resources: Vec<String>,
    #[command(flatten)]
    pub(crate) selectors: SelectorArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Exit after this duration (10s, 2m)
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) period: Option<Duration>,
    /// Exit after the initial objects have been printed; with --for, fail if that takes longer
    #[arg(long)]
    pub(crate) until_synced: bool,
    /// Begin each line with the time; in JSON, the field time
    #[arg(long)]
    pub(crate) timestamps: bool,
    /// With -o json, add the object to each event
    #[arg(long)]
    pub(crate) objects: bool,
    /// Fetch only metadata; -o wide then prints no phase and no node
    #[arg(long)]
    pub(crate) metadata_only: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// A resource and names of objects (pods web-1 web-2), several resources (pods,deployments), or objects of several
    /// kinds (pod/web-1 node/node-1); a name may have a namespace (shop/web-1)
    #[arg(value_name = "RESOURCE", required = true)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) selectors: SelectorArgs,
    /// Output format: json, yaml, name, wide, jsonpath=TEMPLATE, or custom-columns=TITLE:FIELD.PATH,...
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    pub(crate) output: GetFormat,
    /// Leave out the headers of tables
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Add a column with all labels
    #[arg(long)]
    pub(crate) show_labels: bool,
    /// Sort by a field: .metadata.creationTimestamp
    #[arg(long, value_name = "FIELD.PATH")]
    pub(crate) sort_by: Option<String>,
    /// After the objects, print each change of them
    #[arg(short, long, conflicts_with_all = ["sort_by", "index", "list_indexes"])]
    pub(crate) watch: bool,
    /// Only objects with this index value, found by an informer: node=node-1, label=app=web, owner=ReplicaSet/web
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) index: Option<String>,
    /// Print the indexes of an informer, with the number of objects for each value
    #[arg(long, conflicts_with = "index")]
    pub(crate) list_indexes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The resources to serve, named as in kubectl; separate several with commas or spaces
    #[arg(value_name = "RESOURCE", required = true, value_delimiter = ',')]
    pub(crate) resources: Vec<String>,
    #[command(flatten)]
    pub(crate) selectors: SelectorArgs,
    /// Add an index by a field, of all resources; may be repeated. Indexes by namespace, label, node and owner are
    /// always there
    #[arg(long = "index", value_name = "NAME=FIELD.PATH")]
    pub(crate) indexes: Vec<String>,
    /// Fetch only metadata
    #[arg(long)]
    pub(crate) metadata_only: bool,
    /// Exit after this duration (10s, 2m)
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) period: Option<Duration>,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
}

/// Where and what to serve.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Serving")]
pub(crate) struct HttpArgs {
    /// The address to listen on; port 0 picks a free port. An address that other machines can reach needs a token
    /// (--serve-token), since all objects can be read there
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4000")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) token: ServeTokenArgs,
    /// Also accept requests for this host name, as behind a proxy; may be repeated. By default, only localhost and
    /// addresses of this machine are accepted, so that a web page cannot reach the server through a name of its own
    #[arg(long = "allowed-host", value_name = "NAME")]
    pub(crate) allowed_hosts: Vec<String>,
    /// Leave out this field everywhere, such as spec.template; may be repeated
    #[arg(long = "hide-field", value_name = "FIELD.PATH")]
    pub(crate) hidden_fields: Vec<String>,
    /// Show objects of kind Secret, which are hidden otherwise
    #[arg(long)]
    pub(crate) show_secrets: bool,
}

/// Which objects are fetched.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectorArgs {
    /// Only objects that match this label selector: app=web,tier in (a,b),!legacy
    #[arg(short = 'l', long, value_name = "SELECTOR", allow_hyphen_values = true)]
    pub(crate) selector: Option<String>,
    /// Only objects that match this field selector: spec.nodeName=node-1,status.phase!=Running
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) field_selector: Option<String>,
}

/// How objects are fetched and stored. None of these options changes the output.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct ReadingArgs {
    /// Decode objects as they arrive; by default, objects stay encoded and only the printed fields are decoded
    #[arg(long)]
    pub(crate) eager: bool,
    /// The encoding to request; by default, protobuf for kinds that support it, JSON for all others
    #[arg(long, value_name = "ENCODING", value_parser = encodings())]
    pub(crate) encoding: Option<Encoding>,
    /// Stream the initial objects through the watch (watch-list); =false lists them first
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

/// The names of all supported encodings.
fn encodings() -> impl TypedValueParser<Value = Encoding> {
    let names = PossibleValuesParser::new(Encoding::ALL.iter().map(|encoding| encoding.name()));
    names.map(|name| {
        let named = |encoding: &&Encoding| encoding.name() == name;
        Encoding::ALL.iter().find(named).copied().unwrap_or_default()
    })
}

#[derive(Debug, Args)]
pub(crate) struct ApiServerArgs {
    /// The loopback address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Write a kubeconfig for this server to this file; the server then speaks HTTPS if it has a token
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,
    /// How requests are allowed. With RBAC, roles and bindings decide, the server speaks HTTPS, and the kubeconfig is that of
    /// an administrator
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) authorization_mode: AuthorizationMode,
    /// A file with users for RBAC, a line for each, as of kube-apiserver: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// Also accept requests for this host name; may be repeated. By default, only localhost and addresses of this
    /// machine are accepted, so that a web page cannot reach the server through a name of its own
    #[arg(long = "accept-host", value_name = "NAME")]
    pub(crate) accept_hosts: Vec<String>,
    /// Where the webhooks of a service are, such as default/operator:443=127.0.0.1:9443; may be repeated
    #[arg(long = "service", value_name = "NAMESPACE/NAME:PORT=ADDRESS", value_parser = service)]
    pub(crate) services: Vec<Service>,
    /// Objects to create at start
    #[arg(long, value_name = "pods=N", value_parser = pods)]
    pub(crate) load: Option<usize>,
}

/// The address of the processes behind a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) address: SocketAddr,
}

/// How requests to the in-memory API server are allowed, named as in kube-apiserver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthorizationMode {
    /// Every request may do everything
    #[default]
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    /// Roles and bindings decide
    #[value(name = "RBAC")]
    Rbac,
}

/// Output format of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable lines
    #[default]
    Text,
    /// One JSON object per line
    Json,
    /// Human-readable lines, with more columns
    Wide,
}

fn service(text: &str) -> Result<Service, String> {
    let parts = || {
        let (service, address) = text.split_once('=')?;
        let (key, port) = service.rsplit_once(':')?;
        let (namespace, name) = key.split_once('/')?;
        let is_whole = !namespace.is_empty() && !name.is_empty();
        is_whole.then_some((namespace, name, port, address))
    };
    let (namespace, name, port, address) =
        parts().ok_or("expected NAMESPACE/NAME:PORT=ADDRESS, such as default/operator:443=127.0.0.1:9443")?;
    Ok(Service {
        namespace: namespace.into(),
        name: name.into(),
        port: port.parse().map_err(|error| format!("{port:?} is not a port: {error}"))?,
        address: address.parse().map_err(|error| format!("{address:?} is not an address: {error}"))?,
    })
}

fn pods(text: &str) -> Result<usize, String> {
    let number = text.strip_prefix("pods=").ok_or("expected pods=N, such as pods=1000")?;
    number.parse().map_err(|error| format!("{number:?} is not a number of pods: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_valid() {
        Cli::command().debug_assert();
    }

    // contract: T-04f
    #[test]
    fn services_have_four_parts() {
        let (namespace, name) = ("ns".to_owned(), "op".to_owned());
        let address = "127.0.0.1:9443".parse().unwrap();
        let expected = Service { namespace, name, port: 443, address };
        assert_eq!(service("ns/op:443=127.0.0.1:9443"), Ok(expected));
        for text in
            ["ns/op:443", "op:443=127.0.0.1:1", "/op:443=127.0.0.1:1", "ns/op:x=127.0.0.1:1", "ns/op:1=x"]
        {
            assert!(service(text).is_err(), "{text}");
        }
    }

    fn parsed(line: &str) -> Result<Cli, clap::Error> {
        Cli::parse_words(std::iter::once("kinformer").chain(line.split_whitespace()))
    }

    fn parts(line: &str) -> (Command, GlobalArgs) {
        parsed(line).unwrap_or_else(|error| panic!("{line}: {error}")).into_parts()
    }

    #[test]
    fn no_command_runs_the_demo() {
        for line in ["--for 10s", "demo --for 10s"] {
            let (Command::Demo(args), _) = parts(line) else { panic!("not the demo") };
            assert_eq!(args.period, Some(Duration::from_secs(10)));
        }
    }

    // contract: T-07b
    #[test]
    fn flags_of_the_cluster_are_before_and_after_the_command() {
        let flags =
            "-n other -A --context c --server u --as a --as-group g --as-group h --request-timeout 5 -vv";
        for line in [format!("{flags} get pods"), format!("get pods {flags}"), format!("get {flags} pods")] {
            let (Command::Get(args), global) = parts(&line) else { panic!("not get") };
            assert_eq!(args.words, ["pods"], "{line}");
            let ClusterArgs { context, server, impersonate, impersonate_groups, .. } = global.cluster;
            assert_eq!(
                [context, server, impersonate],
                ["c", "u", "a"].map(|text| Some(text.to_owned())),
                "{line}"
            );
            assert_eq!(impersonate_groups, ["g", "h"], "{line}");
            assert_eq!(global.cluster.request_timeout, Some(Duration::from_secs(5)), "{line}");
            assert_eq!(
                (global.scope.namespaces.as_slice(), global.verbosity),
                (&["other".to_owned()][..], 2),
                "{line}"
            );
            assert!(global.scope.all_namespaces, "{line}");
        }
        for (flags, all) in
            [("-A", true), ("-A=true", true), ("--all-namespaces=false", false), ("-Av", true)]
        {
            assert_eq!(parts(&format!("get pods {flags}")).1.scope.all_namespaces, all, "{flags}");
        }
        assert_eq!(parts("-v watch pods -v").1.verbosity, 1);
    }

    /// Of several `-n`, the last counts, as with kubectl.
    // contract: T-07k
    #[test]
    fn namespaces_are_lists() {
        for (line, namespaces) in [
            ("get pods -n a,b", vec!["a", "b"]),
            ("get pods -n a -n b,c", vec!["b", "c"]),
            ("-n a get pods -n b", vec!["b"]),
            ("-n a,b get pods", vec!["a", "b"]),
        ] {
            assert_eq!(parts(line).1.scope.namespaces, namespaces, "{line}");
        }
        let scope =
            parts("watch pods --exclude-namespace a,b --exclude-namespace=c --namespace-selector !x").1.scope;
        assert_eq!(
            (scope.excluded.as_slice(), scope.namespace_selector.as_deref()),
            (&["a", "b", "c"].map(str::to_owned)[..], Some("!x"))
        );
    }

    // contract: T-07c
    #[test]
    fn no_tip_makes_a_flag_a_name() {
        for line in ["get pods --lable app=web", "watch pods -z", "nonsense"] {
            let error = parsed(line).expect_err(line).to_string();
            assert!(!error.contains("as a value") && !error.contains("-- "), "{error}");
        }
    }

    #[test]
    fn resources_are_separated_by_commas_or_spaces() {
        let (Command::Watch(args), global) = parts("watch pods,svc deploy -A -l !legacy") else {
            panic!("not watch")
        };
        assert_eq!(args.resources, ["pods", "svc", "deploy"]);
        assert_eq!(args.selectors.selector.as_deref(), Some("!legacy"));
        assert!(global.scope.all_namespaces);
    }

    #[test]
    fn reading_flags_are_parsed() {
        let reading = |flags: &str| {
            let (Command::Watch(args), _) = parts(&format!("watch {flags} pods")) else {
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
    fn contradicting_flags_are_rejected() {
        for line in [
            "watch",
            "watch pods --embedded --server http://x",
            "--embedded watch pods --server http://x",
            "watch pods --for soon",
            "--for 2s watch pods",
            "-n x",
            "demo --context x",
            "api-server --context x",
            "get pods -n a --exclude-namespace b",
            "-n a watch pods --namespace-selector b=c",
            "get pods -w --sort-by .a",
            "get pods -o custom",
            "get pods -o jsonpath={.a",
            "get pods -o custom-columns=NAME",
            "watch pods --encoding yaml",
            "watch pods --watch-list=no",
            "watch pods -A=no",
            "api-server --load 10",
            "api-server --token a --token-file b",
            "watch pods --token a --token-file b",
            "watch pods --embedded --token-file b",
            "get pods --insecure-skip-tls-verify --certificate-authority f",
            "serve",
            "serve pods --listen nowhere",
            "serve pods --serve-token a --serve-token-file b",
            "nonsense",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
