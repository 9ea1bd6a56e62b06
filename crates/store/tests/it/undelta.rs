//! The store that pushes its state after each write.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use kinformer_core::{KeyRef, Keyed, KnownObjects, Replacement, ResourceVersion};
use kinformer_store::{Error, Store, UndeltaStore};
use parking_lot::Mutex;

type Pod = Keyed<u32>;

fn pod(name: &str, value: u32) -> Arc<Pod> {
    Arc::new(Keyed::new(name.parse().unwrap(), value))
}

// contract: S-14
#[test]
fn writes_push_the_state_and_reads_do_not() {
    let pushed = Arc::new(Mutex::new(Vec::new()));
    let log = pushed.clone();
    let store = UndeltaStore::new(move |state: kinformer_store::Snapshot<Pod>| {
        let state: Vec<_> = state.ordered().iter().map(|pod| ****pod).collect();
        log.lock().push(state);
    });
    store.add(pod("a", 1)).unwrap().into_result().unwrap();
    store.update(pod("b", 2)).unwrap().into_result().unwrap();
    store.delete(pod("a", 1).into()).unwrap().into_result().unwrap();
    store.replace(Replacement::new(vec![pod("c", 3), pod("d", 4)], "1")).unwrap().into_result().unwrap();
    assert_eq!(*pushed.lock(), [vec![1], vec![1, 2], vec![2], vec![3, 4]]);
    drop((store.list(), store.keys(), store.get(KeyRef::named("c")), store.len(), store.snapshot()));
    store.bookmark(ResourceVersion::number(7)).unwrap().into_result().unwrap();
    assert_eq!(pushed.lock().len(), 4);
}

// contract: S-14
#[test]
fn last_push_is_newest_with_many_writers() {
    let (pushes, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(0)));
    let (counted, newest) = (pushes.clone(), last.clone());
    let store = UndeltaStore::new(move |state: kinformer_store::Snapshot<Pod>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let mut newest = newest.lock();
        assert!(*newest <= state.len(), "a push is never older than the one before");
        *newest = state.len();
    });
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..200 {
                    store.add(pod(&format!("p{thread}-{n}"), n)).unwrap().into_result().unwrap();
                }
            });
        }
    });
    assert_eq!((pushes.load(Ordering::Relaxed), *last.lock()), (800, 800));
}

// contract: S-14
#[test]
fn push_function_may_write_and_may_panic() {
    let store: Arc<OnceLock<UndeltaStore<Pod>>> = Arc::default();
    let (within, sizes) = (store.clone(), Arc::new(Mutex::new(Vec::new())));
    let log = sizes.clone();
    let push = move |state: kinformer_store::Snapshot<Pod>| {
        log.lock().push(state.len());
        match state.len() {
            1 => drop(within.get().unwrap().add(pod("more", 1)).unwrap()),
            3 => panic!("three"),
            _ => {}
        }
    };
    let store = store.get_or_init(|| UndeltaStore::new(push));
    store.add(pod("a", 1)).unwrap().into_result().unwrap();
    assert_eq!(*sizes.lock(), [1, 2]);
    let errors = store.add(pod("b", 1)).unwrap();
    assert!(
        matches!(&errors.errors(), [problem] if matches!(problem.error.downcast_ref(), Some(Error::Push { .. })))
    );
    assert_eq!(store.len(), 3, "the write is applied");
    store.add(pod("c", 1)).unwrap().into_result().unwrap();
    assert_eq!(*sizes.lock(), [1, 2, 3, 4]);
}
