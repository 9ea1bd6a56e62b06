//! Where the demo is shown: live on a terminal, else as plain lines.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Error;
use crate::output::{Gone, Output, Written};

/// Takes what is to be shown. Clones are the same.
#[derive(Clone)]
pub(crate) enum Screen {
    /// Lines that go by above a table that stays and changes.
    Live { all: MultiProgress, table: ProgressBar, colours: bool },
    /// Lines only.
    Plain(Output),
}

impl Screen {
    /// Standard output, whatever it is, and who waits for the last line to be written.
    ///
    /// # Errors
    /// [`Error::Runtime`].
    pub(crate) fn open() -> Result<(Self, Option<Written>), Error> {
        if !std::io::stdout().is_terminal() {
            let (output, written) = Output::stdout()?;
            return Ok((Self::Plain(output), Some(written)));
        }
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout_with_hz(10));
        let table = all.add(ProgressBar::new(0));
        let colours = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
        Ok((Self::Live { all, table, colours }, None))
    }

    /// Whether lines may have colours.
    pub(crate) fn has_colours(&self) -> bool {
        matches!(self, Self::Live { colours: true, .. })
    }

    /// A line that goes by.
    ///
    /// # Errors
    /// [`Gone`]: it is no use to show any more.
    pub(crate) async fn line(&self, line: String) -> Result<(), Gone> {
        match self {
            Self::Live { all, .. } => all.println(line).map_err(|_| Gone),
            Self::Plain(output) => output.lines(format!("{line}\n").into_bytes()).await,
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
    pub(crate) fn table(&self, text: impl FnOnce() -> String) {
        if let Self::Live { table, .. } = self {
            table.set_style(style("{msg}"));
            table.set_message(text());
        }
    }

    /// Nothing stays any more; lines do.
    pub(crate) fn close(&self) {
        if let Self::Live { all, table, .. } = self {
            table.finish_and_clear();
            // What cannot be cleared does no harm.
            let _ = all.clear();
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
