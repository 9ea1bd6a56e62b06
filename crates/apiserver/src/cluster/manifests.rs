//! Objects in YAML files.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Error;

/// An object, and where it was written.
pub(super) struct Manifest {
    file: String,
    document: usize,
    pub(super) object: Value,
}

impl Manifest {
    /// An object of the program.
    pub(super) fn of_value(document: usize, object: Value) -> Self {
        Self { file: "object of the builder".to_owned(), document, object }
    }

    /// Returns the error of this manifest.
    pub(super) fn error(&self, reason: &dyn std::fmt::Display) -> Error {
        let (file, document) = (self.file.clone(), self.document);
        Error::Manifest { file, document, object: name(&self.object), reason: reason.to_string() }
    }

    /// The order of creation: definitions, then namespaces, then the rest.
    pub(super) fn rank(&self) -> u8 {
        match self.object.get("kind").and_then(Value::as_str) {
            Some("CustomResourceDefinition") => 0,
            Some("Namespace") => 1,
            _ => 2,
        }
    }
}

/// `ConfigMap default/settings`, as far as the object has these fields.
fn name(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("");
    let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{kind} {namespace}{slash}{name}").trim().to_owned()
}

/// Reads a file, or the YAML and JSON files of a folder in the order of their names, without its subfolders.
///
/// # Errors
/// [`Error::Read`], [`Error::Manifest`].
pub(super) fn read(path: &Path) -> Result<Vec<Manifest>, Error> {
    let failed = |path: &Path, source| Error::Read { path: path.to_owned(), source };
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| failed(path, error))?;
        let entries = entries.map(|entry| entry.map(|entry| entry.path()));
        files = entries.collect::<Result<Vec<PathBuf>, _>>().map_err(|error| failed(path, error))?;
        files.retain(|file| file.is_file() && has_manifests(file));
        files.sort();
    }
    let mut manifests = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|error| failed(&file, error))?;
        manifests.extend(parse(&file.display().to_string(), &text)?);
    }
    Ok(manifests)
}

fn has_manifests(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}

/// Parses the documents of a file.
///
/// # Errors
/// [`Error::Manifest`] for a document that does not parse or is no object with a kind.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Manifest>, Error> {
    let mut manifests = Vec::new();
    let mut document = 0;
    for (line, text) in documents(text) {
        let is_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        if !text.lines().any(is_content) {
            continue;
        }
        document += 1;
        let mut manifest = Manifest { file: file.to_owned(), document, object: Value::Null };
        // So that the lines in errors are those of the file.
        let text = format!("{}{text}", "\n".repeat(line));
        manifest.object = serde_saphyr::from_str(&text).map_err(|error| manifest.error(&error))?;
        match &manifest.object {
            Value::Null => {}
            object if object.get("kind").and_then(Value::as_str).is_some() => manifests.push(manifest),
            _ => return Err(manifest.error(&"it is not an object with a kind")),
        }
    }
    Ok(manifests)
}

/// Splits a text at the lines `---`: the number of lines before each document, and its text.
fn documents(text: &str) -> Vec<(usize, String)> {
    let mut documents = vec![(0, String::new())];
    for (number, line) in text.lines().enumerate() {
        // Within a block of text, a line is indented.
        let rest = line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if let Some(rest) = rest {
            documents.push((number, rest.trim_start().to_owned() + "\n"));
        } else if let Some((_, document)) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    documents
}
