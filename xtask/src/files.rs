//! The files of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

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
