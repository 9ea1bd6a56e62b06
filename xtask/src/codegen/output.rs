//! What generated files have in common: how they are formatted, and compared with those that are committed.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::files;

/// What writes them.
pub(super) const COMMAND: &str = "cargo xtask codegen";

/// Tells the first line in which a file is not as expected.
pub(super) fn difference(committed: &str, expected: &str, path: &str) -> Option<String> {
    if committed == expected {
        return None;
    }
    let same = committed.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
    Some(format!("{path}:{}: not what is generated; run `{COMMAND}`", same + 1))
}

/// As rustfmt formats it.
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
    fn a_file_that_is_not_current_is_told_with_its_line() {
        assert_eq!(difference("a\nb\n", "a\nb\n", "x.rs"), None);
        let told = "x.rs:2: not what is generated; run `cargo xtask codegen`";
        assert_eq!(difference("a\nc\n", "a\nb\n", "x.rs").as_deref(), Some(told));
        assert_eq!(difference("a\n", "a\nb\n", "x.rs").as_deref(), Some(told));
    }

    #[test]
    fn what_is_no_rust_is_told() {
        assert_eq!(format("fn  f( ) { }").as_deref(), Ok("fn f() {}\n"));
        assert!(format("fn (").is_err_and(|told| told.starts_with("rustfmt: ")));
    }
}
