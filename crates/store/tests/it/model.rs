//! The indexer against a plain model, with snapshots taken at random times and checked at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kinformer_core::{Delta, KeyRef, Labels, Object, ObjectKey, Replacement, ResourceVersion, Tombstone};
use kinformer_store::{IndexFunction, Indexer, Snapshot};
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq)]
struct Pod {
    namespace: String,
    name: String,
    version: u64,
    node: Option<u8>,
    labels: Vec<(String, String)>,
}

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new(&self.namespace, &self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::number(self.version)
    }

    fn labels(&self) -> Labels<'_> {
        self.labels.as_slice().into()
    }
}

/// On this node the index function fails, and on the next one it panics.
const FAILS: u8 = 250;
const PANICS: u8 = 251;

fn node() -> IndexFunction<Pod> {
    IndexFunction::fallible(|pod: &Arc<Pod>, values| {
        match pod.node {
            Some(FAILS) => {
                values.push("discarded");
                return Err("no such node".into());
            }
            Some(PANICS) => {
                values.push("discarded");
                panic!("no such node")
            }
            Some(node) => values.push(&node.to_string()),
            None => {}
        }
        Ok(())
    })
}

/// The expected values of an object in an index.
fn expected(index: &str, pod: &Pod) -> BTreeSet<String> {
    match index {
        "namespace" => [pod.namespace.clone()].into(),
        "node" => pod.node.filter(|node| *node < FAILS).map(|node| node.to_string()).into_iter().collect(),
        "app" => pod.labels.iter().filter(|(k, _)| k == "app").map(|(_, v)| v.clone()).take(1).collect(),
        "labels" => pod.labels.iter().map(|(k, v)| format!("{k}={v}")).collect(),
        _ => unreachable!(),
    }
}

type Model = BTreeMap<String, Arc<Pod>>;

