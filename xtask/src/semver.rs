//! Compares the public API of the published crates with an earlier one, by cargo-semver-checks.

use std::fs;
use std::path::Path;

use cargo_metadata::Package;
use cargo_metadata::semver::Version;

use crate::files::{self, run, write};
use crate::packages;

/// The revision whose API is compared while there is no release.
///
/// To accept a change of the API, commit the change, and in the next commit set this to the hash of the first.
const ACCEPTED: &str = "0bb067be37d25ec2704de26458004c1a66d7fe1b";

/// The folder of the crate on which the tool is tried, a repository of its own.
const FIXTURE: &str = "target/semver-fixture";

/// Returns what is missing to run the tool.
pub(crate) fn missing() -> Option<String> {
    (!files::has_cargo_command("semver-checks"))
        .then(|| "no cargo-semver-checks: cargo install --locked cargo-semver-checks".to_owned())
}

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

/// Compares those of the libraries that the revision has.
pub(crate) fn compare(revision: &str, libraries: &[Package], env: (&str, &str)) -> Result<(), String> {
    let mut command = check(&files::root(), revision);
    command.env(env.0, env.1);
    for package in libraries {
        let manifest = package.manifest_path.strip_prefix(files::root()).unwrap_or(&package.manifest_path);
        if files::output("git", &["ls-tree", "--name-only", revision, manifest.as_str()])?.trim().is_empty() {
            println!("{}: not in {revision}", package.name);
        } else {
            command.args(["--package", &package.name]);
        }
    }
    run(&mut command)
}

/// The command that compares the crates in a folder with a git revision.
fn check(folder: &Path, revision: &str) -> std::process::Command {
    let mut command = files::command("cargo");
    command.current_dir(folder);
    command.args(["semver-checks", "check-release", "--baseline-rev", revision]);
    command
}

/// Proves that the tool works with this compiler: it accepts an added function, and finds a removed one.
pub(crate) fn try_tool() -> Result<(), String> {
    let folder = files::empty_folder(FIXTURE)?;
    fs::create_dir_all(folder.join("src")).map_err(|error| format!("{FIXTURE}: {error}"))?;
    let git = |arguments: &[&str]| run(files::command("git").current_dir(&folder).args(arguments));
    let library = |functions: &str| write(&folder.join("src/lib.rs"), functions);
    let manifest = |version: &str| {
        let package = format!("[package]\nname = \"fixture\"\nversion = \"{version}\"\nedition = \"2024\"\n");
        write(&folder.join("Cargo.toml"), &format!("{package}publish = false\n\n[workspace]\n"))
    };

    manifest("0.1.0")?;
    write(&folder.join(".gitignore"), "target\n")?;
    library("pub fn kept() {}\npub fn removed() {}\n")?;
    git(&["init", "--quiet"])?;
    git(&["add", "."])?;
    let author = ["-c", "user.name=fixture", "-c", "user.email=fixture@example.org"];
    git(&[author.as_slice(), &["commit", "--quiet", "--no-gpg-sign", "--message", "fixture"]].concat())?;

    manifest("0.1.1")?;
    library("pub fn kept() {}\npub fn removed() {}\npub fn added() {}\n")?;
    run(&mut check(&folder, "HEAD"))?;

    library("pub fn kept() {}\n")?;
    let mut command = check(&folder, "HEAD");
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

    /// A removed function is found, an added one is accepted.
    #[test]
    #[ignore = "needs cargo-semver-checks, which is not always installed; the step of ci does the same"]
    fn a_deliberate_break_is_found() {
        try_tool().unwrap();
    }
}
