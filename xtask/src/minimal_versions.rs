//! Builds the published crates with the lowest versions that their manifests accept.

use std::fs;
use std::path::Path;

use crate::files::{self, run, write};
use crate::packages;

/// The folder of the copies, a workspace of its own.
const FOLDER: &str = "target/minimal-versions";

/// Texts of cargo's errors without a connection to the registry.
const UNREACHABLE: [&str; 4] =
    ["Could not resolve host", "Couldn't connect to server", "network failure", "failed to download"];

/// Checks the published crates with all features. `nightly` is a toolchain, which only selects the versions. Returns
/// what is missing if the registry, which has the old versions, cannot be reached.
///
/// Only direct dependencies have their lowest version: the lower bounds of others are not ours. Development
/// dependencies are left out, because users do not have them.
pub(crate) fn check(nightly: &str, env: (&str, &str)) -> Result<Option<String>, String> {
    let folder = files::empty_folder(FOLDER)?;
    let mut members = Vec::new();
    for package in packages::published()? {
        let from = package.manifest_path.parent().ok_or_else(|| format!("{}: no folder", package.name))?;
        let path = from.strip_prefix(files::root()).map_err(|error| format!("{from}: {error}"))?;
        copy(&from.as_std_path().join("src"), &folder.join(path).join("src"))?;
        let manifest = without_dev_targets(&files::read(&format!("{path}/Cargo.toml"))?);
        write(&folder.join(path).join("Cargo.toml"), &manifest)?;
        members.push(path.to_string());
    }
    write(&folder.join("Cargo.toml"), &with_members(&files::read("Cargo.toml")?, &members))?;

    let mut update = files::command("rustup");
    update.args(["run", nightly, "cargo", "update", "--quiet", "-Z", "direct-minimal-versions"]);
    let mut fetch = files::command("cargo");
    fetch.args(["fetch", "--quiet"]);
    for mut command in [update, fetch] {
        let output =
            command.current_dir(&folder).output().map_err(|error| format!("{command:?}: {error}"))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() && is_unreachable(&errors) {
            return Ok(Some("no connection to the registry, which has the old versions".into()));
        }
        if !output.status.success() {
            return Err(format!("{command:?}: {}", errors.trim()));
        }
    }
    let mut check = files::command("cargo");
    check.args(["check", "--quiet", "--workspace", "--all-features", "--target-dir"]);
    check.arg(files::root().join("target")).env(env.0, env.1);
    run(check.current_dir(&folder)).map(|()| None)
}

fn is_unreachable(errors: &str) -> bool {
    UNREACHABLE.iter().any(|text| errors.contains(text))
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    for path in files::below(from, |_| true)? {
        let target = to.join(path.strip_prefix(from).unwrap_or(&path));
        fs::create_dir_all(target.parent().unwrap_or(to))
            .and_then(|()| fs::copy(&path, &target))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Returns a manifest without its tables of development dependencies, and without examples, which need them.
fn without_dev_targets(manifest: &str) -> String {
    let mut is_dev = false;
    let lines = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            is_dev = line.contains("dev-dependencies") || *line == "[[example]]";
        }
        !is_dev
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns the manifest of the workspace with other members.
fn with_members(manifest: &str, members: &[String]) -> String {
    let lines = manifest.lines().filter(|line| !line.starts_with("default-members = "));
    let line = |line: &str| {
        if line.starts_with("members = ") { format!("members = {members:?}\n") } else { format!("{line}\n") }
    };
    lines.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn development_dependencies_and_examples_are_left_out() {
        let manifest = "[dependencies]\na = \"1\"\n\n[dev-dependencies]\nb = \"1\"\n\n\
                        [target.'cfg(loom)'.dev-dependencies]\nc = \"1\"\n\n\
                        [[example]]\nname = \"e\"\n\n[lints]\nworkspace = true\n";
        let expected = "[dependencies]\na = \"1\"\n\n[lints]\nworkspace = true\n";
        assert_eq!(without_dev_targets(manifest), expected);
    }

    #[test]
    fn unreachable_registry_differs_from_unsolvable_versions() {
        assert!(is_unreachable(
            "error: failed to download from `https://x`\n\nCaused by: Could not resolve host: x"
        ));
        assert!(!is_unreachable("error: failed to select a version for `a`"));
    }

    #[test]
    fn only_published_crates_are_members() {
        let manifest = "[workspace]\nmembers = [\"crates/*\", \"xtask\"]\ndefault-members = [\"crates/*\"]\n";
        assert_eq!(with_members(manifest, &["crates/a".into()]), "[workspace]\nmembers = [\"crates/a\"]\n");
    }
}
