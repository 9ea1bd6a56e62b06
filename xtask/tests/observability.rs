//! docs/observability.md lists the log lines and the metrics of the libraries, and nothing else.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../docs/observability.md");

/// Their log lines are not those of the libraries.
const NOT_LISTED: [&str; 2] = ["cli", "testing"];

/// The rows of the table under this heading, without the names of its columns.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>();
    rows.map(|row| cells(row.trim_matches('|'))).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The text literals of a macro call that begins here, up to its closing bracket.
fn literals(call: &str) -> Vec<String> {
    let (mut literals, mut open, mut depth) = (Vec::new(), None::<String>, 1);
    let mut characters = call.chars();
    while let Some(character) = characters.next() {
        match (&mut open, character) {
            (Some(text), '\\') => text.extend(characters.next()),
            (Some(_), '"') => literals.extend(open.take()),
            (Some(text), _) => text.push(character),
            (None, '"') => open = Some(String::new()),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, _) => {}
        }
        if depth == 0 {
            return literals;
        }
    }
    panic!("a call without an end: {call}");
}

/// The level, message and package of each log call in the libraries.
fn log_lines() -> BTreeSet<Vec<String>> {
    let mut lines = BTreeSet::new();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates")).unwrap() {
        let folder = entry.unwrap();
        let name = folder.file_name().into_string().unwrap();
        if NOT_LISTED.contains(&name.as_str()) {
            continue;
        }
        let package = if name == "kinformer" { name } else { format!("kinformer-{name}") };
        let mut files = Vec::new();
        sources(&folder.path().join("src"), &mut files);
        for text in files.iter().map(|file| fs::read_to_string(file).unwrap()) {
            for level in ["error", "warn", "info", "debug", "trace"] {
                for (start, call) in text.match_indices(&format!("tracing::{level}!(")) {
                    let message = literals(&text[start + call.len()..]).pop().unwrap();
                    lines.insert(vec![level.to_uppercase(), message, package.clone()]);
                }
            }
        }
    }
    lines
}

#[test]
fn log_lines_are_listed() {
    let listed: BTreeSet<_> = rows("Log lines").into_iter().collect();
    let logged = log_lines();
    assert!(logged.len() > 30, "{logged:?}");
    let missing: Vec<_> = logged.difference(&listed).collect();
    let surplus: Vec<_> = listed.difference(&logged).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:#?}, surplus: {surplus:#?}");
}

#[test]
fn metrics_are_listed() {
    let source = include_str!("../../crates/shared-informer/src/prometheus.rs");
    // The names in the examples are longer.
    let names = source.split('"').filter(|text| {
        text.starts_with("informer_") && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    });
    let listed: BTreeSet<_> = rows("Metrics").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(listed, names.map(str::to_owned).collect());
}
