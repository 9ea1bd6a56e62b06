//! Everything that has to hold before a change lands.

use std::process::{Command, Stdio};

use crate::{contract, files, tidy};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Go on after a step that fails, and fail at the end.
    #[arg(long)]
    keep_going: bool,
}

const README: &str = "README.md";

/// The Kubernetes version whose types documentation and single crates are built with.
const KUBERNETES: (&str, &str) = ("K8S_OPENAPI_ENABLED_VERSION", "1.37");

/// One step: its name and what it does.
type Step = (&'static str, fn() -> Result<(), String>);

const STEPS: [Step; 11] = [
    ("fmt", || cargo(&["fmt", "--all", "--check"])),
    ("clippy", || cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ("tidy", tidy::run),
    ("contract", || contract::fail(contract::problems()?)),
    ("each library alone", each_alone),
    ("tests, as the README says", readme_tests),
    ("documentation", documentation),
    ("model checking", model_checking),
    ("examples", examples),
    ("benches compile", || cargo(&["bench", "--package", "benches", "--no-run"])),
    ("dependencies", dependencies),
];

/// Runs the steps.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let mut failed = Vec::new();
    for (name, step) in STEPS {
        println!("\n== {name}");
        match step() {
            Ok(()) => {}
            Err(problem) if args.keep_going => {
                eprintln!("{name}: {problem}");
                failed.push(name);
            }
            Err(problem) => return Err(format!("{name}: {problem}")),
        }
    }
    println!("\nci: {} passed, {} failed", STEPS.len() - failed.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn cargo(args: &[&str]) -> Result<(), String> {
    cargo_with(args, &[])
}

fn cargo_with(args: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    let shown: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value:?} ")).collect();
    println!("$ {}cargo {}", shown.concat(), args.join(" "));
    let mut command = Command::new("cargo");
    command.args(args).envs(env.iter().copied()).current_dir(files::root()).stdin(Stdio::null());
    let status = command.status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {}: {status}", args.join(" "))) }
}

/// The README's own command, so that it cannot be wrong.
fn readme_tests() -> Result<(), String> {
    let readme = files::read(README)?;
    let command = test_command(&readme).ok_or(format!("{README}: no line begins with `cargo test`"))?;
    let args: Vec<&str> = command.split_whitespace().skip(1).collect();
    cargo(&args)
}

fn test_command(readme: &str) -> Option<&str> {
    let command = readme.lines().find(|line| line.starts_with("cargo test"))?;
    command.split('#').next().map(str::trim)
}

fn documentation() -> Result<(), String> {
    let env = [("RUSTDOCFLAGS", "-D warnings"), KUBERNETES];
    cargo_with(&["doc", "--workspace", "--no-deps"], &env)
}

/// Without the other crates, whose features it would otherwise share.
fn each_alone() -> Result<(), String> {
    for package in libraries()? {
        cargo_with(&["check", "--quiet", "--package", &package], &[KUBERNETES])?;
    }
    Ok(())
}

fn libraries() -> Result<Vec<String>, String> {
    let manifest = files::root().join("Cargo.toml");
    let mut metadata = cargo_metadata::MetadataCommand::new();
    let metadata = metadata.manifest_path(manifest).no_deps().exec().map_err(|error| error.to_string())?;
    let packages = metadata.workspace_packages();
    Ok(packages
        .iter()
        .filter(|p| p.publish.as_ref().is_none_or(|to| !to.is_empty()))
        .map(|p| p.name.to_string())
        .collect())
}

/// The model checker's tests, bounded.
fn model_checking() -> Result<(), String> {
    let packages: Vec<String> = libraries()?;
    let folder = |package: &str| format!("crates/{}", package.strip_prefix("kinformer-").unwrap_or(package));
    let root = files::root();
    let modelled =
        packages.iter().filter(|package| root.join(folder(package)).join("tests/loom.rs").exists());
    let target = root.join("target/loom").display().to_string();
    let env = [("RUSTFLAGS", "--cfg loom"), ("LOOM_MAX_PREEMPTIONS", "2"), ("CARGO_TARGET_DIR", &target)];
    let mut any = false;
    for package in modelled {
        any = true;
        cargo_with(&["test", "--release", "--package", package, "--test", "loom"], &env)?;
    }
    if any { Ok(()) } else { Err("no crate has tests/loom.rs".into()) }
}

/// Every example that ends by itself.
fn examples() -> Result<(), String> {
    let examples = self_ending(&files::rust()?);
    if examples.is_empty() {
        return Err("no example says that it ends by itself".into());
    }
    for (package, example) in examples {
        cargo(&["run", "--quiet", "--package", &package, "--example", &example])?;
    }
    Ok(())
}

/// Examples by package: those whose head says `Ends by itself.` Others serve until they are stopped, or take long;
/// clippy has compiled them.
fn self_ending(files: &[files::File]) -> Vec<(String, String)> {
    let mut examples = Vec::new();
    for file in files {
        let parts: Vec<&str> = file.path.split('/').collect();
        if let ["crates", folder, "examples", example] = parts.as_slice()
            && file
                .text
                .lines()
                .take_while(|line| line.starts_with("//!"))
                .any(|l| l.contains("Ends by itself."))
        {
            let package =
                if *folder == "kinformer" { "kinformer".into() } else { format!("kinformer-{folder}") };
            examples.push((package, example.trim_end_matches(".rs").to_owned()));
        }
    }
    examples
}

/// Licences, sources and versions. Advisories need a database that not every machine can fetch; the hosted
/// workflow checks those.
fn dependencies() -> Result<(), String> {
    let installed = Command::new("cargo").args(["deny", "--version"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        println!("cargo-deny is missing: installing it");
        cargo(&["install", "--locked", "cargo-deny"])?;
    }
    cargo(&["deny", "--log-level", "error", "check", "bans", "licenses", "sources"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_the_test_command() {
        assert_eq!(test_command(&files::read(README).unwrap()), Some("cargo test --workspace"));
        assert_eq!(test_command("text\ncargo test -p x   # all\n"), Some("cargo test -p x"));
        assert_eq!(test_command("none"), None);
    }

    #[test]
    fn examples_that_serve_are_left_out() {
        let file = |path: &str, text: &str| files::File { path: path.into(), text: text.into() };
        let files = [
            file("crates/store/examples/indexer.rs", "//! An index. Ends by itself.\n"),
            file("crates/apiserver/examples/serve.rs", "//! A server.\n"),
            file("crates/store/src/lib.rs", ""),
        ];
        assert_eq!(self_ending(&files), [("kinformer-store".to_owned(), "indexer".to_owned())]);
    }
}
