//! The contract of the store, line by line.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};

use crate::common::{EXPECTED, Pod, hide_expected_panics, key, keys, pod, sorted};
use kinformer_core::{
    Delta, Error as CoreError, KeyRef, KnownObjects, Object, ObjectName, Replacement, ResourceVersion,
    Tombstone, Transform,
};
use kinformer_store::{Error, IndexFunction, Indexer, Indexers, NAMESPACE_INDEX, Snapshot, Store};

fn by_nodes() -> IndexFunction<Pod> {
    IndexFunction::new(|pod: &Arc<Pod>, values| pod.nodes.iter().for_each(|node| values.push(node)))
}

fn indexed() -> Indexer<Pod> {
    Indexer::builder()
        .indexers(Indexers::namespaced())
        .index("node", by_nodes())
        .index("app", IndexFunction::by_label("app"))
        .index("labels", IndexFunction::by_any_label())
        .build()
        .unwrap()
}

fn values(indexer: &Indexer<Pod>, index: &str) -> Vec<String> {
    sorted(indexer.index_values(index).unwrap().iter().map(|value| value.to_string()))
}

// contract: S-01
#[test]
fn store_adds_updates_deletes_and_replaces() {
    let store: Box<dyn Store<Pod>> = Box::new(Indexer::new());
    let first = pod("a/x").arc();
    store.add(first.clone()).unwrap().into_result().unwrap();
    assert!(Arc::ptr_eq(&store.get_by_key(first.key()).unwrap(), &first));
    let second = pod("a/x").node("n").arc();
    store.update(second.clone()).unwrap().into_result().unwrap();
    store.add(pod("y").arc()).unwrap().into_result().unwrap();
    assert!(Arc::ptr_eq(&store.get_by_key(KeyRef::new("a", "x")).unwrap(), &second));
    assert_eq!((store.len(), store.is_empty()), (2, false));
    assert_eq!(sorted(store.keys()), [key("y"), key("a/x")]);
    assert_eq!(keys(&store.list()), ["a/x", "y"]);
    store.apply(Delta::SyncAll.into()).unwrap().into_result().unwrap();
    assert!(store.is_ready());

    store.delete(Tombstone::FinalState(pod("a/x").arc())).unwrap().into_result().unwrap();
    let unknown = Tombstone::final_state_unknown(key("y"), None);
    store.delete(unknown.clone()).unwrap().into_result().unwrap();
    store.delete(unknown).unwrap().into_result().unwrap();
    assert!(store.is_empty() && store.get_by_key(KeyRef::named("y")).is_none());

    let list = Replacement::new(vec![pod("b/1").arc(), pod("b/2").arc()], "7");
    store.replace(list).unwrap().into_result().unwrap();
    let mut seen = Vec::new();
    store.for_each(&mut |pod| seen.push(pod.clone()));
    assert_eq!(keys(&seen), ["b/1", "b/2"]);
    assert_eq!(store.resource_versions().lowest(), "7".into());
}

