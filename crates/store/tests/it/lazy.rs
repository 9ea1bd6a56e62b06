//! Lazy values: the tests of client-go (`tools/cache/synctrack/lazy_test.go`), and ours.
//!
//! Upstream's `TestLazyThroughput` measures the time of waiting gets. What it protects, that a get waits for no
//! computation that was stale before it, is in `upstream_slow_eval`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, JoinHandle};

use kinformer_store::Lazy;
use parking_lot::{Condvar, Mutex};

/// Runs numbered steps of several threads in their order. Upstream's `sequence`.
#[derive(Clone, Default)]
struct Sequence(Arc<(Mutex<u32>, Condvar)>);

impl Sequence {
    fn step(&self, number: u32) {
        let (next, changed) = &*self.0;
        let mut next = next.lock();
        changed.wait_while(&mut next, |next| *next < number);
        assert_eq!(*next, number);
        *next += 1;
        changed.notify_all();
    }
}

/// Calls `get` in a thread between two steps. Upstream's `asyncGet`.
fn get(sequence: &Sequence, lazy: &Arc<Lazy<u64>>, before: u32, after: u32) -> JoinHandle<u64> {
    let (sequence, lazy) = (sequence.clone(), lazy.clone());
    thread::spawn(move || {
        sequence.step(before);
        let Ok(value) = lazy.get();
        sequence.step(after);
        *value
    })
}

