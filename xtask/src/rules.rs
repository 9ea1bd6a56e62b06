//! House rules for single files that no compiler checks.

use crate::files::File;
use crate::source::{self, Line};

const FILE_LINES: usize = 1000;
const LIB_LINES: usize = 150;

/// Calls that are banned outside tests unless [proven](is_proven), with the alternative. Clippy knows the types of
/// some of them, but does not see code that it does not compile (a feature, loom).
const BANNED: [(&str, &str); 7] = [
    ("todo!", "finish it"),
    ("unimplemented!", "finish it"),
    ("dbg!", "remove it"),
    ("unbounded", "use a bounded channel"),
    ("unbounded_channel", "use a bounded channel"),
    ("thread::sleep", "wait for the event"),
    ("SystemTime::now", "use tokio's Instant, which tests can pause"),
];
const PRINTING: [&str; 4] = ["print!", "println!", "eprint!", "eprintln!"];

/// Returns the problems of a file. `is_library` is set if other crates can depend on the crate of the file.
pub(crate) fn problems(file: &File, is_library: bool) -> Vec<String> {
    let lines = source::lines(&file.text);
    let mut problems = Vec::new();
    let mut problem = |number: usize, what: String| problems.push(format!("{}:{number}: {what}", file.path));
    if file.is_generated() {
        if file.is_source() && !file.path.contains("/src/generated/") {
            problem(
                1,
                "generated code outside src/generated; change the path in `cargo xtask codegen`".into(),
            );
        }
        return problems;
    }
    let count = file.text.lines().count();
    if count > FILE_LINES {
        problem(
            FILE_LINES,
            format!("the file has {count} lines, more than {FILE_LINES}; split it by subject"),
        );
    }
    if file.path.ends_with("src/lib.rs") && count > LIB_LINES {
        problem(
            LIB_LINES,
            format!("lib.rs has {count} lines, more than {LIB_LINES}; move code to files of its own"),
        );
    }
    let std_instant = lines.iter().any(|line| imports_std_instant(&line.code));
    for (index, line) in lines.iter().enumerate() {
        let number = index + 1;
        let code = line.code.as_str();
        if ["TODO", "FIXME"].iter().any(|word| has_word(&line.comment, word))
            && !names_an_issue(&line.comment)
        {
            problem(number, "a TODO without an issue; finish it, or name the issue as #12".into());
        }
        if code.contains("#[ignore]") {
            problem(
                number,
                "an ignored test without a reason; make it run, or write #[ignore = \"why\"]".into(),
            );
        }
        if !file.is_source() || line.in_test {
            continue;
        }
        let lint_attributes = ["#[allow(", "#![allow(", "#[expect(", "#![expect("];
        if lint_attributes.iter().any(|lint| code.contains(lint)) && !has_reason(&lines, index) {
            problem(number, "a lint is disabled without a reason; add reason = \"…\"".into());
        }
        for (call, instead) in BANNED.iter().filter(|(call, _)| calls(code, call)) {
            if !is_proven(&lines, index) {
                problem(
                    number,
                    format!("{call} outside tests; {instead}, or prove it in a reason directly above"),
                );
            }
        }
        let instant = code.contains("std::time::Instant::now") || std_instant && calls(code, "Instant::now");
        if instant && !is_proven(&lines, index) {
            problem(number, "std's Instant::now outside tests; use tokio's, which tests can pause".into());
        }
        let is_program = file.path.ends_with("src/main.rs") || file.path.contains("/src/bin/");
        if is_library
            && !is_program
            && PRINTING.iter().any(|call| calls(code, call))
            && !is_proven(&lines, index)
        {
            problem(number, "a library does not print; use tracing".into());
        }
    }
    problems
}

/// Whether the name is used, rather than defined or part of a longer name.
fn calls(code: &str, name: &str) -> bool {
    has_word(code, name) && !code.contains(&format!("fn {name}")) && !code.trim_start().starts_with("use ")
}

