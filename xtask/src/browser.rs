//! The page of `kinformer serve` in a real browser, driven by playwright-core.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::e2e::{build, finish};
use crate::files;

/// The folder of the tests.
const FOLDER: &str = "e2e/browser";
/// The variable that passes the path of the browser to the tests; it can also be set by the user.
const BROWSER: &str = "KINFORMER_BROWSER";
/// The variables that pass the paths of `kinformer` and of the examples to the tests, and the targets.
const KINFORMER: (&str, &str) = ("KINFORMER_PROGRAM", "kinformer");
const SLOW_HANDLER: (&str, &str) = ("KINFORMER_SLOW_HANDLER", "slow_handler");
const CONTROLLERS: (&str, &str) = ("KINFORMER_CONTROLLERS", "controllers");
/// The names of Chromium and Chrome in distributions.
const BROWSERS: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
/// The oldest Node.js that the tests support.
const NODE: u32 = 20;
/// How long one test may take, in milliseconds.
const TIMEOUT: &str = "--test-timeout=300000";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only tests whose names match this pattern
    filter: Option<String>,
    /// Write the screenshots of the documentation to docs/images instead
    #[arg(long, conflicts_with = "filter")]
    screenshots: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    if let Some(missing) = missing() {
        return Err(missing);
    }
    let mut node = tests()?;
    if args.screenshots {
        node.arg("screenshots.js");
    } else {
        node.args(["--test", "--test-concurrency=1", TIMEOUT]);
        node.args(args.filter.iter().map(|filter| format!("--test-name-pattern={filter}")));
    }
    finish(&mut node)
}

/// Runs all tests.
pub(crate) fn suite() -> Result<(), String> {
    run(&Args { filter: None, screenshots: false })
}

/// Returns a message if there is no Node.js, or an old one.
pub(crate) fn missing_node() -> Option<String> {
    let node = Command::new("node").arg("--version").stderr(Stdio::null()).output();
    let version = node.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let is_old = version.as_deref().and_then(major).is_none_or(|major| major < NODE);
    is_old.then(|| format!("node {NODE} or newer is not installed: https://nodejs.org"))
}

/// Returns the missing requirement of this machine, if there is one.
pub(crate) fn missing() -> Option<String> {
    if let Some(missing) = missing_node() {
        return Some(missing);
    }
    if browser().is_none() {
        return Some(format!(
            "chromium is not installed: apt-get install chromium, or set {BROWSER} to its path"
        ));
    }
    None
}

/// The major number of a version such as `v20.20.2`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// Returns the path of the browser.
fn browser() -> Option<PathBuf> {
    if let Some(chosen) = env::var_os(BROWSER) {
        return Some(chosen.into());
    }
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    BROWSERS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
}

/// Returns node in the folder of the tests, with the driver installed and the programs built.
fn tests() -> Result<Command, String> {
    let folder = files::root().join(FOLDER);
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&folder);
    finish(&mut npm)?;
    let built = build(&["--bin", KINFORMER.1, "--example", SLOW_HANDLER.1, "--example", CONTROLLERS.1])?;
    let mut node = Command::new("node");
    node.current_dir(folder);
    for (variable, target) in [KINFORMER, SLOW_HANDLER, CONTROLLERS] {
        node.env(variable, built.get(target).ok_or(format!("cargo has not built {target}"))?);
    }
    if let Some(browser) = browser() {
        node.env(BROWSER, browser);
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node_are_read() {
        assert_eq!(major("v20.20.2\n"), Some(20));
        assert_eq!(major("v9.0.0"), Some(9));
        assert_eq!(major("20.1"), None);
        assert_eq!(major(""), None);
    }

    /// The driver is pinned: the lock file has the version of the manifest.
    #[test]
    fn the_driver_is_pinned() {
        let version = |path: &str, pointer: &str| {
            let json: serde_json::Value = serde_json::from_str(&files::read(path).unwrap()).unwrap();
            json.pointer(pointer).and_then(|version| version.as_str()).map(str::to_owned)
        };
        let manifest = version("e2e/browser/package.json", "/devDependencies/playwright-core");
        let locked =
            version("e2e/browser/package-lock.json", "/packages/node_modules~1playwright-core/version");
        assert!(manifest.as_deref().is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit())));
        assert_eq!(manifest, locked);
    }
}
