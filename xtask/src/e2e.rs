//! A real kube-apiserver and etcd, built on this machine, and the suite that runs against them.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use cargo_metadata::Message;
use clap::ValueEnum;
use tempfile::TempDir;

use crate::files;

/// A Go program that is built if it is missing, and the variable that passes its path to the suite.
pub(crate) struct Program {
    name: &'static str,
    /// The folder of the Go module, and that of the program in it.
    folder: &'static str,
    package: &'static str,
    pub(crate) variable: &'static str,
    /// The module whose version is the version of the program.
    module: &'static str,
}

/// All components of the control plane, and kubectl.
pub(crate) const CONTROL_PLANE: Program = Program {
    name: "control-plane",
    folder: "e2e/control-plane",
    package: ".",
    variable: "KINFORMER_CONTROL_PLANE",
    module: "k8s.io/kubernetes",
};

/// Prints the types of kube-apiserver, and cases of server-side apply.
pub(crate) const SCHEMAS: Program = Program {
    name: "schemas",
    folder: "e2e/control-plane",
    package: "./schemas",
    variable: "KINFORMER_SCHEMAS",
    module: "k8s.io/kubernetes",
};

/// client-go's informers, which print their events.
pub(crate) const CLIENT_GO: Program = Program {
    name: "client-go",
    folder: "e2e/client-go",
    package: ".",
    variable: "KINFORMER_CLIENT_GO",
    module: "k8s.io/client-go",
};

/// A controller and a cache of controller-runtime, for the comparisons.
pub(crate) const CONTROLLER_RUNTIME: Program = Program {
    name: "controller-runtime",
    folder: "e2e/controller-runtime",
    package: ".",
    variable: "KINFORMER_CONTROLLER_RUNTIME",
    module: "sigs.k8s.io/controller-runtime",
};

/// Evaluates alerts on pages of metrics, with the packages of Prometheus: promtool takes several times as long to build.
const PROMETHEUS: Program = Program {
    name: "prometheus",
    folder: "e2e/prometheus",
    package: ".",
    variable: "KINFORMER_PROMETHEUS",
    module: "github.com/prometheus/prometheus",
};

/// The variable that passes the path of `kinformer` to the suite, and the target.
const KINFORMER: (&str, &str) = ("KINFORMER_PROGRAM", "kinformer");
/// The variables that pass the paths of examples to the suite, and the examples.
const EXAMPLES: [(&str, &str); 8] = [
    ("KINFORMER_SCHEDULER_CACHE", "scheduler_cache"),
    ("KINFORMER_SCHEDULER", "scheduler"),
    ("KINFORMER_SAMPLE_CONTROLLER", "sample_controller"),
    ("KINFORMER_WORKQUEUE_CONTROLLER", "workqueue_controller"),
    ("KINFORMER_CACHE_OPERATOR", "cache_operator"),
    ("KINFORMER_LEADER_ELECTION", "leader_election"),
    ("KINFORMER_WEB_APP", "web_app"),
    ("KINFORMER_SHARD", "shard"),
];
/// The target of the suite.
const SUITE: &str = "suite";

/// How many tests run at the same time. Most of them wait most of the time, but each has a control plane.
const THREADS: &str = "--test-threads=4";
/// How long the components of the last tests may run after them.
const END: Duration = Duration::from_secs(10);

/// Prefixes of the tests that depend on the mode: those with kinformer's informers.
const OF_MODES: [&str; 7] = [
    "access::",
    "cluster::deployment_",
    "connections::",
    "differential::",
    "failures::",
    "kinds::",
    "main_job::",
];
/// The default number of random workloads. Every fourth one has no failures.
const SEEDS: u64 = 5;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<What>,
    #[command(flatten)]
    suite: Suite,
}

#[derive(clap::Args)]
pub(crate) struct Suite {
    /// Only tests whose names contain one of these
    filters: Vec<String>,
    /// Number of random workloads in the differential test
    #[arg(long, value_name = "N", default_value_t = SEEDS)]
    seeds: u64,
    /// First seed of the workloads, to reproduce one
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first_seed: u64,
    #[command(flatten)]
    mode: Mode,
    /// Run in all eight modes; after the first one, unless tests are named, only the tests that depend on the mode
    #[arg(long, conflicts_with_all = ["objects", "encoding", "lists"])]
    every_mode: bool,
}

