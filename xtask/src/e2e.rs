//! A real kube-apiserver and etcd, built here, and what runs against them.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

use crate::files;

/// Where the program with all the components comes from.
const SOURCE: &str = "e2e/control-plane";

/// The variable that tells the suite where the program is.
const PROGRAM: &str = "KINFORMER_CONTROL_PLANE";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Start a control plane and print its kubeconfig; Ctrl-C ends it.
    Up,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    match args.command {
        What::Up => {
            let program = control_plane()?;
            let mut command = Command::new("cargo");
            command.args(["run", "--quiet", "--package", "e2e", "--bin", "control-plane"]);
            command.env(PROGRAM, program).current_dir(files::root());
            finish(&mut command)
        }
    }
}

/// The program with all the components; built if there is none of these sources yet.
fn control_plane() -> Result<PathBuf, String> {
    let folder = files::root().join(SOURCE);
    let mut sources = DefaultHasher::new();
    for name in ["go.mod", "go.sum", "main.go"] {
        files::read(&format!("{SOURCE}/{name}"))?.hash(&mut sources);
    }
    let version = kubernetes_version(&files::read(&format!("{SOURCE}/go.mod"))?)?;
    let program = cache()?.join(format!("control-plane-{version}-{:016x}", sources.finish()));
    if program.exists() {
        return Ok(program);
    }
    println!("building etcd and Kubernetes {version}; this takes some minutes the first time ...");
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
    go.current_dir(folder);
    finish(&mut go).map_err(|problem| format!("{problem}; the control plane needs Go: https://go.dev/dl"))?;
    fs::rename(&unfinished, &program).map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(program)
}

fn finish(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}")) }
}

/// Outside the repository, so that a fresh clone finds it.
fn cache() -> Result<PathBuf, String> {
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .ok_or("neither XDG_CACHE_HOME nor HOME says where to keep the control plane")?;
    let folder = base.join("kinformer");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

fn kubernetes_version(go_mod: &str) -> Result<String, String> {
    let mut requirements = go_mod.lines().filter_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    let version = requirements.next().ok_or(format!("{SOURCE}/go.mod does not require k8s.io/kubernetes"))?;
    Ok(version.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_module() {
        let go_mod =
            "module m\n\nrequire (\n\tk8s.io/component-base v0.37.1\n\tk8s.io/kubernetes v1.37.1\n)\n";
        assert_eq!(kubernetes_version(go_mod).as_deref(), Ok("v1.37.1"));
        assert!(kubernetes_version("module m\n").is_err());
        let own = files::read(&format!("{SOURCE}/go.mod")).unwrap();
        assert!(kubernetes_version(&own).unwrap().starts_with("v1."));
    }
}
