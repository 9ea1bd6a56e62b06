//! The result table.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

pub(crate) const KINFORMER: &str = "kinformer";
pub(crate) const KINFORMER_EAGER: &str = "kinformer-eager";
pub(crate) const CLIENT_GO: &str = "client-go";
pub(crate) const KUBE_RUNTIME: &str = "kube-runtime";
pub(crate) const CONTROLLER_RUNTIME: &str = "controller-runtime";
pub(crate) const CONTROLLER_RUNTIME_STRIPPED: &str = "controller-runtime-stripped";
pub(crate) const CONTROLLER_RUNTIME_WARM: &str = "controller-runtime-warm";
pub(crate) const CONTROLLER_RUNTIME_SHARED: &str = "controller-runtime-shared";
pub(crate) const CONTROLLER_RUNTIME_OWN_WRITES: &str = "controller-runtime-own-writes";

/// A metric: a row of the table.
#[derive(Debug)]
pub(crate) struct Metric {
    name: &'static str,
    decimals: usize,
    /// The targets of the first peer: the largest ratios to the values of other peers.
    of: [Option<(&'static str, f64)>; 2],
    /// The largest value of the first peer.
    at_most: Option<f64>,
}

impl Metric {
    const fn new(name: &'static str, decimals: usize) -> Self {
        Self { name, decimals, of: [None; 2], at_most: None }
    }

    const fn of_client_go(mut self, target: f64) -> Self {
        self.of[0] = Some((CLIENT_GO, target));
        self
    }

    const fn of_kube_runtime(mut self, target: f64) -> Self {
        self.of[1] = Some((KUBE_RUNTIME, target));
        self
    }

    const fn of_controller_runtime(mut self, target: f64) -> Self {
        self.of = [Some((CONTROLLER_RUNTIME, target)), Some((CONTROLLER_RUNTIME_STRIPPED, target))];
        self
    }

    const fn of_caches(mut self, target: f64) -> Self {
        self.of = [Some((CONTROLLER_RUNTIME, target)), Some((CONTROLLER_RUNTIME_SHARED, target))];
        self
    }

    const fn of_operators(mut self, target: f64) -> Self {
        self.of = [Some((CONTROLLER_RUNTIME, target)), Some((CONTROLLER_RUNTIME_WARM, target))];
        self
    }

    const fn of_own_writes(mut self, target: f64) -> Self {
        self.of[0] = Some((CONTROLLER_RUNTIME_OWN_WRITES, target));
        self
    }

    const fn at_most(mut self, target: f64) -> Self {
        self.at_most = Some(target);
        self
    }

    /// The largest ratio to the value of this peer.
    fn target_of(&self, peer: &str) -> Option<f64> {
        self.of.iter().flatten().find(|(other, _)| *other == peer).map(|(_, target)| *target)
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

pub(crate) static FIRST_RECONCILED: Metric = Metric::new("controller: first full reconcile, s", 2);
pub(crate) static CONTROLLER_CPU: Metric = Metric::new("controller: CPU, s", 2).of_controller_runtime(0.4);
pub(crate) static CONTROLLER_PEAK: Metric = Metric::new("controller: peak memory, MiB", 0);
pub(crate) static CONTROLLER_STEADY: Metric =
    Metric::new("controller: memory, MiB", 0).of_controller_runtime(0.15);

pub(crate) static CACHE_GET: Metric = Metric::new("cache: get, us", 2).of_caches(1.0);
pub(crate) static CACHE_NAMESPACE: Metric = Metric::new("cache: list by namespace, us", 0).of_caches(1.0);
pub(crate) static CACHE_FIELD: Metric = Metric::new("cache: list by field, us", 1).of_caches(1.0);
pub(crate) static CACHE_LABEL: Metric = Metric::new("cache: list by label, us", 0).of_caches(1.0);
pub(crate) static CACHE_READERS: Metric =
    Metric::new("cache: get of 50 tasks beside updates, us", 2).of_caches(1.0);
pub(crate) static CACHE_UPDATES: Metric = Metric::new("cache: updates in a second meanwhile", 0);
pub(crate) static CACHE_OWN_GET: Metric =
    Metric::new("cache: get of a written object, ms", 3).of_own_writes(1.0);
pub(crate) static CACHE_OWN_LIST: Metric =
    Metric::new("cache: list of another namespace after a write, ms", 3).of_own_writes(0.5);
pub(crate) static CACHE_STALE: Metric = Metric::new("cache: gets without the write before them, of 100", 0);

pub(crate) static OPERATOR_MEMORY: Metric = Metric::new("operator: memory, MiB", 0).of_operators(0.5);
pub(crate) static OPERATOR_RATE: Metric = Metric::new("operator: reconciliations in a second", 0);
pub(crate) static OPERATOR_RECONCILE: Metric =
    Metric::new("operator: reconciliation, us", 2).of_operators(1.0);
pub(crate) static OPERATOR_CPU: Metric =
    Metric::new("operator: CPU of a reconciliation, us", 2).of_operators(1.0);
pub(crate) static OPERATOR_FAIL_OVER: Metric =
    Metric::new("operator: from SIGTERM to the next leader's first, s", 2).of_operators(1.1);
pub(crate) static OPERATOR_WITHOUT_WAIT: Metric =
    Metric::new("operator: the same, without the time without a holder, ms", 0).of_operators(1.0);

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
pub(crate) struct Report {
    /// The columns. The first is compared with the others that have targets.
    peers: &'static [&'static str],
    /// By number of the peer.
    figures: Vec<(usize, &'static Metric, f64)>,
}

impl Report {
    pub(crate) fn new(peers: &'static [&'static str]) -> Self {
        Self { peers, figures: Vec::new() }
    }

    pub(crate) fn add(&mut self, peer: usize, figures: Figures) {
        self.figures.extend(figures.0.into_iter().map(|(metric, figure)| (peer, metric, figure)));
    }

    /// The metrics, in the order of measurement.
    fn metrics(&self) -> Vec<&'static Metric> {
        let mut metrics: Vec<&'static Metric> = Vec::new();
        for (_, asked, _) in &self.figures {
            if !metrics.iter().any(|known| std::ptr::eq(*known, *asked)) {
                metrics.push(asked);
            }
        }
        metrics
    }

    /// The median of each peer.
    fn medians(&self, metric: &Metric) -> Vec<f64> {
        let of = |peer| {
            self.figures.iter().filter(move |(of, asked, _)| *of == peer && std::ptr::eq(*asked, metric))
        };
        (0..self.peers.len()).map(|peer| median(of(peer).map(|(_, _, figure)| *figure))).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics = self.metrics();
        let [first, others @ ..] = self.peers else { return Ok(()) };
        let compared = |peer: &&&str| metrics.iter().any(|metric| metric.target_of(peer).is_some());
        let compared: Vec<&str> = others.iter().filter(compared).copied().collect();
        let has_limits = metrics.iter().any(|metric| metric.at_most.is_some());
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
        let targets = compared.iter().map(|peer| format!("{first}, of {peer}'s (target)"));
        let limits = has_limits.then(|| format!("{first}, itself (target)"));
        let peers = self.peers.iter().map(|peer| (*peer).to_owned());
        table.set_header([String::new()].into_iter().chain(peers).chain(targets).chain(limits));
        for metric in metrics {
            let medians = self.medians(metric);
            let median = |peer: &str| {
                let number = self.peers.iter().position(|other| *other == peer);
                number.and_then(|number| medians.get(number)).copied().unwrap_or(f64::NAN)
            };
            let value = median(first);
            let targets = compared.iter().map(|peer| {
                metric
                    .target_of(peer)
                    .map_or_else(String::new, |target| compare(value / median(peer), target))
            });
            let limits =
                has_limits.then(|| metric.at_most.map_or_else(String::new, |limit| compare(value, limit)));
            let medians = medians.iter().map(|median| match median.is_nan() {
                true => "-".to_owned(),
                false => format!("{median:.*}", metric.decimals),
            });
            table.add_row([metric.name.to_owned()].into_iter().chain(medians).chain(targets).chain(limits));
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
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> f64 {
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
        let mut report = Report::new(&[KINFORMER, KINFORMER_EAGER, CLIENT_GO, KUBE_RUNTIME]);
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
