//! The lines of the contract, and the tests that name them.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::File;
use crate::source;

pub(super) const CONTRACT: &str = "docs/contract.md";
const MARK: &str = "// contract:";
/// The longest line of the contract, in characters.
const WIDTH: usize = 200;

pub(super) struct Promise {
    pub(super) line: usize,
    pub(super) text: String,
}

#[derive(Default)]
pub(super) struct Contract {
    pub(super) promises: BTreeMap<String, Promise>,
    pub(super) finished: BTreeSet<String>,
}

impl Contract {
    /// Parses lines such as `- Q-07 promise`, and one `Finished: O, S, Q`. Also returns the problems of lines: they do
    /// not parse, or are too long.
    pub(super) fn parse(text: &str) -> (Self, Vec<String>) {
        let (mut contract, mut problems) = (Self::default(), Vec::new());
        let mut declared = 1;
        for (line, text) in (1..).zip(text.lines()) {
            if let Some(sections) = text.strip_prefix("Finished:") {
                declared = line;
                contract.finished.extend(sections.split(',').map(|section| section.trim().to_owned()));
            }
            if !text.starts_with("- ") {
                continue;
            }
            let Some((number, promise)) = numbered(text) else {
                problems.push(format!("{CONTRACT}:{line}: expected `- Q-07 promise`; correct the number"));
                continue;
            };
            let width = text.chars().count();
            if width > WIDTH {
                problems.push(format!(
                    "{CONTRACT}:{line}: {number} has {width} characters; split it into lines of up to {WIDTH}"
                ));
            }
            let promise = Promise { line, text: promise.to_owned() };
            if let Some(first) = contract.promises.insert(number.to_owned(), promise) {
                let first = first.line;
                problems.push(format!("{CONTRACT}:{line}: {number} is also on line {first}; renumber one"));
            }
        }
        if contract.finished.is_empty() {
            problems.push(format!("{CONTRACT}:1: no section is declared finished; add a line `Finished: O`"));
        }
        for (number, Promise { line, .. }) in &contract.promises {
            let undivided = unsplit(number);
            if undivided != number && contract.promises.contains_key(undivided) {
                problems.push(format!(
                    "{CONTRACT}:{line}: {number} is a part of {undivided}, which is also a line; give that a letter"
                ));
            }
        }
        for finished in &contract.finished {
            if !contract.promises.keys().any(|number| section(number) == finished) {
                problems.push(format!(
                    "{CONTRACT}:{declared}: there is no section {finished:?}; correct the name"
                ));
            }
        }
        (contract, problems)
    }
}

/// Whether a number is the one that is asked for, or a part of it: `Q-07` asks for `Q-07a`.
pub(super) fn is_asked(asked: &str, number: &str) -> bool {
    asked == number || asked == unsplit(number)
}

/// Returns the number and the promise of a line such as `- Q-07 promise`.
fn numbered(line: &str) -> Option<(&str, &str)> {
    let (number, promise) = line.strip_prefix("- ")?.split_once(' ')?;
    (is_number(number) && !promise.trim().is_empty()).then_some((number, promise))
}

/// Whether a text is a letter, a dash and two digits, and for a part of a split line a small letter: `Q-07`, `Q-07a`.
fn is_number(text: &str) -> bool {
    let bytes = unsplit(text).as_bytes();
    matches!(bytes, [letter, b'-', a, b]
        if letter.is_ascii_uppercase() && a.is_ascii_digit() && b.is_ascii_digit())
}

/// Returns a number without the letter of a split line: `Q-07` for `Q-07a`.
fn unsplit(number: &str) -> &str {
    number.strip_suffix(|letter: char| letter.is_ascii_lowercase()).unwrap_or(number)
}

pub(super) fn section(number: &str) -> &str {
    number.split('-').next().unwrap_or_default()
}

/// A test that names contract lines.
pub(super) struct Test {
    pub(super) path: String,
    /// The position of the comment.
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) numbers: BTreeSet<String>,
}

/// Returns the tests that name contract lines, and the problems of comments that belong to no test.
pub(super) fn tests(files: &[File]) -> (Vec<Test>, Vec<String>) {
    let (mut tests, mut strays) = (Vec::new(), Vec::new());
    for file in files {
        let lines = source::lines(&file.text);
        for (index, line) in lines.iter().enumerate() {
            let Some(numbers) = line.comment.strip_prefix(MARK) else { continue };
            let (path, line) = (file.path.clone(), index + 1);
            match lines.get(index + 1..).ok_or("").and_then(source::test_below) {
                Ok(name) => {
                    let numbers = numbers.split(',').map(|number| number.trim().to_owned()).collect();
                    tests.push(Test { path, line, name, numbers });
                }
                Err(problem) => {
                    strays.push(format!("{path}:{line}: {problem}; put this comment above one that runs"))
                }
            }
        }
    }
    (tests, strays)
}
