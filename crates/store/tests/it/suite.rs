//! The generic suite on every store of this crate.

use std::sync::Arc;
use std::time::Duration;

use kinformer_store::{ExpiringStore, IndexFunction, Indexer, UndeltaStore};
use kinformer_testing::store_suite::{self, Pod};

// contract: S-01, S-02, S-09, R-15a, R-15b, R-15f
#[test]
fn indexer_without_indexes() {
    store_suite::run(Indexer::<Pod>::new);
}

// contract: S-01, S-02, S-09, R-15a, R-15b, R-15f
#[test]
fn indexer_with_indexes_behind_an_arc() {
    store_suite::run(|| {
        let by_version = IndexFunction::new(|pod: &Arc<Pod>, values| values.push(&pod.version.to_string()));
        let indexer =
            Indexer::builder().index("namespace", IndexFunction::by_namespace()).index("version", by_version);
        indexer.build().unwrap_or_default()
    });
}

// contract: S-01, S-02, S-09, R-15a, R-15b, R-15f
#[test]
fn expiring_store() {
    store_suite::run(|| ExpiringStore::<Pod>::new(Duration::ZERO));
    store_suite::run(|| ExpiringStore::<Pod>::new(Duration::from_secs(3600)));
}

// contract: S-01, S-02, S-09, R-15a, R-15b, R-15f
#[test]
fn undelta_store() {
    let pushes = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = pushes.clone();
    store_suite::run(move || {
        let counted = counted.clone();
        UndeltaStore::<Pod>::new(move |_| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        })
    });
    assert!(pushes.load(std::sync::atomic::Ordering::Relaxed) > 100);
}
