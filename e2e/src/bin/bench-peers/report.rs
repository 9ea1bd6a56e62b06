//! The table.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::measure::Run;

/// Ours, in two ways, and the peers, with what was measured of them.
pub(crate) struct Report {
    peers: [&'static str; 4],
    runs: [Vec<Run>; 4],
}

/// What is measured, and how much of the peers' we want to need at most: of client-go's, and of kube-runtime's.
struct Question {
    name: &'static str,
    of: fn(&Run) -> f64,
    decimals: usize,
    targets: [f64; 2],
}

/// The targets are for objects that stay packed until they are read, and so what is compared are these.
const QUESTIONS: [Question; 3] = [
    Question { name: "wall, s", of: |run| run.wall_seconds, decimals: 2, targets: [0.7, 0.5] },
    Question { name: "CPU, s", of: |run| run.cpu_seconds, decimals: 2, targets: [0.4, 0.4] },
    Question { name: "peak memory, MiB", of: |run| run.peak_mebibytes, decimals: 0, targets: [0.2, 0.15] },
];

impl Report {
    /// Ours with packed objects is the first, and ours as it comes the second.
    pub(crate) fn new(peers: [&'static str; 4]) -> Self {
        Self { peers, runs: [const { Vec::new() }; 4] }
    }

    pub(crate) fn peers(&self) -> &[&'static str] {
        &self.peers
    }

    pub(crate) fn add(&mut self, peer: usize, run: Run) {
        if let Some(runs) = self.runs.get_mut(peer) {
            runs.push(run);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [packed, ours, client_go, kube_runtime] = self.peers;
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header([
            "to synced".to_owned(),
            packed.to_owned(),
            ours.to_owned(),
            client_go.to_owned(),
            kube_runtime.to_owned(),
            format!("packed of {client_go}'s (target)"),
            format!("packed of {kube_runtime}'s (target)"),
        ]);
        for question in &QUESTIONS {
            let [packed, ours, client_go, kube_runtime] =
                [0, 1, 2, 3].map(|peer| median(self.runs.get(peer).into_iter().flatten().map(question.of)));
            let figure = |figure: f64| format!("{figure:.*}", question.decimals);
            let [of_client_go, of_kube_runtime] = question.targets;
            table.add_row([
                question.name.to_owned(),
                figure(packed),
                figure(ours),
                figure(client_go),
                figure(kube_runtime),
                verdict(packed / client_go, of_client_go),
                verdict(packed / kube_runtime, of_kube_runtime),
            ]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        write!(f, "{table}")
    }
}

/// A share of a peer's, and whether it is as small as wanted.
fn verdict(ratio: f64, target: f64) -> String {
    let met = if ratio <= target { "met" } else { "MISSED" };
    format!("{ratio:.2} ({target}: {met})")
}

/// The one in the middle, or the mean of the two; not a number if there is none.
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
    fn the_median_is_the_one_in_the_middle() {
        assert!(median(std::iter::empty()).is_nan());
        for (figures, middle) in
            [(&[3.0][..], 3.0), (&[4.0, 1.0], 2.5), (&[9.0, 1.0, 2.0], 2.0), (&[4.0, 1.0, 9.0, 2.0], 3.0)]
        {
            assert!((median(figures.iter().copied()) - middle).abs() < f64::EPSILON, "{figures:?}");
        }
    }

    #[test]
    fn a_target_that_is_missed_is_said_to_be() {
        let mut report = Report::new(["packed", "ours", "theirs", "others"]);
        let run = |figure| Run { wall_seconds: figure, cpu_seconds: 2.0, peak_mebibytes: 100.0 };
        for (peer, figure) in [(0, 0.5), (1, 9.0), (2, 1.0), (3, 1.0)] {
            report.add(peer, run(figure));
        }
        let text = report.to_string();
        for part in ["0.50 (0.7: met)", "0.50 (0.5: met)", "1.00 (0.2: MISSED)", "1.00 (0.15: MISSED)"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}