fn has_word(text: &str, word: &str) -> bool {
    let part = |char: char| char.is_alphanumeric() || char == '_';
    text.match_indices(word).any(|(index, _)| {
        let before = text.get(..index).and_then(|text| text.chars().next_back());
        let after = text.get(index + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

fn imports_std_instant(code: &str) -> bool {
    code.trim_start().starts_with("use std::time::") && has_word(code, "Instant")
}

fn names_an_issue(comment: &str) -> bool {
    comment.split('#').skip(1).any(|rest| rest.starts_with(|char: char| char.is_ascii_digit()))
}

/// Whether the attribute that starts on this line has a reason.
fn has_reason(lines: &[Line], index: usize) -> bool {
    for line in lines.iter().skip(index) {
        if line.code.contains("reason = ") {
            return true;
        }
        if line.code.contains(")]") {
            return false;
        }
    }
    false
}

/// Whether the call on this line is proven: by a comment that starts with `Proof:`, or by the reason of a lint
/// attribute, directly above or on the line.
fn is_proven(lines: &[Line], index: usize) -> bool {
    let proves = |line: &Line| line.comment.contains("Proof:") || line.code.contains("reason = ");
    let above =
        lines.iter().take(index).rev().take_while(|line| line.is_only_comment() || ends_attribute(line));
    lines.get(index).is_some_and(proves) || above.into_iter().any(proves)
}

fn ends_attribute(line: &Line) -> bool {
    line.is_attribute() || line.code.trim() == ")]" || line.code.trim_start().starts_with("reason = ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(path: &str, text: &str) -> String {
        problems(&File { path: path.into(), text: text.into() }, true).join("\n")
    }

    fn in_source(text: &str) -> String {
        problems_of("crates/x/src/a.rs", text)
    }

    #[test]
    fn long_files_are_reported_unless_generated() {
        let long = "fn f() {}\n".repeat(FILE_LINES + 1);
        assert!(in_source(&long).contains("crates/x/src/a.rs:1000: the file has 1001 lines"));
        let generated = |path| problems_of(path, &format!("// @generated by x\n{long}"));
        assert_eq!(generated("crates/x/src/generated/a.rs"), "");
        assert_eq!(generated("crates/x/tests/it/a.rs"), "");
        assert!(generated("crates/x/src/a.rs").contains("a.rs:1: generated code outside src/generated"));
        assert_eq!(in_source(&"fn f() {}\n".repeat(FILE_LINES)), "");
        let lib = |lines| problems_of("crates/x/src/lib.rs", &"//! x\n".repeat(lines));
        assert!(lib(LIB_LINES + 1).contains("lib.rs has 151 lines"));
        assert_eq!(lib(LIB_LINES), "");
    }

    #[test]
    fn banned_calls_are_reported_outside_tests() {
        for (call, _) in BANNED {
            let text = format!("fn f() {{ a::{call}(); }}\n");
            assert!(in_source(&text).contains(&format!("a.rs:1: {call} outside tests")), "{call}");
            assert_eq!(problems_of("crates/x/tests/a.rs", &text), "");
            assert_eq!(problems_of("crates/x/examples/a.rs", &text), "");
            assert_eq!(in_source(&format!("#[cfg(test)]\nmod tests {{\n{text}}}")), "");
            assert_ne!(in_source(&format!("#[cfg(test)]\nmod tests {{}}\n{text}")), "", "{call} below tests");
            assert_eq!(in_source(&format!("// {call}()\nlet a = \"{call}()\";")), "");
            assert_eq!(in_source(&format!("// Proof: one a minute.\n{call}();")), "");
            assert_ne!(in_source(&format!("// Proof: one a minute.\n\n{call}();")), "");
            let expected = format!("#[expect(\n    clippy::x,\n    reason = \"y\"\n)]\n{call}();");
            assert_eq!(in_source(&expected), "");
        }
        assert_eq!(in_source("fn set_unbounded(unbounded_by: u8) {}"), "");
    }

    #[test]
    fn the_unpausable_clock_is_reported() {
        assert!(in_source("let a = std::time::Instant::now();").contains("std's Instant::now"));
        let imported = "use std::time::{Duration, Instant};\nlet a = x.map_or_else(Instant::now, y);";
        assert!(in_source(imported).contains("a.rs:2: std's Instant::now"));
        assert_eq!(in_source("use tokio::time::Instant;\nlet a = Instant::now();"), "");
    }

    #[test]
    fn libraries_do_not_print() {
        for call in PRINTING {
            assert!(in_source(&format!("{call}(\"x\");")).contains("does not print"), "{call}");
        }
        assert_eq!(problems_of("crates/x/src/main.rs", "println!(\"x\");"), "");
        let program = File { path: "crates/x/src/a.rs".into(), text: "println!(\"x\");".into() };
        assert_eq!(problems(&program, false), [""; 0]);
        assert_eq!(in_source("/// println!(\"x\");\nfn f() {}"), "");
    }

    #[test]
    fn disabled_lints_need_a_reason() {
        for lint in ["#[allow(dead_code)]", "#![allow(dead_code)]", "#[expect(\n    clippy::x\n)]\n"] {
            assert!(in_source(lint).contains("a.rs:1: a lint is disabled"), "{lint}");
        }
        assert_eq!(in_source("#[expect(\n    clippy::x,\n    reason = \"y\"\n)]\n"), "");
        assert_eq!(problems_of("crates/x/tests/a.rs", "#![allow(clippy::unwrap_used)]"), "");
        assert!(problems_of("crates/x/tests/a.rs", "#[ignore]").contains("without a reason"));
        assert_eq!(problems_of("crates/x/tests/a.rs", "#[ignore = \"why\"]"), "");
    }

    #[test]
    fn todos_name_their_issue() {
        for open in ["// TODO later", "f(); // FIXME", "// TODO: #[allow]", "/// TODO"] {
            assert!(in_source(open).contains("name the issue"), "{open}");
        }
        for fine in ["// TODO(#12) later", "let a = \"TODO\";", "// TODOS", "fn f() {}"] {
            assert_eq!(in_source(fine), "", "{fine}");
        }
    }
}