/// Readers see all of a replace or nothing. Objects that the list names as undelivered are kept.
// contract: S-02
#[test]
fn replace_is_atomic_and_keeps_undelivered() {
    let indexer = indexed();
    for name in ["a/stays", "a/goes", "a/undelivered", "a/changes"] {
        indexer.add(pod(name).node("old")).unwrap().into_result().unwrap();
    }
    let stays = indexer.get(("a", "stays")).unwrap();
    let before = indexer.snapshot();
    let list = vec![stays.clone(), pod("a/changes").node("new").arc(), pod("a/added").node("new").arc()];
    let replacement = Replacement::new(list, 9u64).undelivered([key("a/undelivered"), key("a/never-known")]);
    let applied = indexer.apply(Delta::ReplacedAll(Box::new(replacement)));
    assert!(applied.errors.is_empty());
    let changes: Vec<_> = applied
        .changes
        .iter()
        .map(|change| (keys(&change.old).join(""), keys(change.new_state()).join("")))
        .collect();
    let text = |old: &str, new: &str| (old.to_owned(), new.to_owned());
    assert_eq!(
        changes,
        [text("a/goes", ""), text("a/stays", "a/stays"), text("a/changes", "a/changes"), text("", "a/added")]
    );

    assert_eq!(keys(before.iter()), ["a/changes", "a/goes", "a/stays", "a/undelivered"]);
    assert_eq!(keys(&indexer.list()), ["a/added", "a/changes", "a/stays", "a/undelivered"]);
    assert_eq!(keys(&indexer.by_index("node", "new").unwrap()), ["a/added", "a/changes"]);
    assert_eq!(keys(&indexer.by_index("node", "old").unwrap()), ["a/stays", "a/undelivered"]);
    assert!(Arc::ptr_eq(&indexer.get(("a", "stays")).unwrap(), &stays));

    // Freed slots are reused by other objects.
    indexer.add(pod("a/goes").node("back")).unwrap().into_result().unwrap();
    assert_eq!(keys(&indexer.by_index("node", "back").unwrap()), ["a/goes"]);
    assert_eq!(indexer.len(), 5);
}

// contract: S-03
#[test]
fn object_may_have_any_number_of_values() {
    let indexer = indexed();
    indexer.add(pod("a/none")).unwrap().into_result().unwrap();
    indexer.add(pod("a/one").node("n1").label("app", "web")).unwrap().into_result().unwrap();
    // A value given twice counts once.
    let several =
        pod("b/several").node("n2").node("n1").node("n2").label("app", "db").label("tier", "x").arc();
    indexer.add(several.clone()).unwrap().into_result().unwrap();
    indexer.add(pod("cluster-scoped").node("n3")).unwrap().into_result().unwrap();

    assert_eq!(values(&indexer, "node"), ["n1", "n2", "n3"]);
    assert_eq!(values(&indexer, NAMESPACE_INDEX), ["", "a", "b"]);
    assert_eq!(values(&indexer, "labels"), ["app=db", "app=web", "tier=x"]);
    assert_eq!(keys(&indexer.by_index("node", "n1").unwrap()), ["a/one", "b/several"]);
    assert_eq!(indexer.by_index("node", "n2").unwrap().len(), 1);
    assert!(indexer.by_index("node", "n9").unwrap().is_empty());
    assert_eq!(keys(&indexer.by_index(NAMESPACE_INDEX, "").unwrap()), ["cluster-scoped"]);
    assert_eq!(sorted(indexer.index_keys("node", "n1").unwrap()), [key("a/one"), key("b/several")]);
    // Objects that share any of the values, each once, including itself. The object need not be stored.
    assert_eq!(keys(&indexer.index_of("node", &several).unwrap()), ["a/one", "b/several"]);
    assert_eq!(keys(&indexer.index_of("app", &pod("x/y").label("app", "db").arc()).unwrap()), ["b/several"]);
    assert!(indexer.index_of("node", &pod("x/y").arc()).unwrap().is_empty());
    let snapshot = indexer.snapshot();
    assert_eq!(snapshot.index_len("node", "n1").unwrap(), 2);
    assert_eq!(snapshot.index_values("node").unwrap().len(), 3);
    let names: Vec<_> = snapshot.index_names().map(|name| name.to_string()).collect();
    assert_eq!(names, [NAMESPACE_INDEX, "node", "app", "labels"]);
}

