//! The packages of the published crates: their contents, and programs that are built only from them and run:
//! those of the READMEs and of docs/start.md, and the template of a controller.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::Package;

use crate::files::{self, run, write};

mod program;
mod template;

use program::{Program, cargo_in};

/// The folder of the unpacked packages, a workspace of its own.
const FOLDER: &str = "target/packages";

/// The largest package, compressed. crates.io accepts 10 MiB; a larger package contains unexpected files.
const LARGEST: u64 = 256 * 1024;

/// Into how many parts the builds are divided.
const PARTS: usize = 4;

/// Pages whose first program is built as a newcomer would, with the name of the crate.
const PAGES: [(&str, &str); 2] = [("readme", "README.md"), ("start", "docs/start.md")];

/// Makes the packages and checks each, then builds the programs of the READMEs from the packages alone, and runs them: all
/// of them, or those of the part with this number.
///
/// `cargo package` can verify packages as well, but builds all dependencies again for each. Here all packages and programs
/// share the target folder of the workspace.
pub(crate) fn check(part: Option<usize>) -> Result<(), String> {
    let packages = published()?;
    make(&packages)?;
    let folder = files::empty_folder(FOLDER)?;
    let mut problems = Vec::new();
    for package in &packages {
        problems.extend(manifest_problems(package));
        let (contents, size) = unpack(package, &folder)?;
        println!("{}: {} files, {} KiB compressed", package.name, contents.len(), size / 1024);
        problems.extend(content_problems(&package.name, &contents, size));
    }
    crate::contract::fail(problems)?;
    workspace(&packages, &folder)?;
    for (number, build) in builds(&packages, &folder)?.iter().enumerate() {
        if part.is_none_or(|part| part % PARTS == number % PARTS) {
            build.run(&folder)?;
        }
    }
    Ok(())
}

/// The crates that are published.
pub(crate) fn published() -> Result<Vec<Package>, String> {
    published_from(&files::root())
}

/// The crates of a work tree that are published.
pub(crate) fn published_from(tree: &Path) -> Result<Vec<Package>, String> {
    let mut command = cargo_metadata::MetadataCommand::new();
    command.manifest_path(tree.join("Cargo.toml")).no_deps();
    let metadata = command.exec().map_err(|error| error.to_string())?;
    let published = |package: &&&Package| package.publish.as_ref().is_none_or(|to| !to.is_empty());
    Ok(metadata.workspace_packages().iter().filter(published).map(|package| (*package).clone()).collect())
}

