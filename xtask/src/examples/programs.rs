//! The example programs: which there are, and their runs.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cargo_metadata::{MetadataCommand, Package};
use parking_lot::Mutex;

use crate::{e2e, files, packages};

/// The time in which a program has to end. It is longer than the limits within the programs, whose errors say more.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The time in which killed programs have to end.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Variables that change what a program does or prints.
const VARIABLES: [&str; 2] = ["KUBECONFIG", "RUST_LOG"];

/// A program that ends by itself.
pub(super) struct Example {
    pub(super) name: String,
    pub(super) package: String,
    /// The paths of its files; the first has `main`.
    pub(super) files: Vec<String>,
}

/// Returns the examples of published crates that end by themselves, by name.
pub(super) fn find() -> Result<Vec<Example>, String> {
    let mut examples = Vec::new();
    for package in packages::published()? {
        for (name, path) in targets(&package) {
            let text = files::read(&files::from_root(&path))?;
            if ends(&text) {
                let files = sources(&path, &text)?;
                examples.push(Example { name, package: package.name.to_string(), files });
            }
        }
    }
    if examples.is_empty() {
        return Err("no example says that it `ends by itself.`".into());
    }
    examples.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(examples)
}

/// The names and the first files of the examples of a package.
fn targets(package: &Package) -> Vec<(String, PathBuf)> {
    let targets = package.targets.iter().filter(|target| target.is_example());
    targets.map(|target| (target.name.clone(), target.src_path.clone().into())).collect()
}

/// Whether the head of a program says that it ends. Others run until they are stopped, or take long.
fn ends(text: &str) -> bool {
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    head.join(" ").contains("ends by itself.")
}

/// Returns the paths of the file of a program and of the modules that it declares.
fn sources(main: &Path, text: &str) -> Result<Vec<String>, String> {
    let mut sources = vec![files::from_root(main)];
    let folder = main.parent().unwrap_or(main);
    for name in modules_of(text) {
        let places = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
        let place = places.iter().find(|place| place.exists());
        let place = place.ok_or_else(|| format!("{}: there is no module {name}", files::from_root(main)))?;
        sources.push(files::from_root(place));
    }
    Ok(sources)
}

/// The modules that a file declares and does not contain.
fn modules_of(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    names.map(str::to_owned).collect()
}

/// The names of all examples of the workspace, with their packages.
pub(super) fn names() -> Result<Vec<(String, String)>, String> {
    let mut command = MetadataCommand::new();
    command.manifest_path(files::root().join("Cargo.toml")).no_deps();
    let metadata = command.exec().map_err(|error| error.to_string())?;
    let of = |package: &&Package| {
        let name = package.name.to_string();
        targets(package).into_iter().map(move |(example, _)| (example, name.clone())).collect::<Vec<_>>()
    };
    Ok(metadata.workspace_packages().iter().flat_map(of).collect())
}

/// Reports names that two packages have: the programs of a build are found by their names.
pub(super) fn same_names(names: &[(String, String)]) -> Vec<String> {
    let mut packages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, package) in names {
        packages.entry(name).or_default().push(package);
    }
    let same = packages.iter().filter(|(_, packages)| packages.len() > 1);
    same.map(|(name, packages)| {
        format!("the packages {} have an example {name}; give one another name", packages.join(" and "))
    })
    .collect()
}

/// Builds examples with one command, and returns the paths of the programs.
pub(super) fn build(examples: &[Example]) -> Result<HashMap<String, PathBuf>, String> {
    let targets: Vec<&str> = examples.iter().flat_map(|example| ["--example", &example.name]).collect();
    e2e::build(&targets)
}

/// Runs a program in a folder of its own. Returns its standard output and how many seconds it took.
///
/// # Errors
/// The program failed, or was killed because it had not ended within the limit.
pub(super) fn run(
    name: &str,
    built: &HashMap<String, PathBuf>,
    limit: Duration,
) -> Result<(String, f64), String> {
    let program = built.get(name).ok_or_else(|| format!("{name}: cargo has not built it"))?;
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let folder = tempfile::tempdir().map_err(failed)?;
    let mut command = files::command(program);
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    // So that programs that it starts can be killed with it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    #[expect(
        clippy::disallowed_methods,
        reason = "the time of a program is only printed; nothing waits for it"
    )]
    let started = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let (ended, end) = mpsc::sync_channel(2);
    let output = child.stdout.take().map(|output| collect(output, ended.clone())).unwrap_or_default();
    let errors = child.stderr.take().map(|errors| collect(errors, ended)).unwrap_or_default();
    let printed = || {
        let text = |bytes: &Mutex<Vec<u8>>| String::from_utf8_lossy(&bytes.lock()).into_owned();
        (text(&output), text(&errors))
    };
    // Both outputs are closed when the program ends, and all programs that it has started.
    let mut open = 2;
    while open > 0 && end.recv_timeout(limit).is_ok() {
        open -= 1;
    }
    if open > 0 {
        kill(&mut child).map_err(failed)?;
        while open > 0 && end.recv_timeout(KILL_LIMIT).is_ok() {
            open -= 1;
        }
        let (output, errors) = printed();
        let left = if open > 0 { "; a program that it has started still runs" } else { "" };
        return Err(format!("{name}: has not ended after {limit:?}; it was killed{left}\n{output}{errors}"));
    }
    let status = child.wait().map_err(failed)?;
    let (output, errors) = printed();
    match status.success() {
        true => Ok((output.replace("\r\n", "\n"), started.elapsed().as_secs_f64())),
        false => Err(format!("{name}: {status}\n{output}{errors}")),
    }
}