/// An update changes only the index values that differ. A value without objects is removed.
// contract: S-04
#[test]
fn update_changes_only_differing_values() {
    let indexer = indexed();
    let write = |pod: Pod| indexer.update(pod).unwrap().into_result().unwrap();
    write(pod("a/x").node("n1").node("n2"));
    write(pod("a/y").node("n1"));
    write(pod("a/x").node("n2").node("n3"));
    assert_eq!(keys(&indexer.by_index("node", "n1").unwrap()), ["a/y"]);
    assert_eq!(keys(&indexer.by_index("node", "n2").unwrap()), ["a/x"]);
    assert_eq!(keys(&indexer.by_index("node", "n3").unwrap()), ["a/x"]);
    indexer.delete_by_key(("a", "y"));
    assert_eq!(values(&indexer, "node"), ["n2", "n3"]);
    write(pod("a/x"));
    assert!(values(&indexer, "node").is_empty());
    for round in 0..5000 {
        write(pod("a/short-lived").node(&format!("n{round}")));
        assert_eq!(indexer.snapshot().index_values("node").unwrap().len(), 1);
    }
    indexer.delete_by_key(("a", "short-lived"));
    indexer.delete_by_key(("a", "x"));
    assert!(values(&indexer, "node").is_empty() && values(&indexer, NAMESPACE_INDEX).is_empty());
}

// contract: S-05
#[test]
fn indexers_can_be_added_to_a_filled_store() {
    hide_expected_panics();
    let indexer = Indexer::<Pod>::new();
    for n in 0..500 {
        indexer.add(pod(&format!("a/p{n}")).node(&format!("n{}", n % 3))).unwrap().into_result().unwrap();
    }
    let before = indexer.snapshot();
    let failing = IndexFunction::fallible(|pod: &Arc<Pod>, values| {
        values.push("discarded");
        match &*pod.name {
            "p7" => Err("not this one".into()),
            "p8" => panic!("{EXPECTED}"),
            _ => Ok(()),
        }
    });
    let errors = indexer.add_indexers([("node", by_nodes()), ("failing", failing)]).unwrap();
    assert!(errors.errors().iter().all(|problem| !problem.left_out));
    let failed = errors.errors().iter().map(|problem| match problem.error.downcast_ref() {
        Some(Error::IndexFunction { key, index, .. }) => format!("{key} {index}"),
        _ => panic!("{problem}"),
    });
    assert_eq!(sorted(failed), ["a/p7 failing", "a/p8 failing"]);
    assert_eq!(indexer.by_index("node", "n1").unwrap().len(), 167);
    assert_eq!(indexer.by_index("failing", "discarded").unwrap().len(), 498);
    assert!(matches!(before.by_index("node", "n1").map(Iterator::count), Err(Error::UnknownIndex { .. })));

    // A conflict with a present index or within the call changes nothing.
    for names in [["fresh", "node"], ["fresh", "fresh"]] {
        let refused = indexer.add_indexers(names.map(|name| (name, by_nodes())));
        assert!(matches!(refused, Err(Error::IndexerConflict { name }) if *name == *names[1]));
    }
    let names: Vec<_> = indexer.index_names().iter().map(|name| name.to_string()).collect();
    assert_eq!(names, ["node", "failing"]);
    let twice = Indexer::builder().index("x", by_nodes()).index("x", by_nodes()).build();
    assert!(matches!(twice, Err(Error::IndexerConflict { name }) if *name == *"x"));
    assert!(indexer.add_indexers(Indexers::new()).unwrap().is_empty());
    indexer.delete_by_key(("a", "p1"));
    assert_eq!(indexer.by_index("node", "n1").unwrap().len(), 166);
}

/// An index function may write to the store while its new index is being filled.
// contract: S-05
#[test]
fn index_function_may_write_during_filling() {
    let indexer = Arc::new(Indexer::<Pod>::new());
    for n in 0..100 {
        indexer.add(pod(&format!("a/p{n}")).node("old")).unwrap().into_result().unwrap();
    }
    let writer = Arc::downgrade(&indexer);
    let busy = IndexFunction::new(move |pod: &Arc<Pod>, values| {
        values.push(&pod.nodes[0]);
        if let (Some(indexer), "old") = (writer.upgrade(), &*pod.nodes[0]) {
            let n: usize = pod.name[1..].parse().unwrap();
            // An object that is not indexed yet, one that is indexed already, and a new one.
            let later = crate::common::pod(&format!("a/p{}", (n + 50) % 100)).node("new");
            indexer.update(later).unwrap().into_result().unwrap();
            let removed = format!("p{}", n / 2);
            indexer.delete_by_key(("a", &*removed));
            indexer.add(crate::common::pod(&format!("b/{n}")).node("added")).unwrap().into_result().unwrap();
        }
    });
    indexer.add_indexers([("node", busy)]).unwrap().into_result().unwrap();
    let snapshot = indexer.snapshot();
    let mut indexed = 0;
    for value in ["old", "new", "added"] {
        let want = keys(snapshot.iter().filter(|pod| pod.nodes[0] == value));
        assert_eq!(keys(snapshot.by_index("node", value).unwrap()), want, "{value}");
        indexed += want.len();
    }
    assert_eq!(indexed, snapshot.len());
}

