//! A release: the packages, the program, and the notes from the changelog.

use std::fs;
use std::path::PathBuf;

use cargo_metadata::Package;

use crate::{files, packages};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Do everything except publishing. Builds the program without optimisation, and takes the unreleased notes
    #[arg(long)]
    dry_run: bool,
    /// Only builds and packs the program for this machine, and adds the archive to the release that exists
    #[arg(long)]
    program: bool,
}

const CHANGELOG: &str = "CHANGELOG.md";

/// The folder of the notes and the archive.
const ASSETS: &str = "target/release-assets";

/// The differences between a release and a dry run.
struct Plan {
    /// The section of the changelog.
    section: String,
    /// The cargo profile of the program, and the folder of its builds.
    profile: (&'static str, &'static str),
}

impl Plan {
    fn new(version: &str, dry_run: bool) -> Self {
        if dry_run {
            Self { section: "Unreleased".into(), profile: ("dev", "debug") }
        } else {
            Self { section: version.into(), profile: ("dist", "dist") }
        }
    }
}

/// Makes a release of the checked-out commit, which must have the tag of its version.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    release(args, None)
}

/// A dry run, for `cargo xtask ci`: with all programs that are built from the packages, or with a part of them.
pub(crate) fn dry_run(part: Option<usize>) -> Result<(), String> {
    release(&Args { dry_run: true, program: false }, part)
}

fn release(args: &Args, part: Option<usize>) -> Result<(), String> {
    let packages = packages::published()?;
    let version = version(&packages)?;
    let plan = Plan::new(&version, args.dry_run);
    if !args.dry_run {
        let obstacles = obstacles(
            &files::output("git", &["status", "--porcelain"])?,
            &files::output("git", &["tag", "--points-at", "HEAD"])?,
            &version,
        );
        crate::contract::fail(obstacles)?;
    }
    let assets = files::root().join(ASSETS);
    fs::create_dir_all(&assets).map_err(|error| format!("{ASSETS}: {error}"))?;
    if args.program {
        let archive = archive(&version, &plan)?;
        println!("program: {archive}");
        return run_commands(&[uploading(&version, &archive)], args.dry_run);
    }
    let notes = notes(&files::read(CHANGELOG)?, &plan.section)
        .ok_or_else(|| format!("{CHANGELOG}: nothing under {:?}", plan.section))?;
    packages::check(part)?;

    let file = assets.join("notes.md");
    files::write(&file, &notes)?;
    let archive = archive(&version, &plan)?;
    println!("notes:\n{notes}\nprogram: {archive}");

    run_commands(&publishing(&packages, &version, &archive), args.dry_run)
}

fn run_commands(commands: &[Vec<String>], dry_run: bool) -> Result<(), String> {
    for command in commands {
        println!("{}{}", if dry_run { "not run: " } else { "$ " }, command.join(" "));
        if !dry_run && let [program, arguments @ ..] = command.as_slice() {
            files::run(files::command(program).args(arguments))?;
        }
    }
    Ok(())
}

/// The version that all published crates have.
fn version(packages: &[Package]) -> Result<String, String> {
    let mut versions: Vec<String> = packages.iter().map(|package| package.version.to_string()).collect();
    versions.sort();
    versions.dedup();
    match versions.as_slice() {
        [version] => Ok(version.clone()),
        _ => Err(format!(
            "published crates have the versions {}; they are released together",
            versions.join(", ")
        )),
    }
}

/// Reasons not to release this commit.
fn obstacles(status: &str, tags: &str, version: &str) -> Vec<String> {
    let mut obstacles = Vec::new();
    if !status.trim().is_empty() {
        obstacles.push("there are uncommitted changes".to_owned());
    }
    let tag = tag(version);
    if !tags.lines().any(|line| line == tag) {
        obstacles.push(format!("this commit does not have the tag {tag}"));
    }
    obstacles
}

fn tag(version: &str) -> String {
    format!("v{version}")
}

