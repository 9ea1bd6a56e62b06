//! The lines of the contract and the tests that prove them.
//!
//! A test names the lines that it proves in a comment directly above it: `// contract: Q-07, Q-08`.

mod documents;
mod model;

use std::io::Write;

use crate::files::{self, File};
use model::{CONTRACT, Contract, Promise, Test, is_asked, section, tests};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The lines to show, such as `Q-07a`, or `Q-07` for all its parts; all lines without a number
    numbers: Vec<String>,
    /// Show only the lines without a test
    #[arg(long)]
    missing: bool,
}

/// Lists the contract, or some lines of it; fails if [`all_problems`] finds any.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let (text, files) = (files::read(CONTRACT)?, files::rust()?);
    let list = list(&Contract::parse(&text).0, &tests(&files).0, args)?;
    // Ignores a closed pipe: the reader has read enough.
    let _ = std::io::stdout().write_all(list.as_bytes());
    fail(all_problems(&text, &files)?)
}

/// Lists lines of the contract with their tests; fails if there is none with a number that is asked for.
fn list(contract: &Contract, tests: &[Test], Args { numbers, missing }: &Args) -> Result<String, String> {
    for asked in numbers {
        if !contract.promises.keys().any(|number| is_asked(asked, number)) {
            return Err(format!("{CONTRACT} has no line {asked:?}; correct the number"));
        }
    }
    let (mut list, mut covered) = (String::new(), 0);
    let mut promises: Vec<_> = contract.promises.iter().collect();
    promises.retain(|(number, _)| numbers.is_empty() || numbers.iter().any(|asked| is_asked(asked, number)));
    promises.sort_by_key(|(_, promise)| promise.line);
    let all = promises.len();
    for (number, promise) in promises {
        let mut proofs = tests.iter().filter(|test| test.numbers.contains(number)).peekable();
        let proven = proofs.peek().is_some();
        covered += usize::from(proven);
        if !(*missing && proven) {
            list.push_str(&format!("{number} {}\n", promise.text));
            list.extend(proofs.map(|test| format!("     {} in {}:{}\n", test.name, test.path, test.line)));
        }
    }
    let finished: Vec<&str> = contract.finished.iter().map(String::as_str).collect();
    let finished = finished.join(", ");
    list.push_str(&format!("{covered} of {all} lines have a test; finished: {finished}\n"));
    Ok(list)
}

/// Fails like [`run`], and prints nothing.
pub(crate) fn quietly() -> Result<(), String> {
    fail(all_problems(&files::read(CONTRACT)?, &files::rust()?)?)
}

/// Finds [`problems`], and tests that documents name and that do not exist.
fn all_problems(text: &str, files: &[File]) -> Result<Vec<String>, String> {
    let mut problems = problems(text, files);
    for (document, folder) in documents::DOCUMENTS {
        problems.extend(documents::problems(document, &files::read(document)?, folder, files));
    }
    Ok(problems)
}

/// Joins problems into one error.
pub(crate) fn fail(problems: Vec<String>) -> Result<(), String> {
    match problems.len() {
        0 => Ok(()),
        1 => Err(format!("1 problem\n  {}", problems.concat())),
        n => Err(format!("{n} problems\n  {}", problems.join("\n  "))),
    }
}

/// Finds contract lines that do not parse, finished lines without a test, tests that name unknown lines, and comments
/// without a test.
fn problems(contract: &str, files: &[File]) -> Vec<String> {
    let (contract, mut problems) = Contract::parse(contract);
    let (tests, strays) = tests(files);
    problems.extend(strays);
    problems.extend(check(&contract, &tests));
    problems
}

