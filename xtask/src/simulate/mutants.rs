//! The mutants: patches that break the library. The simulation must find each of them.

use std::path::{Path, PathBuf};

use super::runner::Runner;
use crate::files;

/// The folder of the patches.
const PATCHES: &str = "crates/simulation/mutants";

/// The folder of the work tree, a copy of the last commit, and of what is built from it.
const FOLDER: &str = "target/simulation-mutants";

/// Runs each mutant until a seed finds it.
///
/// # Errors
/// A mutant survives, does not apply or does not compile, or a seed fails without it.
pub(crate) fn run(first: u64, seeds: u64, only: Option<&str>) -> Result<(), String> {
    let patches = patches(&files::root().join(PATCHES), only)?;
    let tree = WorkTree::of_last_commit()?;
    let original = tree.runner("original")?;
    let mut bad = Vec::new();
    for patch in &patches {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy();
        let result = tree.apply(patch).and_then(|()| find(&tree.runner("mutant")?, &original, first, seeds));
        match result {
            Ok(Some(found)) => println!("{name}: found by {found}"),
            Ok(None) => {
                println!("{name}: SURVIVED {seeds} seeds");
                bad.push(name);
            }
            Err(problem) => {
                println!("{name}: {problem}");
                bad.push(name);
            }
        }
    }
    println!("{} of {} mutants found", patches.len() - bad.len(), patches.len());
    if bad.is_empty() { Ok(()) } else { Err(format!("not found: {}", bad.join(", "))) }
}

/// Returns the first seed that finds a mutant, as text.
fn find(mutant: &Runner, original: &Runner, first: u64, seeds: u64) -> Result<Option<String>, String> {
    let outcome = mutant.run(first..first.saturating_add(seeds), 1, |_| {});
    let (seeds, found) = match (outcome.failed.first(), outcome.problems.first()) {
        (Some(&seed), _) => (seed..seed.saturating_add(1), format!("seed {seed}")),
        // A mutant that aborts the process is found as well.
        (None, Some(problem)) => (first..first.saturating_add(outcome.seeds), problem.clone()),
        (None, None) => return Ok(None),
    };
    let without = original.run(seeds, 1, |_| {});
    match without.failed.is_empty() && without.problems.is_empty() {
        true => Ok(Some(found)),
        false => Err(format!("without the mutant as well: {found}")),
    }
}

/// Returns the patches in a folder, in the order of their names.
fn patches(folder: &Path, only: Option<&str>) -> Result<Vec<PathBuf>, String> {
    let mut patches = files::below(folder, |_| true)?;
    patches.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    patches.retain(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        only.is_none_or(|part| name.contains(part))
    });
    patches.sort();
    if patches.is_empty() { Err(format!("{}: no such mutant", folder.display())) } else { Ok(patches) }
}

/// A work tree with a target folder of its own.
struct WorkTree {
    path: PathBuf,
    commit: String,
}

impl WorkTree {
    fn of_last_commit() -> Result<Self, String> {
        let commit = files::output("git", &["rev-parse", "HEAD"])?.trim().to_owned();
        let path = files::root().join(FOLDER).join("tree");
        if !path.join(".git").exists() {
            // Drops the record of a tree that was deleted together with the target folder.
            files::run(files::command("git").args(["worktree", "prune"]))?;
            let mut add = files::command("git");
            files::run(add.args(["worktree", "add", "--quiet", "--detach"]).arg(&path).arg(&commit))?;
        }
        let tree = Self { path, commit };
        tree.reset()?;
        Ok(tree)
    }

    fn git(&self, arguments: &[&str]) -> Result<(), String> {
        files::run(files::command("git").arg("-C").arg(&self.path).args(arguments))
    }

    fn reset(&self) -> Result<(), String> {
        self.git(&["reset", "--quiet", "--hard", &self.commit])?;
        self.git(&["clean", "--quiet", "-d", "--force"])
    }

    /// Applies one patch, and no earlier one.
    fn apply(&self, patch: &Path) -> Result<(), String> {
        self.reset()?;
        self.git(&["apply", &patch.display().to_string()])
    }

    /// Builds the runner, and copies it, because the next build replaces it.
    fn runner(&self, name: &str) -> Result<Runner, String> {
        let folder = files::root().join(FOLDER);
        Runner::build(&self.path, &folder.join("target"))?.copied(&folder.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_chosen_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.patch", "a.patch", "a.txt"] {
            files::write(&folder.path().join(name), "").unwrap();
        }
        let names = |only| {
            let patches = patches(folder.path(), only)?;
            Ok::<_, String>(
                patches.iter().map(|path| path.file_name().unwrap().to_owned()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(names(None).unwrap(), ["a.patch", "b.patch"]);
        assert_eq!(names(Some("b")).unwrap(), ["b.patch"]);
        assert!(names(Some("c")).is_err());
    }
}
