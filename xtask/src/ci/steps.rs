//! The steps.

use std::process::Stdio;

use cargo_metadata::Package;

use super::commit::Commit;
use super::step::Group::{Full, Gate};
use super::step::{Done, Extent, Step};
use crate::semver::Baseline;
use crate::{
    book, browser, codegen, contract, counted, e2e, examples, files, go_blocks, kinds, minimal_versions,
    names, packages, release, semver, simulate, tidy,
};

const README: &str = "README.md";

/// The Kubernetes version with which documentation and single crates are built.
const KUBERNETES: (&str, &str) = ("K8S_OPENAPI_ENABLED_VERSION", NEWEST_KUBERNETES);
const NEWEST_KUBERNETES: &str = "1.37";
const OLDEST_KUBERNETES: &str = "1.33";

/// The compiler of docs.rs, and of options of cargo that are not stable.
const NIGHTLY: &str = "nightly";

/// The target folder of the documentation as on docs.rs.
const DOCS_RS: &str = "target/docs-rs";

/// The library whose public items depend on the Kubernetes version.
const FACADE: &str = "kinformer";

/// All steps. Within a group, fast steps and steps that often fail come first.
pub(super) const STEPS: [Step; 29] = [
    Step { name: "fmt", group: Gate, run: |_| cargo(&["fmt", "--all", "--check"]) },
    Step { name: "tidy", group: Gate, run: |_| tidy::run().map(passed) },
    Step { name: "contract", group: Gate, run: |_| contract::quietly().map(passed) },
    Step { name: "generated code", group: Gate, run: |_| codegen::check().map(passed) },
    Step { name: "clippy", group: Gate, run: |_| clippy() },
    Step { name: "tests", group: Gate, run: |_| readme_tests() },
    Step { name: "examples", group: Gate, run: |_| examples::check().map(passed) },
    Step { name: "simulation", group: Gate, run: |_| simulation() },
    Step { name: "end to end", group: Gate, run: |_| end_to_end() },
    Step { name: "the page in a browser", group: Gate, run: |_| page_in_a_browser() },
    Step { name: "counted benches", group: Gate, run: |_| counted_benches() },
    Step { name: "each library alone", group: Full, run: each_alone },
    Step { name: "oldest and newest Kubernetes", group: Full, run: |_| kubernetes_versions() },
    Step { name: "documentation", group: Full, run: |_| documentation() },
    Step { name: "documentation of each library alone", group: Full, run: each_documented },
    Step { name: "documentation as on docs.rs", group: Full, run: documented_by_nightly },
    Step { name: "names in the documentation", group: Full, run: |_| names_are_found() },
    Step { name: "the book", group: Full, run: |_| the_book() },
    Step { name: "model checking", group: Full, run: model_checking },
    // Unoptimized, because that shares the dependencies with the tests.
    Step { name: "benches compile", group: Full, run: |_| benches_compile() },
    Step { name: "nothing compiled for each kind", group: Full, run: |_| kinds::symbols().map(passed) },
    Step { name: "dependencies", group: Full, run: |_| dependencies() },
    Step { name: "packages and release", group: Full, run: packages_and_release },
    Step { name: "oldest Rust", group: Full, run: |_| oldest_rust() },
    Step { name: "lowest versions of dependencies", group: Full, run: |_| lowest_versions() },
    Step { name: "public API", group: Full, run: public_api },
    Step { name: "end to end in the other modes", group: Full, run: other_modes },
    Step { name: "simulation of all seeds", group: Full, run: all_seeds },
    Step { name: "mutants", group: Full, run: mutants },
];

/// Into how many parts a step is divided that repeats something for each library.
const PARTS: usize = 4;

fn passed((): ()) -> Done {
    Done::Passed
}

fn cargo(args: &[&str]) -> Result<Done, String> {
    cargo_with(args, &[])
}

fn cargo_with(args: &[&str], env: &[(&str, &str)]) -> Result<Done, String> {
    command("cargo", args, env)
}

fn command(program: &str, args: &[&str], env: &[(&str, &str)]) -> Result<Done, String> {
    let shown: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value:?} ")).collect();
    let line = format!("{program} {}", args.join(" "));
    println!("$ {}{line}", shown.concat());
    let mut command = files::command(program);
    command.args(args).envs(env.iter().copied()).stdin(Stdio::null());
    let status = command.status().map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(Done::Passed) } else { Err(format!("{line}: {status}")) }
}

