//! The tests that documents name, which must exist in the named files.

use std::collections::BTreeSet;

use crate::files::File;
use crate::source;

/// The documents, each with the folder of the tests that its tables name without a file.
pub(super) const DOCUMENTS: [(&str, &str); 3] = [
    ("docs/known-as.md", ""),
    ("docs/reliability.md", "crates/kinformer/tests/it/hostile/"),
    ("docs/workqueue.md", "crates/workqueue/tests/it/"),
];

/// A test that a document names, with its file or the folder of its file.
#[derive(Debug, PartialEq)]
struct Named {
    line: usize,
    test: String,
    path: String,
    /// The target of the link of the file.
    target: Option<String>,
}

/// Returns the tests of a document that do not exist, and links that lead to another file than they name.
pub(super) fn problems(document: &str, text: &str, folder: &str, files: &[File]) -> Vec<String> {
    let named = named(text, folder);
    if named.is_empty() {
        return vec![format!("{document}:1: names no test; correct the form, or remove it from this check")];
    }
    let mut problems = Vec::new();
    for Named { line, test, path, target } in named {
        let mut candidates = files.iter().filter(|file| match path.ends_with('/') {
            true => file.path.starts_with(&path),
            false => file.path == path,
        });
        if !candidates.any(|file| names(&file.text).contains(&test)) {
            problems
                .push(format!("{document}:{line}: there is no test `{test}` in {path}; correct the name"));
        }
        if target.is_some_and(|target| target != format!("../{path}")) {
            problems.push(format!("{document}:{line}: the link of {path} leads to another file; correct it"));
        }
    }
    problems
}

/// Finds "`test` in `file`", "`test` in [`file`](link)", and tests in the last column of a table named "test".
fn named(text: &str, folder: &str) -> Vec<Named> {
    let mut named = Vec::new();
    let parts: Vec<&str> = text.split('`').collect();
    let mut line = 1;
    for (index, part) in parts.iter().enumerate() {
        if let Some([test, within, path, after, ..]) = parts.get(index..)
            && index % 2 == 1
            && is_test_name(test)
            && matches!(within.split_whitespace().collect::<Vec<_>>().as_slice(), ["in"] | ["in", "["])
            && path.ends_with(".rs")
        {
            let target = after.strip_prefix("](").and_then(|link| link.split(')').next());
            let (test, path, target) = ((*test).to_owned(), (*path).to_owned(), target.map(str::to_owned));
            named.push(Named { line, test, path, target });
        }
        line += part.matches('\n').count();
    }
    let mut has_tests = false;
    for (line, text) in (1..).zip(text.lines()) {
        let Some(cells) = text.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
            has_tests = false;
            continue;
        };
        let last = cells.rsplit('|').next().unwrap_or_default().trim();
        has_tests |= last == "test";
        let test = last.strip_prefix('`').and_then(|test| test.strip_suffix('`'));
        if let Some(test) = test.filter(|test| has_tests && is_test_name(test)) {
            named.push(Named { line, test: test.to_owned(), path: folder.to_owned(), target: None });
        }
    }
    named.sort_by_key(|named| named.line);
    named
}

fn is_test_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_')
}

/// Returns the names of the tests that run in a file.
fn names(text: &str) -> BTreeSet<String> {
    let lines = source::lines(text);
    let starts = lines.iter().enumerate().filter(|(_, line)| source::is_test_attribute(&line.code));
    starts.filter_map(|(start, _)| source::test_below(lines.get(start..)?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# T\n* `one` in [`crates/x/y.rs`](../crates/x/y.rs)\nsee `two` in\n  `crates/x/y.rs`, as `z.rs` in `a`\n\n\
        | a | test |\n|---|---|\n| `a` | `three` |\n| b | `one` in `crates/x/y.rs` |\n\n| a | b |\n|---|---|\n| a | `four` |\n";

    fn problems_of(text: &str) -> Vec<String> {
        let files = [
            ("crates/x/y.rs", "#[test]\nfn one() {}\n#[tokio::test]\nasync fn two() {}\nfn helper() {}\n"),
            (
                "crates/x/more/z.rs",
                "#[test]\n#[cfg(unix)]\nfn three() {}\n#[test]\n#[ignore]\nfn ignored() {}\n",
            ),
        ];
        let files = files.map(|(path, text)| File { path: path.into(), text: text.into() });
        problems("d.md", text, "crates/x/more/", &files)
    }

    #[test]
    fn tests_are_found_in_lists_prose_and_tables() {
        let found: Vec<_> = named(TEXT, "folder/").into_iter().map(|n| (n.line, n.test, n.path)).collect();
        let expected = [
            (2, "one", "crates/x/y.rs"),
            (3, "two", "crates/x/y.rs"),
            (8, "three", "folder/"),
            (9, "one", "crates/x/y.rs"),
        ];
        assert_eq!(found, expected.map(|(line, test, path)| (line, test.to_owned(), path.to_owned())));
        assert_eq!(problems_of(TEXT), [""; 0]);
    }

    #[test]
    fn tests_that_do_not_exist_are_reported() {
        for (from, to, problem) in [
            ("`two`", "`helper`", "d.md:3: there is no test `helper` in crates/x/y.rs"),
            ("`three`", "`ignored`", "d.md:8: there is no test `ignored` in crates/x/more/"),
            ("`three`", "`one`", "d.md:8: there is no test `one` in crates/x/more/"),
            (
                "[`crates/x/y.rs`]",
                "[`crates/x/none.rs`]",
                "d.md:2: there is no test `one` in crates/x/none.rs",
            ),
            ("(../crates/x/y.rs)", "(../crates/y.rs)", "d.md:2: the link of crates/x/y.rs leads to another"),
        ] {
            let problems = problems_of(&TEXT.replacen(from, to, 1));
            assert!(problems.iter().any(|found| found.starts_with(problem)), "{problem}: {problems:?}");
        }
        assert!(problems_of("none\n")[0].starts_with("d.md:1: names no test"));
    }
}
