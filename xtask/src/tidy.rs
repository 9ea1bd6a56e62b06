//! Checks the structure of the workspace: the map, the dependency trees, the manifests, import cycles, the house
//! rules, the words, the pages of examples, links, the table of names, pictures, the dashboard, and dependencies that
//! are pre-releases.

use cargo_metadata::semver::Version;
use cargo_metadata::{Metadata, MetadataCommand};

use crate::contract::fail;
use crate::files;
use crate::map::{Crate, MAP, Map};
use crate::{cycles, dashboard, examples, links, names, pictures, rules, trees, words};

/// The file with the lists of words, which is not checked for them.
const WORDS: &str = "xtask/src/words.rs";

/// Runs all checks on the repository.
pub(crate) fn run() -> Result<(), String> {
    fail(problems()?)?;
    println!("tidy: the structure is as {MAP} says");
    Ok(())
}

/// Returns all problems of the repository.
fn problems() -> Result<Vec<String>, String> {
    let manifest = files::root().join("Cargo.toml");
    let metadata =
        MetadataCommand::new().manifest_path(manifest).exec().map_err(|error| error.to_string())?;
    let files = files::rust()?;
    let mut problems = Map::parse(&files::read(MAP)?).problems(&Crate::of(&metadata));
    problems.extend(trees::problems()?);
    problems.extend(manifests(&metadata)?);
    problems.extend(pre_releases(
        metadata.packages.iter().map(|package| (package.name.as_str(), &package.version)),
    ));
    problems.extend(cycles::problems(&files));
    problems.extend(examples::page_problems()?);
    problems.extend(links::problems()?);
    problems.extend(names::problems()?);
    problems.extend(pictures::problems()?);
    problems.extend(dashboard::problems()?);
    problems.extend(files.iter().flat_map(rules::problems));
    let files = files.into_iter().chain(files::prose()?);
    problems.extend(files.filter(|file| file.path != WORDS).flat_map(|file| words::problems(&file)));
    Ok(problems)
}

/// Dependencies of tests that are below 0.1, and what needs them: `stateright`.
const EARLY: [&str; 1] = ["choice"];

/// Reports dependencies that are pre-releases: versions with a suffix, or below 0.1.
fn pre_releases<'a>(packages: impl Iterator<Item = (&'a str, &'a Version)>) -> Vec<String> {
    let packages = packages.filter(|(name, _)| !EARLY.contains(name));
    let is_member = |version: &Version| *version == Version::new(0, 0, 0);
    let is_early = |version: &Version| !version.pre.is_empty() || (version.major, version.minor) == (0, 0);
    let early = packages.filter(|(_, version)| is_early(version) && !is_member(version));
    early
        .map(|(name, version)| format!("Cargo.lock: {name} {version} is a pre-release; replace it"))
        .collect()
}

/// Checks that every crate uses the workspace's lints, and that these forbid unsafe code.
fn manifests(metadata: &Metadata) -> Result<Vec<String>, String> {
    let mut problems: Vec<String> = workspace(&files::read("Cargo.toml")?).into_iter().collect();
    for package in metadata.workspace_packages() {
        let path =
            package.manifest_path.strip_prefix(&metadata.workspace_root).unwrap_or(&package.manifest_path);
        problems.extend(manifest(path.as_str(), &files::read(path.as_str())?));
    }
    Ok(problems)
}

fn workspace(text: &str) -> Option<String> {
    (!has_setting(text, "[workspace.lints.rust]", "unsafe_code = \"forbid\""))
        .then(|| "Cargo.toml:1: [workspace.lints.rust] must have unsafe_code = \"forbid\"; add it".to_owned())
}

fn manifest(path: &str, text: &str) -> Option<String> {
    (!has_setting(text, "[lints]", "workspace = true"))
        .then(|| format!("{path}:1: it does not use the workspace's lints; add [lints] workspace = true"))
}

/// Whether a table of the manifest contains a line.
fn has_setting(text: &str, table: &str, setting: &str) -> bool {
    let lines = text.lines().map(str::trim).skip_while(|line| *line != table).skip(1);
    lines.take_while(|line| !line.starts_with('[')).any(|line| line == setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pre_releases_are_reported() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        let versions = [version("1.0.0-beta.4"), version("0.0.16"), version("0.1.0"), version("0.0.0")];
        let packages = ["beta", "early", "released", "xtask"].into_iter().zip(&versions);
        assert_eq!(
            pre_releases(packages),
            ["beta 1.0.0-beta.4", "early 0.0.16"]
                .map(|package| format!("Cargo.lock: {package} is a pre-release; replace it"))
        );
    }

    /// Reports a workspace that does not forbid unsafe code, and crates that do not use its lints.
    #[test]
    fn missing_lints_are_reported() {
        let forbids = "[workspace.lints.rust]\nmissing_docs = \"warn\"\nunsafe_code = \"forbid\"\n";
        assert_eq!(workspace(forbids), None);
        for text in [
            "",
            "# unsafe_code = \"forbid\"",
            &forbids.replace("forbid", "deny"),
            &forbids.replace("workspace", "x"),
        ] {
            assert!(workspace(text).is_some(), "{text}");
        }
        assert_eq!(manifest("crates/x/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n"), None);
        for text in
            ["[package]\n", "[lints]\n[dependencies]\nworkspace = true\n", "# [lints]\nworkspace = true"]
        {
            let problem = manifest("crates/x/Cargo.toml", text).unwrap();
            assert!(problem.starts_with("crates/x/Cargo.toml:1: "), "{problem}");
        }
    }
}