fn check(snapshot: &Snapshot<Pod>, model: &Model, version: &ResourceVersion) {
    assert_eq!(snapshot.len(), model.len());
    assert_eq!(&snapshot.resource_versions().lowest(), version);
    let list = |objects: Vec<&Arc<Pod>>| {
        let found: BTreeMap<_, _> =
            objects.iter().map(|pod| (pod.key().to_string(), (*pod).clone())).collect();
        assert_eq!(found.len(), objects.len(), "no key twice");
        found
    };
    assert_eq!(&list(snapshot.iter().collect()), model);
    let mut visited = Vec::new();
    snapshot.for_each(|pod| visited.push(pod));
    assert_eq!(&list(visited), model);
    let parts = |pod: &Arc<Pod>| (pod.namespace.clone(), pod.name.clone());
    let ordered: Vec<_> = snapshot.ordered().into_iter().map(parts).collect();
    assert_eq!(ordered, model.values().map(parts).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
    for (key, pod) in model {
        assert!(snapshot.get(KeyRef::parse(key).unwrap()).is_some_and(|found| Arc::ptr_eq(found, pod)));
    }
    assert!(snapshot.get(("ns0", "absent")).is_none());
    let (mut paged, mut cursor) = (Vec::new(), None);
    loop {
        let page = snapshot.page(cursor, 3);
        assert!(page.objects.len() <= 3);
        paged.extend(page.objects);
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(&list(paged), model);
    for name in snapshot.index_names() {
        let mut by_value: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (key, pod) in model {
            for value in expected(name, pod) {
                by_value.entry(value).or_default().insert(key.clone());
            }
        }
        let values: BTreeSet<String> = snapshot.index_values(name).unwrap().map(|v| v.to_string()).collect();
        assert_eq!(values, by_value.keys().cloned().collect(), "values of {name}");
        assert_eq!(snapshot.index_values(name).unwrap().len(), by_value.len());
        for (value, keys) in by_value {
            let found = list(snapshot.by_index(name, &value).unwrap().collect());
            assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), keys, "{name}={value}");
            assert_eq!(snapshot.index_len(name, &value).unwrap(), keys.len());
            assert!(found.iter().all(|(key, pod)| Arc::ptr_eq(pod, &model[key])));
        }
        assert_eq!(snapshot.by_index(name, "no such value").unwrap().count(), 0);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(Pod),
    Batch(Vec<Option<Pod>>),
    Delete(String, bool),
    Replace { pods: Vec<Pod>, again: usize, undelivered: Vec<String>, unidentified: usize },
    Bookmark(u64),
    AddIndexer(&'static str),
    Snapshot,
}

fn any_key() -> impl Strategy<Value = String> {
    (0u8..3, 0u8..30)
        .prop_map(|(ns, name)| if ns == 0 { format!("p{name}") } else { format!("ns{ns}/p{name}") })
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let label =
        (prop::sample::select(vec!["app", "tier", "zone"]), prop::sample::select(vec!["a", "b", "c"]));
    let node = prop_oneof![8 => 0u8..6, 1 => Just(FAILS), 1 => Just(PANICS)];
    (any_key(), 0u64..100, prop::option::of(node), prop::collection::vec(label, 0..4)).prop_map(
        |(key, version, node, labels)| {
            let key = KeyRef::parse(&key).unwrap();
            let labels = labels.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            Pod {
                namespace: key.namespace().unwrap_or_default().into(),
                name: key.name().into(),
                version,
                node,
                labels,
            }
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => any_pod().prop_map(Step::Write),
        2 => prop::collection::vec(prop::option::of(any_pod()), 0..8).prop_map(Step::Batch),
        6 => (any_key(), any::<bool>()).prop_map(|(key, with_object)| Step::Delete(key, with_object)),
        2 => (
            prop::collection::vec(any_pod(), 0..40),
            0usize..10,
            prop::collection::vec(any_key(), 0..4),
            prop_oneof![4 => Just(0), 1 => Just(1_usize)],
        )
            .prop_map(|(pods, again, undelivered, unidentified)| Step::Replace { pods, again, undelivered, unidentified }),
        1 => (0u64..100).prop_map(Step::Bookmark),
        1 => prop::sample::select(vec!["namespace", "node", "app", "labels"]).prop_map(Step::AddIndexer),
        3 => Just(Step::Snapshot),
    ]
}

fn function(name: &str) -> IndexFunction<Pod> {
    match name {
        "namespace" => IndexFunction::by_namespace(),
        "node" => node(),
        "app" => IndexFunction::by_label("app"),
        _ => IndexFunction::by_any_label(),
    }
}

fn advance(version: &mut ResourceVersion, new: u64) {
    let new = ResourceVersion::number(new);
    if !version.reaches(&new) {
        *version = new;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..Default::default() })]

    // contract: S-02, S-03, S-04, S-08b, S-09, S-10, S-30
    #[test]
    fn snapshots_match_the_model_at_their_time(steps in prop::collection::vec(any_step(), 1..80)) {
        kinformer_testing::panics::hide("no such node");
        let store = Indexer::builder().index("node", node()).index("labels", IndexFunction::by_any_label()).build().unwrap();
        let mut names = BTreeSet::from(["node", "labels"]);
        let (mut model, mut version, mut snapshots) = (Model::new(), ResourceVersion::UNSET, Vec::new());
        for step in steps {
            match step {
                Step::Write(pod) => {
                    let pod = Arc::new(pod);
                    let fails = pod.node >= Some(FAILS) && names.contains("node");
                    let applied = store.apply(Delta::Updated(pod.clone()));
                    prop_assert_eq!(applied.errors.errors().len(), usize::from(fails));
                    let [change] = &applied.changes[..] else { panic!("{applied:?}") };
                    prop_assert_eq!(change.old.clone(), model.insert(pod.key().to_string(), pod.clone()));
                    prop_assert_eq!(change.new_state(), Some(&pod));
                    advance(&mut version, pod.version);
                }
                Step::Batch(pods) => {
                    let bad = Pod { namespace: "x".into(), name: String::new(), version: 1000, node: None, labels: vec![] };
                    let mut batch = Vec::new();
                    for pod in &pods {
                        let pod = Arc::new(pod.clone().unwrap_or(bad.clone()));
                        if !pod.name.is_empty() {
                            model.insert(pod.key().to_string(), pod.clone());
                            advance(&mut version, pod.version);
                        }
                        batch.push(Delta::Added(pod));
                    }
                    let errors = store.transaction(batch);
                    let refused: Vec<_> = errors.errors().iter().filter_map(|problem| match &problem.error {
                        kinformer_core::Error::Key { index, .. } => Some(*index),
                        _ => None,
                    }).collect();
                    let want: Vec<_> = pods.iter().enumerate().filter(|(_, p)| p.is_none()).map(|(i, _)| i).collect();
                    prop_assert_eq!(refused, want);
                }
                Step::Delete(key, with_object) => {
                    let old = model.remove(&key);
                    match (with_object, &old) {
                        (true, Some(pod)) => {
                            advance(&mut version, pod.version);
                            store.delete(pod.clone()).unwrap().into_result().unwrap();
                        }
                        _ => {
                            let key: ObjectKey = key.parse().unwrap();
                            store.delete(Tombstone::final_state_unknown(key, None)).unwrap().into_result().unwrap();
                        }
                    }
                }
                Step::Replace { pods, again, undelivered, unidentified } => {
                    let mut list: Vec<Arc<Pod>> = model.values().take(again).cloned().collect();
                    list.extend(pods.into_iter().map(Arc::new));
                    let mut new = if unidentified == 0 { Model::new() } else { model.clone() };
                    for key in &undelivered {
                        new.extend(model.get(key).map(|pod| (key.clone(), pod.clone())));
                    }
                    let mut listed = Model::new();
                    let mut duplicates = 0;
                    for pod in &list {
                        duplicates += usize::from(listed.insert(pod.key().to_string(), pod.clone()).is_some());
                    }
                    new.extend(listed.clone());
                    let keys = undelivered.iter().map(|key| key.parse().unwrap());
                    let applied = store.apply(Delta::ReplacedAll(Box::new(Replacement::new(list, 50u64).undelivered(keys).unidentified(unidentified))));
                    prop_assert_eq!(applied.errors.errors().iter().filter(|p| matches!(p.error, kinformer_core::Error::Duplicate { .. })).count(), duplicates);
                    let mut changed = Model::new();
                    for change in applied.changes {
                        match (change.old.clone(), change.new_state().cloned()) {
                            (old, Some(new)) => {
                                prop_assert_eq!(old.as_ref(), model.get(&new.key().to_string()));
                                prop_assert!(changed.insert(new.key().to_string(), new).is_none());
                            }
                            (Some(old), None) => prop_assert!(!new.contains_key(&old.key().to_string())),
                            (None, None) => prop_assert!(false, "change without a state"),
                        }
                    }
                    prop_assert_eq!(changed, listed);
                    model = new;
                    match unidentified {
                        0 => version = ResourceVersion::number(50),
                        _ if ResourceVersion::number(50).reaches(&version) => {}
                        _ => version = ResourceVersion::UNSET,
                    }
                }
                Step::Bookmark(new) => {
                    store.bookmark(new);
                    advance(&mut version, new);
                }
                Step::AddIndexer(name) => {
                    let added = store.add_indexers([(name, function(name))]);
                    prop_assert_eq!(added.is_ok(), names.insert(name));
                    if let Ok(errors) = added {
                        let failing = model.values().filter(|pod| pod.node >= Some(FAILS)).count();
                        prop_assert_eq!(errors.errors().len(), if name == "node" { failing } else { 0 });
                    }
                }
                Step::Snapshot => snapshots.push((store.snapshot(), model.clone(), version.clone())),
            }
        }
        snapshots.push((store.snapshot(), model, version));
        for (snapshot, model, version) in &snapshots {
            check(snapshot, model, version);
        }
    }
}
