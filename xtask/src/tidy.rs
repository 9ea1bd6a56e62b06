//! The structure of the workspace: what the map in `docs/architecture.md` says must be so, and the house rules
//! that no compiler checks.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

use crate::contract::fail;
use crate::files::{self, File};

const MAP: &str = "docs/architecture.md";
const FILE_LINES: usize = 1000;
const LIB_LINES: usize = 150;

/// Crates that must stay usable with no Kubernetes and no network near them.
const ALONE: [&str; 3] = ["kinformer-core", "kinformer-store", "kinformer-delta-fifo"];
const NOT_ALONE: [&str; 16] = [
    "hyper",
    "http",
    "rustls",
    "openssl",
    "native-tls",
    "kube",
    "kube-client",
    "kube-core",
    "k8s-openapi",
    "axum",
    "tower",
    "reqwest",
    "mio",
    "socket2",
    "serde_json",
    "tracing",
];

/// What is not called outside tests, and what to do instead.
const BANNED: [(&str, &str); 7] = [
    ("todo!(", "finish it"),
    ("unimplemented!(", "finish it"),
    ("dbg!(", "remove it"),
    ("unbounded_channel(", "use a bounded channel"),
    ("::unbounded(", "use a bounded channel"),
    ("thread::sleep(", "wait for the event"),
    ("std::time::Instant::now(", "use tokio's, which tests can pause"),
];

/// Runs every check on the repository.
pub(crate) fn run() -> Result<(), String> {
    fail(problems()?)?;
    println!("tidy: the structure is as {MAP} says");
    Ok(())
}

/// Everything that is wrong with the repository.
pub(crate) fn problems() -> Result<Vec<String>, String> {
    let manifest = files::root().join("Cargo.toml");
    let metadata =
        MetadataCommand::new().manifest_path(manifest).exec().map_err(|error| error.to_string())?;
    let map = Map::parse(&files::read(MAP)?);
    let files = files::rust()?;
    let mut problems = layers(&map, &Crate::of(&metadata));
    problems.extend(alone()?);
    problems.extend(manifests(&metadata)?);
    problems.extend(files.iter().flat_map(rules));
    Ok(problems)
}

/// A crate of ours and the crates of ours that it needs.
struct Crate {
    name: String,
    folder: String,
    needs: Vec<(String, DependencyKind)>,
}

impl Crate {
    fn of(metadata: &Metadata) -> Vec<Self> {
        let packages = metadata.workspace_packages();
        let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
        let own = |package: &&Package| {
            let folder =
                package.manifest_path.parent().and_then(|p| p.strip_prefix(&metadata.workspace_root).ok());
            let needs = package.dependencies.iter().filter(|need| ours.contains(need.name.as_str()));
            Self {
                name: package.name.to_string(),
                folder: folder.map(ToString::to_string).unwrap_or_default(),
                needs: needs.map(|need| (need.name.clone(), need.kind)).collect(),
            }
        };
        packages.iter().map(own).collect()
    }
}

/// The table of crates: package, folder, and the packages it may need.
#[derive(Default)]
struct Map {
    rows: BTreeMap<String, (String, BTreeSet<String>)>,
}

impl Map {
    /// Reads rows such as ``| `crates/store` | `kinformer-store` | `core` | what lives there |``.
    fn parse(text: &str) -> Self {
        let mut map = Self::default();
        for line in text.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [folder, package, needs, ..] = cells.as_slice() else { continue };
            let quoted =
                |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
            let (Some(folder), Some(package)) = (quoted(folder).pop(), quoted(package).pop()) else {
                continue;
            };
            map.rows.insert(package, (folder, quoted(needs).into_iter().collect()));
        }
        map
    }
}

/// Every crate is on the map, every name on the map exists, and every edge is one of the map's.
fn layers(map: &Map, crates: &[Crate]) -> Vec<String> {
    let mut problems = Vec::new();
    for (package, (folder, _)) in &map.rows {
        if !crates.iter().any(|own| own.name == *package && own.folder == *folder) {
            problems.push(format!("{MAP}: there is no crate {package} in {folder}; take it off the map"));
        }
    }
    for own in crates {
        let Some((_, allowed)) = map.rows.get(&own.name) else {
            problems
                .push(format!("{MAP}: {} ({}) is not on the map; add a row for it", own.name, own.folder));
            continue;
        };
        for (needed, kind) in &own.needs {
            let allowed = allowed.contains(needed.strip_prefix("kinformer-").unwrap_or(needed));
            match kind {
                DependencyKind::Normal | DependencyKind::Build
                    if needed == "kinformer-testing" && !allowed =>
                {
                    problems.push(format!("{}: {needed} is for tests; make it a dev-dependency", own.folder));
                }
                DependencyKind::Normal | DependencyKind::Build if !allowed => {
                    problems.push(format!("{}: needs {needed}, which {MAP} does not allow", own.folder));
                }
                _ => {}
            }
        }
    }
    problems
}

