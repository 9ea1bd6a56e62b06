//! The contract's promises and the tests that name them.
//!
//! A test names the lines it proves in a comment directly above it: `// contract: Q-07, Q-08`.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{self, File};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show only the lines without a test.
    #[arg(long)]
    missing: bool,
}

const CONTRACT: &str = "docs/contract.md";
const MARK: &str = "// contract:";

/// Lists the promises; fails for what [`problems`] finds.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let contract = Contract::parse(&files::read(CONTRACT)?);
    let (tests, _) = tests(&files::rust()?);
    for (line, promise) in &contract.lines {
        let named: Vec<&String> =
            tests.iter().filter(|(_, lines)| lines.contains(line)).map(|(t, _)| t).collect();
        if args.missing && !named.is_empty() {
            continue;
        }
        println!("{line} {}", promise.chars().take(100).collect::<String>());
        named.iter().for_each(|test| println!("     {test}"));
    }
    let covered =
        contract.lines.keys().filter(|line| tests.values().any(|lines| lines.contains(*line))).count();
    println!("{covered} of {} lines have a test; finished: {:?}", contract.lines.len(), contract.finished);
    fail(problems()?)
}

/// What is wrong: finished lines without a test, tests that name no line, comments without a test.
pub(crate) fn problems() -> Result<Vec<String>, String> {
    Ok(check(&Contract::parse(&files::read(CONTRACT)?), &files::rust()?))
}

/// Turns problems into one error.
pub(crate) fn fail(problems: Vec<String>) -> Result<(), String> {
    match problems.len() {
        0 => Ok(()),
        n => Err(format!("{n} problems\n  {}", problems.join("\n  "))),
    }
}

struct Contract {
    lines: BTreeMap<String, String>,
    finished: BTreeSet<String>,
}

impl Contract {
    fn parse(text: &str) -> Self {
        let mut contract = Self { lines: BTreeMap::new(), finished: BTreeSet::new() };
        for line in text.lines() {
            if let Some(sections) = line.strip_prefix("Finished:") {
                contract.finished.extend(sections.split(',').map(|section| section.trim().to_owned()));
            }
            let promise = line.strip_prefix("- ").and_then(|line| line.split_once(' '));
            if let Some((number, promise)) = promise
                && is_number(number)
            {
                contract.lines.insert(number.to_owned(), promise.to_owned());
            }
        }
        contract
    }
}

/// A letter, a dash, two digits.
fn is_number(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_uppercase())
        && chars.next() == Some('-')
        && chars.clone().count() == 2
        && chars.all(|c| c.is_ascii_digit())
}

type Tests = BTreeMap<String, BTreeSet<String>>;

/// Each test with the lines it names, and the comments that belong to no test.
fn tests(files: &[File]) -> (Tests, Vec<String>) {
    let (mut tests, mut strays) = (Tests::new(), Vec::new());
    for file in files {
        // The task's own tests hold examples of such comments in text.
        if file.path.starts_with("xtask/") {
            continue;
        }
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(named) = line.strip_prefix(MARK) else { continue };
            match lines.get(at + 1..).and_then(test_below) {
                Some(name) => {
                    let named = named.split(',').map(|number| number.trim().to_owned());
                    tests.entry(format!("{}::{name}", file.path)).or_default().extend(named);
                }
                None => strays.push(format!(
                    "{}:{}: no test follows this comment; move it to one",
                    file.path,
                    at + 1
                )),
            }
        }
    }
    (tests, strays)
}

/// The name of the test that begins in these lines, with nothing but attributes and comments before it. One of
/// the attributes must be a test's.
fn test_below(lines: &[&str]) -> Option<String> {
    let mut is_test = false;
    for line in lines {
        if line.starts_with("#[") {
            is_test |= line.contains("test]") || line.contains("test(");
        } else if !line.starts_with("//") {
            let signature = line.trim_start_matches("pub ").trim_start_matches("async ");
            let name = signature.strip_prefix("fn ")?.split(['(', '<']).next()?;
            return is_test.then(|| name.to_owned());
        }
    }
    None
}

fn check(contract: &Contract, files: &[File]) -> Vec<String> {
    let (tests, mut problems) = tests(files);
    for (test, lines) in &tests {
        for line in lines.iter().filter(|line| !contract.lines.contains_key(*line)) {
            problems.push(format!("{test}: there is no line {line:?} in {CONTRACT}"));
        }
    }
    if contract.finished.is_empty() {
        problems.push(format!("{CONTRACT}: no section is declared finished"));
    }
    for (line, promise) in &contract.lines {
        let section = line.split('-').next().unwrap_or_default();
        if contract.finished.contains(section) && !tests.values().any(|lines| lines.contains(line)) {
            problems
                .push(format!("{CONTRACT}: {line} is in a finished section and no test names it: {promise}"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISES: &str = "# T\nFinished: A\n- A-01 one\n- A-02 two\n- B-01 three\ntext A-09\n";

    fn problems_of(test: &str) -> Vec<String> {
        let file = File { path: "crates/x/tests/y.rs".into(), text: test.into() };
        check(&Contract::parse(PROMISES), &[file])
    }

    #[test]
    fn the_repository_keeps_its_contract() {
        assert_eq!(problems().unwrap(), [""; 0]);
    }

    #[test]
    fn every_line_of_a_finished_section_needs_a_test() {
        let both = "// contract: A-01, A-02\n#[test]\nfn proves() {}\n";
        assert_eq!(problems_of(both), [""; 0]);
        let one = problems_of("// contract: A-01\n#[tokio::test]\n// why\nasync fn proves() {}\n");
        assert_eq!(one.len(), 1);
        assert!(one[0].contains("A-02 is in a finished section"), "{one:?}");
    }

    #[test]
    fn unknown_lines_and_stray_comments_are_told() {
        let unknown = problems_of("// contract: A-01, A-02, A-03\n#[test]\nfn proves() {}\n");
        assert!(unknown.iter().any(|problem| problem.contains("there is no line \"A-03\"")), "{unknown:?}");
        for stray in
            ["// contract: A-01\nfn helper() {}\n", "// contract: A-01\n", "// contract: A-01\nlet x = 1;\n"]
        {
            let problems = problems_of(stray);
            assert!(
                problems.iter().any(|problem| problem.contains("y.rs:1: no test follows")),
                "{problems:?}"
            );
        }
        let undeclared = check(&Contract::parse("- A-01 one"), &[]);
        assert!(undeclared[0].contains("no section is declared finished"));
    }
}
