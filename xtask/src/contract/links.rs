//! The links from the lines of the contract to the tests that prove them.
//!
//! Each line that has a test links to its heading on a generated page, which names the tests and links to their
//! files. Links contain no positions in files: an edit of a test changes none of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::files::difference;

use super::model::{CONTRACT, Contract, Test, numbered};

/// The generated page.
pub(super) const PAGE: &str = "docs/contract-tests.md";
/// The command that writes the links.
const COMMAND: &str = "cargo xtask contract --write";
/// The comment above the targets of the links at the end of the contract.
const MARK: &str = "<!-- The targets of the links, written by `cargo xtask contract --write`. -->";

/// The contract with its links, and the page to which they lead.
#[derive(Debug, PartialEq)]
pub(super) struct Linked {
    pub(super) contract: String,
    pub(super) page: String,
}

impl Linked {
    /// Adds the links to the text of the contract, with or without links from before.
    pub(super) fn new(text: &str, tests: &[Test]) -> Self {
        let contract = Contract::parse(text).0;
        let mut proofs: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
        for test in tests {
            for number in test.numbers.iter().filter(|number| contract.promises.contains_key(*number)) {
                let files = proofs.entry(number).or_default();
                files.entry(&test.path).or_default().insert(&test.name);
            }
        }
        let (body, _) = text.split_once(MARK).unwrap_or((text, ""));
        let (mut linked, mut targets) = (String::new(), String::new());
        let mut page = format!(
            "# The tests of the contract\n\nThe tests that prove each line of [the contract](contract.md), by file. \
             Written by `{COMMAND}`\nfrom the comments above the tests (`// contract: Q-07`).\n"
        );
        // Written above the first line of the section that has a test.
        let (mut heading, mut named) = ("", BTreeSet::new());
        for line in body.trim_end().lines() {
            if line.starts_with("## ") {
                heading = line;
            }
            match numbered(line).map(|(number, promise)| (number, promise, proofs.get(number))) {
                Some((number, promise, Some(files))) => {
                    _ = writeln!(linked, "- [{number}] {promise}");
                    _ = writeln!(targets, "[{number}]: {}#{}", file_name(PAGE), number.to_lowercase());
                    if !heading.is_empty() {
                        _ = writeln!(page, "\n{}", std::mem::take(&mut heading));
                    }
                    _ = writeln!(page, "\n### {number}\n");
                    for (path, tests) in files {
                        let tests: Vec<_> = tests.iter().map(|test| format!("`{test}`")).collect();
                        _ = writeln!(page, "* [{path}]: {}", tests.join(", "));
                        named.insert(*path);
                    }
                }
                Some((number, promise, None)) => _ = writeln!(linked, "- {number} {promise}"),
                None => _ = writeln!(linked, "{line}"),
            }
        }
        page.push('\n');
        for path in named {
            _ = writeln!(page, "[{path}]: ../{path}");
        }
        Self { contract: format!("{linked}\n{MARK}\n\n{targets}"), page }
    }

    /// Reports the first line in which each file differs from the expected one.
    pub(super) fn differences(&self, contract: &str, page: &str) -> Vec<String> {
        let contract = difference(contract, &self.contract, CONTRACT, COMMAND);
        contract.into_iter().chain(difference(page, &self.page, PAGE, COMMAND)).collect()
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::model;
    use crate::files::File;

    const TEXT: &str =
        "# T\nFinished: A\n\n## A: one\n- A-01 first\n- A-02a second (A-01)\n\n## B: two\n- B-01 third\n";
    const LINKED: &str = "# T\nFinished: A\n\n## A: one\n- [A-01] first\n- [A-02a] second (A-01)\n\n## B: two\n\
        - B-01 third\n\n<!-- The targets of the links, written by `cargo xtask contract --write`. -->\n\n\
        [A-01]: contract-tests.md#a-01\n[A-02a]: contract-tests.md#a-02a\n";
    const PAGE_END: &str = "\n## A: one\n\n### A-01\n\n\
        * [crates/x/tests/y.rs]: `again`, `proves`\n* [crates/x/tests/z.rs]: `other`\n\n### A-02a\n\n\
        * [crates/x/tests/y.rs]: `proves`\n\n\
        [crates/x/tests/y.rs]: ../crates/x/tests/y.rs\n[crates/x/tests/z.rs]: ../crates/x/tests/z.rs\n";

    fn tests(first: &str) -> Vec<Test> {
        let y = format!(
            "// contract: {first}\n#[test]\nfn proves() {{}}\n// contract: A-01\n#[test]\nfn again() {{}}\n"
        );
        let z = "// contract: A-01, A-77\n#[test]\nfn other() {}\n".to_owned();
        let files = [("crates/x/tests/y.rs", y), ("crates/x/tests/z.rs", z)];
        model::tests(&files.map(|(path, text)| File { path: path.into(), text })).0
    }

    #[test]
    fn each_line_with_a_test_links_to_its_tests() {
        let linked = Linked::new(TEXT, &tests("A-01, A-02a"));
        assert_eq!(linked.contract, LINKED);
        assert!(linked.page.ends_with(PAGE_END), "{}", linked.page);
        assert!(!linked.page.contains("## B"), "a section without tests has no heading");
        assert_eq!(Linked::new(LINKED, &tests("A-01, A-02a")), linked, "links are written once");
    }

    #[test]
    fn a_line_that_loses_its_tests_loses_its_link() {
        let linked = Linked::new(LINKED, &tests("A-01"));
        assert!(linked.contract.contains("- A-02a second") && !linked.contract.contains("[A-02a]"));
    }

    #[test]
    fn links_that_are_out_of_date_are_reported() {
        let before = Linked::new(TEXT, &tests("A-01, A-02a"));
        assert_eq!(before.differences(&before.contract, &before.page), [""; 0]);
        let after = Linked::new(TEXT, &tests("A-01"));
        let problems = after.differences(&before.contract, &before.page).join("\n");
        let contract = "docs/contract.md:6: out of date; run `cargo xtask contract --write`";
        assert!(problems.starts_with(contract), "{problems}");
        assert!(problems.contains("docs/contract-tests.md:"), "{problems}");
        assert_eq!(before.differences(TEXT, "").len(), 2);
    }
}
