//! What is sent for each kubeconfig, compared with kubectl.
#![allow(unreachable_pub, reason = "files shared with other tests")]

#[path = "../../../crates/kube/tests/it/kubeconfigs/cases.rs"]
mod cases;
#[path = "../../../crates/kube/tests/it/common/certificates.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod certificates;
#[path = "../../../crates/kube/tests/it/kubeconfigs/fixture.rs"]
mod fixture;

use std::process::Stdio;

use cases::{Case, cases};
use e2e::programs::kubectl;
use fixture::{Fixture, send};
use futures::future::join_all;

/// What kubectl sends, and what is sent here if that is different.
const TABLE: &str = include_str!("../../../crates/kube/tests/it/kubeconfigs/table.txt");

/// The differences on purpose: how the names of the cases begin, and the reason.
const REASONS: [(&[&str], &str); 11] = [
    (
        &["apiVersion: ", "kind: ", "preferences: ", "extensions: ", "cluster.extensions: "],
        "a field that is not used may be of any type",
    ),
    (
        &["another of ", "text: two documents, the first empty"],
        "an entry affects only the contexts that name it, and all documents are read",
    ),
    (
        &[
            "cluster.certificate-authority-data: valid in folded",
            "user.client-certificate-data (client-key-data): valid in folded",
            "user.client-certificate-data (client-key-data): blank, with exec",
            "user.client-key-data (client-certificate-data): valid in folded",
        ],
        "base64 may contain any white space",
    ),
    (
        &["cluster.server: plain HTTP", "cluster.server: a host without a scheme"],
        "credentials are sent to a loopback address without TLS",
    ),
    (&["cluster.server: a fragment", "cluster.server: an escape"], "the path of a URL is sent as it is"),
    (
        &["cluster.certificate-authority: data and file", "user: data and file", "user: token and password"],
        "of two values the one is used that Go prefers where it accepts both",
    ),
    (&["cluster.certificate-authority: and insecure"], "a CA is not needed without a check"),
    (&["user: an auth provider"], "a token is sent without an issuer that could renew it"),
    (&["user.exec.apiVersion: ", "user.exec.interactiveMode: "], "a plugin runs without these fields"),
    (&["output of exec: "], "a token is used whatever is around it"),
    (&["context.namespace: "], "a namespace is not escaped; the server has none with white space"),
];

/// Another difference: kubectl asks for a user name if there are no credentials.
fn is_anonymous(theirs: &str, ours: &str) -> bool {
    theirs == "refused" && ours == "https"
}

/// How many kubeconfigs are tried at the same time, each with servers of its own.
const WORKERS: usize = 4;

/// Returns the row of the table for a case.
async fn row(fixture: &Fixture, case: &Case) -> String {
    let path = fixture.folder.path().join("config");
    std::fs::write(&path, &case.kubeconfig).unwrap();
    let before = fixture.requests();
    // A single request, in the namespace of the context.
    let mut command = kubectl(&path, ["create", "token", "x"]).unwrap();
    // kubectl reads a user name from standard input.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().await;
    let theirs = fixture.sent(before, status.unwrap().success());
    let before = fixture.requests();
    let result = send(&path).await;
    let ours = fixture.sent(before, result.is_ok());
    if ours == theirs {
        format!("{} | {theirs}", case.name)
    } else {
        format!("{} | {theirs} | {ours}", case.name)
    }
}

// contract: L-31a, L-31b, L-31c, L-31d, L-31e, L-31f, L-31g, L-31h, L-31i
#[tokio::test(flavor = "multi_thread")]
async fn requests_are_those_of_kubectl() {
    let rows = join_all((0..WORKERS).map(|worker| async move {
        let fixture = Fixture::new().await;
        let mut rows = Vec::new();
        for (number, case) in cases(&fixture.material).iter().enumerate().skip(worker).step_by(WORKERS) {
            rows.push((number, row(&fixture, case).await));
        }
        rows
    }))
    .await;
    let mut rows = rows.concat();
    rows.sort();
    let table: Vec<_> = TABLE.lines().collect();
    let changed = rows.iter().filter(|(number, row)| table.get(*number).copied() != Some(row.as_str()));
    let changed: Vec<_> = changed.map(|(_, row)| row.as_str()).collect();
    assert!(changed.is_empty(), "rows that differ from the table:\n{}", changed.join("\n"));
    assert_eq!(rows.len(), table.len());
}

/// Each difference has a reason, and each reason a difference.
#[test]
fn differences_have_reasons() {
    let mut unused: Vec<_> = REASONS.iter().flat_map(|(starts, _)| starts.iter()).collect();
    for row in TABLE.lines() {
        let [name, theirs, ours] = row.split(" | ").collect::<Vec<_>>()[..] else { continue };
        let known =
            REASONS.iter().flat_map(|(starts, _)| starts.iter()).find(|start| name.starts_with(**start));
        assert!(known.is_some() || is_anonymous(theirs, ours), "{row}");
        unused.retain(|start| Some(*start) != known);
    }
    assert!(unused.is_empty(), "{unused:?}");
}
