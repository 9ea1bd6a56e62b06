//! Builds the published crates with the lowest versions that their manifests accept, by cargo-minimal-versions.

use crate::files;

/// The folder of a copy of the work tree. The tool edits manifests, and restores them only if it is not killed.
const FOLDER: &str = "target/minimal-versions";

/// Only direct dependencies have their lowest version: the lower bounds of others are not ours. The tool leaves out
/// development dependencies and private crates, because users do not have them.
const CHECK: [&str; 9] = [
    "minimal-versions",
    "check",
    "--direct",
    "--ignore-private",
    "--workspace",
    "--workspace-behavior=cargo",
    "--all-features",
    "--quiet",
    "--target-dir",
];

/// Texts of cargo's errors without a connection to the registry.
const UNREACHABLE: [&str; 4] =
    ["Could not resolve host", "connect to server", "network failure", "failed to download"];

/// Checks the published crates with all features. Returns what is missing: a tool, or a connection to the registry.
pub(crate) fn check(env: (&str, &str)) -> Result<Option<String>, String> {
    let missing = files::missing_cargo_command(&["minimal-versions", "hack"]);
    if missing.is_some() {
        return Ok(missing);
    }
    let folder = files::root().join(FOLDER);
    files::work_tree(&folder, &commit()?)?;
    let mut command = files::command("cargo");
    command.args(CHECK).arg(files::root().join("target")).env(env.0, env.1).current_dir(folder);
    let output = command.output().map_err(|error| format!("cargo minimal-versions: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(None),
        false if is_unreachable(&errors) => {
            Ok(Some("no connection to the registry, which has the old versions".into()))
        }
        false => Err(format!("cargo {}: {}\n{errors}", CHECK.join(" "), output.status)),
    }
}

/// Returns a commit of the work tree with its changes, or the last commit if there are none.
fn commit() -> Result<String, String> {
    let changes = files::output("git", &["stash", "create"])?;
    let commit = if changes.is_empty() { files::output("git", &["rev-parse", "HEAD"])? } else { changes };
    Ok(commit.trim().to_owned())
}

fn is_unreachable(errors: &str) -> bool {
    UNREACHABLE.iter().any(|text| errors.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_registry_differs_from_unsolvable_versions() {
        assert!(is_unreachable(
            "error: failed to download from `https://x`\n\nCaused by: Could not resolve host: x"
        ));
        assert!(!is_unreachable("error: failed to select a version for `a`"));
    }
}
