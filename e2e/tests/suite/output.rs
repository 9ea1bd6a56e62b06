//! The lines that an example program prints.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::time::{Instant, timeout_at};

/// The timeout of a line. A program may schedule many pods before it.
const BOUND: Duration = Duration::from_secs(120);

/// The lines of a program.
pub(crate) struct Output(Lines<BufReader<ChildStdout>>);

impl Output {
    /// Takes the standard output of a program that was started with a pipe.
    pub(crate) fn of(program: &mut Child) -> Self {
        Self(BufReader::new(program.stdout.take().unwrap()).lines())
    }

    /// Waits for a line, and returns it.
    pub(crate) async fn line(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let mut before = Vec::new();
        let deadline = Instant::now() + BOUND;
        loop {
            match timeout_at(deadline, self.0.next_line()).await {
                Ok(Ok(Some(line))) if wanted(&line) => return line,
                Ok(Ok(Some(line))) => before.push(line),
                end => panic!("{end:?} after {before:#?}"),
            }
        }
    }
}
