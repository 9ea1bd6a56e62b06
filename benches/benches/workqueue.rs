//! The cost of a work queue for each key: adding it, handing it out and ending its run, and delaying it; against client-go's
//! queue, if Go is installed. Prints whether the target is met: half of client-go's time.
//!
//! Both programs take turns, and the least time of each counts, so that other load on the machine matters little.
#![allow(missing_docs, clippy::print_stdout, reason = "a bench is a program without users")]
#![allow(clippy::disallowed_methods, reason = "it measures the real time")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kinformer_workqueue::WorkQueue;

const TARGET: f64 = 0.5;
const TURNS: usize = 3;

/// The least nanoseconds for each key, by case.
type Figures = BTreeMap<String, f64>;

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("default/pod-{number}")).collect()
}

fn record(figures: &mut Figures, case: String, runs: usize, keys: usize, mut run: impl FnMut() -> Duration) {
    let least = (0..runs).map(|_| run()).min().unwrap_or_default();
    let figure = least.as_nanos() as f64 / keys as f64;
    let entry = figures.entry(case).or_insert(f64::MAX);
    *entry = entry.min(figure);
}

/// The same cases as in `e2e/client-go/workqueue`.
fn ours(figures: &mut Figures) {
    for kind in ["plain", "metrics"] {
        for count in [1, 1000, 100_000] {
            let builder = WorkQueue::builder();
            let queue = if kind == "plain" { builder.without_durations().build() } else { builder.build() };
            let keys = keys(count);
            let rounds = (10_000 / count).max(1);
            let runs = 1_000_000 / (rounds * count) + 5;
            record(figures, format!("{kind}-{count}"), runs, rounds * count, || {
                // A queue takes its keys; in Go, a string is shared.
                let rounds: Vec<_> = (0..rounds).map(|_| keys.clone()).collect();
                let start = Instant::now();
                for keys in rounds {
                    for key in keys {
                        queue.add(key);
                    }
                    for _ in 0..count {
                        drop(black_box(queue.try_next()));
                    }
                }
                start.elapsed()
            });
        }
    }
    let keys = keys(100_000);
    record(figures, "delays-100000".to_owned(), 10, keys.len(), || {
        let (queue, keys) = (WorkQueue::new(), keys.clone());
        let start = Instant::now();
        for (number, key) in (0_u64..).zip(keys) {
            // In no order, as backoffs are.
            let micros = number.wrapping_mul(2_654_435_761) % 1_000_000;
            queue.add_after(key, Duration::from_secs(3600) + Duration::from_micros(micros));
        }
        start.elapsed()
    });
}

/// Runs client-go's program. Fails without Go.
fn client_go(program: &Path, figures: &mut Figures) -> Option<()> {
    let output = Command::new(program).stderr(Stdio::inherit()).output().ok()?;
    for line in String::from_utf8(output.stdout).ok()?.lines() {
        let (case, figure) = line.split_once(' ')?;
        let entry = figures.entry(case.to_owned()).or_insert(f64::MAX);
        *entry = entry.min(figure.parse().ok()?);
    }
    Some(())
}

fn main() {
    if std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/client-go");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-go-workqueue");
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-o"]).arg(&program).arg("./workqueue").current_dir(folder);
    let has_go = go.status().is_ok_and(|status| status.success());
    let (mut measured, mut theirs) = (Figures::new(), Figures::new());
    for _ in 0..TURNS {
        if has_go && client_go(&program, &mut theirs).is_none() {
            println!("the program of client-go failed");
        }
        ours(&mut measured);
    }
    println!(
        "nanoseconds for each key: add, get and done of plain queues and of queues with metrics, and delays"
    );
    for (case, figure) in measured {
        match theirs.get(&case) {
            None => println!("{case}: {figure:.0}; client-go: not measured, needs Go"),
            Some(client_go) => {
                let ratio = figure / client_go;
                let verdict = if ratio <= TARGET { "reached" } else { "MISSED" };
                println!(
                    "{case}: {figure:.0}; client-go {client_go:.0}; ratio {ratio:.2} (bar {TARGET}: {verdict})"
                );
            }
        }
    }
}