// contract: S-06
#[test]
fn unknown_index_is_named_in_the_error() {
    let indexer = indexed();
    let errors = [
        indexer.by_index("owner", "x").map(|_| ()).unwrap_err(),
        indexer.index_of("owner", &pod("a/x").arc()).map(|_| ()).unwrap_err(),
        indexer.index_keys("owner", "x").map(|_| ()).unwrap_err(),
        indexer.index_values("owner").map(|_| ()).unwrap_err(),
        indexer.index_function("owner").map(|_| ()).unwrap_err(),
        indexer.snapshot().index_len("owner", "x").map(|_| ()).unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("\"owner\"") && error.to_string().contains("\"app\""), "{error}");
        let Error::UnknownIndex { name, known } = error else { panic!("{error}") };
        assert_eq!((&*name, known.len()), ("owner", 4));
    }
}

/// A failing index function is reported. The object is stored, and other indexes and objects are not affected.
// contract: S-07
#[test]
fn failing_index_function_is_reported() {
    hide_expected_panics();
    let failing = IndexFunction::fallible(|pod: &Arc<Pod>, values| {
        for node in &pod.nodes {
            values.push(node);
            match node.as_str() {
                "fails" => return Err("no such node".into()),
                "panics" => panic!("{EXPECTED}"),
                _ => {}
            }
        }
        Ok(())
    });
    let indexer = Indexer::builder()
        .index("failing", failing)
        .index(NAMESPACE_INDEX, IndexFunction::by_namespace())
        .build()
        .unwrap();
    indexer.add(pod("a/x").node("fine")).unwrap().into_result().unwrap();
    for (node, message) in [("fails", "no such node"), ("panics", EXPECTED)] {
        let errors = indexer.update(pod("a/x").node("discarded").node(node)).unwrap();
        let [problem] = errors.errors() else { panic!("{errors:?}") };
        let Some(Error::IndexFunction { key: of, index, source }) = problem.error.downcast_ref() else {
            panic!("{problem}")
        };
        assert_eq!((&*of.to_string(), &**index), ("a/x", "failing"));
        assert!(source.to_string().contains(message), "{source}");
        assert!(values(&indexer, "failing").is_empty());
        assert_eq!(keys(&indexer.by_index(NAMESPACE_INDEX, "a").unwrap()), ["a/x"]);
        assert_eq!(indexer.get(("a", "x")).unwrap().nodes[1], node);
        // A query with an object for which the function fails.
        let result = indexer.index_of("failing", &pod("b/y").node(node).arc());
        assert!(matches!(result, Err(Error::IndexFunction { .. })));
        indexer.update(pod("a/x").node("fine")).unwrap().into_result().unwrap();
        assert_eq!(values(&indexer, "failing"), ["fine"]);
    }
    let list =
        vec![pod("a/x").node("panics").arc(), pod("a/y").node("ok").arc(), pod("a/z").node("fails").arc()];
    let errors = indexer.replace(Replacement::new(list, 1u64)).unwrap();
    let [first, second] = errors.errors() else { panic!("{errors:?}") };
    assert!(first.to_string().contains("a/x") && second.to_string().contains("a/z"), "{errors:?}");
    assert!(errors.errors().iter().all(|problem| !problem.left_out), "each is stored");
    assert_eq!((values(&indexer, "failing"), indexer.len()), (vec!["ok".to_owned()], 3));
}

