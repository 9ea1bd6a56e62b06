//! Compares the public API of the published crates with an earlier one, by cargo-semver-checks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::Package;
use cargo_metadata::semver::Version;

use crate::files::{self, run, write};
use crate::packages;

/// The revision whose API is compared while there is no release.
///
/// To accept a change of the API, commit the change, and in the next commit set this to the hash of the first.
const ACCEPTED: &str = "e387c40fc1cd3e4df1055550baeecd32f82f94fc";

/// The folder of a work tree of the revision, the builds, and the documentation that is compared.
const FOLDER: &str = "target/semver";

/// How the tool makes the documentation that it compares.
const JSON: &str = "-Zunstable-options --output-format=json --document-private-items --document-hidden-items --cap-lints=allow";

/// The API to compare with, or the reason why there is none here.
#[derive(Debug, PartialEq)]
pub(crate) enum Baseline {
    /// A tag or a hash.
    Revision(String),
    Unknown(String),
}

/// Returns the tag of the last release before this commit, or [`ACCEPTED`] before the first release.
pub(crate) fn baseline() -> Result<Baseline, String> {
    if files::output("git", &["rev-parse", "--is-shallow-repository"])?.trim() == "true" {
        return Ok(Baseline::Unknown("a shallow clone lacks revisions: git fetch --unshallow --tags".into()));
    }
    let tags = files::output("git", &["tag", "--list", "v*", "--merged", "HEAD"])?;
    let here = files::output("git", &["tag", "--list", "v*", "--points-at", "HEAD"])?;
    match newest(&tags, &here) {
        Some(tag) => Ok(Baseline::Revision(tag)),
        None => accepted(ACCEPTED).map(Baseline::Revision),
    }
}

/// Returns the hash if it is an ancestor of this commit; after a rebase it may not be.
fn accepted(hash: &str) -> Result<String, String> {
    files::output("git", &["merge-base", "--is-ancestor", hash, "HEAD"])
        .map(|_| hash.to_owned())
        .map_err(|error| format!("xtask/src/semver.rs: ACCEPTED is no ancestor of this commit: {error}"))
}

/// Returns the tag with the highest version that is not on this commit.
fn newest(tags: &str, here: &str) -> Option<String> {
    let earlier = tags.lines().filter(|tag| here.lines().all(|other| other != *tag));
    let versions = earlier.filter_map(|tag| Some((Version::parse(tag.strip_prefix('v')?).ok()?, tag)));
    versions.max().map(|(_, tag)| tag.to_owned())
}

/// Returns the published libraries.
pub(crate) fn libraries() -> Result<Vec<Package>, String> {
    let is_library = |package: &Package| package.targets.iter().any(cargo_metadata::Target::is_lib);
    Ok(packages::published()?.into_iter().filter(is_library).collect())
}

/// Compares the public API of these libraries with that of a revision, if the revision has them.
///
/// The tool could document both sides itself, but would build the dependencies of each library on each side again.
///
/// # Errors
/// A library has a change that breaks users, or does not compile.
pub(crate) fn compare(revision: &str, libraries: &[Package], env: &[(&str, &str)]) -> Result<(), String> {
    let tree = files::root().join(FOLDER).join("tree");
    files::work_tree(&tree, revision)?;
    let earlier = packages::published_from(&tree)?;
    let (mut names, mut broken) = (Vec::new(), Vec::new());
    for package in libraries {
        match earlier.iter().find(|earlier| earlier.name == package.name) {
            Some(earlier) => {
                names.push(package.name.as_str());
                let removed = removed_features(earlier, package);
                broken.extend(removed.map(|feature| format!("{}: no feature {feature}", package.name)));
            }
            None => println!("{}: not in {revision}", package.name),
        }
    }

    let before = document(&tree, &names, "before", env)?;
    let now = document(&files::root(), &names, "now", env)?;
    for name in names {
        println!("{name}");
        broken.extend(run(&mut comparison(&before, &now, name)).err());
    }
    match broken.is_empty() {
        true => Ok(()),
        false => Err(format!("not compatible with {revision}, or not compared: {}", broken.join("; "))),
    }
}

/// The features that a package has lost, which its documentation does not show.
fn removed_features<'a>(before: &'a Package, now: &'a Package) -> impl Iterator<Item = &'a str> {
    let removed = before.features.keys().filter(|feature| !now.features.contains_key(*feature));
    removed.map(String::as_str)
}

