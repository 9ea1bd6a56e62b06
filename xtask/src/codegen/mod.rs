//! Generates the facade's accessors and a list of types from the sources of k8s-openapi, and the tables of
//! `kinformer-wire` and `kinformer-apiserver` from the struct tags of Kubernetes' Go types and from the OpenAPI definitions
//! of kube-apiserver. Also the names of other projects, and the page with their counterparts.
//!
//! The sources of k8s-openapi are generated themselves, with one file for each type and one tree for each Kubernetes
//! version, so they are parsed as text.

mod accessors;
mod layouts;
mod merge_types;
mod messages;
mod names;
mod output;
mod registry;
mod source;
mod tables;
mod types;

use std::collections::BTreeMap;
#[cfg(test)]
use std::collections::BTreeSet;
use std::fs;

use crate::contract::fail;
use crate::files;
use crate::names::{PAGE, UPSTREAM};
use merge_types::MergeTypes;
use messages::Messages;
use output::COMMAND;
use source::Source;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if the committed files are out of date
    #[arg(long)]
    check: bool,
    /// Write only the names of other projects, and the page of names
    #[arg(long)]
    names: bool,
}

/// The generated folders, which contain nothing else.
const FOLDERS: [&str; 3] =
    ["crates/apiserver/src/generated", "crates/kinformer/src/generated", "crates/wire/src/generated"];

/// The text of each generated file, by its path; none if it cannot be generated on this machine.
type Files = BTreeMap<String, Option<String>>;

/// Generates the files, or only compares them.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    if args.check {
        return check();
    }
    if args.names {
        write(&Files::from([(UPSTREAM.to_owned(), names::upstream()?)]))?;
        return write(&Files::from([(PAGE.to_owned(), Some(names::page()?))]));
    }
    let source = Source::find()?;
    let files = generate(&source, &Go::run()?)?;
    write(&files)?;
    for path in stale(&files)? {
        fs::remove_file(files::root().join(&path)).map_err(|error| format!("{path}: {error}"))?;
    }
    println!("codegen: {} files", files.values().flatten().count());
    fail(registry::problems(&source)?)
}

/// Writes the files that differ.
fn write(files: &Files) -> Result<(), String> {
    for (path, text) in files {
        let Some(text) = text else { continue };
        if files::read(path).ok().as_ref() != Some(text) {
            let path = files::root().join(path);
            fs::create_dir_all(path.parent().unwrap_or(&path))
                .map_err(|error| format!("{}: {error}", path.display()))?;
            files::write(&path, text)?;
        }
    }
    Ok(())
}

/// Fails if the committed files are out of date, or if the API server's registry differs from the kinds of Kubernetes.
/// Without Go, the output of the Go program is not compared, and a message says so.
pub(crate) fn check() -> Result<(), String> {
    fail(problems(&Go::run()?)?)
}

/// The output of the Go programs; none without Go.
#[derive(Default)]
struct Go {
    messages: Option<Messages>,
    types: Option<MergeTypes>,
    names: Option<String>,
}

impl Go {
    fn run() -> Result<Self, String> {
        Ok(Self { messages: Messages::of_go()?, types: MergeTypes::of_go()?, names: names::upstream()? })
    }
}

fn problems(go: &Go) -> Result<Vec<String>, String> {
    let source = Source::find()?;
    let files = generate(&source, go)?;
    let mut problems: Vec<String> =
        stale(&files)?.iter().map(|path| format!("{path}:1: not generated; remove it")).collect();
    for (path, text) in &files {
        let Some(text) = text else { continue };
        problems.extend(files::difference(&files::read(path).unwrap_or_default(), text, path, COMMAND));
    }
    problems.extend(registry::problems(&source)?);
    Ok(problems)
}

/// The minor versions of Kubernetes 1 with types.
#[cfg(test)]
pub(crate) fn kubernetes_minors() -> Result<BTreeSet<u32>, String> {
    Source::find().map(|source| source.minors)
}

fn generate(source: &Source, go: &Go) -> Result<Files, String> {
    let messages = go.messages.as_ref();
    let mut files: Files =
        accessors::files(source)?.into_iter().map(|(path, text)| (path, Some(text))).collect();
    files.insert(types::FILE.to_owned(), Some(types::render(source)?));
    files.insert(tables::INDEX.to_owned(), Some(tables::index()));
    files.insert(tables::FILE.to_owned(), messages.map(tables::render).transpose()?);
    files.insert(layouts::FILE.to_owned(), messages.map(layouts::render).transpose()?);
    files.insert(merge_types::FILE.to_owned(), go.types.as_ref().map(merge_types::render).transpose()?);
    files.insert(UPSTREAM.to_owned(), go.names.clone());
    files.insert(PAGE.to_owned(), Some(names::page()?));
    Ok(files)
}

/// Returns the files in the generated folders that would not be generated.
fn stale(expected: &Files) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        let all = files::below(&files::root().join(folder), |_| true)?;
        paths.extend(all.iter().map(|path| files::from_root(path)));
    }
    paths.retain(|path| !expected.contains_key(path));
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_files_are_current() {
        assert_eq!(problems(&Go::default()).unwrap(), [""; 0]);
    }

    #[test]
    fn files_that_are_no_longer_generated_are_stale() {
        let expected = Files::from([(tables::FILE.to_owned(), None)]);
        let stale = stale(&expected).unwrap();
        assert!(stale.contains(&"crates/kinformer/src/generated/accessors/core.rs".to_owned()));
        assert!(!stale.contains(&tables::FILE.to_owned()), "it needs Go, which may be missing");
    }
}
