//! Waiting for a version.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::common::{Pod, pod};
use kinformer_core::{Delta, KeyRef, PartId, Replacement, ResourceVersion};
use kinformer_store::{Error, Indexer};
use tokio::time::Instant;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::new(Self::default());
        (wakes.clone(), wakes.into())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn version(version: u64) -> ResourceVersion {
    version.into()
}

// contract: S-12a
#[test]
fn every_version_change_wakes_the_waiter() {
    let writes: [fn(&Indexer<Pod>); 6] = [
        |indexer| indexer.add(pod("x").version(9u64)).unwrap().into_result().unwrap(),
        |indexer| indexer.delete(pod("x").version(9u64).arc()).unwrap().into_result().unwrap(),
        |indexer| indexer.bookmark(9u64),
        |indexer| indexer.replace(Replacement::new(vec![], 9u64)).unwrap().into_result().unwrap(),
        |indexer| {
            indexer.transaction([Delta::Updated(pod("x").version(9u64).arc())]).into_result().unwrap();
        },
        |indexer| indexer.bookmark(10u64),
    ];
    for (number, writes) in writes.into_iter().enumerate() {
        let indexer = Indexer::new();
        let (wakes, waker) = Wakes::new();
        let mut context = Context::from_waker(&waker);
        let nine = version(9);
        let mut wait = pin!(indexer.wait_for(PartId::ONLY, &nine));
        assert!(wait.as_mut().poll(&mut context).is_pending());
        indexer.bookmark(8u64);
        assert_eq!(wakes.count(), 0, "only its own version wakes a waiter");
        writes(&indexer);
        assert_eq!(wakes.count(), 1, "write {number}");
        assert!(matches!(wait.poll(&mut context), Poll::Ready(Ok(()))));
    }
}

// contract: S-12a, S-12b
#[tokio::test]
async fn waiters_wake_at_their_own_version() {
    let indexer = Arc::new(Indexer::<Pod>::new());
    let waits: Vec<_> = (0..20u64)
        .map(|n| {
            let indexer = indexer.clone();
            tokio::spawn(async move { indexer.wait_for(PartId::ONLY, &version(n / 2)).await })
        })
        .collect();
    tokio::task::yield_now().await;
    for n in 0..10u64 {
        indexer.add(pod("x").version(n)).unwrap().into_result().unwrap();
        tokio::task::yield_now().await;
    }
    for wait in waits {
        wait.await.unwrap().unwrap();
    }
    // A version that is already reached needs no wait, nor does an unset version.
    indexer.wait_for(PartId::ONLY, &version(3)).await.unwrap();
    indexer.wait_for(PartId::ONLY, &ResourceVersion::UNSET).await.unwrap();
}

/// A version that was reached ends the wait even if a replace sets the store back before the next poll.
// contract: S-12a
#[test]
fn reached_version_ends_wait_after_reset() {
    let indexer = Indexer::<Pod>::new();
    let (_, waker) = Wakes::new();
    let mut context = Context::from_waker(&waker);
    let nine = version(9);
    let mut wait = pin!(indexer.wait_for(PartId::ONLY, &nine));
    assert!(wait.as_mut().poll(&mut context).is_pending());
    indexer.bookmark(9u64);
    indexer.replace(Replacement::new(vec![], 5u64)).unwrap().into_result().unwrap();
    assert!(matches!(wait.poll(&mut context), Poll::Ready(Ok(()))));
}

// contract: S-12a
#[test]
fn dropped_or_moved_wait_leaves_no_waker() {
    let indexer = Indexer::<Pod>::new();
    let nine = version(9);
    let (dropped, waker) = Wakes::new();
    let mut wait = Box::pin(indexer.wait_for(PartId::ONLY, &nine));
    assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(wait);
    let (first, first_waker) = Wakes::new();
    let (second, second_waker) = Wakes::new();
    let mut wait = pin!(indexer.wait_for(PartId::ONLY, &nine));
    assert!(wait.as_mut().poll(&mut Context::from_waker(&first_waker)).is_pending());
    assert!(wait.as_mut().poll(&mut Context::from_waker(&second_waker)).is_pending());
    indexer.bookmark(9u64);
    assert_eq!((dropped.count(), first.count(), second.count()), (0, 0, 1));
    drop((waker, first_waker));
    assert_eq!((Arc::strong_count(&dropped), Arc::strong_count(&first)), (1, 1));
}

// contract: S-12c
#[test]
fn stop_ends_pending_waits() {
    let indexer = Indexer::<Pod>::new();
    indexer.bookmark(5u64);
    let (wakes, waker) = Wakes::new();
    let mut context = Context::from_waker(&waker);
    let nine = version(9);
    let mut wait = pin!(indexer.wait_for(PartId::ONLY, &nine));
    assert!(wait.as_mut().poll(&mut context).is_pending());
    assert!(!indexer.is_stopped());
    indexer.stop();
    indexer.stop();
    assert!(indexer.is_stopped());
    assert_eq!(wakes.count(), 1);
    let Poll::Ready(Err(Error::Stopped { wanted, reached })) = wait.poll(&mut context) else { panic!() };
    assert_eq!((wanted, reached), (version(9), version(5)));
    let five = version(5);
    assert!(matches!(pin!(indexer.wait_for(PartId::ONLY, &five)).poll(&mut context), Poll::Ready(Ok(()))));
    let later = pin!(indexer.wait_for(PartId::ONLY, &nine)).poll(&mut context);
    assert!(matches!(later, Poll::Ready(Err(Error::Stopped { .. }))));
}