fn clippy() -> Result<Done, String> {
    cargo(&["clippy", "--workspace", "--all-targets", "--features", "e2e/suite", "--", "-D", "warnings"])
}

fn benches_compile() -> Result<Done, String> {
    cargo(&["bench", "--package", "benches", "--no-run", "--profile", "dev"])
}

/// Runs the seeds of the gate.
fn simulation() -> Result<Done, String> {
    simulate::gate(Commit::of_head().number()).map(passed)
}

fn all_seeds(extent: Extent) -> Result<Done, String> {
    simulate::first_seeds(extent.part()).map(passed)
}

fn mutants(extent: Extent) -> Result<Done, String> {
    simulate::mutants(extent.part()).map(passed)
}

/// Runs the command of the README, which is thereby tested.
fn readme_tests() -> Result<Done, String> {
    let readme = files::read(README)?;
    let command = test_command(&readme).ok_or(format!("{README}: no line begins with `cargo test`"))?;
    let args: Vec<&str> = command.split_whitespace().skip(1).collect();
    // Many tests wait for a server or for a retry, and cargo runs one binary after another.
    let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    cargo_with(&args, &[("RUST_TEST_THREADS", &threads.to_string())])
}

fn test_command(readme: &str) -> Option<&str> {
    let command = readme.lines().find(|line| line.starts_with("cargo test"))?;
    command.split('#').next().map(str::trim)
}

fn documentation() -> Result<Done, String> {
    let env = [("RUSTDOCFLAGS", "-D warnings"), KUBERNETES];
    cargo_with(&["doc", "--workspace", "--no-deps"], &env)
}

/// Checks each library without the other crates, whose features it would otherwise share: with its default features,
/// with none, with each and with all.
fn each_alone(extent: Extent) -> Result<Done, String> {
    let part = extent.part().map_or("1/1".to_owned(), |number| format!("{}/{PARTS}", number % PARTS + 1));
    let hack = "hack check --quiet --workspace --ignore-private --each-feature --partition";
    let arguments: Vec<&str> = hack.split(' ').chain([part.as_str()]).collect();
    run_unless(files::missing_cargo_command(&["hack"]), || cargo_with(&arguments, &[KUBERNETES]).map(drop))
}

/// Documents each published library as docs.rs does, but with the stable compiler.
fn each_documented(extent: Extent) -> Result<Done, String> {
    let has_library = |package: &Package| package.targets.iter().any(|target| target.is_lib());
    for package in extent.of(packages::published()?.into_iter().filter(has_library), PARTS) {
        let line = document(&package);
        cargo_with(&words(&line), &[("RUSTDOCFLAGS", "-D warnings")])?;
    }
    Ok(Done::Passed)
}

/// Documents the libraries that have features with the compiler and the flag of docs.rs, under which items name their
/// features.
fn documented_by_nightly(extent: Extent) -> Result<Done, String> {
    let Some(nightly) = toolchain(NIGHTLY) else { return Ok(no_nightly()) };
    let target = files::root().join(DOCS_RS).display().to_string();
    let env = [("RUSTDOCFLAGS", "--cfg docsrs -D warnings"), ("CARGO_TARGET_DIR", target.as_str())];
    let with_features = packages::published()?.into_iter().filter(|package| !package.features.is_empty());
    for package in extent.of(with_features, PARTS) {
        let line = document(&package);
        command("rustup", &[&["run", &nightly, "cargo"], words(&line).as_slice()].concat(), &env)?;
    }
    Ok(Done::Passed)
}

/// The arguments of cargo that document a package.
fn document(package: &Package) -> Vec<String> {
    let mut arguments =
        ["doc", "--quiet", "--no-deps", "--package", &package.name].map(str::to_owned).to_vec();
    arguments.extend(docs_rs(&package.metadata));
    arguments
}