/// The crates that stand alone need nothing that talks to anyone. Asked of `cargo tree`, which looks at one
/// package as its user would build it, without the features that others switch on.
fn alone() -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for package in ALONE {
        let mut tree = Command::new("cargo");
        tree.args(["tree", "--edges", "normal", "--prefix", "none", "--package", package]);
        let output =
            tree.current_dir(files::root()).output().map_err(|error| format!("cargo tree: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)));
        }
        problems.extend(not_alone(package, &String::from_utf8_lossy(&output.stdout)));
    }
    Ok(problems)
}

fn not_alone(package: &str, tree: &str) -> Vec<String> {
    let needed: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let unwanted = needed.into_iter().filter(|needed| NOT_ALONE.contains(needed));
    unwanted
        .map(|needed| format!("{package}: its dependency tree has {needed}; it must stand alone"))
        .collect()
}

/// Every crate takes the workspace's lints, and those forbid unsafe code.
fn manifests(metadata: &Metadata) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    if !files::read("Cargo.toml")?.contains("unsafe_code = \"forbid\"") {
        problems.push("Cargo.toml: the workspace's lints must forbid unsafe code".into());
    }
    for package in metadata.workspace_packages() {
        let path =
            package.manifest_path.strip_prefix(&metadata.workspace_root).unwrap_or(&package.manifest_path);
        problems.extend(manifest(path.as_str(), &files::read(path.as_str())?));
    }
    Ok(problems)
}

fn manifest(path: &str, text: &str) -> Option<String> {
    let inherits = text.contains("[lints]\nworkspace = true");
    (!inherits)
        .then(|| format!("{path}: it does not take the workspace's lints; add [lints] workspace = true"))
}

/// The house rules for one file.
fn rules(file: &File) -> Vec<String> {
    let mut problems = Vec::new();
    let mut problem = |line: usize, what: String| problems.push(format!("{}:{line}: {what}", file.path));
    let lines = file.text.lines().count();
    if lines > FILE_LINES && !file.is_generated() {
        problem(lines, format!("the file is longer than {FILE_LINES} lines; split it by subject"));
    }
    if file.path.ends_with("src/lib.rs") && lines > LIB_LINES {
        problem(lines, format!("lib.rs is longer than {LIB_LINES} lines; move code to a file of its own"));
    }
    // These rules' own text names what they forbid.
    if file.path.starts_with("xtask/") {
        return problems;
    }
    let source = file.is_source() && !file.is_generated();
    let mut in_tests = false;
    for (number, line) in file.lines() {
        let code = line.trim();
        in_tests |= code == "#[cfg(test)]";
        if code.starts_with("#[ignore]") {
            problem(number, "an ignored test without a reason; give one, or make it run".into());
        }
        if code.starts_with("//") {
            if (code.contains("TODO") || code.contains("FIXME")) && !code.contains('#') {
                problem(number, "open work without an issue; finish it, or name the issue as #N".into());
            }
            continue;
        }
        if !source || in_tests {
            continue;
        }
        if (code.contains("#[allow(") || code.contains("#![allow(")) && !reasoned(file, number) {
            problem(number, "a lint is allowed without a reason; say why with reason = \"…\"".into());
        }
        if (code.contains("#[expect(") || code.contains("#![expect(")) && !reasoned(file, number) {
            problem(number, "a lint is expected without a reason; say why with reason = \"…\"".into());
        }
        for (call, instead) in BANNED.iter().filter(|(call, _)| code.contains(call)) {
            problem(number, format!("{call}…) is not called here; {instead}"));
        }
        if file.path.starts_with("crates/")
            && !file.path.starts_with("crates/cli/")
            && code.contains("println!(")
        {
            problem(number, "a library does not print; use tracing".into());
        }
    }
    problems
}

