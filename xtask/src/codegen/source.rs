//! The sources of k8s-openapi, read as text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::files;

/// The name of the crate.
pub(super) const SOURCE: &str = "k8s-openapi";

/// The sources of k8s-openapi.
pub(super) struct Source {
    pub(super) folder: PathBuf,
    pub(super) version: String,
    /// The minor versions of Kubernetes 1 in the sources.
    pub(super) minors: BTreeSet<u32>,
}

impl Source {
    pub(super) fn find() -> Result<Self, String> {
        let mut command = cargo_metadata::MetadataCommand::new();
        let metadata = command.manifest_path(files::root().join("Cargo.toml")).exec();
        let metadata = metadata.map_err(|error| error.to_string())?;
        let mut found = metadata.packages.iter().filter(|package| package.name.as_str() == SOURCE);
        let package = found.next().ok_or(format!("no crate depends on {SOURCE}"))?;
        if found.next().is_some() {
            return Err(format!("the workspace has several versions of {SOURCE}; expected one"));
        }
        let manifest = package.manifest_path.as_std_path();
        let folder = manifest.parent().unwrap_or(manifest).join("src");
        let minors =
            names(&folder)?.iter().filter_map(|name| name.strip_prefix("v1_")?.parse().ok()).collect();
        Ok(Self { folder, version: package.version.to_string(), minors })
    }
}

fn names(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

/// Returns all Rust files below a folder.
pub(super) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut paths = files::below(folder, |_| true)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    Ok(paths)
}

/// Returns the first text between two others.
pub(super) fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(found, _)| found)
}
