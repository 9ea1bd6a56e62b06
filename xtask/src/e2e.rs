//! A real kube-apiserver and etcd, built here, and the suite that runs against them.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::files;

/// A program in Go that is built where it is missing, and the variable that tells the suite where it is.
pub(crate) struct Program {
    name: &'static str,
    folder: &'static str,
    pub(crate) variable: &'static str,
    /// The module whose version is its own.
    module: &'static str,
}

/// All components of the control plane, and kubectl.
pub(crate) const CONTROL_PLANE: Program = Program {
    name: "control-plane",
    folder: "e2e/control-plane",
    variable: "KINFORMER_CONTROL_PLANE",
    module: "k8s.io/kubernetes",
};

/// client-go's informers, printing what they tell.
pub(crate) const CLIENT_GO: Program = Program {
    name: "client-go",
    folder: "e2e/client-go",
    variable: "KINFORMER_CLIENT_GO",
    module: "k8s.io/client-go",
};

/// The variable that tells the suite where our own program is.
const KINFORMER: &str = "KINFORMER_PROGRAM";
/// The variable that tells it where the example of a scheduler's cache is.
const SCHEDULER_CACHE: &str = "KINFORMER_SCHEDULER_CACHE";

/// How many random workloads are compared unless it is said: every fourth has no failures.
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
    /// Only tests whose names contain one of these.
    filters: Vec<String>,
    /// How many random workloads the differential test compares.
    #[arg(long, value_name = "N", default_value_t = SEEDS)]
    seeds: u64,
    /// The first of them, to see one again.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first_seed: u64,
}

#[derive(clap::Subcommand)]
enum What {
    /// Start a control plane and print its kubeconfig; Ctrl-C ends it.
    Up {
        /// With kube-controller-manager and kube-scheduler.
        #[arg(long)]
        controllers: bool,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let mut command = files::command("cargo");
    command.env(CONTROL_PLANE.variable, CONTROL_PLANE.built()?);
    if let Some(What::Up { controllers }) = args.command {
        command.args(["run", "--quiet", "--package", "e2e", "--bin", "control-plane", "--"]);
        command.args(controllers.then_some("--controllers"));
        return finish(&mut command);
    }
    command.env(CLIENT_GO.variable, CLIENT_GO.built()?).env(KINFORMER, kinformer()?);
    command.env(SCHEDULER_CACHE, scheduler_cache()?);
    command.env("KINFORMER_SEEDS", format!("{}+{}", args.suite.first_seed, args.suite.seeds));
    command.args(["test", "--package", "e2e", "--features", "suite", "--test", "suite", "--"]);
    // One at a time, since each has a control plane of its own, and seen while it runs.
    command.args(["--test-threads=1", "--nocapture"]).args(&args.suite.filters);
    finish(&mut command)
}

/// The suite as it runs before a change lands.
pub(crate) fn suite() -> Result<(), String> {
    run(&Args { command: None, suite: Suite { filters: Vec::new(), seeds: SEEDS, first_seed: 1 } })
}

/// What is missing here to run any of it.
pub(crate) fn missing() -> Option<String> {
    let go = Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if go.is_ok_and(|status| status.success()) {
        None
    } else {
        Some("go is not here: https://go.dev/dl".into())
    }
}

/// Our own program.
fn kinformer() -> Result<PathBuf, String> {
    built_here(&["--package", "kinformer-cli"], "debug/kinformer")
}

fn scheduler_cache() -> Result<PathBuf, String> {
    built_here(&["--package", "kinformer", "--example", "scheduler_cache"], "debug/examples/scheduler_cache")
}

/// What cargo builds of these, which is then in this place.
fn built_here(what: &[&str], place: &str) -> Result<PathBuf, String> {
    let mut command = files::command("cargo");
    command.arg("build").args(what);
    finish(&mut command)?;
    let mut metadata = cargo_metadata::MetadataCommand::new();
    metadata.manifest_path(files::root().join("Cargo.toml")).no_deps();
    let metadata = metadata.exec().map_err(|error| error.to_string())?;
    Ok(metadata.target_directory.join(place).into())
}

impl Program {
    /// Where it is; built if there is none of these sources yet.
    pub(crate) fn built(&self) -> Result<PathBuf, String> {
        let mut sources = DefaultHasher::new();
        for name in ["go.mod", "go.sum", "main.go"] {
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
        // Beside its place first, so that what is in place is always whole.
        let unfinished = program.with_extension("unfinished");
        let mut go = Command::new("go");
        go.args(["build", "-trimpath", "-ldflags", &flags.join(" "), "-o"]).arg(&unfinished).arg(".");
        go.current_dir(files::root().join(self.folder));
        finish(&mut go)?;
        fs::rename(&unfinished, &program).map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(program)
    }

    /// What its module requires of the one that gives it its version.
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

/// Outside the repository, so that a fresh clone finds it.
fn cache() -> Result<PathBuf, String> {
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .ok_or("neither XDG_CACHE_HOME nor HOME says where to keep what is built")?;
    let folder = base.join("kinformer");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_module() {
        let go_mod =
            "module m\n\nrequire (\n\tk8s.io/kubernetes-tools v0.1.0\n\tk8s.io/kubernetes v1.37.1\n)\n";
        assert_eq!(CONTROL_PLANE.version(go_mod).as_deref(), Ok("v1.37.1"));
        assert!(CONTROL_PLANE.version("module m\n").is_err());
        for program in [CONTROL_PLANE, CLIENT_GO] {
            let own = files::read(&format!("{}/go.mod", program.folder)).unwrap();
            assert!(program.version(&own).unwrap().contains("37"));
        }
    }
}