/// Whether the attribute that begins on this line says its reason before it ends.
fn reasoned(file: &File, number: usize) -> bool {
    for line in file.text.lines().skip(number - 1) {
        if line.contains("reason = ") {
            return true;
        }
        if line.contains(")]") {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        assert_eq!(problems().unwrap(), [""; 0]);
    }

    fn own(name: &str, needs: &[(&str, DependencyKind)]) -> Crate {
        let folder = format!("crates/{}", name.strip_prefix("kinformer-").unwrap_or(name));
        let needs = needs.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        Crate { name: name.into(), folder, needs }
    }

    #[test]
    fn the_map_and_the_crates_must_agree() {
        let map = Map::parse(
            "| folder | package | needs | what |\n|---|---|---|---|\n\
             | `crates/core` | `kinformer-core` | - | x |\n| `crates/store` | `kinformer-store` | `core` | x |\n",
        );
        let core = own("kinformer-core", &[]);
        let store = own("kinformer-store", &[("kinformer-core", DependencyKind::Normal)]);
        assert_eq!(layers(&map, &[core, store]), [""; 0]);

        let upwards = own("kinformer-core", &[("kinformer-store", DependencyKind::Normal)]);
        let for_tests = own("kinformer-store", &[("kinformer-testing", DependencyKind::Normal)]);
        let new = own("kinformer-new", &[]);
        let told = layers(&map, &[upwards, for_tests, new]).join("\n");
        assert!(told.contains("crates/core: needs kinformer-store"), "{told}");
        assert!(told.contains("make it a dev-dependency"), "{told}");
        assert!(told.contains("kinformer-new (crates/new) is not on the map"), "{told}");
        let gone = layers(&map, &[own("kinformer-core", &[])]).join("\n");
        assert!(gone.contains("there is no crate kinformer-store in crates/store"), "{gone}");
        let test_only = own("kinformer-core", &[("kinformer-testing", DependencyKind::Development)]);
        let store = own("kinformer-store", &[]);
        assert_eq!(layers(&map, &[test_only, store]), [""; 0]);
    }

    fn told(path: &str, text: &str) -> String {
        rules(&File { path: path.into(), text: text.into() }).join("\n")
    }

    #[test]
    fn the_house_rules_can_be_broken() {
        let long = "fn f() {}\n".repeat(FILE_LINES + 1);
        assert!(told("crates/x/src/a.rs", &long).contains("longer than 1000 lines"));
        assert_eq!(told("crates/x/src/a.rs", &format!("// @generated by x\n{long}")), "");
        assert!(
            told("crates/x/src/lib.rs", &"//! x\n".repeat(LIB_LINES + 1)).contains("longer than 150 lines")
        );
        for (call, _) in BANNED {
            let text = format!("fn f() {{ {call}) }}\n");
            assert!(told("crates/x/src/a.rs", &text).contains("is not called here"), "{call}");
            assert_eq!(told("crates/x/tests/a.rs", &text), "");
            assert_eq!(told("crates/x/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{text}}}")), "");
        }
        assert!(told("crates/x/src/a.rs", "println!(\"x\");").contains("does not print"));
        assert!(told("crates/x/src/a.rs", "#[allow(dead_code)]").contains("without a reason"));
        assert!(told("crates/x/src/a.rs", "#[expect(\n    clippy::x\n)]\n").contains("without a reason"));
        assert_eq!(told("crates/x/src/a.rs", "#[expect(\n    clippy::x,\n    reason = \"y\"\n)]\n"), "");
        assert!(told("crates/x/tests/a.rs", "#[ignore]").contains("without a reason"));
        assert!(told("crates/x/src/a.rs", "// TODO later").contains("name the issue"));
        assert_eq!(told("crates/x/src/a.rs", "// TODO(#12) later"), "");
    }

    #[test]
    fn what_talks_to_anyone_is_told() {
        let tree =
            "kinformer-store v0.1.0 (/somewhere)\nfoldhash v0.2.0\nhyper v1.8.0\nfoldhash v0.2.0 (*)\n";
        assert_eq!(not_alone("x", tree), ["x: its dependency tree has hyper; it must stand alone"]);
        assert_eq!(not_alone("x", "foldhash v0.2.0\n"), [""; 0]);
    }

    #[test]
    fn a_crate_without_the_lints_is_told() {
        assert!(
            manifest("crates/x/Cargo.toml", "[package]\n")
                .is_some_and(|told| told.contains("crates/x/Cargo.toml"))
        );
        assert_eq!(manifest("crates/x/Cargo.toml", "[lints]\nworkspace = true\n"), None);
    }
}
