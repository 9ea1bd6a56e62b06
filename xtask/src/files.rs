//! The files of the workspace.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file, with its path from the root of the workspace.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Whether the file is code of a library or a program, not a test, an example or a bench.
    pub(crate) fn is_source(&self) -> bool {
        self.path.contains("/src/") && !self.path.starts_with("benches/")
    }

    /// Whether a program wrote it.
    pub(crate) fn is_generated(&self) -> bool {
        self.text.starts_with("// @generated")
    }
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// A program that runs in the root of the workspace.
///
/// It does not inherit what cargo has told this one of itself: build scripts that look at such variables would run
/// again, and with them most of the workspace would be built anew at each change between cargo and a task.
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

/// Reads one file of the workspace.
pub(crate) fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// All Rust files of the workspace, sorted by path.
pub(crate) fn rust() -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "benches", "e2e"] {
        let folder = root().join(folder);
        if folder.exists() {
            walk(&folder, &mut files)?;
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(folder: &Path, files: &mut Vec<File>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            if !path.ends_with("target") {
                walk(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).map_err(failed)?;
            let path = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            files.push(File { path, text });
        }
    }
    Ok(())
}
