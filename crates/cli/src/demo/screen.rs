//! Output of the demo: live on a terminal, otherwise as plain lines.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Error;
use crate::logs;
use crate::output::{self, Output, OutputClosed, WriterHandle};
use crate::stop::Stop;
use crate::text::{Line, Text};

/// The output of the demo.
pub(crate) struct Screen {
    writer: ScreenWriter,
    written: Option<WriterHandle>,
}

/// The sending half of the output. Clones share one output.
#[derive(Clone)]
pub(crate) enum ScreenWriter {
    /// Scrolling lines above a table that is redrawn.
    Live { all: MultiProgress, table: ProgressBar, colours: bool },
    /// Scrolling lines only.
    Plain(Output),
}

impl Screen {
    /// Opens standard output, as a live display if it is a terminal.
    ///
    /// # Errors
    /// [`Error::Runtime`].
    pub(crate) fn open() -> Result<Self, Error> {
        if !std::io::stdout().is_terminal() {
            let (output, written) = Output::stdout()?;
            return Ok(Self { writer: ScreenWriter::Plain(output), written: Some(written) });
        }
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout_with_hz(10));
        logs::beside(all.clone());
        let table = all.add(ProgressBar::new(0));
        let colours = output::has_colours();
        Ok(Self { writer: ScreenWriter::Live { all, table, colours }, written: None })
    }

    /// Returns the sending half.
    pub(crate) fn writer(&self) -> &ScreenWriter {
        &self.writer
    }

    /// Removes the table and prints the last lines.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) async fn finish(self, last: &[String], stop: &Stop) -> Result<(), Error> {
        let mut lines = Text::default();
        last.iter().for_each(|line| lines.line(format_args!("{line}")));
        match (self.writer, self.written) {
            (ScreenWriter::Plain(output), Some(written)) => written.finish(output, lines, stop).await,
            (ScreenWriter::Plain(_), None) => Ok(()),
            (ScreenWriter::Live { all, table, .. }, _) => {
                table.finish_and_clear();
                let cleared = all.clear();
                let mut out = std::io::stdout().lock();
                cleared.and(out.write_all(&lines.into_bytes())).and(out.flush()).map_err(Error::Output)
            }
        }
    }
}

impl ScreenWriter {
    /// Whether lines may have colours.
    pub(crate) fn has_colours(&self) -> bool {
        matches!(self, Self::Live { colours: true, .. })
    }

    /// Prints a scrolling line.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the line is not printed.
    ///
    /// # Errors
    /// [`OutputClosed`]: the output has been closed.
    pub(crate) async fn line(&self, line: Line) -> Result<(), OutputClosed> {
        match self {
            Self::Live { all, .. } => all.println(line.as_str()).map_err(|_| OutputClosed),
            Self::Plain(output) => {
                let mut text = Text::default();
                text.push(&line);
                output.lines(text).await
            }
        }
    }

    /// Waits until the output is closed.
    ///
    /// # Cancel safety
    /// As for [`Output::closed`].
    pub(crate) async fn closed(&self) {
        match self {
            Self::Live { .. } => std::future::pending().await,
            Self::Plain(output) => output.closed().await,
        }
    }

    /// The number of columns of the terminal.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Live { .. } => console::Term::stdout().size().1.into(),
            Self::Plain(_) => usize::MAX,
        }
    }

    /// Shows how many objects of the initial lists have been delivered.
    pub(crate) fn syncing(&self, delivered: u64, all: u64) {
        if let Self::Live { table, .. } = self {
            table.set_style(style("syncing {wide_bar} {pos}/{len} objects"));
            table.set_length(all);
            table.set_position(delivered);
        }
    }

    /// Redraws the table.
    pub(crate) fn table(&self, lines: &[Line]) {
        if let Self::Live { table, .. } = self {
            table.set_style(style("{msg}"));
            let width = self.width();
            let lines = lines.iter().map(|line| console::truncate_str(line.as_str(), width, ""));
            table.set_message(lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The redraw interval of the table.
pub(crate) const REFRESH: Duration = Duration::from_millis(200);

fn style(template: &str) -> ProgressStyle {
    // A test parses every template.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_parse() {
        for template in ["syncing {wide_bar} {pos}/{len} objects", "{msg}"] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