// contract: S-12e
#[test]
fn incomparable_version_ends_the_wait() {
    let indexer = Indexer::<Pod>::new();
    let (_, waker) = Wakes::new();
    let mut context = Context::from_waker(&waker);
    let opaque = ResourceVersion::from("opaque");
    let mut wait = pin!(indexer.wait_for(PartId::ONLY, &opaque));
    assert!(wait.as_mut().poll(&mut context).is_pending(), "the store has no version yet");
    indexer.bookmark(5u64);
    let Poll::Ready(Err(Error::Incomparable { wanted, reached })) = wait.poll(&mut context) else { panic!() };
    assert_eq!((wanted, reached), (opaque.clone(), version(5)));
    indexer.bookmark("opaque");
    assert!(matches!(pin!(indexer.wait_for(PartId::ONLY, &opaque)).poll(&mut context), Poll::Ready(Ok(()))));
}

// contract: S-12d
#[tokio::test(start_paused = true)]
async fn deadline_ends_the_wait() {
    let indexer = Indexer::<Pod>::new();
    indexer.bookmark(5u64);
    let deadline = Instant::now() + Duration::from_secs(30);
    let Err(Error::DeadlineExceeded { wanted, reached }) =
        indexer.wait_for(PartId::ONLY, &version(9)).until(deadline).await
    else {
        panic!()
    };
    assert_eq!((wanted, reached), (version(9), version(5)));
    assert_eq!(Instant::now(), deadline);
    indexer.wait_for(PartId::ONLY, &version(5)).until(deadline).await.unwrap();
    let far = deadline + Duration::from_secs(30);
    let six = version(6);
    let (reached, ()) =
        tokio::join!(indexer.wait_for(PartId::ONLY, &six).until(far), async { indexer.bookmark(6u64) });
    reached.unwrap();
    assert_eq!(Instant::now(), deadline);
}

// contract: S-20
#[test]
fn each_of_many_waits_ends_at_its_version() {
    let indexer = Indexer::<Pod>::new();
    let mut random = fastrand::Rng::with_seed(3);
    let mut versions: Vec<_> = (0..2_000u64).map(|number| version(number / 2 + 1)).collect();
    versions.push("99999999999999999999999".into());
    versions.push("opaque".into());
    random.shuffle(&mut versions);
    let mut waits: Vec<_> = versions
        .iter()
        .map(|wanted| {
            let (wakes, waker) = Wakes::new();
            let mut wait = Box::pin(indexer.wait_for(PartId::ONLY, wanted));
            assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            (wanted, wakes, waker, wait)
        })
        .collect();
    for reached in [1u64, 2, 400, 401, 999, 1_000] {
        indexer.bookmark(reached);
        let (over, rest): (Vec<_>, Vec<_>) = waits
            .into_iter()
            .partition(|(wanted, ..)| version(reached).reaches(wanted) || **wanted == "opaque".into());
        for (wanted, wakes, waker, mut wait) in over {
            assert_eq!(wakes.count(), 1, "{wanted} at {reached}");
            let ended = wait.as_mut().poll(&mut Context::from_waker(&waker));
            match ended {
                Poll::Ready(Ok(())) => assert!(version(reached).reaches(wanted)),
                Poll::Ready(Err(Error::Incomparable { .. })) => assert_eq!(*wanted, "opaque".into()),
                other => panic!("{wanted}: {other:?}"),
            }
        }
        waits = rest;
        assert!(waits.iter().all(|(_, wakes, ..)| wakes.count() == 0), "at {reached}");
    }
    assert_eq!(waits.len(), 1);
}

// contract: S-23
#[test]
fn reader_outlives_its_indexer() {
    let indexer = Indexer::new();
    indexer.add(pod("x").version(7u64)).unwrap().into_result().unwrap();
    let reader = indexer.reader();
    let (wakes, waker) = Wakes::new();
    let mut context = Context::from_waker(&waker);
    let eight = version(8);
    let mut wait = pin!(reader.wait_for(PartId::ONLY, &eight));
    assert!(wait.as_mut().poll(&mut context).is_pending() && !reader.is_stopped());

    drop(indexer);
    assert_eq!(wakes.count(), 1);
    assert!(matches!(wait.poll(&mut context), Poll::Ready(Err(Error::Stopped { .. }))));
    let later = pin!(reader.wait_for(PartId::ONLY, &eight)).poll(&mut context);
    assert!(matches!(later, Poll::Ready(Err(Error::Stopped { .. }))), "nothing is written any more");
    assert!(matches!(
        pin!(reader.wait_for(PartId::ONLY, &version(7))).poll(&mut context),
        Poll::Ready(Ok(()))
    ));
    assert!(reader.is_stopped() && reader.contains(KeyRef::named("x")));
}

// contract: S-12f
#[tokio::test]
async fn later_state_ends_the_wait_for_a_change() {
    let (wakes, waker) = Wakes::new();
    let pods = Indexer::new();
    assert!(pods.add(pod("a/x")).unwrap().is_empty());
    let revision = pods.snapshot().revision();
    assert!(pods.changed(revision - 1).await, "there is one already");
    let mut changed = pin!(pods.changed(revision));
    let mut poll = || changed.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(poll().is_pending());
    pods.bookmark(7u64);
    assert!(poll().is_pending(), "the objects are the same");
    let before = wakes.count();
    assert!(pods.add(pod("a/x")).unwrap().is_empty());
    assert!(wakes.count() > before);
    assert_eq!(poll(), Poll::Ready(true));

    let mut changed = pin!(pods.changed(u64::MAX));
    assert!(changed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    pods.stop();
    assert_eq!(changed.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(false));
    assert!(!pods.changed(u64::MAX).await);
}