/// Collects what is read until the end, so that it can be read at any time.
fn collect(mut from: impl Read + Send + 'static, ended: mpsc::SyncSender<()>) -> Arc<Mutex<Vec<u8>>> {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let text = collected.clone();
    thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut part) {
            text.lock().extend(part.get(..length).unwrap_or_default());
        }
        ended.send(())
    });
    collected
}

/// Kills a program, and the programs that it has started.
fn kill(child: &mut Child) -> std::io::Result<()> {
    #[cfg(unix)]
    files::command("kill")
        .args(["-KILL", "--", &format!("-{}", child.id())])
        .stderr(Stdio::null())
        .status()?;
    child.kill()?;
    child.wait().map(drop)
}

/// An example of tests.
#[cfg(test)]
pub(super) fn example(name: &str) -> Example {
    Example { name: name.into(), package: "x".into(), files: vec![format!("crates/x/examples/{name}.rs")] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script as the program `script`.
    #[cfg(unix)]
    fn run_script(script: &str, limit: Duration) -> Result<String, String> {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        run("script", &HashMap::from([("script".to_owned(), path)]), limit).map(|(output, _)| output)
    }

    #[cfg(unix)]
    #[test]
    fn only_standard_output_is_returned() {
        assert_eq!(run_script("echo one; echo two >&2", TIME_LIMIT).unwrap(), "one\n");
    }

    #[cfg(unix)]
    #[test]
    fn programs_run_in_an_empty_folder_without_a_cluster() {
        let output = run_script("ls -A; echo \"${KUBECONFIG-none}\"", TIME_LIMIT);
        assert_eq!(output.unwrap(), "none\n");
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_fails_is_reported_with_all_that_it_printed() {
        let problem = run_script("echo one; echo two >&2; exit 3", TIME_LIMIT).unwrap_err();
        assert_eq!(problem, "script: exit status: 3\none\ntwo\n");
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_does_not_end_is_killed_with_the_programs_that_it_started() {
        let problem = run_script("echo one; sleep 600 & sleep 600", Duration::from_millis(500)).unwrap_err();
        assert_eq!(problem.lines().next(), Some("script: has not ended after 500ms; it was killed"));
    }

    #[test]
    fn a_program_that_was_not_built_is_reported() {
        assert_eq!(run("a", &HashMap::new(), TIME_LIMIT).unwrap_err(), "a: cargo has not built it");
    }

    #[test]
    fn names_are_unique_in_the_workspace() {
        assert_eq!(same_names(&names().unwrap()), [""; 0]);
        let names = [("a", "x"), ("b", "x"), ("a", "y")].map(|(name, package)| (name.into(), package.into()));
        assert_eq!(same_names(&names), ["the packages x and y have an example a; give one another name"]);
    }

    #[test]
    fn only_programs_that_end_are_examples() {
        assert!(ends("//! An index. The program ends by itself.\n"));
        assert!(ends("//! An index. The program ends\n//! by itself.\n\nfn main() {}\n"));
        assert!(!ends("//! A server.\n\n// It ends by itself.\n"));
        let found = find().unwrap();
        let has = |name: &str| found.iter().any(|example| example.name == name);
        assert!(has("indexer") && !has("serve") && !has("seeds"));
    }

    #[test]
    fn a_program_has_the_files_of_its_modules() {
        let files =
            |name: &str| find().unwrap().into_iter().find(|example| example.name == name).unwrap().files;
        assert_eq!(files("indexer"), ["crates/store/examples/indexer.rs"]);
        let watchdog = ["watchdog.rs", "common/mod.rs"].map(|file| format!("crates/kube/examples/{file}"));
        assert_eq!(files("watchdog"), watchdog);
    }
}
