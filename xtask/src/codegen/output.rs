//! Formatting and comparing generated files.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::files;

/// The command that generates the files.
pub(super) const COMMAND: &str = "cargo xtask codegen";

/// Reports the first line in which a file differs from the expected text.
pub(super) fn difference(committed: &str, expected: &str, path: &str) -> Option<String> {
    if committed == expected {
        return None;
    }
    let same = committed.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
    Some(format!("{path}:{}: out of date; run `{COMMAND}`", same + 1))
}

/// Formats code with rustfmt.
pub(super) fn format(text: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("rustfmt: {error}");
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024", "--config-path"]).arg(files::root());
    let mut child = rustfmt
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .current_dir(files::root())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(text.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Err(format!("rustfmt: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("rustfmt: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outdated_file_is_reported_with_its_line() {
        assert_eq!(difference("a\nb\n", "a\nb\n", "x.rs"), None);
        let problem = "x.rs:2: out of date; run `cargo xtask codegen`";
        assert_eq!(difference("a\nc\n", "a\nb\n", "x.rs").as_deref(), Some(problem));
        assert_eq!(difference("a\n", "a\nb\n", "x.rs").as_deref(), Some(problem));
    }

    #[test]
    fn invalid_rust_is_reported() {
        assert_eq!(format("fn  f( ) { }").as_deref(), Ok("fn f() {}\n"));
        assert!(format("fn (").is_err_and(|problem| problem.starts_with("rustfmt: ")));
    }
}