/// A value that counts its computations, with the steps of the first and the second of them. The value is the number of
/// computations that ended before.
fn stepping(
    sequence: &Sequence,
    first: &'static [u32],
    second: &'static [u32],
) -> (Arc<Lazy<u64>>, Arc<AtomicU64>) {
    let (sequence, computed, ended) = (sequence.clone(), Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let counter = computed.clone();
    let lazy = Lazy::new(move || {
        let steps = match counter.fetch_add(1, Ordering::SeqCst) {
            0 => first,
            1 => second,
            _ => &[],
        };
        steps.iter().for_each(|step| sequence.step(*step));
        Ok(ended.fetch_add(1, Ordering::SeqCst))
    });
    (Arc::new(lazy), computed)
}

/// Upstream's `TestLazy`.
// contract: S-29b
#[test]
fn upstream_lazy() {
    let reality = Arc::new(AtomicU64::new(0));
    let read = reality.clone();
    let lazy = Arc::new(Lazy::<u64>::new(move || Ok(read.load(Ordering::SeqCst))));
    let threads = (0..10).map(|_| {
        let (reality, lazy) = (reality.clone(), lazy.clone());
        thread::spawn(move || {
            for _ in 0..100 {
                let set = reality.fetch_add(1, Ordering::SeqCst) + 1;
                lazy.notify();
                let Ok(value) = lazy.get();
                assert!(*value >= set, "{value} is older than {set}");
                thread::yield_now();
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}

/// The first computation ends after the second. Upstream's `TestLazySlowEval`.
// contract: S-29a, S-29b
#[test]
fn upstream_slow_eval() {
    let sequence = Sequence::default();
    let (lazy, computed) = stepping(&sequence, &[1, 6], &[4]);
    let first = get(&sequence, &lazy, 0, 7);
    sequence.step(2);
    lazy.notify();
    let second = get(&sequence, &lazy, 3, 5);
    let third = get(&sequence, &lazy, 8, 9);
    let values = [first, second, third].map(|thread| thread.join().unwrap());
    assert_eq!(values, [1, 0, 0], "the stale value is not kept");
    assert_eq!(computed.load(Ordering::SeqCst), 2);
}

/// The first computation ends while the second is in progress. Upstream's `TestLazySlowEval2`.
// contract: S-29a, S-29b
#[test]
fn upstream_slow_eval_2() {
    let sequence = Sequence::default();
    let (lazy, computed) = stepping(&sequence, &[1, 5], &[4, 7]);
    let first = get(&sequence, &lazy, 0, 6);
    sequence.step(2);
    lazy.notify();
    let second = get(&sequence, &lazy, 3, 8);
    let third = get(&sequence, &lazy, 9, 10);
    let values = [first, second, third].map(|thread| thread.join().unwrap());
    assert_eq!(values, [0, 1, 1]);
    assert_eq!(computed.load(Ordering::SeqCst), 2);
}

/// Upstream's `TestLazyOnlyOnce`.
// contract: S-29a
#[test]
fn upstream_only_once() {
    let sequence = Sequence::default();
    let (lazy, computed) = stepping(&sequence, &[1, 4], &[]);
    lazy.notify();
    let gets = [get(&sequence, &lazy, 0, 5), get(&sequence, &lazy, 2, 6), get(&sequence, &lazy, 3, 7)];
    assert_eq!(gets.map(|thread| thread.join().unwrap()), [0, 0, 0]);
    assert_eq!(computed.load(Ordering::SeqCst), 1);
}

/// Upstream's `TestLazyError`.
// contract: S-29c
#[test]
fn upstream_error() {
    let succeed = Arc::new(AtomicBool::new(false));
    let read = succeed.clone();
    let lazy = Lazy::new(move || if read.load(Ordering::SeqCst) { Ok(7) } else { Err("deliberate fail") });
    assert_eq!(lazy.get(), Err("deliberate fail"));
    succeed.store(true, Ordering::SeqCst);
    assert_eq!(lazy.get(), Ok(Arc::new(7)), "without a notification");
}

// contract: S-29a
#[test]
fn value_is_computed_on_use_only() {
    let computed = Arc::new(AtomicU64::new(0));
    let counter = computed.clone();
    let lazy = Lazy::<u64>::new(move || Ok(counter.fetch_add(1, Ordering::SeqCst)));
    for _ in 0..3 {
        lazy.notify();
    }
    assert_eq!(computed.load(Ordering::SeqCst), 0);
    let Ok(first) = lazy.get();
    let Ok(same) = lazy.get();
    assert!(Arc::ptr_eq(&first, &same));
    lazy.notify();
    lazy.notify();
    assert_eq!(computed.load(Ordering::SeqCst), 1);
    assert_eq!(lazy.get(), Ok(Arc::new(1)));
}

/// A get that waits for a computation that panics computes itself.
// contract: S-29c
#[test]
fn panic_is_not_kept() {
    let sequence = Sequence::default();
    let (steps, computed) = (sequence.clone(), AtomicU64::new(0));
    let lazy = Arc::new(Lazy::<u64>::new(move || {
        if computed.fetch_add(1, Ordering::SeqCst) == 0 {
            steps.step(1);
            steps.step(3);
            resume_unwind(Box::new("no value"));
        }
        Ok(7)
    }));
    let panicking = thread::spawn({
        let (sequence, lazy) = (sequence.clone(), lazy.clone());
        move || {
            sequence.step(0);
            catch_unwind(AssertUnwindSafe(|| lazy.get())).is_err()
        }
    });
    let waiting = get(&sequence, &lazy, 2, 4);
    assert!(panicking.join().unwrap(), "the panic reaches its caller");
    assert_eq!(waiting.join().unwrap(), 7);
}

/// A value whose destructor uses its lazy value, as does the computation.
struct Reentrant(Weak<Lazy<Reentrant>>);

impl Drop for Reentrant {
    fn drop(&mut self) {
        if let Some(lazy) = self.0.upgrade() {
            lazy.notify();
        }
    }
}

// contract: S-29d
#[test]
fn no_lock_is_held_while_user_code_runs() {
    let place = Arc::new(OnceLock::<Weak<Lazy<Reentrant>>>::new());
    let found = place.clone();
    let lazy = Arc::new(Lazy::new(move || {
        let lazy = found.get().unwrap();
        lazy.upgrade().unwrap().notify();
        Ok(Reentrant(lazy.clone()))
    }));
    place.set(Arc::downgrade(&lazy)).unwrap();
    for _ in 0..2 {
        let Ok(value) = lazy.get();
        drop(value);
        lazy.notify();
    }
}

// contract: S-29d
#[test]
fn computation_that_reads_its_own_value_panics() {
    let place = Arc::new(OnceLock::<Weak<Lazy<u64>>>::new());
    let found = place.clone();
    let lazy = Arc::new(Lazy::new(move || {
        let Ok(value) = found.get().unwrap().upgrade().unwrap().get();
        Ok(*value)
    }));
    place.set(Arc::downgrade(&lazy)).unwrap();
    kinformer_testing::panics::hide("the computation of a lazy value reads that value");
    assert!(catch_unwind(AssertUnwindSafe(|| lazy.get())).is_err());
}
