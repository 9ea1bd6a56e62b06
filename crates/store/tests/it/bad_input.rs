//! Invalid input and panicking user code leave the store consistent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{EXPECTED, Pod, hide_expected_panics, keys, pod};
use kinformer_core::{
    Delta, Error as CoreError, KeyProblem, KeyRef, Object, ObjectName, Replacement, Tombstone,
};
use kinformer_store::{Error, IndexFunction, Indexer, NAMESPACE_INDEX};

fn key_problem(error: &CoreError) -> KeyProblem {
    let CoreError::Key { source, .. } = error else { panic!("{error}") };
    source.problem()
}

// contract: S-01
#[test]
fn invalid_key_is_rejected_without_effect() {
    let indexer = Indexer::new();
    indexer.add(pod("a/x").version(1u64)).unwrap().into_result().unwrap();
    let before = indexer.snapshot();
    for name in ["", "a/"] {
        let bad = pod(name).version(9u64).arc();
        let refused = [
            indexer.add(bad.clone()).unwrap_err(),
            indexer.update(bad.clone()).unwrap_err(),
            indexer.delete(bad).unwrap_err(),
        ];
        for error in refused {
            let Error::Core(error) = error else { panic!("{error}") };
            assert_eq!(key_problem(&error), KeyProblem::EmptyName);
        }
        let key = (name.trim_end_matches('/'), "");
        assert!(indexer.get(key).is_none() && indexer.delete_by_key(key).is_none());
    }
    let after = indexer.snapshot();
    assert_eq!(after.changes_since(&before).count(), 0);
    assert_eq!(after.resource_versions().lowest(), before.resource_versions().lowest());
}

/// An error of an index function that writes to the store when it is dropped, and notes whether it was blocked.
#[derive(Debug)]
struct WritesOnDrop {
    indexer: Arc<OnceLock<Weak<Indexer<Pod>>>>,
    blocked: Arc<AtomicBool>,
}

impl std::fmt::Display for WritesOnDrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no node")
    }
}

impl std::error::Error for WritesOnDrop {}

impl Drop for WritesOnDrop {
    fn drop(&mut self) {
        let Some(indexer) = self.indexer.get().and_then(Weak::upgrade) else { return };
        let (sender, written) = mpsc::channel();
        thread::spawn(move || sender.send(indexer.update(pod("a/other").node("n")).is_ok()));
        if written.recv_timeout(Duration::from_secs(10)) != Ok(true) {
            self.blocked.store(true, Ordering::SeqCst);
        }
    }
}

/// The errors of an index function for repeated objects of a list are dropped without a lock.
// contract: S-29d
#[test]
fn index_error_of_a_repeated_object_may_write_when_dropped() {
    let (cell, blocked) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
    let (of_error, is_blocked) = (cell.clone(), blocked.clone());
    let fails = IndexFunction::fallible(move |pod: &Arc<Pod>, values| {
        pod.nodes.iter().for_each(|node| values.push(node));
        match pod.nodes.is_empty() {
            true => Err(WritesOnDrop { indexer: of_error.clone(), blocked: is_blocked.clone() }.into()),
            false => Ok(()),
        }
    });
    let indexer = Arc::new(Indexer::builder().index("node", fails).build().unwrap());
    cell.set(Arc::downgrade(&indexer)).unwrap();
    let list = vec![pod("a/x").arc(), pod("a/x").arc(), pod("a/x").node("n").arc()];
    let errors = indexer.replace(Replacement::new(list, 1u64)).unwrap();
    assert_eq!(errors.errors().len(), 2, "repeated");
    assert!(!blocked.load(Ordering::SeqCst));
    assert_eq!(indexer.len(), 2);
}

