//! The files of the workspace.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A text file, with its path from the root of the workspace.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Whether the file is generated.
    pub(crate) fn is_generated(&self) -> bool {
        self.text.starts_with("// @generated")
    }
}

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Returns a command that runs in the root of the workspace.
///
/// It does not inherit the variables that cargo sets for this process: build scripts that depend on them would run
/// again, and rebuild most of the workspace at each switch between cargo and a task.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        let of_cargo = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || name == "CARGO_PRIMARY_PACKAGE"
        });
        if of_cargo {
            command.env_remove(name);
        }
    }
    command
}

/// Reads a file of the workspace.
pub(crate) fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a command to its end; an exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.display().to_string()).collect::<Vec<_>>().join(" ");
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("{line}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
}

/// Returns what a command prints on standard output; an exit code other than 0 is an error.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let line = || format!("{program} {}", arguments.join(" "));
    let output = command(program).args(arguments).output();
    let output = output.map_err(|error| format!("{}: {error}", line()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{}: {}", line(), String::from_utf8_lossy(&output.stderr)))
    }
}

/// All Rust files of the workspace, sorted by path.
pub(crate) fn rust() -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "benches", "e2e"] {
        let folder = root().join(folder);
        if folder.exists() {
            walk(&folder, "rs", &mut files)?;
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// All files of the workspace with text or comments that people read and that are not Rust, sorted by path.
pub(crate) fn prose() -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for extension in ["md", "toml", "yml", "sh", "go", "js", "html", "css"] {
        walk(&root(), extension, &mut files)?;
    }
    // Scripts without an extension.
    walk(&root().join(".ci"), "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Reads all files with this extension (`""` for none) below a folder, except those of cargo, git and npm.
fn walk(folder: &Path, extension: &str, files: &mut Vec<File>) -> Result<(), String> {
    let enter: fn(&Path) -> bool =
        |folder| !["target", ".git", "node_modules"].iter().any(|name| folder.ends_with(name));
    for path in below(folder, enter)? {
        if path.extension().unwrap_or_default() == extension {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            files.push(File { path: from_root(&path), text });
        }
    }
    Ok(())
}

/// Returns the path of a file from the root of the workspace.
pub(crate) fn from_root(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Returns all files below a folder, without the folders that `enter` refuses.
pub(crate) fn below(folder: &Path, enter: fn(&Path) -> bool) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if !path.is_dir() {
            paths.push(path);
        } else if enter(&path) {
            paths.extend(below(&path, enter)?);
        }
    }
    Ok(paths)
}

/// Creates a folder of the workspace without contents, and returns its path.
pub(crate) fn empty_folder(path: &str) -> Result<PathBuf, String> {
    let (folder, failed) = (root().join(path), |error: std::io::Error| format!("{path}: {error}"));
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    fs::create_dir_all(&folder).map_err(failed)?;
    Ok(folder)
}

/// Makes a folder a work tree of a commit, without changes. Files that git ignores stay, such as those of an earlier build.
pub(crate) fn work_tree(folder: &Path, commit: &str) -> Result<(), String> {
    if !folder.join(".git").exists() {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        // Drops the record of a tree that was deleted together with the target folder.
        run(command("git").args(["worktree", "prune"]))?;
        let mut add = command("git");
        run(add.args(["worktree", "add", "--quiet", "--detach"]).arg(folder).arg(commit))?;
    }
    let git = |arguments: &[&str]| run(command("git").arg("-C").arg(folder).args(arguments));
    git(&["reset", "--quiet", "--hard", commit])?;
    git(&["clean", "--quiet", "-d", "--force"])
}

/// Returns what to install, if one of these commands of cargo is not installed.
pub(crate) fn missing_cargo_command(names: &[&str]) -> Option<String> {
    let is_installed = |name: &str| {
        let output = command("cargo").args([name, "--version"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let missing = names.iter().find(|name| !is_installed(name))?;
    Some(format!("no cargo-{missing}: cargo install --locked cargo-{missing}"))
}

/// Reports the first line in which a file differs from the text that a command would write.
pub(crate) fn difference(committed: &str, expected: &str, path: &str, command: &str) -> Option<String> {
    let same = committed.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
    (committed != expected).then(|| format!("{path}:{}: out of date; run `{command}`", same + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outdated_file_is_reported_with_its_line() {
        let difference = |committed: &str| difference(committed, "a\nb\n", "x.rs", "cargo xtask codegen");
        assert_eq!(difference("a\nb\n"), None);
        let problem = "x.rs:2: out of date; run `cargo xtask codegen`";
        assert_eq!(difference("a\nc\n").as_deref(), Some(problem));
        assert_eq!(difference("a\n").as_deref(), Some(problem));
    }

    #[test]
    fn failing_commands_are_reported() {
        let failed = |command: &mut Command| run(command).unwrap_err();
        assert!(failed(command("cargo").arg("no-such-command")).contains("cargo no-such-command: exit"));
        assert!(failed(&mut command("no-such-program")).starts_with("no-such-program: "));
    }
}
