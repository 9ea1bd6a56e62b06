//! The registry of `kinformer-apiserver`: its kinds are kinds of Kubernetes, and it has all stable ones.

use super::accessors::{Kind, kinds};
use super::source::Source;
use crate::files;

/// The kinds of requests and subresources, which are not in the registry.
pub(super) const REQUESTS: [(&str, &str, &str); 8] = [
    ("authentication.k8s.io", "v1", "SelfSubjectReview"),
    ("authentication.k8s.io", "v1", "TokenRequest"),
    ("authentication.k8s.io", "v1", "TokenReview"),
    ("authorization.k8s.io", "v1", "LocalSubjectAccessReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "v1", "SubjectAccessReview"),
    ("autoscaling", "v1", "Scale"),
];

/// The file with a row for each kind.
const FILE: &str = "crates/apiserver/src/registry/builtin.rs";

/// Stable kinds that the server does not have, by group and plural.
const NOT_SERVED: [(&str, &str); 7] = [
    ("", "componentstatuses"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("certificates.k8s.io", "clustertrustbundles"),
    ("certificates.k8s.io", "podcertificaterequests"),
    ("resource.k8s.io", "devicetaintrules"),
    ("storagemigration.k8s.io", "storageversionmigrations"),
];

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

/// Returns the differences between the rows and the kinds of the newest version of Kubernetes.
pub(super) fn problems(source: &Source) -> Result<Vec<String>, String> {
    let newest = source.minors.last();
    let kinds: Vec<Kind> = kinds(source)?
        .into_iter()
        .filter(|kind| newest.is_some_and(|minor| kind.minors.contains(minor)))
        .collect();
    Ok(differences(&rows()?, &kinds, &NOT_SERVED))
}

fn differences(rows: &[Row], kinds: &[Kind], not_served: &[(&str, &str)]) -> Vec<String> {
    let is_same = |row: &Row, kind: &Kind| {
        (&row.group, &row.version, &row.plural, &row.kind, row.is_namespaced)
            == (&kind.group, &kind.version.0, &kind.plural, &kind.kind, kind.namespaced)
    };
    let unknown = rows.iter().filter(|row| !kinds.iter().any(|kind| is_same(row, kind)));
    let problem = |row: &Row| {
        let Row { line, group, version, plural, kind, .. } = row;
        format!("{FILE}:{line}: Kubernetes has no {kind} {plural:?} of this scope in {group:?} {version:?}")
    };
    let mut problems: Vec<String> = unknown.map(problem).collect();

    let is_stable = |kind: &&Kind| !kind.version.0.contains("alpha") && !kind.version.0.contains("beta");
    let missing = kinds.iter().filter(is_stable).filter(|kind| !rows.iter().any(|row| is_same(row, kind)));
    let missing: Vec<(&str, &str)> =
        missing.map(|kind| (kind.group.as_str(), kind.plural.as_str())).collect();
    for (group, plural) in missing.iter().filter(|kind| !not_served.contains(kind)) {
        problems.push(format!(
            "{FILE}:1: no row of {plural:?} in {group:?}, which is stable; add it or list it in NOT_SERVED"
        ));
    }
    for (group, plural) in not_served.iter().filter(|kind| !missing.contains(kind)) {
        problems.push(format!(
            "{FILE}:1: {plural:?} in {group:?} is served or no stable kind; remove it from NOT_SERVED"
        ));
    }
    problems
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
        let unknown = |text: &str| {
            let mut problems = differences(&parse(text).unwrap(), &kinds, &[]);
            problems.retain(|problem| problem.contains("Kubernetes has no"));
            problems
        };
        let expected = format!("{FILE}:3: Kubernetes has no Node \"nodes\" of this scope in \"x.io\" \"v2\"");
        assert_eq!(unknown(ROWS), [expected]);
        assert_eq!(unknown(&ROWS.replace("Namespaced", "Cluster")).len(), 2);
    }

    /// Each stable kind is either served or listed as not served.
    #[test]
    fn stable_kinds_without_a_row_are_reported() {
        let kinds = kinds(&Source::find().unwrap()).unwrap();
        let chosen = |kind: &&Kind| ["pods", "nodes", "leasecandidates"].contains(&kind.plural.as_str());
        let kinds: Vec<Kind> = kinds.iter().filter(chosen).cloned().collect();
        assert!(kinds.iter().any(|kind| kind.plural == "leasecandidates"), "one is not stable");
        let mut rows = parse(ROWS).unwrap();
        rows.truncate(1); // pods
        let problems = |not_served: &[(&str, &str)]| differences(&rows, &kinds, not_served);
        let missing = "no row of \"nodes\" in \"\", which is stable; add it or list it in NOT_SERVED";
        assert_eq!(problems(&[]), [format!("{FILE}:1: {missing}")]);
        assert_eq!(problems(&[("", "nodes")]), [""; 0]);
        let served = "\"pods\" in \"\" is served or no stable kind; remove it from NOT_SERVED";
        assert_eq!(problems(&[("", "nodes"), ("", "pods")]), [format!("{FILE}:1: {served}")]);
    }
}
