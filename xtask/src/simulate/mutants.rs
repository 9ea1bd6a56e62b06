//! The mutants: patches that break the library, each only in a process that runs its mutant. All of them are applied to
//! one copy of the last commit and built at once. The simulation must find each of them.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::runner::{Build, Runner};
use crate::files;

/// The folder of the patches, which apply in the order of their names. The first one is the switch.
const PATCHES: &str = "crates/simulation/mutants";

/// The number of the patch that is no mutant: the function that the others ask.
const SWITCH: u32 = 0;

/// The folder of the work tree, a copy of the last commit, and of the runner that is built from it.
const FOLDER: &str = "target/simulation-mutants";

/// Runs each mutant until a seed finds it.
///
/// # Errors
/// A mutant survives, a patch does not apply or compile, or a seed fails without its mutant.
pub(super) fn run(first: u64, seeds: u64, choice: Choice<'_>) -> Result<(), String> {
    let patches = Patch::all(&files::root().join(PATCHES))?;
    let chosen = chosen(&patches, choice)?;
    let original = runner(&patches)?;
    let mut bad = Vec::new();
    for Patch { number, name, seed, .. } in &chosen {
        let mutant = original.clone().with_mutant(*number);
        let known = seed.map(|seed| seed..seed.saturating_add(1));
        let ranges = known.into_iter().chain(std::iter::once(first..first.saturating_add(seeds)));
        match find(&mutant, &original, ranges) {
            Ok(Some(found)) => println!("{name}: found by {found}"),
            Ok(None) => {
                println!("{name}: SURVIVED {seeds} seeds");
                bad.push(name.as_str());
            }
            Err(problem) => {
                println!("{name}: {problem}");
                bad.push(name);
            }
        }
    }
    println!("{} of {} mutants found", chosen.len() - bad.len(), chosen.len());
    if bad.is_empty() { Ok(()) } else { Err(format!("not found: {}", bad.join(", "))) }
}

/// Returns the first seed of these ranges that finds a mutant, as text.
fn find(
    mutant: &Runner,
    original: &Runner,
    ranges: impl Iterator<Item = Range<u64>>,
) -> Result<Option<String>, String> {
    for range in ranges {
        let outcome = mutant.run(range.clone(), 1, |_| {});
        let (seeds, found) = match (outcome.failed.first(), outcome.problems.first()) {
            (Some(&seed), _) => (seed..seed.saturating_add(1), format!("seed {seed}")),
            // A mutant that aborts the process is found as well.
            (None, Some(problem)) => {
                (range.start..range.start.saturating_add(outcome.seeds), problem.clone())
            }
            (None, None) => continue,
        };
        let without = original.run(seeds, 1, |_| {});
        return match without.failed.is_empty() && without.problems.is_empty() {
            true => Ok(Some(found)),
            false => Err(format!("without the mutant as well: {found}")),
        };
    }
    Ok(None)
}

/// A patch of a mutant, or the switch.
#[derive(Clone)]
struct Patch {
    /// With which its name begins.
    number: u32,
    name: String,
    path: PathBuf,
    /// A seed that found the mutant once, from its line `Seed: `. It runs before the others.
    seed: Option<u64>,
}

impl Patch {
    /// Returns the patches of a folder, in the order of their names.
    ///
    /// # Errors
    /// A name does not begin with a number, or a patch does not read the switch for its number.
    fn all(folder: &Path) -> Result<Vec<Self>, String> {
        let mut paths = files::below(folder, |_| true)?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
        paths.sort();
        paths.into_iter().map(Self::of).collect()
    }

    fn of(path: PathBuf) -> Result<Self, String> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.split_once('-').and_then(|(number, _)| number.parse().ok());
        let number = number.ok_or_else(|| format!("{name}: the name of a mutant begins with its number"))?;
        let text = files::read(&path.to_string_lossy())?;
        if number != SWITCH && !text.contains(&format!("mutant({number})")) {
            return Err(format!("{name}: does not call mutant({number})"));
        }
        let seed = text.lines().find_map(|line| line.strip_prefix("Seed: "));
        let seed = seed.map(|seed| seed.parse().map_err(|error| format!("{name}: seed {seed:?}: {error}")));
        Ok(Self { number, name, path, seed: seed.transpose()? })
    }
}

