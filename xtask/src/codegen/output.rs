//! Formatting generated files.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::files;

/// The command that generates the files.
pub(super) const COMMAND: &str = "cargo xtask codegen";

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
    fn invalid_rust_is_reported() {
        assert_eq!(format("fn  f( ) { }").as_deref(), Ok("fn f() {}\n"));
        assert!(format("fn (").is_err_and(|problem| problem.starts_with("rustfmt: ")));
    }
}
