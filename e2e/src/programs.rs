//! The programs that the suite runs, built and named by `cargo xtask e2e`.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::{Error, Mode};

/// The variable that names the program with all the components.
pub const CONTROL_PLANE: &str = "KINFORMER_CONTROL_PLANE";
/// The variable that names client-go's informers, `e2e/client-go`.
pub const CLIENT_GO: &str = "KINFORMER_CLIENT_GO";
/// The variable that names our own program.
pub const KINFORMER: &str = "KINFORMER_PROGRAM";
/// The variable that names the example of a scheduler's cache, `crates/kinformer/examples/scheduler_cache`.
pub const SCHEDULER_CACHE: &str = "KINFORMER_SCHEDULER_CACHE";

pub(crate) fn path(variable: &'static str) -> Result<PathBuf, Error> {
    std::env::var_os(variable).map(PathBuf::from).ok_or(Error::NotNamed { variable })
}

/// `kinformer watch` with the words that follow, on a cluster, which it reads as the mode of this run says.
///
/// # Errors
/// The program is not named, or the mode is none.
pub fn kinformer_watch<'a>(
    kubeconfig: &Path,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<Command, Error> {
    let mut command = Command::new(path(KINFORMER)?);
    command.arg("watch").args(words).args(Mode::of_this_run()?.words());
    command.arg("--kubeconfig").arg(kubeconfig);
    Ok(command)
}

/// client-go's informers of these resources (`GROUP/VERSION/RESOURCE`), on a cluster.
///
/// # Errors
/// The program is not named.
pub fn client_go<'a>(
    kubeconfig: &Path,
    resources: impl IntoIterator<Item = &'a str>,
) -> Result<Command, Error> {
    let mut command = Command::new(path(CLIENT_GO)?);
    command.arg("-kubeconfig").arg(kubeconfig).args(resources);
    Ok(command)
}

/// kubectl of the control plane's version, on a cluster.
///
/// # Errors
/// The program is not named.
pub fn kubectl<'a>(kubeconfig: &Path, words: impl IntoIterator<Item = &'a str>) -> Result<Command, Error> {
    let mut command = Command::new(path(CONTROL_PLANE)?);
    command.arg("kubectl").arg("--kubeconfig").arg(kubeconfig).args(words);
    Ok(command)
}

/// The example of a scheduler's cache, on a cluster until so many pods are bound.
///
/// # Errors
/// The program is not named.
pub fn scheduler_cache(kubeconfig: &Path, until_bound: usize) -> Result<Command, Error> {
    let mut command = Command::new(path(SCHEDULER_CACHE)?);
    command.arg(kubeconfig).arg("--until-bound").arg(until_bound.to_string());
    Ok(command)
}
