//! The figures of the demo.

use std::time::Duration;

use tokio::time::Instant;

use super::informers::{Figures, Informers};
use super::lag::Lag;
use crate::embedded::Embedded;
use crate::exit::Error;
use crate::lines::format_duration;
use crate::usage::Usage;

/// The figures of one run so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) to_sync: Option<Duration>,
    /// The number of objects in the initial lists.
    pub(crate) initial: usize,
    took: Duration,
    objects: usize,
    figures: Figures,
    lag: Option<Lag>,
    usage: Usage,
}

impl Summary {
    /// Reads all current figures.
    ///
    /// # Errors
    /// As [`Informers::objects`].
    pub(crate) fn now(
        &mut self,
        began: Instant,
        informers: &Informers,
        embedded: &Embedded,
    ) -> Result<(), Error> {
        self.took = began.elapsed();
        self.objects = informers.objects()?;
        self.figures = informers.figures();
        self.lag = embedded.lag_recorder().lag();
        self.usage = Usage::now();
        Ok(())
    }

    /// The line for the end of the initial sync.
    pub(crate) fn synced(&self) -> String {
        format!(
            "in sync: {} objects in {}",
            self.initial,
            self.to_sync.map_or_else(String::new, format_duration)
        )
    }

    /// The status line, with as much as the width has room for.
    pub(crate) fn status(&self, width: usize) -> String {
        let lag = self.lag.map_or_else(|| "-".to_owned(), |lag| format_short(lag.median));
        // The most important first.
        let parts = [
            format_duration(self.took),
            format!("{} objects", self.objects),
            format!("lag {lag}"),
            format!("{} events", self.events()),
            format!("{} undelivered", self.figures.waiting),
            self.memory(),
        ];
        let (between, end) = ("   ", "Ctrl-C to quit");
        let mut line = String::new();
        for part in parts {
            if line.len() + part.len() + between.len() + end.len() <= width {
                line = line + &part + between;
            }
        }
        line + end
    }

    /// The lines printed at exit.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Figures { adds, updates, deletes, not_running_now, not_running_ever, .. } = self.figures;
        let synced = self.to_sync.map_or_else(|| "never synced".into(), |_| self.synced());
        let lag = self.lag.map_or_else(
            || "no samples".into(),
            |Lag { median, percentile_99, maximum }| {
                let (median, percentile_99, maximum) = (format_short(median), format_short(percentile_99), format_short(maximum));
                format!(
                    "from write to handler: median {median}, 99th percentile {percentile_99}, maximum {maximum}"
                )
            },
        );
        let cpu =
            self.usage.cpu_seconds.map_or_else(String::new, |seconds| format!(", {seconds:.2} s of CPU"));
        vec![
            format!("ended after {}", format_duration(self.took)),
            format!("objects  {} in 3 informers; {synced}", self.objects),
            format!(
                "events   {} after the sync: {adds} adds, {updates} updates, {deletes} deletes",
                self.events()
            ),
            format!(
                "pods     {not_running_ever} not running at some time, {not_running_now} not running now"
            ),
            format!("lag      {lag}"),
            format!("memory   {} peak, including the API server{cpu}", self.memory()),
        ]
    }

    fn events(&self) -> u64 {
        self.figures.adds + self.figures.updates + self.figures.deletes
    }

    fn memory(&self) -> String {
        self.usage
            .peak_memory_bytes
            .map_or_else(|| "memory unknown".into(), |bytes| indicatif::HumanBytes(bytes).to_string())
    }
}

/// Formats a duration that may be below a millisecond.
fn format_short(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds @ ..0.1 => format!("{:.2} ms", seconds * 1000.0),
        _ => format_duration(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_figures_are_printed() {
        let milliseconds = Duration::from_millis;
        let summary = Summary {
            to_sync: Some(milliseconds(12)),
            initial: 71,
            took: Duration::from_secs(10),
            objects: 73,
            figures: Figures {
                adds: 4,
                updates: 5,
                deletes: 2,
                not_running_now: 1,
                not_running_ever: 3,
                waiting: 0,
            },
            lag: Some(Lag {
                median: Duration::from_micros(310),
                percentile_99: milliseconds(2),
                maximum: milliseconds(150),
            }),
            usage: Usage { peak_memory_bytes: Some(3 << 20), cpu_seconds: Some(0.5) },
        };
        assert_eq!(
            summary.lines(),
            [
                "ended after 10.0 s",
                "objects  73 in 3 informers; in sync: 71 objects in 12 ms",
                "events   11 after the sync: 4 adds, 5 updates, 2 deletes",
                "pods     3 not running at some time, 1 not running now",
                "lag      from write to handler: median 0.31 ms, 99th percentile 2.00 ms, maximum 150 ms",
                "memory   3.00 MiB peak, including the API server, 0.50 s of CPU",
            ]
        );
        for (width, status) in [
            (40, "10.0 s   73 objects   Ctrl-C to quit"),
            (60, "10.0 s   73 objects   lag 0.31 ms   Ctrl-C to quit"),
            (80, "10.0 s   73 objects   lag 0.31 ms   11 events   0 undelivered   Ctrl-C to quit"),
            (
                120,
                "10.0 s   73 objects   lag 0.31 ms   11 events   0 undelivered   3.00 MiB   Ctrl-C to quit",
            ),
        ] {
            assert_eq!(summary.status(width), status);
            assert!(status.len() <= width, "{status}");
        }
        assert!(Summary::default().lines().iter().any(|line| line.contains("never synced")));
    }
}