// contract: S-08b
#[test]
fn transaction_applies_valid_entries_at_once() {
    let indexer = indexed();
    indexer.add(pod("a/old").node("n")).unwrap().into_result().unwrap();
    let before = indexer.snapshot();
    let bad = |name: &str| Delta::Deleted(Tombstone::FinalState(pod(name).arc()));
    let applied = indexer.apply([
        Delta::Added(pod("a/x").node("n").arc()),
        Delta::Added(pod("a/").arc()),
        Delta::Updated(pod("a/x").node("m").arc()),
        bad("b/"),
        Delta::Deleted(Tombstone::FinalState(pod("a/old").arc())),
    ]);
    let [CoreError::Key { index: 1, .. }, CoreError::Key { index: 3, .. }] =
        [0, 1].map(|error| &applied.errors.errors()[error].error)
    else {
        panic!("{:?}", applied.errors)
    };
    let changes: Vec<_> =
        applied.changes.iter().map(|c| (c.old.is_some(), c.new_state().is_some())).collect();
    assert_eq!(changes, [(false, true), (true, true), (true, false)]);
    assert_eq!(keys(&indexer.list()), ["a/x"]);
    assert_eq!(values(&indexer, "node"), ["m"]);
    assert_eq!(keys(before.iter()), ["a/old"]);
    assert!(indexer.transaction([]).is_empty());
    let error = indexer.transaction([bad("")]).into_result().unwrap_err();
    assert!(error.left_out && error.to_string().starts_with("object 0: invalid object key "), "{error}");
}

// contract: S-09
#[test]
fn store_version_is_that_of_newest_change() {
    let indexer = Indexer::<Pod>::new();
    let assert_version = |version: &str| assert_eq!(indexer.resource_versions().lowest(), version.into());
    assert_version("");
    indexer.add(pod("x").version(5u64)).unwrap().into_result().unwrap();
    assert_version("5");
    indexer.update(pod("x").version(3u64)).unwrap().into_result().unwrap();
    assert_version("5");
    indexer.update(pod("x")).unwrap().into_result().unwrap();
    assert_version("5");
    indexer.delete(pod("x").version(7u64).arc()).unwrap().into_result().unwrap();
    assert_version("7");
    let last_known = Some(pod("x").version(99u64).arc());
    indexer.delete(Tombstone::final_state_unknown(key("x"), last_known)).unwrap().into_result().unwrap();
    assert_version("7");
    indexer.delete_by_key(KeyRef::named("x"));
    indexer.bookmark(20u64);
    assert_version("20");
    indexer.bookmark(19u64);
    assert_version("20");
    let batch = [pod("x").version(21u64), pod("y").version(25u64), pod("z").version(23u64)];
    indexer.transaction(batch.map(|pod| Delta::Added(pod.arc()))).into_result().unwrap();
    assert_version("25");
    // A replace sets the version, also backward, as does a version that cannot be compared.
    indexer
        .replace(Replacement::new(vec![pod("x").version(24u64).arc()], 24u64))
        .unwrap()
        .into_result()
        .unwrap();
    assert_version("24");
    indexer.add(pod("y").version("opaque")).unwrap().into_result().unwrap();
    assert_version("opaque");
    indexer.add(pod("y").version(1u64)).unwrap().into_result().unwrap();
    assert_version("1");
    indexer.replace(Replacement::new(vec![], "")).unwrap().into_result().unwrap();
    assert_version("");
}