fn check(contract: &Contract, tests: &[Test]) -> Vec<String> {
    let mut problems = Vec::new();
    for Test { path, line, numbers, .. } in tests {
        for number in numbers.iter().filter(|number| !contract.promises.contains_key(*number)) {
            problems.push(format!("{path}:{line}: {CONTRACT} has no line {number:?}; correct the number"));
        }
    }
    for (number, Promise { line, text }) in &contract.promises {
        let proven = tests.iter().any(|test| test.numbers.contains(number));
        if contract.finished.contains(section(number)) && !proven {
            problems.push(format!(
                "{CONTRACT}:{line}: {number} is in a finished section and no test names it; write one: {text}"
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISES: &str = "# T\nFinished: A\n- A-01 one\n- A-02 two\n- B-01 three\ntext A-09\n";
    const BOTH: &str = "// contract: A-01, A-02\n#[test]\nfn proves() {}\n";

    fn problems_of(promises: &str, test: &str) -> String {
        problems(promises, &[File { path: "crates/x/tests/y.rs".into(), text: test.into() }]).join("\n")
    }

    #[test]
    fn the_repository_keeps_its_contract() {
        quietly().unwrap();
    }

    #[test]
    fn every_line_of_a_finished_section_needs_a_test() {
        assert_eq!(problems_of(PROMISES, BOTH), "");
        let one =
            problems_of(PROMISES, "// contract: A-01\n#[tokio::test(a = 1)]\n// why\nasync fn proves() {}\n");
        assert!(one.starts_with("docs/contract.md:4: A-02 is in a finished section"), "{one}");
        let in_text = problems_of(PROMISES, &format!("{BOTH}const A: &str = \"\n// contract: A-77\n\";\n"));
        assert_eq!(in_text, "", "text is no comment");
    }

    #[test]
    fn every_part_of_a_split_line_needs_a_test() {
        let split = PROMISES.replace("- A-02 two", "- A-02a two\n- A-02b more");
        let test = BOTH.replace("A-02", "A-02a, A-02b");
        assert_eq!(problems_of(&split, &test), "");
        let one = problems_of(&split, &BOTH.replace("A-02", "A-02a"));
        assert!(one.starts_with("docs/contract.md:5: A-02b is in a finished section"), "{one}");
        let unsplit = problems_of(&split, BOTH);
        assert!(unsplit.contains("has no line \"A-02\""), "{unsplit}");
    }

    #[test]
    fn long_lines_are_reported() {
        let of_width = |width: usize| PROMISES.replace("one", &"é".repeat(width - "- A-01 ".len()));
        assert_eq!(problems_of(&of_width(200), BOTH), "");
        let long = problems_of(&of_width(201), BOTH);
        assert!(long.starts_with("docs/contract.md:3: A-01 has 201 characters"), "{long}");
    }

    fn listed(promises: &str, test: &str, numbers: &[&str], missing: bool) -> Result<String, String> {
        let file = File { path: "y.rs".into(), text: test.into() };
        let numbers = numbers.iter().map(|number| (*number).to_owned()).collect();
        list(&Contract::parse(promises).0, &tests(&[file]).0, &Args { numbers, missing })
    }

    #[test]
    fn lines_are_listed_with_their_tests_or_only_those_without() {
        let end = "B-01 three\n2 of 3 lines have a test; finished: A\n";
        let proven = "A-01 one\n     proves in y.rs:1\nA-02 two\n     proves in y.rs:1\n";
        assert_eq!(listed(PROMISES, BOTH, &[], false).unwrap(), format!("{proven}{end}"));
        assert_eq!(listed(PROMISES, BOTH, &[], true).unwrap(), end);
    }

    #[test]
    fn one_line_is_listed_with_its_tests() {
        let split = PROMISES.replace("- A-02 two", "- A-02a two\n- A-02b more");
        let test =
            format!("{}\n// contract: A-02b\n#[test]\nfn other() {{}}\n", BOTH.replace("A-02", "A-02b"));
        let listed = |numbers: &[&str]| listed(&split, &test, numbers, false);
        let part = "A-02b more\n     proves in y.rs:1\n     other in y.rs:5\n";
        let end = |proven: &str| format!("{proven} lines have a test; finished: A\n");
        assert_eq!(listed(&["A-02b"]).unwrap(), format!("{part}{}", end("1 of 1")));
        let with_parts = format!("A-02a two\n{part}{}", end("1 of 2"));
        assert_eq!(listed(&["A-02"]).unwrap(), with_parts, "a number means all its parts");
        assert_eq!(listed(&["A-02b", "A-02a"]).unwrap(), with_parts);
        for unknown in ["A-01a", "A-03", "A-02c", "A", ""] {
            let problem = format!("docs/contract.md has no line {unknown:?}; correct the number");
            assert_eq!(listed(&["A-01", unknown]).unwrap_err(), problem);
        }
    }

    #[test]
    fn a_test_in_a_macro_counts() {
        let text = "proptest! {\n    #![proptest_config(x)]\n    // contract: A-01, A-02\n    #[test]\n    fn p(a: u8) {}\n}\n";
        let (tests, strays) = tests(&[File { path: "y.rs".into(), text: text.into() }]);
        assert!(strays.is_empty(), "{strays:?}");
        assert_eq!(tests.iter().map(|test| (test.line, test.name.as_str())).collect::<Vec<_>>(), [(3, "p")]);
    }

    #[test]
    fn unknown_lines_are_reported() {
        let unknown = problems_of(PROMISES, &BOTH.replace("A-02", "A-02, A-03"));
        assert!(
            unknown.contains("crates/x/tests/y.rs:1: docs/contract.md has no line \"A-03\""),
            "{unknown}"
        );
        for empty in ["// contract:", "// contract: A-01,"] {
            let unknown = problems_of(PROMISES, &format!("{BOTH}{empty}\n#[test]\nfn other() {{}}\n"));
            assert_eq!(
                unknown,
                "crates/x/tests/y.rs:4: docs/contract.md has no line \"\"; correct the number"
            );
        }
    }

    /// A removed line is found by its tests, a removed test by its line.
    #[test]
    fn a_line_and_its_tests_go_together() {
        let without_line = problems_of(&PROMISES.replace("- A-02 two\n", ""), BOTH);
        assert!(without_line.contains("y.rs:1: docs/contract.md has no line \"A-02\""), "{without_line}");
        let without_test = problems_of(PROMISES, "");
        for line in ["docs/contract.md:3: A-01", "docs/contract.md:4: A-02"] {
            assert!(without_test.contains(&format!("{line} is in a finished section and no test names it")));
        }
    }

    #[test]
    fn comments_without_a_running_test_are_reported() {
        for stray in [
            "fn helper() {}\n",
            "",
            "let x = 1;\n",
            "\n#[test]\nfn proves() {}\n",
            "#[cfg(test)]\nfn helper() {}\n",
            "#[test]\n#[ignore = \"slow\"]\nfn proves() {}\n",
        ] {
            let problems = problems_of(PROMISES, &format!("{BOTH}// contract: A-01\n{stray}"));
            assert!(problems.starts_with("crates/x/tests/y.rs:4: "), "{stray:?}: {problems:?}");
        }
    }

    #[test]
    fn invalid_contract_lines_are_reported() {
        for (from, to, problem) in [
            ("Finished: A\n", "", "no section is declared finished"),
            ("Finished: A", "Finished: A, Z", ":2: there is no section \"Z\""),
            ("- B-01 three", "- B-1 three", ":5: expected"),
            ("- B-01 three", "- B-01", ":5: expected"),
            ("- B-01 three", "- A-01 three", ":5: A-01 is also on line 3"),
            ("- B-01 three", "- B-01A three", ":5: expected"),
            ("- B-01 three", "- B-01ab three", ":5: expected"),
            ("- B-01 three", "- [B-01] three", ":5: expected"),
            ("- B-01 three", "- A-01a three", ":5: A-01a is a part of A-01"),
        ] {
            let problems = problems_of(&PROMISES.replace(from, to), BOTH);
            assert!(problems.contains(problem), "{problem}: {problems}");
        }
    }
}
