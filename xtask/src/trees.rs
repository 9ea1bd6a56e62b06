//! Dependencies that a build must not have: users of the lower crates get no networking code, and the program has no
//! features for tests.

use std::collections::BTreeSet;

use crate::files;

/// Crates that must be usable without a network.
const ALONE: [&str; 6] = [
    "kinformer-core",
    "kinformer-store",
    "kinformer-delta-fifo",
    "kinformer-workqueue",
    "kinformer-wire",
    "kinformer-reflector",
];

/// HTTP, TLS and Kubernetes clients, including all crates with these prefixes before a dash.
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

/// Features of tokio that enable its runtime or its sockets.
const TOKIO: [&str; 4] = ["full", "net", "rt", "rt-multi-thread"];

/// A feature of any crate that only tests need.
const OF_TESTS: &str = "test-util";

/// Runs `cargo tree` for each package as its user would build it, without the features that other packages of the
/// workspace enable, and for what `cargo run` builds.
pub(crate) fn problems() -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for package in ALONE {
        problems.extend(in_tree(package, &tree(&["--package", package])?));
    }
    problems.extend(of_tests(&tree(&[])?));
    Ok(problems)
}

fn tree(selection: &[&str]) -> Result<String, String> {
    let arguments = ["tree", "--edges", "normal,features", "--prefix", "none"];
    files::output("cargo", &[&arguments, selection].concat())
}

/// Reports crates of the program that have the feature for tests: `tokio feature "test-util"`.
fn of_tests(tree: &str) -> Vec<String> {
    let is_feature = |line: &&str| line.contains(&format!(" feature \"{OF_TESTS}\""));
    let crates: BTreeSet<_> =
        tree.lines().filter(is_feature).filter_map(|line| line.split(' ').next()).collect();
    let problem = |name| {
        format!(
            "Cargo.toml:1: `cargo run` builds {name} with the feature {OF_TESTS}; see default-members, or `cargo tree -e features`"
        )
    };
    crates.into_iter().map(problem).collect()
}

/// Parses lines such as `tokio v1.54.0` and `tokio feature "time"`.
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
    let problem =
        |name| format!("{manifest}: its dependency tree has {name}, which this crate must not depend on");
    unwanted.into_iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_for_tests_are_found_in_the_program() {
        let tree = "kinformer-cli v0.1.0 (/x)\ntokio feature \"time\"\ntokio feature \"test-util\" (*)\n";
        assert_eq!(of_tests(tree).len(), 1);
        assert!(of_tests(tree)[0].contains("builds tokio with the feature test-util"));
        assert_eq!(of_tests("tokio feature \"time\"\n"), [""; 0]);
    }

    #[test]
    fn network_dependencies_are_reported() {
        let fine = "kinformer-store v0.1.0 (/somewhere)\nfoldhash v0.2.0\ntokio v1.54.0\ntokio feature \"time\"\n\
                    httparse v1.0.0\nfoldhash v0.2.0 (*)\nserde feature \"rt\"\n";
        assert_eq!(in_tree("kinformer-store", fine), [""; 0]);
        for unwanted in
            ["hyper v1.8.0", "kube-core v5.0.0", "http feature \"default\"", "k8s-openapi v0.29.0"]
        {
            let problems = in_tree("kinformer-store", &format!("{fine}{unwanted}\n{unwanted} (*)\n"));
            let name = unwanted.split(' ').next().unwrap();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(
                problems[0].contains(&format!("crates/store/Cargo.toml:1: its dependency tree has {name},"))
            );
        }
        for feature in TOKIO {
            let problems = in_tree("kinformer-store", &format!("{fine}tokio feature \"{feature}\"\n"));
            assert!(problems.join("\n").contains(&format!("has tokio/{feature},")), "{problems:?}");
        }
    }
}