// contract: S-10
#[test]
fn snapshot_is_complete_and_immutable() {
    let indexer = indexed();
    for n in 0..3000 {
        let new = pod(&format!("ns{}/p{n}", n % 3)).node(&format!("n{}", n % 7)).version(n as u64);
        indexer.add(new).unwrap().into_result().unwrap();
    }
    let snapshot = indexer.snapshot();
    let clone = snapshot.clone();
    let twin = indexer.get(("ns0", "p0")).unwrap();
    for n in 0..3000 {
        let name = format!("ns{}/p{n}", n % 3);
        match n % 4 {
            0 => drop(indexer.delete_by_key(KeyRef::parse(&name).unwrap())),
            1 => indexer.update(pod(&name).node("moved").version(5000u64)).unwrap().into_result().unwrap(),
            _ => {}
        }
    }
    indexer.add_indexers([("later", by_nodes())]).unwrap().into_result().unwrap();
    indexer.replace(Replacement::new(vec![], 9000u64)).unwrap().into_result().unwrap();
    for snapshot in [snapshot, clone] {
        assert_eq!((snapshot.len(), snapshot.list().len(), snapshot.keys().len()), (3000, 3000, 3000));
        assert_eq!(snapshot.resource_versions().lowest(), 2999u64.into());
        assert!(Arc::ptr_eq(snapshot.get(("ns0", "p0")).unwrap(), &twin));
        assert_eq!(snapshot.index_len("node", "n1").unwrap(), 429);
        assert_eq!(snapshot.by_index("node", "n1").unwrap().count(), 429);
        assert_eq!(snapshot.by_index(NAMESPACE_INDEX, "ns2").unwrap().count(), 1000);
        assert!(snapshot.by_index("later", "n1").map(Iterator::count).is_err());
        let ordered = snapshot.ordered_in("ns1");
        assert!(ordered.len() == 1000 && ordered.is_sorted_by_key(|pod| pod.key()));
        assert!(snapshot.ordered().is_sorted_by_key(|pod| pod.key()));
        let (mut paged, mut cursor) = (Vec::new(), None);
        loop {
            let page = snapshot.page(cursor, 700);
            paged.extend(page.objects);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(keys(paged), keys(snapshot.iter()));
        assert_eq!(snapshot.page(None, 0).objects.len(), 1);
    }
    assert!(indexer.is_empty());
}

/// A stored object that counts how often its key is read.
struct Counted {
    name: String,
    keys_read: Arc<AtomicUsize>,
}

impl Object for Counted {
    fn key(&self) -> KeyRef<'_> {
        self.keys_read.fetch_add(1, Ordering::Relaxed);
        KeyRef::named(&self.name)
    }
}

/// The comparison of two snapshots reads the objects of the writes in between, however many objects there are.
// contract: F-18b
#[test]
fn comparison_reads_written_objects_only() {
    let keys_read = Arc::<AtomicUsize>::default();
    let object = |n: usize| Arc::new(Counted { name: format!("p{n}"), keys_read: keys_read.clone() });
    for objects in [1_000, 30_000] {
        let indexer = Indexer::<Counted>::new();
        for n in 0..objects {
            indexer.add(object(n)).unwrap().into_result().unwrap();
        }
        let before = indexer.snapshot();
        for n in [0, objects / 2, objects - 1] {
            indexer.update(object(n)).unwrap().into_result().unwrap();
        }
        let after = indexer.snapshot();
        keys_read.store(0, Ordering::Relaxed);
        assert_eq!(after.changes_since(&before).count(), 3);
        let read = keys_read.load(Ordering::Relaxed);
        assert!(read <= 500, "{read} keys of {objects} objects");
    }
}