/// Documents packages of a work tree. Returns the folder of this side with their documentation.
fn document(tree: &Path, packages: &[&str], side: &str, env: &[(&str, &str)]) -> Result<PathBuf, String> {
    let folder = files::empty_folder(&format!("{FOLDER}/{side}"))?;
    // Both sides share the dependencies.
    let build = files::root().join(FOLDER).join("build");
    let mut command = files::command("cargo");
    command.current_dir(tree).args(["doc", "--quiet", "--no-deps", "--all-features"]);
    packages.iter().for_each(|package| _ = command.args(["--package", package]));
    // The format is not stable. The tool sets this variable as well.
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTDOCFLAGS", JSON);
    run(command.env("CARGO_TARGET_DIR", &build).envs(env.iter().copied()))?;
    for package in packages {
        // Moved, so that this side is never taken for the other one.
        let documentation = build.join("doc").join(json(package));
        fs::rename(&documentation, folder.join(json(package)))
            .map_err(|error| format!("{}: {error}", documentation.display()))?;
    }
    Ok(folder)
}

/// The name of the file with the documentation of a package.
fn json(package: &str) -> String {
    format!("{}.json", package.replace('-', "_"))
}

/// The command that compares the documentation of a package.
fn comparison(before: &Path, now: &Path, package: &str) -> Command {
    let mut command = files::command("cargo");
    command.args(["semver-checks", "check-release", "--baseline-rustdoc"]).arg(before.join(json(package)));
    command.arg("--current-rustdoc").arg(now.join(json(package)));
    command
}

/// Proves that the tool works with this compiler: it accepts an added function, and finds a removed one.
pub(crate) fn try_tool() -> Result<(), String> {
    let fixture = files::empty_folder(&format!("{FOLDER}/fixture"))?;
    fs::create_dir_all(fixture.join("src")).map_err(|error| format!("{}: {error}", fixture.display()))?;
    let package = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
    write(&fixture.join("Cargo.toml"), package)?;
    let documented = |side: &str, functions: &str| {
        write(&fixture.join("src/lib.rs"), functions)?;
        document(&fixture, &["fixture"], side, &[])
    };
    let before = documented("fixture-before", "pub fn kept() {}\npub fn removed() {}\n")?;
    let added = documented("fixture-added", "pub fn kept() {}\npub fn removed() {}\npub fn added() {}\n")?;
    run(&mut comparison(&before, &added, "fixture"))?;

    let removed = documented("fixture-removed", "pub fn kept() {}\n")?;
    let mut command = comparison(&before, &removed, "fixture");
    let output = command.output().map_err(|error| format!("cargo semver-checks: {error}"))?;
    let shown = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() && shown.contains("function_missing") && shown.contains("fixture::removed") {
        Ok(())
    } else {
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("cargo-semver-checks does not find a removed function:\n{shown}\n{errors}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_earlier_release_is_compared() {
        let tags = "v0.1.0\nv0.10.0\nv0.9.3\nvnext\n";
        assert_eq!(newest(tags, "").as_deref(), Some("v0.10.0"));
        assert_eq!(newest(tags, "v0.10.0\n").as_deref(), Some("v0.9.3"));
        assert_eq!(newest("vnext\n", ""), None);
        assert_eq!(newest("v0.1.0\n", "v0.1.0\n"), None);
        assert_eq!(newest("v0.2.0-rc.1\nv0.1.0\nv0.2.0\n", "").as_deref(), Some("v0.2.0"));
    }

    /// A history without the accepted commit fails, and is not compared with nothing.
    #[test]
    fn the_accepted_commit_is_an_ancestor() {
        assert_eq!(accepted("HEAD").as_deref(), Ok("HEAD"));
        let unknown = "0123456789012345678901234567890123456789";
        assert!(
            accepted(unknown).is_err_and(|error| error.contains("ACCEPTED is no ancestor of this commit"))
        );
        assert!(ACCEPTED.len() == 40 && ACCEPTED.bytes().all(|byte| byte.is_ascii_hexdigit()), "{ACCEPTED}");
    }

    #[test]
    fn removed_features_are_found() {
        let packages = libraries().unwrap();
        let package = |name: &str| packages.iter().find(|package| package.name == name).unwrap();
        let removed = removed_features(package("kinformer-leader-election"), package("kinformer-core"));
        assert_eq!(removed.collect::<Vec<_>>(), ["latest"]);
        assert_eq!(removed_features(package("kinformer"), package("kinformer")).count(), 0);
    }

    /// A removed function is found, an added one is accepted.
    #[test]
    #[ignore = "needs cargo-semver-checks, which is not always installed; the step of ci does the same"]
    fn a_deliberate_break_is_found() {
        try_tool().unwrap();
    }
}