/// Runs `cargo package`, which writes `target/package/NAME-VERSION.crate`.
fn make(packages: &[Package]) -> Result<(), String> {
    let mut command = files::command("cargo");
    command.args(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    for package in packages {
        command.args(["--package", &package.name]);
    }
    run(&mut command)
}

fn base(package: &Package) -> String {
    format!("{}-{}", package.name, package.version)
}

/// Unpacks a package; returns the paths of its files, and its compressed size in bytes.
fn unpack(package: &Package, folder: &Path) -> Result<(Vec<String>, u64), String> {
    let base = base(package);
    let archive = files::root().join("target/package").join(format!("{base}.crate"));
    let size = fs::metadata(&archive).map_err(|error| format!("{}: {error}", archive.display()))?.len();
    let target = folder.join(&base);
    // `m`: cargo gives all files one fixed time, by which it would not see that they have changed
    run(files::command("tar").arg("-xmzf").arg(&archive).arg("-C").arg(folder))?;
    let paths = files::below(&target, |_| true)?;
    let path = |path: &PathBuf| path.strip_prefix(&target).unwrap_or(path).display().to_string();
    let mut contents: Vec<String> = paths.iter().map(path).collect();
    contents.sort();
    Ok((contents, size))
}

/// Problems of a manifest that crates.io refuses or that its pages show.
fn manifest_problems(package: &Package) -> Vec<String> {
    let name = &package.name;
    let mut problems = Vec::new();
    let mut require = |present: bool, what: &str| {
        if !present {
            problems.push(format!("{}:1: {name} needs {what}", package.manifest_path));
        }
    };
    require(package.description.as_ref().is_some_and(|text| !text.is_empty()), "a description");
    require(package.license.is_some(), "a license");
    require(package.repository.is_some(), "a repository");
    require(package.readme.is_some(), "a README.md");
    require(package.rust_version.is_some(), "a rust-version");
    require((1..=5).contains(&package.keywords.len()), "one to five keywords");
    require(package.keywords.iter().all(|word| word.len() <= 20), "keywords of at most 20 characters");
    require((1..=5).contains(&package.categories.len()), "one to five categories");
    for dependency in &package.dependencies {
        let is_ours = dependency.path.is_some();
        let is_dev = dependency.kind == cargo_metadata::DependencyKind::Development;
        let has_version = dependency.req != cargo_metadata::semver::VersionReq::STAR;
        if is_ours && has_version == is_dev {
            let what =
                if is_dev { "no version of the dev-dependency" } else { "a version of the dependency" };
            require(false, &format!("{what} {}", dependency.name));
        }
    }
    problems
}

/// Problems of the contents of a package.
fn content_problems(name: &str, contents: &[String], size: u64) -> Vec<String> {
    let has = contents.iter().map(String::as_str).collect::<BTreeSet<_>>();
    let mut problems = Vec::new();
    for needed in ["LICENSE", "README.md"] {
        if !has.contains(needed) {
            problems.push(format!("the package {name} has no {needed}"));
        }
    }
    // Cargo adds the last four.
    let root =
        ["LICENSE", "README.md", "Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"];
    for path in contents {
        if !path.starts_with("src/") && !root.contains(&path.as_str()) {
            problems.push(format!("the package {name} contains {path}; only src/ is published"));
        }
    }
    if size > LARGEST {
        problems.push(format!("the package {name} has {size} bytes; the limit is {LARGEST}"));
    }
    problems
}

/// Makes a workspace of the unpacked packages and of the programs of the READMEs.
///
/// The patches stand for crates.io. Profile and lock file are those of the workspace, so that its builds are reused.
fn workspace(packages: &[Package], folder: &Path) -> Result<(), String> {
    let mut text = "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[profile.dev]\n".to_owned();
    text.push_str("debug = \"line-tables-only\"\n\n[patch.crates-io]\n");
    for package in packages {
        text.push_str(&format!("{} = {{ path = \"{}\" }}\n", package.name, base(package)));
    }
    write(&folder.join("Cargo.toml"), &text)?;
    write(&folder.join("Cargo.lock"), &files::read("Cargo.lock")?)
}

/// What is built from the packages.
///
/// One at a time: together, a program would have the features of the others.
enum Build {
    /// The program of a README, with the dependencies that the README names, as the member with this name.
    Program(String, Program),
    /// A package whose README has no program.
    Package(String),
    Template,
}

impl Build {
    fn run(&self, folder: &Path) -> Result<(), String> {
        match self {
            Self::Program(member, program) => {
                program.create(member, folder)?;
                program.build_and_run(member, folder)
            }
            Self::Package(name) => {
                println!("checking {name}");
                run(cargo_in(folder).args(["check", "--quiet", "--package", name]))
            }
            Self::Template => template::check(folder),
        }
    }
}

/// Returns what is built from the packages.
fn builds(packages: &[Package], folder: &Path) -> Result<Vec<Build>, String> {
    let mut builds = Vec::new();
    for package in packages {
        let base = base(package);
        let readme = fs::read_to_string(folder.join(&base).join("README.md"));
        let readme = readme.map_err(|error| format!("{base}/README.md: {error}"))?;
        let name = package.name.to_string();
        builds.push(match Program::of(&readme) {
            Some(program) => Build::Program(format!("readme-of-{name}"), program),
            None => Build::Package(name),
        });
    }
    for (name, path) in PAGES {
        let program = Program::of(&files::read(path)?);
        let program = program.ok_or(format!("{path}: no program with its dependencies"))?;
        builds.push(Build::Program(name.to_owned(), program));
    }
    builds.push(Build::Template);
    Ok(builds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn manifests_of_published_crates_are_complete() {
        let packages = published().unwrap();
        assert!(packages.iter().any(|package| package.name.as_str() == "kinformer"));
        assert!(!packages.iter().any(|package| package.name.as_str() == "xtask"));
        let problems: Vec<String> = packages.iter().flat_map(manifest_problems).collect();
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn the_table_of_versions_has_every_feature_and_no_other() {
        let page = files::read("docs/versions.md").unwrap();
        let table = page.split("\n## ").find(|section| section.starts_with("Features")).unwrap();
        let mut rows = table.lines().filter(|line| line.starts_with("| `")).count();
        for package in published().unwrap() {
            for feature in package.features.keys().filter(|feature| *feature != "default") {
                let row = format!("| `{}` | `{feature}` |", package.name);
                assert!(table.contains(&row), "docs/versions.md has no row {row}");
                rows -= 1;
            }
            let rust = package.rust_version.unwrap();
            assert!(page.contains(&format!("| {}.{} |", rust.major, rust.minor)), "Rust {rust}");
        }
        assert_eq!(rows, 0, "docs/versions.md has rows of features that no crate has");
    }

    /// Without it, items on docs.rs do not name the feature that they need.
    #[test]
    fn documentation_marks_features() {
        for package in published().unwrap().iter().filter(|package| !package.features.is_empty()) {
            let library = package.targets.iter().find(|target| target.is_lib()).unwrap();
            let text = fs::read_to_string(&library.src_path).unwrap();
            assert!(text.contains("#![cfg_attr(docsrs, feature(doc_cfg))]"), "{}", library.src_path);
        }
    }

    #[test]
    fn incomplete_manifests_are_reported() {
        let mut package = published().unwrap().into_iter().find(|p| p.name.as_str() == "kinformer").unwrap();
        package.description = None;
        package.readme = None;
        package.keywords = vec!["a-keyword-of-many-characters".into()];
        package.categories.clear();
        for dependency in &mut package.dependencies {
            if dependency.path.is_some() {
                dependency.req = match dependency.kind {
                    cargo_metadata::DependencyKind::Development => "0.1.0".parse().unwrap(),
                    _ => cargo_metadata::semver::VersionReq::STAR,
                };
            }
        }
        let problems = manifest_problems(&package).join("\n");
        for expected in [
            "needs a description",
            "needs a README.md",
            "needs keywords of at most 20 characters",
            "needs one to five categories",
            "needs a version of the dependency kinformer-core",
            "needs no version of the dev-dependency kinformer-testing",
        ] {
            assert!(problems.contains(expected), "{expected} is not in:\n{problems}");
        }
    }

    /// A package contains only sources, the license and the README.
    #[test]
    fn unexpected_files_in_packages_are_reported() {
        let complete = ["Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "src/lib.rs"];
        assert_eq!(content_problems("x", &paths(&complete), 1), [""; 0]);
        assert_eq!(content_problems("x", &paths(&complete), LARGEST + 1).len(), 1);
        let wrong = content_problems("x", &paths(&["Cargo.toml", "src/lib.rs", "tests/golden/a.bin"]), 1);
        assert_eq!(
            wrong,
            [
                "the package x has no LICENSE",
                "the package x has no README.md",
                "the package x contains tests/golden/a.bin; only src/ is published",
            ]
        );
    }
}