// contract: S-10
#[test]
fn changes_since_returns_all_differences() {
    let indexer = Indexer::<Pod>::new();
    for n in 0..3000 {
        indexer.add(pod(&format!("a/p{n}"))).unwrap().into_result().unwrap();
    }
    let old = indexer.snapshot();
    indexer.delete_by_key(("a", "p1"));
    indexer.delete_by_key(("a", "p2"));
    // Returns in another slot, unchanged: no difference.
    let same = old.get(("a", "p2")).unwrap().clone();
    indexer.add(pod("a/takes-the-slot")).unwrap().into_result().unwrap();
    indexer.add(same).unwrap().into_result().unwrap();
    indexer.update(pod("a/p2500").node("n")).unwrap().into_result().unwrap();
    // Returns in another slot, changed.
    indexer.delete_by_key(("a", "p7"));
    indexer.add(pod("a/new")).unwrap().into_result().unwrap();
    indexer.add(pod("a/p7").node("n")).unwrap().into_result().unwrap();
    let new = indexer.snapshot();
    let differences = |new: &Snapshot<Pod>, old: &Snapshot<Pod>| {
        sorted(
            new.changes_since(old)
                .map(|difference| (keys(difference.old).join(""), keys(difference.new).join(""))),
        )
    };
    let text = |old: &str, new: &str| (old.to_owned(), new.to_owned());
    assert_eq!(
        differences(&new, &old),
        [
            text("", "a/new"),
            text("", "a/takes-the-slot"),
            text("a/p1", ""),
            text("a/p2500", "a/p2500"),
            text("a/p7", "a/p7")
        ]
    );
    assert!(differences(&new, &new).is_empty());
    let other = Indexer::<Pod>::new();
    other.add(new.get(("a", "p100")).unwrap().clone()).unwrap().into_result().unwrap();
    assert_eq!(differences(&other.snapshot(), &new).len(), new.len() - 1);
}

// contract: S-11
#[test]
fn iteration_does_not_block_writers() {
    let indexer = Indexer::builder().index(NAMESPACE_INDEX, IndexFunction::by_namespace()).build().unwrap();
    for n in 0..100 {
        indexer.add(pod(&format!("a/p{n}"))).unwrap().into_result().unwrap();
    }
    // On one thread: if the iteration held a lock, these writes would deadlock.
    let snapshot = indexer.snapshot();
    let mut iteration = snapshot.by_index(NAMESPACE_INDEX, "a").unwrap();
    assert!(iteration.next().is_some());
    KnownObjects::for_each(&indexer, &mut |pod| {
        indexer.update(pod.clone()).unwrap().into_result().unwrap();
        indexer.add(crate::common::pod(&format!("b/{}", pod.name))).unwrap().into_result().unwrap();
        indexer.delete_by_key(pod.key());
    });
    assert_eq!((iteration.count(), indexer.len()), (99, 100));
}

