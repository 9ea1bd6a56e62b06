//! The result table.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// The columns: kinformer packed and eager, and its peers.
pub(crate) const PEERS: [&str; 4] = ["kinformer", "kinformer-eager", CLIENT_GO, KUBE_RUNTIME];
pub(crate) const CLIENT_GO: &str = "client-go";
pub(crate) const KUBE_RUNTIME: &str = "kube-runtime";

/// A metric: a row of the table.
#[derive(Debug)]
pub(crate) struct Metric {
    name: &'static str,
    decimals: usize,
    target: Target,
}

/// The targets for packed objects, which stay encoded until they are read.
#[derive(Clone, Copy, Debug)]
struct Target {
    /// The largest ratio to client-go's value.
    of_client_go: Option<f64>,
    /// The largest ratio to kube-runtime's value.
    of_kube_runtime: Option<f64>,
    /// The largest value.
    itself: Option<f64>,
}

impl Metric {
    const fn new(name: &'static str, decimals: usize) -> Self {
        Self { name, decimals, target: Target { of_client_go: None, of_kube_runtime: None, itself: None } }
    }

    const fn of_client_go(mut self, target: f64) -> Self {
        self.target.of_client_go = Some(target);
        self
    }

    const fn of_kube_runtime(mut self, target: f64) -> Self {
        self.target.of_kube_runtime = Some(target);
        self
    }

    const fn at_most(mut self, target: f64) -> Self {
        self.target.itself = Some(target);
        self
    }
}

pub(crate) static WALL: Metric = Metric::new("sync: wall, s", 2).of_client_go(0.7).of_kube_runtime(0.5);
pub(crate) static CPU: Metric = Metric::new("sync: CPU, s", 2).of_client_go(0.4).of_kube_runtime(0.4);
pub(crate) static PEAK: Metric =
    Metric::new("sync: peak memory, MiB", 0).of_client_go(0.2).of_kube_runtime(0.15);
pub(crate) static STEADY: Metric = Metric::new("steady memory of a pod, kB", 2).at_most(3.0);
pub(crate) static RELIST_BEFORE: Metric = Metric::new("relist: memory before, MiB", 0);
pub(crate) static RELIST_PEAK: Metric = Metric::new("relist: peak memory, MiB", 0);
pub(crate) static RELIST: Metric = Metric::new("relist: peak, of memory before", 2).at_most(1.2);
pub(crate) static UPDATES_RATE: Metric = Metric::new("updates: written in a second", 0);
pub(crate) static UPDATES_DELIVERED: Metric = Metric::new("updates: delivered, of those written", 3);
pub(crate) static UPDATES_CPU: Metric = Metric::new("updates: CPU of 1,000, ms", 1).of_client_go(0.5);
pub(crate) static UPDATES_BEFORE: Metric = Metric::new("updates: memory before, MiB", 0);
pub(crate) static UPDATES_AFTER: Metric =
    Metric::new("updates: memory after, of that before", 2).at_most(1.05);
pub(crate) static LATENCY_HALF: Metric =
    Metric::new("latency: half of the changes within, ms", 2).of_client_go(1.0);
pub(crate) static LATENCY_MOST: Metric = Metric::new("latency: 99 of 100 within, ms", 2).of_client_go(1.0);

/// The results of one run of one peer.
pub(crate) struct Figures(pub(crate) Vec<(&'static Metric, f64)>);

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (metric, figure)) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{} {figure:.*}", metric.name, metric.decimals)?;
        }
        Ok(())
    }
}

/// All results, by peer.
#[derive(Default)]
pub(crate) struct Report {
    figures: [Vec<(&'static Metric, f64)>; PEERS.len()],
}

impl Report {
    pub(crate) fn add(&mut self, peer: usize, figures: Figures) {
        if let Some(all) = self.figures.get_mut(peer) {
            all.extend(figures.0);
        }
    }

    /// The metrics, in the order of measurement.
    fn metrics(&self) -> Vec<&'static Metric> {
        let mut metrics: Vec<&'static Metric> = Vec::new();
        for (asked, _) in self.figures.iter().flatten() {
            if !metrics.iter().any(|known| std::ptr::eq(*known, *asked)) {
                metrics.push(asked);
            }
        }
        metrics
    }

    /// The median of each peer.
    fn medians(&self, metric: &Metric) -> [f64; PEERS.len()] {
        self.figures.each_ref().map(|figures| {
            let asked = figures.iter().filter(|(asked, _)| std::ptr::eq(*asked, metric));
            median(asked.map(|(_, figure)| *figure))
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [packed, ..] = PEERS;
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
        let targets = [format!("of {CLIENT_GO}'s"), format!("of {KUBE_RUNTIME}'s"), "itself".to_owned()];
        let targets = targets.map(|target| format!("{packed}, {target} (target)"));
        table.set_header(["".to_owned()].into_iter().chain(PEERS.map(str::to_owned)).chain(targets));
        for metric in self.metrics() {
            let medians = self.medians(metric);
            let [packed, _, client_go, kube_runtime] = medians;
            let Target { of_client_go, of_kube_runtime, itself } = metric.target;
            let targets = [
                (packed / client_go, of_client_go),
                (packed / kube_runtime, of_kube_runtime),
                (packed, itself),
            ];
            let targets = targets
                .map(|(figure, target)| target.map_or_else(String::new, |target| compare(figure, target)));
            let medians = medians.map(|median| format!("{median:.*}", metric.decimals));
            table.add_row([metric.name.to_owned()].into_iter().chain(medians).chain(targets));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        write!(f, "{table}")
    }
}

/// Compares a value with its target, and reports the excess if the target is missed.
fn compare(figure: f64, target: f64) -> String {
    if figure <= target {
        format!("{figure:.2} ({target}: met)")
    } else {
        format!("{figure:.2} ({target}: MISSED by {:.0} %)", (figure / target - 1.0) * 100.0)
    }
}

/// The median, as the mean of the middle two for an even count; NaN without values.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    let middle =
        if figures.len() % 2 == 1 { figures.get(half..=half) } else { figures.get(half.max(1) - 1..=half) };
    let middle = middle.unwrap_or_default();
    middle.iter().sum::<f64>() / middle.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert!(median(std::iter::empty()).is_nan());
        for (figures, middle) in
            [(&[3.0][..], 3.0), (&[4.0, 1.0], 2.5), (&[9.0, 1.0, 2.0], 2.0), (&[4.0, 1.0, 9.0, 2.0], 3.0)]
        {
            assert!((median(figures.iter().copied()) - middle).abs() < f64::EPSILON, "{figures:?}");
        }
    }

    #[test]
    fn a_missed_target_is_reported_with_its_excess() {
        let mut report = Report::default();
        for (peer, wall, steady) in [(0, 0.5, 2.5), (1, 9.0, 9.0), (2, 0.4, 20.0), (3, 1.0, 20.0)] {
            report.add(peer, Figures(vec![(&WALL, wall), (&STEADY, steady)]));
        }
        let text = report.to_string();
        for part in ["1.25 (0.7: MISSED by 79 %)", "0.50 (0.5: met)", "2.50 (3: met)"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert_eq!(text.lines().count(), 4, "{text}");
    }
}
