//! docs/observability.md lists the spans, the log lines and the metrics of the libraries, and nothing else.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../docs/observability.md");
const ALERTS: &str = include_str!("../../docs/observability/alerts.yaml");
const DASHBOARD: &str = include_str!("../../docs/observability/dashboard.json");

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

/// The text literals of a macro call that begins here, and the code around them, up to its closing bracket.
fn literals(call: &str) -> (Vec<String>, String) {
    let (mut literals, mut code, mut open, mut depth) = (Vec::new(), String::new(), None::<String>, 1);
    let mut characters = call.chars();
    while let Some(character) = characters.next() {
        match (&mut open, character) {
            (Some(text), '\\') => text.extend(characters.next()),
            (Some(_), '"') => literals.extend(open.take()),
            (Some(text), _) => text.push(character),
            (None, '"') => open = Some(String::new()),
            (None, _) => {
                depth += i32::from(character == '(') - i32::from(character == ')');
                code.push(character);
            }
        }
        if depth == 0 {
            return (literals, code);
        }
    }
    panic!("a call without an end: {call}");
}

/// The sources of the libraries, each with the name of its package.
fn libraries() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates")).unwrap() {
        let folder = entry.unwrap();
        let name = folder.file_name().into_string().unwrap();
        if NOT_LISTED.contains(&name.as_str()) {
            continue;
        }
        let package = if name == "kinformer" { name } else { format!("kinformer-{name}") };
        let mut files = Vec::new();
        sources(&folder.path().join("src"), &mut files);
        texts.extend(files.iter().map(|file| (package.clone(), fs::read_to_string(file).unwrap())));
    }
    texts
}

/// The calls of a macro of `tracing`, each with its level and its package. The name begins with the level.
fn calls(suffix: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for (package, text) in libraries() {
        for level in ["error", "warn", "info", "debug", "trace"] {
            for (start, call) in text.match_indices(&format!("tracing::{level}{suffix}!(")) {
                found.push((level.to_uppercase(), package.clone(), text[start + call.len()..].to_owned()));
            }
        }
    }
    found
}

/// The level, message and package of each log call in the libraries.
fn log_lines() -> BTreeSet<Vec<String>> {
    let line = |(level, package, call): (String, String, String)| {
        vec![level, literals(&call).0.pop().unwrap(), package]
    };
    calls("").into_iter().map(line).collect()
}

/// The name, level and fields of each span in the libraries.
fn spans() -> BTreeSet<Vec<String>> {
    let is_name = |text: &&str| {
        text.contains('.')
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || b"0123456789._".contains(&byte))
    };
    let span = |(level, _, call): (String, String, String)| {
        let (mut literals, code) = literals(&call);
        let fields = code.split(',').filter_map(|part| Some(part.split_once(" = ")?.0.trim()));
        vec![literals.swap_remove(0), level, fields.filter(is_name).collect::<Vec<_>>().join(", ")]
    };
    calls("_span").into_iter().map(span).collect()
}

#[test]
fn spans_are_listed() {
    let listed: BTreeSet<_> = rows("Spans").iter().map(|row| row[..3].to_vec()).collect();
    assert_eq!(listed, spans());
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

/// The names of metrics in a source. Those in examples have other characters too.
fn metrics<'a>(source: &'a str, prefixes: &'a [&str]) -> impl Iterator<Item = &'a str> {
    source.split('"').filter(|text| {
        prefixes.iter().any(|prefix| text.starts_with(prefix))
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    })
}

#[test]
fn metrics_are_listed() {
    let source = include_str!("../../crates/shared-informer/src/prometheus.rs");
    let listed: BTreeSet<_> = rows("Metrics").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(listed, metrics(source, &["informer_"]).map(str::to_owned).collect());
}

#[test]
fn controller_metrics_are_listed() {
    let source = include_str!("../../crates/controller/src/prometheus.rs");
    let listed = rows("Controller metrics").into_iter().map(|row| match row[1].as_str() {
        // The text format adds it.
        "counter" => row[0].strip_suffix("_total").unwrap().to_owned(),
        _ => row[0].clone(),
    });
    let names = metrics(
        source,
        &[
            "controller_runtime_",
            "workqueue_",
            "kinformer_events_",
            "kinformer_ring_",
            "kinformer_workqueue_",
            "leader_election_",
        ],
    );
    assert_eq!(listed.collect::<BTreeSet<_>>(), names.map(str::to_owned).collect());
}

/// The names of all listed metrics, as a page has them.
fn exported() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for heading in ["Metrics\n", "Controller metrics", "Metrics of clients"] {
        for row in rows(heading) {
            let [listed, kind, ..] = &*row else { panic!("{row:?}") };
            for name in listed.split(", ") {
                let name = name.strip_suffix("_total").unwrap_or(name);
                let suffixes: &[&str] = match &**kind {
                    "counter" => &["_total"],
                    "histogram" => &["_bucket", "_count", "_sum"],
                    _ => &[""],
                };
                names.extend(suffixes.iter().map(|suffix| format!("{name}{suffix}")));
            }
        }
    }
    names
}

/// The metrics that the alerts and the dashboard name are exported.
#[test]
fn alerts_and_dashboard_name_metrics() {
    let exported = exported();
    let prefixes = ["informer_", "kinformer_", "controller_", "workqueue_", "leader_", "rest_", "process_"];
    for text in [ALERTS, DASHBOARD] {
        let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
        let named: BTreeSet<_> =
            words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix))).collect();
        assert!(named.len() > 10, "{named:?}");
        let unknown: Vec<_> = named.iter().filter(|name| !exported.contains(**name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

/// Each alert is listed with its severity, has a link to what to do, and a test in which it must fire.
#[test]
fn alerts_are_listed_and_tested() {
    let tests = include_str!("../../e2e/tests/suite/alerts/mod.rs");
    let help = include_str!("../../docs/troubleshooting.md");
    let mut alerts = BTreeSet::new();
    for alert in ALERTS.split("- alert: ").skip(1) {
        let name = alert.lines().next().unwrap();
        let severity = alert.split("severity: ").nth(1).unwrap().split('}').next().unwrap();
        assert!(alert.contains("\n        for: "), "{name}");
        let link = format!("/docs/troubleshooting.md#{}\n", name.to_lowercase());
        assert!(alert.contains(&link), "{name} has no link to {link}");
        assert!(help.contains(&format!("\n### {name}\n")), "{name} is not in docs/troubleshooting.md");
        assert!(tests.contains(&format!("Expected::new(\"{name}\")")), "{name} has no test");
        alerts.insert([name, severity].map(str::to_owned).to_vec());
    }
    let listed: BTreeSet<_> = rows("Alerts").iter().map(|row| row[..2].to_vec()).collect();
    assert_eq!(listed, alerts);
}
