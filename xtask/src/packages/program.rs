//! The program of a README, as a crate outside the workspace.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::files::{self, run, write};

/// The time in which a program of a README has to end.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How pages name the packages until they are published.
const SOURCE: &str = "--git https://github.com/kinformer/kinformer ";

/// A program and its dependencies, as a README shows them.
#[derive(Debug, PartialEq)]
pub(super) struct Program {
    /// `main.rs`.
    code: String,
    /// `[dependencies]` from a `toml` block.
    manifest: String,
    /// The `cargo add` commands from a `sh` block, each without `cargo`.
    additions: Vec<Vec<String>>,
    /// Whether it ends without a cluster; its block is not marked `no_run`.
    ends: bool,
}

impl Program {
    /// The first Rust block of a README with the first blocks of dependencies before it; `None` without dependencies.
    pub(super) fn of(readme: &str) -> Option<Self> {
        let (language, code) = block(readme, |language| language.split(',').next() == Some("rust"))?;
        let above = &readme[..readme.find(code)?];
        let (_, manifest) = block(above, |language| language == "toml").unwrap_or_default();
        let (_, commands) = block(above, |language| language == "sh").unwrap_or_default();
        let additions: Vec<Vec<String>> = commands.lines().filter_map(addition).collect();
        let known = !manifest.is_empty() || !additions.is_empty();
        let ends = language.split(',').all(|word| word != "no_run");
        known.then(|| Self { code: code.to_owned(), manifest: manifest.to_owned(), additions, ends })
    }

    /// Writes the crate and adds its dependencies.
    pub(super) fn create(&self, name: &str, workspace: &Path) -> Result<(), String> {
        let folder = workspace.join(name);
        fs::create_dir_all(folder.join("src")).map_err(|error| format!("{}: {error}", folder.display()))?;
        let manifest = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n\n{}", self.manifest);
        write(&folder.join("Cargo.toml"), &manifest)?;
        write(&folder.join("src/main.rs"), &self.code)?;
        for addition in &self.additions {
            run(cargo_in(&folder).args(addition).arg("--quiet"))?;
        }
        Ok(())
    }

    /// Builds the crate, and runs it if it ends by itself.
    pub(super) fn build_and_run(&self, name: &str, workspace: &Path) -> Result<(), String> {
        let build = if self.ends { "build" } else { "check" };
        println!("{} {name}", if self.ends { "running" } else { "checking" });
        run(cargo_in(workspace).args([build, "--quiet", "--package", name]))?;
        if self.ends {
            run_within(cargo_in(workspace).args(["run", "--quiet", "--package", name]), TIME_LIMIT)
                .map_err(|problem| format!("{name}: {problem}"))?;
        }
        Ok(())
    }
}

/// Runs a command that has to succeed within a time, and is killed after it.
fn run_within(command: &mut Command, limit: Duration) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (ended, end) = mpsc::channel();
    if let Some(mut output) = child.stdout.take() {
        // The output is closed when the program ends.
        thread::spawn(move || {
            let mut text = Vec::new();
            ended.send(output.read_to_end(&mut text).map(|_| text))
        });
    }
    let Ok(text) = end.recv_timeout(limit) else {
        child.kill().and_then(|()| child.wait()).map_err(failed)?;
        return Err(format!("has not ended after {limit:?}"));
    };
    print!("{}", String::from_utf8_lossy(&text.map_err(failed)?));
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

/// Cargo in a folder of the workspace of packages, with the target folder of the repository, so that builds are shared.
pub(super) fn cargo_in(folder: &Path) -> Command {
    let mut command = files::command("cargo");
    command.current_dir(folder).env("CARGO_TARGET_DIR", files::root().join("target"));
    command
}

/// The arguments of a `cargo add` line, without a comment. A dev-dependency becomes a dependency of the program, and a
/// package from git one from the packages.
fn addition(line: &str) -> Option<Vec<String>> {
    let line = line.split('#').next()?.replace(SOURCE, "").replace("--dev ", "");
    let arguments: Vec<String> =
        line.trim().strip_prefix("cargo ")?.split_whitespace().map(str::to_owned).collect();
    (arguments.first().map(String::as_str) == Some("add")).then_some(arguments)
}

/// The language and the contents of the first fenced block in such a language.
fn block(text: &str, is_wanted: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("```") {
        let (language, body) = after.split_once('\n')?;
        let (contents, following) = body.split_once("```")?;
        if is_wanted(language.trim()) {
            return Some((language.trim(), contents));
        }
        rest = following;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readme_has_a_program_and_its_dependencies() {
        let readme = "# x\n```sh\n# two\ncargo add --dev a b@1 --features c,d # why\n\
                      cargo add --git https://github.com/kinformer/kinformer e\ncargo test\n```\ntext\n\
                      ```text\nno\n```\n```rust,no_run\nfn main() {}\n```\n```sh\ncargo add late\n```\n";
        let program = Program::of(readme).unwrap();
        assert_eq!(program.code, "fn main() {}\n");
        assert_eq!(program.additions, [vec!["add", "a", "b@1", "--features", "c,d"], vec!["add", "e"]]);
        assert_eq!(program.manifest, "");
        assert!(!program.ends, "it is marked no_run");
    }

    #[test]
    fn dependencies_can_be_toml() {
        let program = Program::of("```toml\n[dependencies]\n```\n```rust\nfn main() {}\n```\n").unwrap();
        assert_eq!(program.manifest, "[dependencies]\n");
        assert!(program.ends);
        assert_eq!(Program::of("```rust\nfn main() {}\n```\n"), None, "no dependencies");
        assert_eq!(Program::of("```sh\ncargo add a\n```\n"), None, "no program");
    }

    #[test]
    fn programs_have_to_succeed_in_time() {
        let shell = |script: &str, limit| {
            let mut command = Command::new("sh");
            run_within(command.args(["-c", script]), limit)
        };
        assert_eq!(shell("echo 1", TIME_LIMIT), Ok(()));
        assert!(shell("exit 7", TIME_LIMIT).is_err_and(|problem| problem.ends_with(": 7")));
        let problem = shell("exec sleep 3600", Duration::ZERO).unwrap_err();
        assert_eq!(problem, "has not ended after 0ns");
        assert!(run_within(&mut Command::new("no-such-program"), TIME_LIMIT).is_err());
    }
}
