//! Every interleaving of small scenarios: no wake-up is lost, no batch is missed, no member is left out.
//! A test binary of its own, because the model checker needs a flag of the compiler.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 cargo test -p kinformer-processor --release --test loom`
#![cfg(loom)]
#![allow(clippy::unwrap_used, dead_code, reason = "the included files are used in part")]

#[path = "../src/bell.rs"]
mod bell;
#[path = "../src/log.rs"]
mod log;
#[path = "../src/members.rs"]
mod members;
#[path = "../src/sync.rs"]
mod sync;

use std::future::poll_fn;
use std::sync::Arc;

use loom::future::block_on;
use loom::sync::Mutex;
use loom::thread;

use self::log::{Cursor, Log};
use self::members::{Members, Phase};

/// Waits until there is a batch or the log is closed.
async fn wait(cursor: &mut Cursor<u64>) {
    poll_fn(|context| cursor.poll_wait(context)).await;
}

/// All batches until the log is closed.
fn read(mut cursor: Cursor<u64>) -> Vec<u64> {
    let mut delivered = Vec::new();
    loop {
        // Read before the batches: a batch published before the close must not be missed.
        let closed = cursor.is_closed();
        while let Some(batch) = cursor.batch().map(|batch| *batch) {
            delivered.push(batch);
            cursor.advance();
        }
        if closed {
            return delivered;
        }
        block_on(wait(&mut cursor));
    }
}

fn pump(log: &Arc<Log<u64>>) -> thread::JoinHandle<()> {
    let log = log.clone();
    thread::spawn(move || block_on(log.bell().pump()))
}

// contract: P-01a, P-13
#[test]
fn sleeping_reader_is_woken_for_batch_and_close() {
    loom::model(|| {
        let log = Arc::new(Log::new());
        let (cursor, ()) = log.cursor(|| ());
        let pumping = pump(&log);
        let writer = log.clone();
        let writing = thread::spawn(move || {
            writer.publish(|| 1);
            writer.publish(|| 2);
            writer.bell().close();
        });
        assert_eq!(read(cursor), [1, 2]);
        writing.join().unwrap();
        pumping.join().unwrap();
    });
}

// contract: P-01a, P-13
#[test]
fn all_sleeping_readers_are_woken() {
    loom::model(|| {
        let log = Arc::new(Log::new());
        let (mut cursor, ()) = log.cursor(|| ());
        let (mut other, ()) = log.cursor(|| ());
        let pumping = pump(&log);
        let reading = thread::spawn(move || {
            block_on(wait(&mut other));
            other.batch().map(|batch| *batch)
        });
        log.publish(|| 1);
        block_on(wait(&mut cursor));
        assert_eq!(cursor.batch().as_deref(), Some(&1));
        assert_eq!(reading.join().unwrap(), Some(1), "it waits for a batch, and is not woken without one");
        log.bell().close();
        pumping.join().unwrap();
    });
}

// contract: P-13
#[test]
fn close_wakes_readers_and_pump_without_batch() {
    loom::model(|| {
        let log = Arc::new(Log::<u64>::new());
        let (cursor, ()) = log.cursor(|| ());
        let pumping = pump(&log);
        let reading = thread::spawn(move || read(cursor));
        log.bell().close();
        assert!(reading.join().unwrap().is_empty());
        pumping.join().unwrap();
    });
}

/// A released place retains no batch, wherever its reader is.
// contract: P-16a, P-16b
#[test]
fn released_place_retains_no_batch() {
    loom::model(|| {
        let log = Arc::new(Log::new());
        let (cursor, ()) = log.cursor(|| ());
        let batches = [Arc::new(1), Arc::new(2)];
        let writing = {
            let (log, batches) = (log.clone(), batches.clone());
            thread::spawn(move || batches.into_iter().for_each(|batch| log.publish(|| batch)))
        };
        let place = cursor.place().clone();
        let releasing = thread::spawn(move || place.release());
        let held = cursor.batch();
        cursor.advance();
        releasing.join().unwrap();
        writing.join().unwrap();
        assert!(cursor.batch().is_none());
        // Only the batch that the reader holds is left.
        let left = batches.iter().map(|batch| Arc::strong_count(batch) - 1).sum::<usize>();
        assert_eq!(left, usize::from(held.is_some()));
    });
}