/// The mutants of a run.
#[derive(Clone, Copy)]
pub(super) enum Choice<'a> {
    All,
    /// Those whose name contains this text.
    Named(&'a str),
    /// Each of the numbered parts has the mutants at this distance from each other.
    Part {
        number: usize,
        of: usize,
    },
}

/// Returns the chosen mutants.
fn chosen(patches: &[Patch], choice: Choice<'_>) -> Result<Vec<Patch>, String> {
    let mutants = patches.iter().filter(|patch| patch.number != SWITCH);
    let chosen: Vec<Patch> = match choice {
        Choice::All => mutants.cloned().collect(),
        Choice::Named(part) => mutants.filter(|patch| patch.name.contains(part)).cloned().collect(),
        Choice::Part { number, of } => mutants.skip(number % of.max(1)).step_by(of.max(1)).cloned().collect(),
    };
    if chosen.is_empty() { Err("no such mutant".into()) } else { Ok(chosen) }
}

/// Checks that all patches apply to the last commit.
///
/// # Errors
/// A patch does not apply.
pub(super) fn check() -> Result<(), String> {
    apply(&Patch::all(&files::root().join(PATCHES))?, &files::root().join(FOLDER).join("tree"))
}

/// Applies all patches to a copy of the last commit, and builds its runner.
fn runner(patches: &[Patch]) -> Result<Runner, String> {
    let folder = files::root().join(FOLDER);
    let tree = folder.join("tree");
    apply(patches, &tree)?;
    // A target folder of its own, because cargo takes the crates of both trees for the same.
    Runner::build(&tree, &folder.join("build"), Build::Checked)
}

/// Makes a copy of the last commit, with all patches.
fn apply(patches: &[Patch], tree: &Path) -> Result<(), String> {
    let commit = files::output("git", &["rev-parse", "HEAD"])?;
    files::work_tree(tree, commit.trim())?;
    for Patch { path, name, .. } in patches {
        let mut git = files::command("git");
        let applied = files::run(git.arg("-C").arg(tree).arg("apply").arg(path));
        applied.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_chosen_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text| files::write(&folder.path().join(name), text).unwrap();
        write("02-b.patch", "if mutant(2) {");
        write("01-a.patch", "if mutant(1) {");
        write("00-switch.patch", "fn mutant(number: u32)");
        write("a.txt", "");
        let patches = Patch::all(folder.path()).unwrap();
        let names = |choice| {
            let chosen = chosen(&patches, choice)?;
            Ok::<_, String>(chosen.into_iter().map(|patch| patch.name).collect::<Vec<_>>())
        };
        assert_eq!(patches.len(), 3);
        assert_eq!(names(Choice::All).unwrap(), ["01-a", "02-b"]);
        assert_eq!(names(Choice::Named("b")).unwrap(), ["02-b"]);
        assert!(names(Choice::Named("switch")).is_err());
        assert_eq!(names(Choice::Part { number: 0, of: 2 }).unwrap(), ["01-a"]);
        assert_eq!(names(Choice::Part { number: 3, of: 2 }).unwrap(), ["02-b"]);
        write("03-c.patch", "if mutant(1) {");
        assert!(Patch::all(folder.path()).err().unwrap().contains("does not call mutant(3)"));
        write("03-c.patch", "Seed: 7\nif mutant(3) {");
        assert_eq!(Patch::all(folder.path()).unwrap().pop().unwrap().seed, Some(7));
        write("03-c.patch", "Seed: x\nif mutant(3) {");
        assert!(Patch::all(folder.path()).err().unwrap().contains("03-c: seed \"x\""));
    }

    #[test]
    fn each_mutant_asks_for_its_number() {
        let patches = Patch::all(&files::root().join(PATCHES)).unwrap();
        assert_eq!(patches.first().map(|patch| patch.number), Some(SWITCH));
        assert!(patches.windows(2).all(|pair| pair[0].number < pair[1].number));
    }
}