/// A replace reports invalid and repeated keys by their position in the list.
// contract: S-02
#[test]
fn replace_reports_bad_keys_by_position() {
    hide_expected_panics();
    let fails = IndexFunction::fallible(|pod: &Arc<crate::common::Pod>, values| {
        pod.nodes.iter().for_each(|node| values.push(node));
        if pod.nodes.is_empty() { Err("no node".into()) } else { Ok(()) }
    });
    let indexer = Indexer::builder().index("node", fails).build().unwrap();
    indexer.add(pod("a/known").node("n")).unwrap().into_result().unwrap();
    let last = [pod("a/new").node("last").arc(), pod("a/known").node("last").arc()];
    let list = vec![
        pod("a/new").arc(), // repeated, so the error of its index function is not reported
        pod("a/known").node("n").arc(),
        pod("a/").arc(),
        pod("a/new").node("n").arc(),
        last[0].clone(),
        last[1].clone(),
    ];
    let applied = indexer.apply(Delta::ReplacedAll(Box::new(Replacement::new(list, 1u64))));
    let errors: Vec<_> = applied
        .errors
        .errors()
        .iter()
        .map(|problem| match &problem.error {
            CoreError::Duplicate { key } => key.to_string(),
            CoreError::Key { index, .. } => format!("invalid {index}"),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(errors, ["invalid 2", "a/new", "a/known", "a/new"]);
    assert_eq!(applied.changes.len(), 2);
    assert!(last.iter().all(|pod| Arc::ptr_eq(&indexer.get(pod.key()).unwrap(), pod)));
    assert_eq!(indexer.by_index("node", "last").unwrap().len(), 2);
    assert!(indexer.by_index("node", "n").unwrap().is_empty());
    assert_eq!(indexer.len(), 2);
}

/// Runs an action when it is dropped.
struct Dropper {
    name: String,
    action: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Object for Dropper {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new("a", &self.name)
    }
}

impl Drop for Dropper {
    fn drop(&mut self) {
        if let Some(action) = &self.action {
            action();
        }
    }
}

/// Makes the store drop objects in every possible way.
fn every_write(indexer: &Indexer<Dropper>, new: &dyn Fn(&str) -> Arc<Dropper>) {
    let list = |names: &[&str]| Replacement::new(names.iter().map(|name| new(name)).collect(), 1u64);
    indexer.add(new("x")).unwrap().into_result().unwrap();
    indexer.update(new("x")).unwrap().into_result().unwrap();
    indexer.delete(new("x")).unwrap().into_result().unwrap();
    let key = crate::common::key("a/y");
    let unknown = Tombstone::final_state_unknown(key, Some(new("y")));
    indexer.delete(unknown).unwrap().into_result().unwrap();
    indexer.add(new("")).unwrap_err();
    let batch = [Delta::Added(new("x")), Delta::Added(new("x")), Delta::Deleted(new("x").into())];
    indexer.transaction(batch).into_result().unwrap();
    indexer.replace(list(&["x", "y", "z"])).unwrap().into_result().unwrap();
    let errors = indexer.replace(list(&["x", "x", "z", ""])).unwrap();
    assert_eq!(errors.errors().len(), 2);
    indexer.replace(list(&[])).unwrap().into_result().unwrap();
}

// contract: S-02
#[test]
fn object_drop_may_use_the_store() {
    let indexer = Arc::new(
        Indexer::<Dropper>::builder().index(NAMESPACE_INDEX, IndexFunction::by_namespace()).build().unwrap(),
    );
    let drops = Arc::new(AtomicUsize::new(0));
    let new = |name: &str| {
        let (indexer, drops) = (Arc::downgrade(&indexer), drops.clone());
        let action = move || {
            let Some(indexer) = Weak::upgrade(&indexer) else { return };
            drops.fetch_add(1, Ordering::Relaxed);
            let inert = Dropper { name: "from-drop".into(), action: None };
            indexer.add(inert).unwrap().into_result().unwrap();
            assert!(indexer.get(("a", "from-drop")).is_some());
            assert!(!indexer.by_index(NAMESPACE_INDEX, "a").unwrap().is_empty());
            indexer.delete_by_key(("a", "from-drop"));
            indexer.bookmark(1u64);
        };
        Arc::new(Dropper { name: name.into(), action: Some(Box::new(action)) })
    };
    every_write(&indexer, &new);
    assert!(drops.load(Ordering::Relaxed) >= 15);
    assert!(indexer.is_empty() && indexer.index_values(NAMESPACE_INDEX).unwrap().is_empty());
}

/// An object whose `Drop` panics affects neither the store nor the writer.
// contract: S-02
#[test]
fn object_drop_panic_is_contained() {
    hide_expected_panics();
    let indexer =
        Indexer::<Dropper>::builder().index(NAMESPACE_INDEX, IndexFunction::by_namespace()).build().unwrap();
    let drops = Arc::new(AtomicUsize::new(0));
    let new = |name: &str| {
        let drops = drops.clone();
        let action = move || {
            drops.fetch_add(1, Ordering::Relaxed);
            panic!("{EXPECTED}")
        };
        Arc::new(Dropper { name: name.into(), action: Some(Box::new(action)) })
    };
    every_write(&indexer, &new);
    assert!(drops.load(Ordering::Relaxed) >= 15);
    assert!(indexer.is_empty() && indexer.index_values(NAMESPACE_INDEX).unwrap().is_empty());
}

/// An object whose accessor panics once the flag is set.
struct PanicsLater(AtomicBool);

impl Object for PanicsLater {
    fn key(&self) -> KeyRef<'_> {
        assert!(!self.0.load(Ordering::Relaxed), "{EXPECTED}");
        KeyRef::named("object")
    }
}

/// A stored object whose key accessor panics is reported, but not as left out.
// contract: S-07
#[test]
fn stored_object_without_key_is_not_left_out() {
    hide_expected_panics();
    let indexer = Indexer::new();
    indexer.add(PanicsLater(AtomicBool::new(false))).unwrap().into_result().unwrap();
    let fails = IndexFunction::fallible(|object: &Arc<PanicsLater>, _| {
        object.0.store(true, Ordering::Relaxed);
        Err("no values".into())
    });
    let errors = indexer.add_indexers([("fails", fails)]).unwrap();
    let [problem] = errors.errors() else { panic!("{errors:?}") };
    assert!(
        matches!(problem.error, CoreError::Accessor { object: ObjectName::Index(_), .. })
            && !problem.left_out,
        "{problem}"
    );
    assert_eq!(indexer.len(), 1);
}

/// An object whose accessor panics once, after this many calls, if it is armed.
struct PanicsAfterCalls {
    name: String,
    calls_left: Arc<AtomicUsize>,
    armed: Arc<AtomicBool>,
}

impl Object for PanicsAfterCalls {
    fn key(&self) -> KeyRef<'_> {
        if self.armed.load(Ordering::Relaxed) && self.calls_left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.armed.store(false, Ordering::Relaxed);
            panic!("{EXPECTED}");
        }
        KeyRef::new("a", &self.name)
    }
}

