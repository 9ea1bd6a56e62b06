//! The demo in figures.

use std::time::Duration;

use tokio::time::Instant;

use super::clock::Lag;
use super::informers::{Figures, Informers};
use crate::embedded::Embedded;
use crate::lines::shown;
use crate::usage::Usage;

/// How it went so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) to_sync: Option<Duration>,
    /// How many objects there were at first.
    pub(crate) initial: usize,
    took: Duration,
    objects: usize,
    figures: Figures,
    lag: Option<Lag>,
    usage: Usage,
}

impl Summary {
    /// Reads all figures.
    pub(crate) fn now(&mut self, began: Instant, informers: &Informers, embedded: &Embedded) {
        self.took = began.elapsed();
        self.objects = informers.objects();
        self.figures = informers.figures();
        self.lag = embedded.clock().lag();
        self.usage = Usage::now();
    }

    /// When the first lists were told.
    pub(crate) fn synced(&self) -> String {
        format!("in sync: {} objects in {}", self.initial, self.to_sync.map_or_else(String::new, shown))
    }

    /// In one line.
    pub(crate) fn status(&self) -> String {
        let lag = self.lag.map_or_else(|| "-".to_owned(), |lag| fine(lag.median));
        format!(
            "{}   {} objects   {} events   lag {lag}   {} waiting   {}   Ctrl-C ends it",
            shown(self.took),
            self.objects,
            self.events(),
            self.figures.waiting,
            self.memory(),
        )
    }

    /// At the end.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Figures { adds, updates, deletes, troubled_now, troubled_ever, .. } = self.figures;
        let synced = self.to_sync.map_or_else(|| "never in sync".into(), |_| self.synced());
        let lag = self.lag.map_or_else(
            || "nothing was measured".into(),
            |Lag { median, percentile_99, most }| {
                let (median, percentile_99, most) = (fine(median), fine(percentile_99), fine(most));
                format!(
                    "{median} from write to handler, {percentile_99} at the 99th percentile, {most} at most"
                )
            },
        );
        let cpu =
            self.usage.cpu_seconds.map_or_else(String::new, |seconds| format!(", {seconds:.2} s of CPU"));
        vec![
            format!("ended after {}", shown(self.took)),
            format!("objects  {} in 3 informers; {synced}", self.objects),
            format!(
                "events   {} since then: {adds} adds, {updates} updates, {deletes} deletes",
                self.events()
            ),
            format!("trouble  {troubled_ever} pods that did not run for a while, {troubled_now} now"),
            format!("lag      {lag}"),
            format!("memory   {} at most, with the API server{cpu}", self.memory()),
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

/// A duration that may be short.
fn fine(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds @ ..0.1 => format!("{:.2} ms", seconds * 1000.0),
        _ => shown(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_told() {
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
                troubled_now: 1,
                troubled_ever: 3,
                waiting: 0,
            },
            lag: Some(Lag {
                median: Duration::from_micros(310),
                percentile_99: milliseconds(2),
                most: milliseconds(150),
            }),
            usage: Usage { peak_memory_bytes: Some(3 << 20), cpu_seconds: Some(0.5) },
        };
        assert_eq!(
            summary.lines(),
            [
                "ended after 10.0 s",
                "objects  73 in 3 informers; in sync: 71 objects in 12 ms",
                "events   11 since then: 4 adds, 5 updates, 2 deletes",
                "trouble  3 pods that did not run for a while, 1 now",
                "lag      0.31 ms from write to handler, 2.00 ms at the 99th percentile, 150 ms at most",
                "memory   3.00 MiB at most, with the API server, 0.50 s of CPU",
            ]
        );
        assert!(Summary::default().lines().iter().any(|line| line.contains("never in sync")));
    }
}
