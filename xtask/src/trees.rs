//! What the lower crates may not have in their dependency trees: whoever takes one of them takes nothing that
//! talks to anyone.

use std::collections::BTreeSet;

use crate::files;

/// Crates that must stay usable with no network near them.
const ALONE: [&str; 5] =
    ["kinformer-core", "kinformer-store", "kinformer-delta-fifo", "kinformer-wire", "kinformer-reflector"];

/// HTTP, TLS and Kubernetes clients, each with all crates whose names go on after a dash.
const NETWORK: [&str; 14] = [
    "axum",
    "h2",
    "http",
    "hyper",
    "k8s-openapi",
    "kube",
    "mio",
    "native-tls",
    "openssl",
    "quinn",
    "reqwest",
    "rustls",
    "socket2",
    "tower",
];

/// Features of tokio that bring its runtime or its sockets.
const TOKIO: [&str; 4] = ["full", "net", "rt", "rt-multi-thread"];

/// Asks `cargo tree`, which looks at one package as its user would build it, without the features that other
/// packages of the workspace switch on.
pub(crate) fn problems() -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for package in ALONE {
        let mut tree = files::command("cargo");
        tree.args(["tree", "--edges", "normal,features", "--prefix", "none", "--package", package]);
        let output = tree.output().map_err(|error| format!("cargo tree: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)));
        }
        problems.extend(in_tree(package, &String::from_utf8_lossy(&output.stdout)));
    }
    Ok(problems)
}

/// Reads lines such as `tokio v1.54.0` and `tokio feature "time"`.
fn in_tree(package: &str, tree: &str) -> Vec<String> {
    let manifest = format!("crates/{}/Cargo.toml:1", package.strip_prefix("kinformer-").unwrap_or(package));
    let mut unwanted = BTreeSet::new();
    for line in tree.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(what), detail) = (words.next(), words.next(), words.next()) else { continue };
        let family =
            |of: &str| name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        if NETWORK.iter().any(|of| family(of)) {
            unwanted.insert(name.to_owned());
        }
        let feature = detail.filter(|_| what == "feature").map(|quoted| quoted.trim_matches('"'));
        if name == "tokio" && feature.is_some_and(|feature| TOKIO.contains(&feature)) {
            unwanted.insert(format!("tokio/{}", feature.unwrap_or_default()));
        }
    }
    let told =
        |name| format!("{manifest}: its dependency tree has {name}; it must stand alone, do without it");
    unwanted.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_talks_to_anyone_is_told() {
        let fine = "kinformer-store v0.1.0 (/somewhere)\nfoldhash v0.2.0\ntokio v1.54.0\ntokio feature \"time\"\n\
                    httparse v1.0.0\nfoldhash v0.2.0 (*)\nserde feature \"rt\"\n";
        assert_eq!(in_tree("kinformer-store", fine), [""; 0]);
        for unwanted in
            ["hyper v1.8.0", "kube-core v5.0.0", "http feature \"default\"", "k8s-openapi v0.29.0"]
        {
            let told = in_tree("kinformer-store", &format!("{fine}{unwanted}\n{unwanted} (*)\n"));
            let name = unwanted.split(' ').next().unwrap();
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains(&format!("crates/store/Cargo.toml:1: its dependency tree has {name};")));
        }
        for feature in TOKIO {
            let told = in_tree("kinformer-store", &format!("{fine}tokio feature \"{feature}\"\n"));
            assert!(told.join("\n").contains(&format!("has tokio/{feature};")), "{told:?}");
        }
    }
}