// contract: S-02
#[test]
fn panicking_accessor_keeps_store_consistent() {
    hide_expected_panics();
    for calls in 0..60 {
        let (calls_left, armed) = (Arc::new(AtomicUsize::new(calls)), Arc::new(AtomicBool::new(false)));
        let new = |name: &str| {
            Arc::new(PanicsAfterCalls {
                name: name.into(),
                calls_left: calls_left.clone(),
                armed: armed.clone(),
            })
        };
        // Not by namespace: an object whose accessor panics in the index function is rightly missing in the index.
        let all = IndexFunction::new(|_: &Arc<PanicsAfterCalls>, values| values.push("a"));
        let indexer = Indexer::builder().index("all", all).build().unwrap();
        for name in ["x", "y", "z"] {
            indexer.add(new(name)).unwrap().into_result().unwrap();
        }
        let before = indexer.snapshot();
        let writes: [&dyn Fn(); 4] = [
            &|| _ = indexer.update(new("x")),
            &|| _ = indexer.delete_by_key(("a", "y")),
            &|| _ = indexer.replace(Replacement::new(vec![new("x"), new("new"), new("x")], 1u64)),
            &|| _ = indexer.add(new("another")),
        ];
        armed.store(true, Ordering::Relaxed);
        for write in writes {
            _ = catch_unwind(AssertUnwindSafe(write));
        }
        armed.store(false, Ordering::Relaxed);

        let check = |indexer: &Indexer<PanicsAfterCalls>| {
            let snapshot = indexer.snapshot();
            assert_eq!(snapshot.iter().count(), snapshot.len());
            assert_eq!(snapshot.by_index("all", "a").unwrap().count(), snapshot.len());
            assert!(snapshot.iter().all(|object| snapshot.get(object.key()).is_some()));
        };
        check(&indexer);
        indexer
            .replace(Replacement::new(vec![new("1"), new("2"), new("x")], 2u64))
            .unwrap()
            .into_result()
            .unwrap();
        check(&indexer);
        indexer.add(new("3")).unwrap().into_result().unwrap();
        check(&indexer);
        assert_eq!((indexer.len(), before.len()), (4, 3));
    }
}

// contract: S-07
#[test]
fn index_function_may_write_to_its_store() {
    let indexer = Arc::new(Indexer::<crate::common::Pod>::new());
    let weak = Arc::downgrade(&indexer);
    let function = IndexFunction::new(move |pod: &Arc<crate::common::Pod>, values| {
        values.push("before");
        if let (Some(indexer), "outer") = (weak.upgrade(), &*pod.name) {
            Indexer::add(&indexer, crate::common::pod("a/inner")).unwrap().into_result().unwrap();
        }
        values.push("after");
    });
    indexer.add_indexers([("index", function)]).unwrap().into_result().unwrap();
    Indexer::add(&indexer, pod("a/outer")).unwrap().into_result().unwrap();
    for value in ["before", "after"] {
        assert_eq!(keys(&indexer.by_index("index", value).unwrap()), ["a/inner", "a/outer"]);
    }
}
