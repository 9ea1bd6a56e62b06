//! The program of a README, as a crate outside the workspace.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::files::{self, run, write};

/// A program and its dependencies, as a README shows them.
#[derive(Debug, PartialEq)]
pub(super) struct Program {
    /// `main.rs`.
    code: String,
    /// `[dependencies]` from a `toml` block.
    manifest: String,
    /// The `cargo add` commands from a `sh` block, each without `cargo`.
    additions: Vec<Vec<String>>,
}

impl Program {
    /// The first Rust block of a README with the first blocks of dependencies before it; `None` without dependencies.
    pub(super) fn of(readme: &str) -> Option<Self> {
        let code = block(readme, |language| language.split(',').next() == Some("rust"))?;
        let above = &readme[..readme.find(code)?];
        let manifest = block(above, |language| language == "toml").unwrap_or_default();
        let commands = block(above, |language| language == "sh").unwrap_or_default();
        let additions: Vec<Vec<String>> = commands.lines().filter_map(addition).collect();
        let known = !manifest.is_empty() || !additions.is_empty();
        known.then(|| Self { code: code.to_owned(), manifest: manifest.to_owned(), additions })
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
}

/// Cargo in a folder of the workspace of packages, with the target folder of the repository, so that builds are shared.
pub(super) fn cargo_in(folder: &Path) -> Command {
    let mut command = files::command("cargo");
    command.current_dir(folder).env("CARGO_TARGET_DIR", files::root().join("target"));
    command
}

/// The arguments of a `cargo add` line, without a comment. A dev-dependency becomes a dependency of the program.
fn addition(line: &str) -> Option<Vec<String>> {
    let arguments = line.split('#').next()?.trim().strip_prefix("cargo ")?;
    let arguments: Vec<String> =
        arguments.split_whitespace().filter(|argument| *argument != "--dev").map(str::to_owned).collect();
    (arguments.first().map(String::as_str) == Some("add")).then_some(arguments)
}

/// The contents of the first fenced block in such a language.
fn block(text: &str, is_wanted: impl Fn(&str) -> bool) -> Option<&str> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("```") {
        let (language, body) = after.split_once('\n')?;
        let (contents, following) = body.split_once("```")?;
        if is_wanted(language.trim()) {
            return Some(contents);
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
        let readme = "# x\n```sh\n# two\ncargo add --dev a b@1 --features c,d # why\ncargo test\n```\ntext\n\
                      ```text\nno\n```\n```rust,no_run\nfn main() {}\n```\n```sh\ncargo add late\n```\n";
        let program = Program::of(readme).unwrap();
        assert_eq!(program.code, "fn main() {}\n");
        assert_eq!(program.additions, [["add", "a", "b@1", "--features", "c,d"]]);
        assert_eq!(program.manifest, "");
    }

    #[test]
    fn dependencies_can_be_toml() {
        let program = Program::of("```toml\n[dependencies]\n```\n```rust\nfn main() {}\n```\n").unwrap();
        assert_eq!(program.manifest, "[dependencies]\n");
        assert_eq!(Program::of("```rust\nfn main() {}\n```\n"), None, "no dependencies");
        assert_eq!(Program::of("```sh\ncargo add a\n```\n"), None, "no program");
    }
}