/// A batch for one reader comes before the batches that are published after it. The other reader does not receive it.
// contract: P-04b, P-18b
#[test]
fn batch_for_one_reader_keeps_its_place() {
    loom::model(|| {
        let log = Arc::new(Log::new());
        let (cursor, ()) = log.cursor(|| ());
        let (other, ()) = log.cursor(|| ());
        let pumping = pump(&log);
        let (writer, id) = (log.clone(), cursor.id());
        let writing = thread::spawn(move || {
            writer.publish_to(&[id], 1, 1);
            writer.publish(|| 2);
            writer.publish_to(&[id], 1, 3);
            writer.bell().close();
        });
        assert_eq!(read(cursor), [1, 2, 3]);
        writing.join().unwrap();
        pumping.join().unwrap();
        assert_eq!(read(other), [2]);
    });
}

/// A place that is released while a batch for its reader is published retains nothing.
// contract: P-16a
#[test]
fn released_place_retains_no_batch_of_its_own() {
    loom::model(|| {
        let log = Arc::new(Log::new());
        let (cursor, ()) = log.cursor(|| ());
        let batch = Arc::new(1);
        let writing = {
            let (log, batch, id) = (log.clone(), batch.clone(), cursor.id());
            thread::spawn(move || log.publish_to(&[id], 1, batch))
        };
        cursor.place().release();
        writing.join().unwrap();
        assert!(cursor.batch().is_none());
        assert_eq!(Arc::strong_count(&batch), 1);
    });
}

/// A reader that joins between the write to the store and the write to the log receives each change once.
// contract: P-05b
#[test]
fn joining_reader_receives_each_change_once() {
    loom::model(|| {
        // The store: the changes so far. The last one is the revision.
        let store = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::new(Log::new());
        let writing = {
            let (store, log) = (store.clone(), log.clone());
            thread::spawn(move || {
                for revision in 1..=2_u64 {
                    store.lock().unwrap().push(revision);
                    log.publish(|| revision);
                }
            })
        };
        let (cursor, ()) = log.cursor(|| ());
        let mut map = store.lock().unwrap().clone();
        let joined = map.last().copied().unwrap_or(0);
        writing.join().unwrap();
        log.bell().close();
        map.extend(read(cursor).into_iter().filter(|revision| *revision > joined));
        assert_eq!(map, [1, 2], "joined at {joined}");
    });
}

/// The number of times it was started.
#[derive(Debug, Default)]
struct Member(usize);

fn join(members: &Members<Member>, id: u64) -> Result<(), Member> {
    members.join(id, Member::default(), |member, phase| member.0 += usize::from(phase == Phase::Running))
}

/// A member that joins is refused, or started once and ended.
// contract: P-13, I-05b
#[test]
fn joining_member_is_refused_or_started_once() {
    loom::model(|| {
        let members = Arc::new(Members::new());
        let joining = {
            let members = members.clone();
            thread::spawn(move || join(&members, 1))
        };
        members.start(|members| members.values_mut().for_each(|member| member.0 += 1)).unwrap();
        let ended = members.stop();
        match joining.join().unwrap() {
            Ok(()) => assert!(matches!(ended.as_slice(), [Member(1)]), "{ended:?}"),
            Err(refused) => assert_eq!((refused.0, ended.len()), (0, 0)),
        }
        assert!(members.read(std::collections::BTreeMap::is_empty));
        assert!(join(&members, 2).is_err());
    });
}

// contract: P-08a, P-13
#[test]
fn leaving_member_is_removed_once() {
    loom::model(|| {
        let members = Arc::new(Members::new());
        join(&members, 1).unwrap();
        let leaving = {
            let members = members.clone();
            thread::spawn(move || members.leave(1, |_| true))
        };
        let started = members.start(|members| members.values_mut().map(|member| member.0 += 1).count());
        let ended = members.stop();
        let left = leaving.join().unwrap();
        assert_eq!(ended.len() + usize::from(left.is_some()), 1);
        assert_eq!(ended.iter().chain(&left).map(|member| member.0).sum::<usize>(), started.unwrap());
    });
}

// contract: I-05d
#[test]
fn one_of_two_starts_succeeds() {
    loom::model(|| {
        let members = Arc::new(Members::<Member>::new());
        let other = members.clone();
        let starting = thread::spawn(move || other.start(|_| ()).is_ok());
        let first = members.start(|_| ()).is_ok();
        assert!(first != starting.join().unwrap());
        assert_eq!(members.phase(), Phase::Running);
    });
}
