//! The programs that the suite runs, built by `cargo xtask e2e`, which sets the variables with their paths.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::{Error, Mode};

/// The variable with the path of the control-plane program, which contains all components.
pub const CONTROL_PLANE: &str = "KINFORMER_CONTROL_PLANE";
/// The variable with the path of client-go's informers, `e2e/client-go`.
pub const CLIENT_GO: &str = "KINFORMER_CLIENT_GO";
/// The variable with the path of the programs of controller-runtime, `e2e/controller-runtime`.
pub const CONTROLLER_RUNTIME: &str = "KINFORMER_CONTROLLER_RUNTIME";
/// The variable with the path of the evaluation of alerts by Prometheus, `e2e/prometheus`.
pub const PROMETHEUS: &str = "KINFORMER_PROMETHEUS";
/// The variable with the path of `kinformer`.
pub const KINFORMER: &str = "KINFORMER_PROGRAM";
/// The variable with the path of the scheduler cache example, `crates/kinformer/examples/scheduler_cache`.
pub const SCHEDULER_CACHE: &str = "KINFORMER_SCHEDULER_CACHE";
/// The variable with the path of the scheduler example, `crates/controller/examples/scheduler`.
pub const SCHEDULER: &str = "KINFORMER_SCHEDULER";
/// The variable with the path of the sample controller, `crates/controller/examples/sample_controller.rs`.
pub const SAMPLE_CONTROLLER: &str = "KINFORMER_SAMPLE_CONTROLLER";
/// The variable with the path of the controller by hand, `crates/controller/examples/workqueue_controller.rs`.
pub const WORKQUEUE_CONTROLLER: &str = "KINFORMER_WORKQUEUE_CONTROLLER";
/// The variable with the path of the operator that reads from the cache, `crates/cache/examples/cache_operator.rs`.
pub const CACHE_OPERATOR: &str = "KINFORMER_CACHE_OPERATOR";
/// The variable with the path of the processes that elect a leader, `crates/leader-election/examples/leader_election.rs`.
pub const LEADER_ELECTION: &str = "KINFORMER_LEADER_ELECTION";
/// The variable with the path of the operator of web applications, `crates/controller/examples/web_app`.
pub const WEB_APP: &str = "KINFORMER_WEB_APP";
/// The variable with the path of the processes of a ring, `crates/controller/examples/shard.rs`.
pub const SHARD: &str = "KINFORMER_SHARD";

pub(crate) fn path(variable: &'static str) -> Result<PathBuf, Error> {
    std::env::var_os(variable).map(PathBuf::from).ok_or(Error::NotNamed { variable })
}

/// Returns the command `kinformer watch` with these arguments, in the mode of this run.
///
/// # Errors
/// The path is not set, or the mode is invalid.
pub fn kinformer_watch<'a>(
    kubeconfig: &Path,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<Command, Error> {
    let mut command = Command::new(path(KINFORMER)?);
    command.arg("watch").args(words).args(Mode::of_this_run()?.words());
    command.arg("--kubeconfig").arg(kubeconfig);
    Ok(command)
}

/// Returns the command for client-go's informers of these resources (`GROUP/VERSION/RESOURCE`).
///
/// # Errors
/// The path is not set.
pub fn client_go<'a>(
    kubeconfig: &Path,
    resources: impl IntoIterator<Item = &'a str>,
) -> Result<Command, Error> {
    let mut command = Command::new(path(CLIENT_GO)?);
    command.arg("-kubeconfig").arg(kubeconfig).args(resources);
    Ok(command)
}

/// Returns the command for the controller of controller-runtime, which reports when it has reconciled this many owners.
///
/// # Errors
/// The path is not set.
pub fn controller_runtime(kubeconfig: &Path, owners: usize) -> Result<Command, Error> {
    let mut command = Command::new(path(CONTROLLER_RUNTIME)?);
    command.args(["controller", "-kubeconfig"]).arg(kubeconfig).arg("-foos").arg(owners.to_string());
    Ok(command)
}

/// Returns the command for the operator of controller-runtime, which reconciles the config maps of a namespace.
///
/// # Errors
/// The path is not set.
pub fn controller_runtime_operator(kubeconfig: &Path, namespace: &str) -> Result<Command, Error> {
    let mut command = Command::new(path(CONTROLLER_RUNTIME)?);
    command.args(["operator", "-kubeconfig"]).arg(kubeconfig).args(["-namespace", namespace]);
    Ok(command)
}

/// Returns the command for the cache of controller-runtime, which answers each call of its input by a line of JSON.
///
/// # Errors
/// The path is not set.
pub fn controller_runtime_cache(kubeconfig: &Path) -> Result<Command, Error> {
    let mut command = Command::new(path(CONTROLLER_RUNTIME)?);
    command.args(["cache", "-kubeconfig"]).arg(kubeconfig);
    Ok(command)
}

/// Returns the command for the cache of controller-runtime whose reads are measured.
///
/// # Errors
/// The path is not set.
pub fn controller_runtime_reads(kubeconfig: &Path) -> Result<Command, Error> {
    let mut command = Command::new(path(CONTROLLER_RUNTIME)?);
    command.args(["reads", "-kubeconfig"]).arg(kubeconfig);
    Ok(command)
}

/// Returns the command for kubectl, in the version of the control plane.
///
/// # Errors
/// The path is not set.
pub fn kubectl<'a>(kubeconfig: &Path, words: impl IntoIterator<Item = &'a str>) -> Result<Command, Error> {
    let mut command = Command::new(path(CONTROL_PLANE)?);
    command.arg("kubectl").arg("--kubeconfig").arg(kubeconfig).args(words);
    Ok(command)
}

/// Returns the command for the evaluation of this rule file by Prometheus, on the pages of its input.
///
/// # Errors
/// The path is not set.
pub fn prometheus(rules: &Path) -> Result<Command, Error> {
    let mut command = Command::new(path(PROMETHEUS)?);
    command.arg(rules);
    Ok(command)
}

/// Returns the command for the scheduler cache example, which runs until this many pods are bound.
///
/// # Errors
/// The path is not set.
pub fn scheduler_cache(kubeconfig: &Path, until_bound: usize) -> Result<Command, Error> {
    let mut command = example(SCHEDULER_CACHE, kubeconfig)?;
    command.arg("--until-bound").arg(until_bound.to_string());
    Ok(command)
}

/// Returns the command for the scheduler example, which schedules as kube-scheduler until this many pods are bound.
///
/// # Errors
/// The path is not set.
pub fn scheduler(kubeconfig: &Path, until_bound: usize) -> Result<Command, Error> {
    let mut command = example(SCHEDULER, kubeconfig)?;
    command.args(["--scheduler-name", "default-scheduler"]);
    command.arg("--until-bound").arg(until_bound.to_string());
    Ok(command)
}

/// Returns the command for an example that has a kubeconfig as its argument.
///
/// # Errors
/// The path is not set.
pub fn example(variable: &'static str, kubeconfig: &Path) -> Result<Command, Error> {
    let mut command = Command::new(path(variable)?);
    command.arg(kubeconfig);
    Ok(command)
}

/// Returns the command for the operator of web applications, which serves HTTPS on this port of loopback with the certificate of a
/// folder.
///
/// # Errors
/// The path is not set.
pub fn web_app(kubeconfig: &Path, port: u16, certificate: &Path) -> Result<Command, Error> {
    let mut command = Command::new(path(WEB_APP)?);
    command.env("KUBECONFIG", kubeconfig).arg(format!("127.0.0.1:{port}")).arg(certificate);
    Ok(command)
}