/// The text of a section of the changelog, without its heading; `None` if there is none or it is empty.
fn notes(changelog: &str, section: &str) -> Option<String> {
    let is_section = |line: &&str| {
        line.strip_prefix("## [").and_then(|rest| rest.split(']').next()).is_some_and(|name| name == section)
    };
    let lines = changelog.lines().skip_while(|line| !is_section(line)).skip(1);
    let text: Vec<&str> = lines.take_while(|line| !line.starts_with("## ") && !is_link(line)).collect();
    let text = text.join("\n").trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Whether the line defines a link, as at the end of a changelog.
fn is_link(line: &str) -> bool {
    line.starts_with('[') && line.contains("]: ")
}

/// Builds the program and packs it with license and README; returns the path of the archive.
fn archive(version: &str, plan: &Plan) -> Result<String, String> {
    let (profile, folder) = plan.profile;
    files::run(files::command("cargo").args([
        "build",
        "--quiet",
        "--package",
        "kinformer-cli",
        "--profile",
        profile,
    ]))?;
    let name = archive_name(version, &host(&files::output("rustc", &["-vV"])?)?);
    let program = format!("kinformer{}", std::env::consts::EXE_SUFFIX);
    let contents = files::root().join(ASSETS).join(&name);
    fs::create_dir_all(&contents).map_err(|error| format!("{}: {error}", contents.display()))?;
    let target = files::root().join("target").join(folder);
    let sources: [(PathBuf, &str); 3] = [
        (target.join(&program), &program),
        (files::root().join("LICENSE"), "LICENSE"),
        (files::root().join("crates/cli/README.md"), "README.md"),
    ];
    for (source, file) in sources {
        fs::copy(&source, contents.join(file)).map_err(|error| format!("{}: {error}", source.display()))?;
    }
    let archive = format!("{ASSETS}/{name}.tar.gz");
    files::run(files::command("tar").args(["-czf", &archive, "-C", ASSETS, &name]))?;

    // It starts from the archive, and is of this version.
    fs::remove_dir_all(&contents).map_err(|error| format!("{}: {error}", contents.display()))?;
    files::run(files::command("tar").args(["-xzf", &archive, "-C", ASSETS]))?;
    let shown = files::output(&contents.join(&program).display().to_string(), &["--version"])?;
    if shown.trim() == format!("kinformer {version}") {
        Ok(archive)
    } else {
        Err(format!("{archive}: the program prints {shown:?}, not version {version}"))
    }
}

/// The name of the archive of a target, and of the folder in it.
fn archive_name(version: &str, target: &str) -> String {
    format!("kinformer-{version}-{target}")
}

/// The target that rustc builds for, from `rustc -vV`.
fn host(versions: &str) -> Result<String, String> {
    let host = versions.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV: no host".into())
}

/// The commands that publish. crates.io comes last, since a version can be published there only once.
fn publishing(packages: &[Package], version: &str, archive: &str) -> Vec<Vec<String>> {
    let notes = format!("{ASSETS}/notes.md");
    let tag = tag(version);
    let draft = ["gh", "release", "create", &tag, "--verify-tag", "--draft", "--notes-file", &notes, archive];
    let mut publish = vec!["cargo", "publish", "--no-verify"];
    for package in packages {
        publish.extend(["--package", &package.name]);
    }
    let show = ["gh", "release", "edit", &tag, "--draft=false"];
    [draft.as_slice(), &publish, &show]
        .map(|command| command.iter().map(|word| (*word).to_owned()).collect())
        .into()
}

/// The command that adds an archive to a release.
fn uploading(version: &str, archive: &str) -> Vec<String> {
    ["gh", "release", "upload", &tag(version), archive].map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo binstall` finds the program of a release.
    #[test]
    fn the_archive_is_where_cargo_binstall_looks_for_it() {
        let packages = packages::published().unwrap();
        let cli = packages.iter().find(|package| package.name.as_str() == "kinformer-cli").unwrap();
        let name = archive_name("{ version }", "{ target }");
        let expected = serde_json::json!({
            "pkg-url": format!("{{ repo }}/releases/download/{}/{name}.tar.gz", tag("{ version }")),
            "bin-dir": format!("{name}/{{ bin }}{{ binary-ext }}"),
            "pkg-fmt": "tgz",
        });
        assert_eq!(cli.metadata["binstall"], expected);
    }

    /// The image contains the program as it is released, and does not download the toolchain of the repository.
    #[test]
    fn the_image_is_built_as_the_release() {
        let image = files::read("crates/cli/Containerfile").unwrap();
        let profile = Plan::new("0.1.0", false).profile;
        assert!(image.contains(&format!("--profile {} --package kinformer-cli", profile.0)), "{image}");
        assert!(image.contains(&format!("/src/target/{}/kinformer ", profile.1)), "{image}");
        let left_out = files::read("crates/cli/Containerfile.dockerignore").unwrap();
        assert!(left_out.lines().any(|line| line == "rust-toolchain.toml"));
    }

    const EXAMPLE: &str = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-02\n\n### Added\n\n* a\n\n\
                           ## [0.1.0]\n\n* b\n\n[0.2.0]: https://example.org\n";

    #[test]
    fn notes_are_the_section_of_the_version() {
        assert_eq!(notes(EXAMPLE, "0.2.0").as_deref(), Some("### Added\n\n* a"));
        assert_eq!(notes(EXAMPLE, "0.1.0").as_deref(), Some("* b"));
        assert_eq!(notes(EXAMPLE, "Unreleased"), None);
        assert_eq!(notes(EXAMPLE, "0.3.0"), None);
    }

    #[test]
    fn dirty_or_untagged_commits_are_not_released() {
        assert_eq!(obstacles("", "other\nv0.1.0\n", "0.1.0"), [""; 0]);
        assert_eq!(obstacles(" M x\n", "v0.1.0\n", "0.1.0"), ["there are uncommitted changes"]);
        assert_eq!(obstacles("", "v0.1.0-rc\n", "0.1.0"), ["this commit does not have the tag v0.1.0"]);
    }

    #[test]
    fn published_crates_have_one_version() {
        let mut packages = packages::published().unwrap();
        assert!(version(&packages).is_ok());
        packages[0].version = "9.9.9".parse().unwrap();
        assert!(version(&packages).is_err_and(|error| error.contains("9.9.9")));
    }

    #[test]
    fn dry_runs_use_unreleased_notes_and_dev_builds() {
        let (dry, real) = (Plan::new("0.1.0", true), Plan::new("0.1.0", false));
        assert_eq!((dry.section.as_str(), dry.profile.0), ("Unreleased", "dev"));
        assert_eq!((real.section.as_str(), real.profile.0), ("0.1.0", "dist"));
    }

    /// All packages are published after the draft release is created and before it is made public.
    #[test]
    fn packages_are_published_between_draft_and_edit() {
        let packages = packages::published().unwrap();
        let commands = publishing(&packages, "0.1.0", "x.tar.gz");
        let lines: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
        assert!(lines[0].starts_with("gh release create v0.1.0 ") && lines[0].ends_with(" x.tar.gz"));
        assert!(lines[1].starts_with("cargo publish "));
        assert!(packages.iter().all(|package| commands[1].contains(&package.name.to_string())));
        assert_eq!(lines[2], "gh release edit v0.1.0 --draft=false");
    }

    #[test]
    fn the_host_is_read_from_the_compiler() {
        assert_eq!(host("rustc 1.95.0\nhost: x86_64-linux\n").unwrap(), "x86_64-linux");
        assert!(host("rustc").is_err());
    }
}