/// How kinformer's informers read the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
struct Mode {
    /// When objects are decoded
    #[arg(long, value_enum, default_value_t)]
    objects: Objects,
    /// Encoding to request, for kinds that support it
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,
    /// How to request the initial objects
    #[arg(long, value_enum, default_value_t)]
    lists: Lists,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Objects {
    #[default]
    Packed,
    Eager,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Encoding {
    #[default]
    Protobuf,
    Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Lists {
    #[default]
    WatchList,
    List,
}

impl Mode {
    /// Returns all modes, the default first.
    fn every() -> impl Iterator<Item = Self> {
        Objects::value_variants().iter().flat_map(|objects| {
            Encoding::value_variants().iter().flat_map(|encoding| {
                Lists::value_variants().iter().map(|lists| Self {
                    objects: *objects,
                    encoding: *encoding,
                    lists: *lists,
                })
            })
        })
    }

    /// Returns the variables that pass the mode to the suite, with their values.
    fn variables(self) -> [(&'static str, String); 3] {
        [
            ("KINFORMER_OBJECTS", name(self.objects)),
            ("KINFORMER_ENCODING", name(self.encoding)),
            ("KINFORMER_LISTS", name(self.lists)),
        ]
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { objects, encoding, lists } = *self;
        write!(f, "--objects {} --encoding {} --lists {}", name(objects), name(encoding), name(lists))
    }
}

/// The command-line name of a value.
fn name(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[derive(clap::Subcommand)]
enum What {
    /// Start a control plane and print its kubeconfig; stop with Ctrl-C
    Up {
        /// Also start kube-controller-manager and kube-scheduler
        #[arg(long)]
        controllers: bool,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    if let Some(What::Up { controllers }) = args.command {
        let mut command = files::command("cargo");
        command.env(CONTROL_PLANE.variable, CONTROL_PLANE.built()?);
        command.args(["run", "--quiet", "--package", "e2e", "--bin", "control-plane", "--"]);
        command.args(controllers.then_some("--controllers"));
        return finish(&mut command);
    }
    let Suite { filters, seeds, first_seed, mode, every_mode } = &args.suite;
    let programs = Programs::built()?;
    let seeds = format!("{first_seed}+{seeds}");
    if !every_mode {
        return programs.test(&seeds, *mode, filters);
    }
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    let others = if filters.is_empty() { &OF_MODES[..] } else { &filters };
    let modes = Mode::every().enumerate();
    programs
        .test_modes(&seeds, modes.map(|(number, mode)| (mode, if number == 0 { &filters } else { others })))
}

/// Runs the suite in the default mode.
pub(crate) fn one_mode() -> Result<(), String> {
    Programs::built()?.test(&format!("1+{SEEDS}"), Mode::default(), &[] as &[&str])
}

/// Runs the tests that depend on the mode in all other modes, or in one of them, which the number chooses.
pub(crate) fn other_modes(number: Option<usize>) -> Result<(), String> {
    let others: Vec<Mode> = Mode::every().skip(1).collect();
    let chosen = number.and_then(|number| others.get(number % others.len()).copied());
    let modes = chosen.map_or(others, |mode| vec![mode]);
    Programs::built()?.test_modes("1+1", modes.into_iter().map(|mode| (mode, &OF_MODES[..])))
}

/// The suite, and the variables with the paths of all programs that it needs.
struct Programs {
    suite: PathBuf,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Programs {
    fn built() -> Result<Self, String> {
        let mut variables = Vec::new();
        for program in [&CONTROL_PLANE, &CLIENT_GO, &CONTROLLER_RUNTIME, &PROMETHEUS] {
            variables.push((program.variable, program.built()?));
        }
        let mut targets = vec!["--features", "e2e/suite", "--test", SUITE, "--bin", KINFORMER.1];
        targets.extend(EXAMPLES.iter().flat_map(|(_, example)| ["--example", example]));
        let mut built = build(&targets)?;
        let mut path = |target: &str| built.remove(target).ok_or(format!("cargo has not built {target}"));
        for (variable, target) in [KINFORMER].into_iter().chain(EXAMPLES) {
            variables.push((variable, path(target)?));
        }
        Ok(Self { suite: path(SUITE)?, variables })
    }

    /// Runs the tests whose names contain one of these, or all tests, in one mode.
    fn test(&self, seeds: &str, mode: Mode, filters: &[impl AsRef<OsStr>]) -> Result<(), String> {
        let folder = tempfile::Builder::new().prefix("kinformer-e2e-").tempdir();
        let folder = folder.map_err(|error| format!("a temporary folder: {error}"))?;
        let mut command = files::command(&self.suite);
        command.envs(self.variables.iter().cloned()).env("KINFORMER_SEEDS", seeds).envs(mode.variables());
        command.env("TMPDIR", folder.path()).args([THREADS, "--nocapture"]).args(filters);
        let tested = finish(&mut command);
        remove(folder);
        tested
    }

    /// Runs the tests of each mode whose names contain one of these, and reports the modes in which some failed.
    fn test_modes<'a>(
        &self,
        seeds: &str,
        modes: impl Iterator<Item = (Mode, &'a [&'a str])>,
    ) -> Result<(), String> {
        let mut failed = Vec::new();
        for (mode, filters) in modes {
            println!("{mode}");
            failed.extend(self.test(seeds, mode, filters).err().map(|problem| format!("{mode}: {problem}")));
        }
        if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
    }
}

/// Removes the files of a run. Components that end with the suite may still write some.
fn remove(folder: TempDir) {
    let folder = folder.keep();
    let mut left = END;
    let pause = Duration::from_millis(100);
    while fs::remove_dir_all(&folder).is_err() && !left.is_zero() {
        #[expect(
            clippy::disallowed_methods,
            reason = "nothing notifies of the end of another process' children"
        )]
        std::thread::sleep(pause);
        left = left.saturating_sub(pause);
    }
}

/// Returns the missing requirement of this machine, if there is one.
pub(crate) fn missing() -> Option<String> {
    let go = Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if go.is_ok_and(|status| status.success()) {
        None
    } else {
        Some("go is not installed: https://go.dev/dl".into())
    }
}

/// Builds targets of the workspace together, with the features of its tests, and returns the paths of the programs by
/// target.
pub(crate) fn build(targets: &[&str]) -> Result<HashMap<String, PathBuf>, String> {
    let mut command = files::command("cargo");
    command.args(["build", "--workspace", "--message-format=json-render-diagnostics"]).args(targets);
    let problem = |error: std::io::Error| format!("cargo build: {error}");
    let mut cargo = command.stdout(Stdio::piped()).spawn().map_err(problem)?;
    let mut built = HashMap::new();
    for message in
        cargo.stdout.take().into_iter().flat_map(|output| Message::parse_stream(BufReader::new(output)))
    {
        if let Message::CompilerArtifact(artifact) = message.map_err(problem)?
            && let Some(path) = artifact.executable
        {
            built.insert(artifact.target.name, path.into());
        }
    }
    let status = cargo.wait().map_err(problem)?;
    if status.success() { Ok(built) } else { Err(format!("cargo build: {status}")) }
}

impl Program {
    /// Returns the path of the program, and builds it unless these sources have been built.
    pub(crate) fn built(&self) -> Result<PathBuf, String> {
        let mut sources = DefaultHasher::new();
        for name in self.sources()? {
            files::read(&format!("{}/{name}", self.folder))?.hash(&mut sources);
        }
        let version = self.version(&files::read(&format!("{}/go.mod", self.folder))?)?;
        let program = cache()?.join(format!("{}-{version}-{:016x}", self.name, sources.finish()));
        if program.exists() {
            return Ok(program);
        }
        if let Some(missing) = missing() {
            return Err(missing);
        }
        println!("building {} {version}; this takes some minutes the first time ...", self.name);
        let mut numbers = version.trim_start_matches('v').split('.');
        let set = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
        let flags = [
            "-s -w".to_owned(),
            set("gitVersion", &version),
            set("gitMajor", numbers.next().unwrap_or_default()),
            set("gitMinor", numbers.next().unwrap_or_default()),
        ];
        // Built under a temporary name, so that the final path is always complete.
        let unfinished = program.with_extension("unfinished");
        let mut go = Command::new("go");
        go.args(["build", "-trimpath", "-ldflags", &flags.join(" "), "-o"])
            .arg(&unfinished)
            .arg(self.package);
        go.current_dir(files::root().join(self.folder));
        finish(&mut go)?;
        fs::rename(&unfinished, &program).map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(program)
    }

    /// Returns the names of the files from which the program is built.
    fn sources(&self) -> Result<Vec<String>, String> {
        let problem = |error: std::io::Error| format!("{}: {error}", self.folder);
        let mut names = Vec::new();
        let module = files::root().join(self.folder);
        for entry in fs::read_dir(module.join(self.package)).map_err(problem)? {
            let name = entry.map_err(problem)?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".go") {
                let package = self.package.trim_start_matches("./").trim_start_matches('.');
                names.push(if package.is_empty() { name } else { format!("{package}/{name}") });
            }
        }
        let of_module = ["go.mod", "go.sum"].into_iter().filter(|name| module.join(name).exists());
        names.extend(of_module.map(str::to_owned));
        names.sort_by_key(|name| (name.ends_with(".go"), name.clone()));
        Ok(names)
    }

    /// Returns the required version of the module in go.mod.
    fn version(&self, go_mod: &str) -> Result<String, String> {
        let mut lines = go_mod.lines().map(str::trim);
        let version = lines.find_map(|line| line.strip_prefix(self.module)?.strip_prefix(' '));
        let version = version.ok_or(format!("{}/go.mod does not require {}", self.folder, self.module))?;
        Ok(version.trim().to_owned())
    }
}

pub(crate) fn finish(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}")) }
}

/// The cache folder outside the repository, so that other clones share it.
pub(crate) fn cache() -> Result<PathBuf, String> {
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .ok_or("neither XDG_CACHE_HOME nor HOME is set; the build needs a cache folder")?;
    let folder = base.join("kinformer");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_modes_start_with_the_default() {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            args: Args,
        }
        let parse = |words: &str| {
            let parsed =
                <Cli as clap::Parser>::try_parse_from(std::iter::once("e2e").chain(words.split(' ')));
            parsed.map(|cli| cli.args.suite)
        };
        let modes: Vec<Mode> = Mode::every().collect();
        assert_eq!(modes.len(), 8);
        assert_eq!(modes[0], parse("kinds").unwrap().mode);
        // Each mode is parsed from its own text.
        for mode in &modes {
            assert_eq!(parse(&mode.to_string()).unwrap().mode, *mode);
            assert_eq!(modes.iter().filter(|other| *other == mode).count(), 1);
        }
        let values: Vec<String> = modes[7].variables().into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["eager", "json", "list"]);
        assert!(parse("--every-mode --objects eager").is_err());
    }

    #[test]
    fn a_program_has_several_source_files() {
        assert_eq!(CONTROL_PLANE.sources().unwrap(), ["go.mod", "go.sum", "main.go"]);
        let of_package = SCHEMAS.sources().unwrap();
        assert_eq!(of_package[..2], ["go.mod", "go.sum"]);
        assert!(of_package.contains(&"schemas/main.go".to_owned()), "{of_package:?}");
        let all = CONTROLLER_RUNTIME.sources().unwrap();
        assert!(all.contains(&"calls.go".to_owned()) && all.contains(&"main.go".to_owned()), "{all:?}");
    }

    #[test]
    fn program_version_is_that_of_its_module() {
        let go_mod =
            "module m\n\nrequire (\n\tk8s.io/kubernetes-tools v0.1.0\n\tk8s.io/kubernetes v1.37.1\n)\n";
        assert_eq!(CONTROL_PLANE.version(go_mod).as_deref(), Ok("v1.37.1"));
        assert!(CONTROL_PLANE.version("module m\n").is_err());
        for (program, minor) in [(CONTROL_PLANE, ".37."), (CLIENT_GO, ".37."), (CONTROLLER_RUNTIME, ".25.")] {
            let own = files::read(&format!("{}/go.mod", program.folder)).unwrap();
            assert!(program.version(&own).unwrap().contains(minor));
        }
    }
}
