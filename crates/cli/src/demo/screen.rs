//! Where the demo is shown: live on a terminal, else as plain lines.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Error;
use crate::logs;
use crate::output::{Gone, Output, Written};
use crate::stop::Stop;
use crate::text::{Line, Text};

/// Takes what is to be shown.
pub(crate) struct Screen {
    show: Show,
    written: Option<Written>,
}

/// What shows it. Clones are the same.
#[derive(Clone)]
pub(crate) enum Show {
    /// Lines that go by above a table that stays and changes.
    Live { all: MultiProgress, table: ProgressBar, colours: bool },
    /// Lines only.
    Plain(Output),
}

impl Screen {
    /// Standard output, whatever it is.
    ///
    /// # Errors
    /// [`Error::Runtime`].
    pub(crate) fn open() -> Result<Self, Error> {
        if !std::io::stdout().is_terminal() {
            let (output, written) = Output::stdout()?;
            return Ok(Self { show: Show::Plain(output), written: Some(written) });
        }
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout_with_hz(10));
        logs::beside(all.clone());
        let table = all.add(ProgressBar::new(0));
        let colours = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
        Ok(Self { show: Show::Live { all, table, colours }, written: None })
    }

    /// What shows it.
    pub(crate) fn show(&self) -> &Show {
        &self.show
    }

    /// Nothing stays any more; these lines do.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) async fn finish(self, last: &[String], stop: &Stop) -> Result<(), Error> {
        let mut lines = Text::default();
        last.iter().for_each(|line| lines.line(format_args!("{line}")));
        match (self.show, self.written) {
            (Show::Plain(output), Some(written)) => written.finish(output, lines, stop).await,
            (Show::Plain(_), None) => Ok(()),
            (Show::Live { all, table, .. }, _) => {
                table.finish_and_clear();
                let cleared = all.clear();
                let mut out = std::io::stdout().lock();
                cleared.and(out.write_all(&lines.into_bytes())).and(out.flush()).map_err(Error::Output)
            }
        }
    }
}

impl Show {
    /// Whether lines may have colours.
    pub(crate) fn has_colours(&self) -> bool {
        matches!(self, Self::Live { colours: true, .. })
    }

    /// A line that goes by.
    ///
    /// # Errors
    /// [`Gone`]: it is no use to show any more.
    pub(crate) async fn line(&self, line: Line) -> Result<(), Gone> {
        match self {
            Self::Live { all, .. } => all.println(line.as_str()).map_err(|_| Gone),
            Self::Plain(output) => {
                let mut text = Text::default();
                text.push(&line);
                output.lines(text).await
            }
        }
    }

    /// Completes when nobody looks any more. Cancel safe.
    pub(crate) async fn gone(&self) {
        match self {
            Self::Live { .. } => std::future::pending().await,
            Self::Plain(output) => output.gone().await,
        }
    }

    /// How much of the first lists has been told.
    pub(crate) fn syncing(&self, told: u64, all: u64) {
        if let Self::Live { table, .. } = self {
            table.set_style(style("syncing {bar:40} {pos}/{len} objects {elapsed_precise}"));
            table.set_length(all);
            table.set_position(told);
        }
    }

    /// The table that stays.
    pub(crate) fn table(&self, lines: &[Line]) {
        if let Self::Live { table, .. } = self {
            table.set_style(style("{msg}"));
            table.set_message(lines.iter().map(Line::as_str).collect::<Vec<_>>().join("\n"));
        }
    }
}

/// How often the table is drawn anew.
pub(crate) const REFRESH: Duration = Duration::from_millis(200);

fn style(template: &str) -> ProgressStyle {
    // The templates are right: a test makes each of them.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_right() {
        for template in ["syncing {bar:40} {pos}/{len} objects {elapsed_precise}", "{msg}"] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