/// Documents all published libraries, and asks the search of rustdoc for the names of other projects. The stable rustdoc 1.95 loses
/// the aliases of items that another module exports; the one of docs.rs does not.
fn names_are_found() -> Result<Done, String> {
    let Some(nightly) = toolchain(NIGHTLY) else { return Ok(no_nightly()) };
    run_unless(browser::missing_node(), || {
        let mut arguments =
            ["run", &nightly, "cargo", "doc", "--no-deps", "--all-features"].map(str::to_owned).to_vec();
        for package in semver::libraries()? {
            arguments.extend(["--package".to_owned(), package.name.to_string()]);
        }
        let target = files::root().join(DOCS_RS);
        let folder = target.display().to_string();
        command("rustup", &words(&arguments), &[("CARGO_TARGET_DIR", &folder), KUBERNETES])?;
        contract::fail(names::search::problems(&target.join("doc"))?)
    })
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// The arguments that docs.rs takes from `[package.metadata.docs.rs]`.
fn docs_rs(metadata: &serde_json::Value) -> Vec<String> {
    let setting = |name: &str| metadata.pointer(&format!("/docs/rs/{name}"));
    let all_features = setting("all-features").and_then(serde_json::Value::as_bool).unwrap_or_default();
    let more = setting("cargo-args").and_then(serde_json::Value::as_array).into_iter().flatten();
    let more = more.filter_map(serde_json::Value::as_str);
    all_features.then_some("--all-features").into_iter().chain(more).map(str::to_owned).collect()
}

/// The oldest version has its own target folder, because changing the version would rebuild everything else. The
/// newest version is the default.
fn kubernetes_versions() -> Result<Done, String> {
    let oldest = files::root().join("target/oldest-kubernetes").display().to_string();
    let check = ["check", "--quiet", "--package", FACADE];
    cargo_with(&check, &[(KUBERNETES.0, OLDEST_KUBERNETES), ("CARGO_TARGET_DIR", &oldest)])?;
    cargo_with(&check, &[KUBERNETES])
}

/// Runs the model checker's tests, with bounds. They have their own target folder, because the flag would rebuild
/// everything else.
fn model_checking(extent: Extent) -> Result<Done, String> {
    let target = files::root().join("target/loom").display().to_string();
    let env = [("RUSTFLAGS", "--cfg loom"), ("LOOM_MAX_PREEMPTIONS", "2"), ("CARGO_TARGET_DIR", &target)];
    let modelled = modelled()?;
    if modelled.is_empty() {
        return Err("no crate has a test tests/loom.rs".into());
    }
    for package in extent.of(modelled, PARTS) {
        cargo_with(&["test", "--release", "--package", &package.name, "--test", "loom"], &env)?;
    }
    Ok(Done::Passed)
}

/// The published crates with a test `tests/loom.rs`.
fn modelled() -> Result<Vec<Package>, String> {
    let has_model = |package: &Package| package.targets.iter().any(|t| t.is_test() && t.name == "loom");
    Ok(packages::published()?.into_iter().filter(has_model).collect())
}

fn end_to_end() -> Result<Done, String> {
    run_unless(e2e::missing(), || {
        go_blocks::check()?;
        e2e::one_mode()
    })
}

fn other_modes(extent: Extent) -> Result<Done, String> {
    run_unless(e2e::missing(), || e2e::other_modes(extent.part()))
}

fn counted_benches() -> Result<Done, String> {
    run_unless(counted::missing(), counted::check)
}

fn page_in_a_browser() -> Result<Done, String> {
    run_unless(browser::missing(), browser::suite)
}

/// Makes the site of the book. Continuous integration always does, and installs mdBook for that.
fn the_book() -> Result<Done, String> {
    if std::env::var_os("CI").is_some() && book::missing().is_some() {
        println!("installing mdbook");
        cargo(&["install", "--locked", "mdbook", "--no-default-features", "--features", "search"])?;
    }
    run_unless(book::missing(), book::run)
}

/// Runs a step, or skips it because a requirement is missing.
fn run_unless(missing: Option<String>, step: impl FnOnce() -> Result<(), String>) -> Result<Done, String> {
    match missing {
        Some(missing) => Ok(Done::Skipped(missing)),
        None => step().map(passed),
    }
}

/// Checks licences, sources and versions. Advisories need a database that not every machine can fetch; the hosted
/// workflow checks them.
fn dependencies() -> Result<Done, String> {
    if files::missing_cargo_command(&["deny"]).is_some() {
        println!("installing cargo-deny");
        cargo(&["install", "--locked", "cargo-deny"])?;
    }
    cargo(&["deny", "--log-level", "error", "check", "bans", "licenses", "sources"])
}

/// Checks the libraries with the oldest supported Rust.
fn oldest_rust() -> Result<Done, String> {
    let promised = packages::published()?.into_iter().find_map(|package| package.rust_version);
    let promised = promised.ok_or("Cargo.toml: there is no rust-version")?;
    let version = format!("{}.{}", promised.major, promised.minor);
    match toolchain(&version) {
        None => Ok(Done::Skipped(no_toolchain(&version))),
        Some(name) => command(
            "rustup",
            &["run", &name, "cargo", "check", "--workspace", "--lib", "--bins"],
            &[KUBERNETES],
        ),
    }
}

/// Checks the published crates with the lowest versions of their dependencies.
fn lowest_versions() -> Result<Done, String> {
    Ok(minimal_versions::check(KUBERNETES)?.map_or(Done::Passed, Done::Skipped))
}

/// Compares the public API with that of the last release, or with the accepted one before the first release.
fn public_api(extent: Extent) -> Result<Done, String> {
    if let Some(missing) = files::missing_cargo_command(&["semver-checks"]) {
        return Ok(Done::Skipped(missing));
    }
    semver::try_tool()?;
    match semver::baseline()? {
        Baseline::Revision(revision) => {
            let libraries = extent.of(semver::libraries()?, PARTS);
            semver::compare(&revision, &libraries, &[KUBERNETES]).map(passed)
        }
        Baseline::Unknown(reason) => Ok(Done::Skipped(reason)),
    }
}

fn no_nightly() -> Done {
    Done::Skipped(no_toolchain(NIGHTLY))
}

fn no_toolchain(name: &str) -> String {
    format!("no {name} toolchain: rustup toolchain install {name} --profile minimal")
}

fn packages_and_release(extent: Extent) -> Result<Done, String> {
    release::dry_run(extent.part()).map(passed)
}

/// Returns the installed toolchain of a version or channel.
fn toolchain(version: &str) -> Option<String> {
    let installed = files::output("rustup", &["toolchain", "list"]).unwrap_or_default();
    toolchain_in(&installed, version).map(str::to_owned)
}

/// Returns the toolchain of a version, from lines such as `1.89-x86_64-unknown-linux-gnu (active)`.
fn toolchain_in<'a>(installed: &'a str, version: &str) -> Option<&'a str> {
    let names = installed.lines().filter_map(|line| line.split_whitespace().next());
    names.into_iter().find(|name| {
        name.strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_and_missing_commands_are_reported() {
        assert!(
            cargo(&["no-such-command"]).is_err_and(|problem| problem.contains("cargo no-such-command: exit"))
        );
        assert!(
            command("no-such-program", &[], &[]).is_err_and(|problem| problem.contains("no-such-program: "))
        );
    }

    /// The oldest and the newest Kubernetes version of the checks are those of the types.
    #[test]
    fn kubernetes_versions_are_those_of_the_types() {
        let minors = codegen::kubernetes_minors().unwrap();
        let minor = |version: &str| version.strip_prefix("1.").map(|minor| minor.parse().unwrap());
        assert_eq!(minors.first().copied(), minor(OLDEST_KUBERNETES));
        assert_eq!(minors.last().copied(), minor(NEWEST_KUBERNETES));
    }

    #[test]
    fn the_readme_has_the_test_command() {
        assert_eq!(test_command(&files::read(README).unwrap()), Some("cargo test --workspace"));
        assert_eq!(test_command("text\ncargo test -p x   # all\n"), Some("cargo test -p x"));
        assert_eq!(test_command("none"), None);
    }

    #[test]
    fn documentation_uses_the_settings_of_docs_rs() {
        let packages = packages::published().unwrap();
        let settings =
            |name: &str| docs_rs(&packages.iter().find(|p| p.name.as_str() == name).unwrap().metadata);
        assert_eq!(settings("kinformer-core"), [""; 0]);
        let version = format!("env.{}='{}'", KUBERNETES.0, KUBERNETES.1);
        assert_eq!(settings("kinformer"), ["--all-features", "--config", &version]);
    }

    #[test]
    fn crates_with_model_checks_are_found() {
        let modelled = modelled().unwrap();
        let has = |name: &str| modelled.iter().any(|package| package.name.as_str() == name);
        assert!(has("kinformer-store") && !has("kinformer-core"));
    }

    #[test]
    fn only_the_promised_toolchain_is_used() {
        let installed = "stable-x86_64 (active, default)\n1.890-x\n1.89.0-x86_64 (override)\n";
        assert_eq!(toolchain_in(installed, "1.89"), Some("1.89.0-x86_64"));
        assert_eq!(toolchain_in("1.89-x86_64\n", "1.89"), Some("1.89-x86_64"));
        assert_eq!(toolchain_in("stable\n1.9-x\n", "1.89"), None);
        assert_eq!(toolchain_in("stable-x\nnightly-x\n", NIGHTLY), Some("nightly-x"));
    }
}
