//! The registry of `kinformer-apiserver`: its kinds must be kinds of Kubernetes.

use super::accessors::{Kind, kinds};
use super::source::Source;
use crate::files;

/// The file with a row for each kind.
const FILE: &str = "crates/apiserver/src/registry/builtin.rs";

/// One row of the registry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    line: usize,
    pub(super) group: String,
    pub(super) version: String,
    plural: String,
    pub(super) kind: String,
    is_namespaced: bool,
}

/// Returns the rows of the registry.
pub(super) fn rows() -> Result<Vec<Row>, String> {
    parse(&files::read(FILE)?)
}

/// Returns the rows that differ from the kinds of the newest version of Kubernetes.
pub(super) fn problems(source: &Source) -> Result<Vec<String>, String> {
    let newest = source.minors.last();
    let kinds: Vec<Kind> = kinds(source)?
        .into_iter()
        .filter(|kind| newest.is_some_and(|minor| kind.minors.contains(minor)))
        .collect();
    Ok(differences(&rows()?, &kinds))
}

fn differences(rows: &[Row], kinds: &[Kind]) -> Vec<String> {
    let is_same = |row: &Row, kind: &Kind| {
        (&row.group, &row.version, &row.plural, &row.kind, row.is_namespaced)
            == (&kind.group, &kind.version.0, &kind.plural, &kind.kind, kind.namespaced)
    };
    let unknown = rows.iter().filter(|row| !kinds.iter().any(|kind| is_same(row, kind)));
    let problem = |row: &Row| {
        let Row { line, group, version, plural, kind, .. } = row;
        format!("{FILE}:{line}: Kubernetes has no {kind} {plural:?} of this scope in {group:?} {version:?}")
    };
    unknown.map(problem).collect()
}

/// Parses the calls of `row`, each in one line.
fn parse(text: &str) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let Some((_, arguments)) = text.split_once("row(\"") else { continue };
        let arguments: Vec<&str> =
            arguments.split("\", ").map(|argument| argument.trim_start_matches('"')).collect();
        let &[group, version, plural, kind, _, _, scope, ..] = arguments.as_slice() else {
            return Err(format!("{FILE}:{line}: expected a row with all its columns"));
        };
        rows.push(Row {
            line,
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            is_namespaced: scope.starts_with("Namespaced,"),
        });
    }
    if rows.is_empty() { Err(format!("{FILE}: no rows")) } else { Ok(rows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "const X: [Row; 2] = [\n    row(\"\", \"v1\", \"pods\", \"Pod\", \"po\", \"all\", Namespaced, \"sg\", \"\"),\n    \
        (row(\"x.io\", \"v2\", \"nodes\", \"Node\", \"\", \"\", Cluster, \"\", \"a\"),\n];\n";

    #[test]
    fn rows_are_parsed() {
        let rows = parse(ROWS).unwrap();
        let row = |line, group: &str, version: &str, plural: &str, kind: &str, is_namespaced| Row {
            line,
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            kind: kind.into(),
            is_namespaced,
        };
        assert_eq!(
            rows,
            [row(2, "", "v1", "pods", "Pod", true), row(3, "x.io", "v2", "nodes", "Node", false)]
        );
        assert!(parse("row(\"\", \"v1\")").unwrap_err().ends_with(":1: expected a row with all its columns"));
        assert!(parse("").unwrap_err().ends_with("no rows"));
    }

    #[test]
    fn kinds_unknown_to_kubernetes_are_reported() {
        let kinds = kinds(&Source::find().unwrap()).unwrap();
        let problems = differences(&parse(ROWS).unwrap(), &kinds);
        let expected = format!("{FILE}:3: Kubernetes has no Node \"nodes\" of this scope in \"x.io\" \"v2\"");
        assert_eq!(problems, [expected]);
        let wrong_scope = parse(&ROWS.replace("Namespaced", "Cluster")).unwrap();
        assert_eq!(differences(&wrong_scope, &kinds).len(), 2);
    }
}
