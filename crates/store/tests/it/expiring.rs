//! The expiring store.

use std::sync::Arc;
use std::time::Duration;

use kinformer_core::{KeyRef, Keyed, KnownObjects, Object, Replacement, Tombstone};
use kinformer_store::{ExpiringStore, Store};
use tokio::time::advance;

type Pod = Keyed<u32>;

const SECOND: Duration = Duration::from_secs(1);

fn pod(name: &str, value: u32) -> Arc<Pod> {
    Arc::new(Keyed::new(name.parse().unwrap(), value))
}

fn add(store: &ExpiringStore<Pod>, name: &str, value: u32) {
    store.add(pod(name, value)).unwrap().into_result().unwrap();
}

// contract: S-13
#[tokio::test(start_paused = true)]
async fn entry_expires_after_its_time_to_live() {
    let store = ExpiringStore::new(10 * SECOND);
    add(&store, "a", 1);
    advance(10 * SECOND).await;
    assert!(
        store.get(KeyRef::named("a")).is_some(),
        "its age equals the time to live, so it has not expired"
    );
    add(&store, "b", 1);
    advance(Duration::from_millis(1)).await;
    assert_eq!(store.len(), 1);
    assert_eq!(store.list().len(), 1);
    assert_eq!(store.keys().len(), 1);
    assert!(store.get(KeyRef::named("a")).is_none());
    assert!(KnownObjects::get_by_key(&store, KeyRef::named("b")).is_some());
}

// contract: S-13
#[tokio::test(start_paused = true)]
async fn rewriting_an_entry_resets_its_age() {
    let store = ExpiringStore::new(10 * SECOND);
    add(&store, "a", 1);
    advance(8 * SECOND).await;
    store.update(pod("a", 2)).unwrap().into_result().unwrap();
    advance(8 * SECOND).await;
    assert_eq!(**store.get(KeyRef::named("a")).unwrap(), 2);
    advance(3 * SECOND).await;
    assert!(store.get(KeyRef::named("a")).is_none());
    add(&store, "a", 3);
    assert_eq!(**store.get(KeyRef::named("a")).unwrap(), 3);
}

// contract: S-13
#[tokio::test(start_paused = true)]
async fn zero_time_to_live_never_expires() {
    let store = ExpiringStore::new(Duration::ZERO);
    add(&store, "a", 1);
    advance(1_000_000 * SECOND).await;
    assert_eq!(store.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn unread_entries_can_be_removed() {
    let store = ExpiringStore::new(SECOND);
    for name in ["a", "b", "c"] {
        add(&store, name, 1);
    }
    advance(2 * SECOND).await;
    add(&store, "b", 2);
    assert_eq!(store.remove_expired(), 2);
    assert_eq!(store.remove_expired(), 0);
    assert_eq!(store.len(), 1);
}

/// An entry that is rewritten while the policy is called for its old state is kept.
// contract: S-13
#[tokio::test(start_paused = true)]
async fn entry_rewritten_during_policy_call_stays() {
    let store: Arc<std::sync::OnceLock<ExpiringStore<Pod>>> = Arc::default();
    let within = store.clone();
    // The policy is user code and runs without a lock, so it may even write.
    let policy = move |pod: &Pod, _: Duration| {
        if **pod == 1 {
            add(within.get().unwrap(), "a", 2);
        }
        **pod == 1
    };
    let store = store.get_or_init(|| ExpiringStore::with_policy(policy));
    add(store, "a", 1);
    assert!(store.get(KeyRef::named("a")).is_none(), "the old state has expired");
    assert_eq!(**store.get(KeyRef::named("a")).unwrap(), 2, "the new state has not expired");
}

#[tokio::test(start_paused = true)]
async fn panicking_policy_expires_nothing() {
    let store =
        ExpiringStore::with_policy(|pod: &Pod, _| if **pod == 13 { panic!("thirteen") } else { false });
    add(&store, "a", 13);
    assert_eq!(store.len(), 1);
}

/// Uses its store when it is dropped.
struct Reentrant(&'static str, Arc<std::sync::OnceLock<ExpiringStore<Reentrant>>>);

impl Object for Reentrant {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(self.0)
    }
}

impl Drop for Reentrant {
    fn drop(&mut self) {
        if let Some(store) = self.1.get() {
            drop(store.delete(Tombstone::final_state_unknown("other".parse().unwrap(), None)));
        }
    }
}

// contract: S-13
#[test]
fn object_drop_may_use_the_store() {
    let cell: Arc<std::sync::OnceLock<ExpiringStore<Reentrant>>> = Arc::default();
    let store = cell.get_or_init(|| ExpiringStore::new(SECOND));
    let object = |name| Arc::new(Reentrant(name, cell.clone()));
    store.add(object("a")).unwrap().into_result().unwrap();
    store.update(object("a")).unwrap().into_result().unwrap();
    assert!(store.add(object("")).is_err(), "rejected and dropped");
    store.delete(object("a").into()).unwrap().into_result().unwrap();
    let twice = Replacement::new(vec![object("b"), object("b")], "1");
    assert_eq!(store.replace(twice).unwrap().errors().len(), 1);
    assert_eq!(store.len(), 1);
}