// contract: S-11
#[tokio::test]
async fn yielding_iteration_lets_others_run() {
    let indexer = Indexer::<Pod>::new();
    let list = (0..5000).map(|n| pod(&format!("a/p{n}")).arc()).collect();
    indexer.replace(Replacement::new(list, 1u64)).unwrap().into_result().unwrap();
    let snapshot = indexer.snapshot();
    let (mut visited, turns) = (0, AtomicUsize::new(0));
    let others = async {
        for _ in 0..2 {
            turns.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    };
    let mut turns_at_end = 0;
    let iteration = snapshot.for_each_yielding(|_| {
        visited += 1;
        turns_at_end = turns.load(Ordering::Relaxed);
    });
    tokio::join!(iteration, others);
    assert_eq!((visited, turns_at_end), (5000, 2));
}

/// A dropped iteration has visited full batches, and visits no more.
// contract: S-28
#[test]
fn dropped_iteration_has_visited_full_batches() {
    let indexer = Indexer::<Pod>::new();
    let list = (0..5000).map(|n| pod(&format!("a/p{n}")).arc()).collect();
    indexer.replace(Replacement::new(list, 1u64)).unwrap().into_result().unwrap();
    let snapshot = indexer.snapshot();
    for polls in 0..3 {
        let mut visited = 0;
        let mut iteration = Box::pin(snapshot.for_each_yielding(|_| visited += 1));
        for _ in 0..polls {
            assert!(iteration.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        drop(iteration);
        assert_eq!(visited, polls * 2048);
    }
}

// contract: S-16a, S-16c
#[test]
fn transform_runs_once_and_not_on_tombstones() {
    hide_expected_panics();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let transform = Transform::in_place(move |pod: &mut Pod| {
        counted.fetch_add(1, Ordering::Relaxed);
        match pod.nodes.first().map(String::as_str) {
            Some("fails") => return Err("cannot be transformed".into()),
            Some("panics") => panic!("{EXPECTED}"),
            _ => pod.labels.push(("app".into(), "transformed".into())),
        }
        Ok(())
    });
    let indexer =
        Indexer::builder().index("app", IndexFunction::by_label("app")).transform(transform).build().unwrap();
    let take_calls = || calls.swap(0, Ordering::Relaxed);
    indexer.add(pod("a/x")).unwrap().into_result().unwrap();
    assert_eq!((take_calls(), indexer.get(("a", "x")).unwrap().labels.len()), (1, 1));
    assert_eq!(indexer.by_index("app", "transformed").unwrap().len(), 1);

    let old = indexer.get(("a", "x")).unwrap();
    for node in ["fails", "panics"] {
        let refused = indexer.update(pod("a/x").node(node).version(100u64)).unwrap_err();
        assert!(
            matches!(&refused, Error::Core(CoreError::Transform { key, .. }) if *key == crate::common::key("a/x"))
        );
        assert!(Arc::ptr_eq(&indexer.get(("a", "x")).unwrap(), &old));
        assert_eq!((take_calls(), indexer.resource_versions().lowest()), (1, ResourceVersion::UNSET));
    }
    let name = |key: &str| Some(ObjectName::Key(crate::common::key(key)));
    let batch = [pod("a/y").node("fails"), pod("a/z")].map(|pod| Delta::Added(pod.arc()));
    assert_eq!(indexer.transaction(batch).into_result().unwrap_err().error.object(), name("a/y"));
    assert_eq!((take_calls(), keys(&indexer.list())), (2, vec!["a/x".to_owned(), "a/z".into()]));

    // In a replace, an object with a failed transform keeps its stored state.
    let list = vec![pod("a/y").arc(), pod("a/x").node("panics").arc(), pod("a/new").node("fails").arc()];
    let errors = indexer.replace(Replacement::new(list, 3u64)).unwrap();
    let objects: Vec<_> = errors.errors().iter().map(|problem| problem.error.object()).collect();
    assert_eq!(objects, [name("a/x"), name("a/new")]);
    assert_eq!((take_calls(), keys(&indexer.list())), (3, vec!["a/x".to_owned(), "a/y".into()]));
    assert!(Arc::ptr_eq(&indexer.get(("a", "x")).unwrap(), &old));

    indexer.delete(Tombstone::final_state_unknown(key("a/x"), Some(old))).unwrap().into_result().unwrap();
    indexer.delete(pod("a/y").arc()).unwrap().into_result().unwrap();
    indexer.delete_by_key(("a", "none"));
    indexer.bookmark(9u64);
    indexer.add_indexers([("node", by_nodes())]).unwrap().into_result().unwrap();
    assert_eq!((take_calls(), indexer.len()), (0, 0));
}

// contract: S-24
#[test]
fn index_function_receives_the_stored_object() {
    let (sender, receiver) = mpsc::channel();
    let keeps = IndexFunction::new(move |pod: &Arc<Pod>, values| {
        sender.send(pod.clone()).unwrap();
        values.push("kept");
    });
    let indexer = Indexer::builder().index("keeps", keeps).build().unwrap();
    let is_stored = |object: &Arc<Pod>| {
        let kept: Vec<Arc<Pod>> = receiver.try_iter().collect();
        kept.len() == 1 && Arc::ptr_eq(&kept[0], object)
    };
    indexer.add(pod("a/x")).unwrap().into_result().unwrap();
    assert!(is_stored(&indexer.get(("a", "x")).unwrap()));
    indexer.replace(Replacement::new(vec![pod("a/y").arc()], "7")).unwrap().into_result().unwrap();
    assert!(is_stored(&indexer.get(("a", "y")).unwrap()));
    let other = pod("a/z").arc();
    assert_eq!(indexer.index_of("keeps", &other).unwrap().len(), 1);
    assert!(is_stored(&other));
}
