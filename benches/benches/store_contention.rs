//! One writer against readers that list a namespace of 160,000 objects continuously: writes and lists per second, for
//! the store and for a lock around hash maps, in the same run.
//!
//! Missed targets are printed and fail nothing, since times on a busy machine prove nothing.
#![allow(missing_docs, clippy::print_stdout, reason = "a bench is a program without users")]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use benches::{Locked, Pod, filled, pick, pod};
use std::sync::Arc;

const OBJECTS: usize = 160_000;
const TIME: Duration = Duration::from_millis(600);
const ROUNDS: usize = 5;

struct Rates {
    writes: f64,
    lists: f64,
}

/// The medians of several rounds.
fn median(mut rounds: Vec<Rates>) -> Rates {
    let middle = rounds.len() / 2;
    rounds.sort_by(|a, b| a.lists.total_cmp(&b.lists));
    let lists = rounds.get(middle).map_or(0.0, |rates| rates.lists);
    rounds.sort_by(|a, b| a.writes.total_cmp(&b.writes));
    Rates { writes: rounds.get(middle).map_or(0.0, |rates| rates.writes), lists }
}

fn measure(readers: usize, write: impl Fn(usize) + Sync, list: impl Fn() -> usize + Sync) -> Rates {
    let (stop, writes, lists) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..readers {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    black_box(list());
                    lists.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                write(writes.fetch_add(1, Ordering::Relaxed));
            }
        });
        let (before, started) = (writes.load(Ordering::Relaxed), now());
        thread::park_timeout(TIME);
        let seconds = started.elapsed().as_secs_f64();
        let rates = Rates {
            writes: (writes.load(Ordering::Relaxed) - before) as f64 / seconds,
            lists: lists.load(Ordering::Relaxed) as f64 / seconds,
        };
        stop.store(true, Ordering::Relaxed);
        rates
    })
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

fn main() {
    if std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        return;
    }
    let keys = benches::keys(OBJECTS);
    let (ours, locked) = (filled(&keys, 1), Locked::filled(&keys, 1));
    // A list returns references; the use of the objects is not part of the store.
    let touch = |sum: usize, pod: &Arc<Pod>| sum ^ Arc::as_ptr(black_box(pod)).addr();
    println!(
        "{OBJECTS} objects, one index; medians of {ROUNDS} rounds; (x) against the lock in the same run"
    );
    println!(
        "readers | writes/s: locked, ours           | lists/s: locked, ours           | lists as Vec: ours"
    );
    for readers in [0, 1, 10, 80] {
        let write_ours = |i: usize| drop(ours.update(pod(&keys, pick(i, OBJECTS), i as u64)));
        let (mut base, mut by_reference, mut as_vec) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            base.push(measure(
                readers,
                |i| locked.update(pod(&keys, pick(i, OBJECTS), i as u64)),
                || {
                    let mut sum = 0;
                    locked.visit(0, "000", |pod| sum = touch(sum, pod));
                    sum
                },
            ));
            by_reference.push(measure(readers, write_ours, || {
                let snapshot = ours.snapshot();
                snapshot.by_index("namespace", "000").map_or(0, |pods| pods.fold(0, touch))
            }));
            as_vec.push(measure(readers, write_ours, || {
                ours.by_index("namespace", "000").map_or(0, |pods| pods.iter().fold(0, touch))
            }));
        }
        let (base, by_reference, as_vec) = (median(base), median(by_reference), median(as_vec));
        let (writes, lists) = (by_reference.writes / base.writes, by_reference.lists / base.lists);
        println!(
            "{readers:7} | {:9.0}, {:9.0} ({writes:8.1}x) | {:8.1}, {:8.1} ({lists:6.1}x) | {:8.1} ({:.1}x)",
            base.writes,
            by_reference.writes,
            base.lists,
            by_reference.lists,
            as_vec.lists,
            as_vec.lists / base.lists
        );
        if readers >= 10 {
            print_verdicts(writes, lists, as_vec.lists / base.lists);
        }
    }
}

/// Prints whether the ratios reach their bars.
fn print_verdicts(writes: f64, lists: f64, lists_as_vec: f64) {
    let verdict = |ratio: f64, bar: f64| if ratio >= bar { "reached" } else { "MISSED" };
    println!(
        "        | bar 1000x: {:28} | bar 20x: {:22} | bar 3x: {}",
        verdict(writes, 1000.0),
        verdict(lists, 20.0),
        verdict(lists_as_vec, 3.0)
    );
}
