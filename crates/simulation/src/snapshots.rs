//! The checks of a snapshot by itself and by the one before: its indexes, its counts, its revision and its differences.

use std::collections::BTreeMap;

use kinformer::{IndexValues, PackedObject, PackedRef, Snapshot};

use crate::judge::difference;
use crate::record::Objects;
use crate::state::{State, state_of, text_of};

/// The name of the index that each informer has, by the value of an object.
pub(crate) const BY_VALUE: &str = "value";

/// The name of the index by the end of the value. Its function panics for some objects, which have no value in it (S-07).
pub(crate) const BY_END: &str = "end";

/// The value at which the function of [`BY_END`] panics.
const PANICS_AT: &str = "3";

/// The last snapshot of an informer.
#[derive(Debug)]
pub(crate) struct Snapshots<K> {
    last: Option<(Snapshot<K>, Objects)>,
}

impl<K> Default for Snapshots<K> {
    fn default() -> Self {
        Self { last: None }
    }
}

impl<K> Snapshots<K> {
    /// Checks a snapshot that was taken after the earlier ones.
    ///
    /// # Errors
    /// Its parts do not agree with each other (S-02, S-10), or its differences from the last snapshot are not those of
    /// the objects.
    pub(crate) fn check(&mut self, snapshot: Snapshot<K>, objects: &Objects) -> Result<(), String> {
        if let Some((before, earlier)) = &self.last
            && before.revision() == snapshot.revision()
        {
            return difference("the store", objects, "the store at the same revision", earlier);
        }
        check_keys(&snapshot, objects)?;
        check_index(&snapshot, objects, BY_VALUE, |state| Some(value_of(state)))?;
        check_index(&snapshot, objects, BY_END, |state| Some(end_of(state)).filter(|end| *end != PANICS_AT))?;
        if let Some((before, earlier)) = &self.last {
            // A snapshot does not change.
            difference("an old snapshot", &objects_of(before), "itself", earlier)?;
            let (from, to) = (before.revision(), snapshot.revision());
            if to < from {
                return Err(format!("the store went back from revision {from} to {to}"));
            }
            check_differences(&snapshot, before, objects, earlier)?;
        }
        self.last = Some((snapshot, objects.clone()));
        Ok(())
    }
}

/// The objects of a snapshot.
pub(crate) fn objects_of<K>(snapshot: &Snapshot<K>) -> Objects {
    snapshot.iter().map(|object| (object.key().to_string(), state_of(object.object()))).collect()
}

fn check_keys<K>(snapshot: &Snapshot<K>, objects: &Objects) -> Result<(), String> {
    let mut keys: Vec<String> = snapshot.keys().iter().map(ToString::to_string).collect();
    keys.sort_unstable();
    if !keys.iter().eq(objects.keys()) || snapshot.len() != keys.len() {
        return Err(format!("keys {keys:?} and {} objects, but it has {:?}", snapshot.len(), objects.keys()));
    }
    let unknown = objects.iter().find(|(key, state)| {
        let found = key.split_once('/').and_then(|key| snapshot.get(key));
        found.map(|object| state_of(object.object())).as_ref() != Some(*state)
    });
    unknown.map_or(Ok(()), |(key, _)| Err(format!("{key} is in the list and is not found by its key")))
}

fn value_of(state: &State) -> &str {
    text_of(state, ["data", "value"]).unwrap_or_default()
}

fn end_of(state: &State) -> &str {
    let value = value_of(state);
    value.char_indices().next_back().and_then(|(start, _)| value.get(start..)).unwrap_or_default()
}

/// The function of [`BY_END`].
pub(crate) fn index_by_end(object: &PackedObject, values: &mut IndexValues) {
    let state = state_of(object);
    let end = end_of(&state);
    values.push(end);
    if end == PANICS_AT {
        std::panic::resume_unwind(Box::new("a panic of an index function"));
    }
}

fn check_index<K>(
    snapshot: &Snapshot<K>,
    objects: &Objects,
    name: &str,
    indexed: fn(&State) -> Option<&str>,
) -> Result<(), String> {
    let mut expected: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, state) in objects {
        if let Some(value) = indexed(state) {
            expected.entry(value).or_default().push(key);
        }
    }
    let text = |error: kinformer::Error| error.to_string();
    let mut values = snapshot.index_values(name).map_err(text)?;
    values.sort_unstable();
    if !values.iter().map(AsRef::as_ref).eq(expected.keys().copied()) {
        return Err(format!("the index {name} has the values {values:?}, but the objects have {expected:?}"));
    }
    for (value, keys) in expected {
        let found = snapshot.by_index(name, value).map_err(text)?;
        let mut found: Vec<String> = found.iter().map(|object| object.key().to_string()).collect();
        found.sort_unstable();
        if found != keys || snapshot.index_len(name, value).map_err(text)? != keys.len() {
            return Err(format!("the index {name} has {found:?} for {value}, but the objects are {keys:?}"));
        }
    }
    Ok(())
}

fn check_differences<K>(
    later: &Snapshot<K>,
    before: &Snapshot<K>,
    objects: &Objects,
    earlier: &Objects,
) -> Result<(), String> {
    let mut applied = earlier.clone();
    for change in later.changes_since(before) {
        let of = |object: PackedRef<'_, K>| (object.key().to_string(), state_of(object.object()));
        let (old, new) = (change.old.map(of), change.new.map(of));
        let Some(key) = old.as_ref().or(new.as_ref()).map(|(key, _)| key.clone()) else {
            return Err("a difference without an object".into());
        };
        let old = old.map(|(_, state)| state);
        if applied.get(&key) != old.as_ref() {
            return Err(format!(
                "the difference of {key} begins with {old:?}, but it was {:?}",
                applied.get(&key)
            ));
        }
        match new {
            Some((key, state)) => _ = applied.insert(key, state),
            None => _ = applied.remove(&key),
        }
    }
    difference("the store", objects, "the last snapshot with its differences", &applied)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kinformer::{Informer, SharedInformerFactory};
    use kube_client::Client;
    use serde_json::json;

    use super::*;
    use crate::server::{Cluster, Key, Options, Server};

    fn put(cluster: &Cluster, name: &str, value: &str) {
        cluster.put(Key::new("configmaps", "x", name), json!({"data": {"value": value}}));
    }

    /// Returns an informer that has `x/a` with the value 1 and `x/b` with the value 2.
    async fn synced() -> (Cluster, SharedInformerFactory, Informer<ConfigMap>) {
        let cluster = Cluster::new();
        put(&cluster, "a", "1");
        put(&cluster, "b", "2");
        let client = Client::new(Server::new(&cluster, 7, Options::default()), "default");
        let factory = SharedInformerFactory::builder(client).build();
        let informer = factory.informer::<ConfigMap>();
        informer.index_by_field(BY_VALUE, &["data", "value"]).unwrap();
        let by_end = |object: PackedRef<'_, ConfigMap>, values: &mut _| {
            index_by_end(object.object(), values);
            Ok(())
        };
        informer.index(BY_END, by_end).unwrap();
        factory.start().unwrap();
        informer.wait_for_sync().await.unwrap();
        (cluster, factory, informer)
    }

    /// Waits until a snapshot is newer than another one.
    async fn newer(informer: &Informer<ConfigMap>, before: u64) -> Snapshot<ConfigMap> {
        loop {
            let snapshot = informer.snapshot().unwrap();
            if snapshot.revision() > before {
                return snapshot;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    fn with_value(objects: &Objects, key: &str, value: &str) -> Objects {
        let mut objects = objects.clone();
        let mut state = serde_json::Value::clone(objects.get(key).unwrap());
        state["data"]["value"] = json!(value);
        objects.insert(key.into(), State::new(state));
        objects
    }

    fn without(objects: &Objects, key: &str) -> Objects {
        let mut objects = objects.clone();
        objects.remove(key).unwrap();
        objects
    }

    /// A snapshot whose objects are not those of its keys, or of its index, is an error.
    #[tokio::test(start_paused = true)]
    async fn parts_that_do_not_agree() {
        let (_cluster, _factory, informer) = synced().await;
        let snapshot = informer.snapshot().unwrap();
        let objects = objects_of(&snapshot);
        let by_value: fn(&State) -> Option<&str> = |state| Some(value_of(state));
        assert_eq!(
            (check_keys(&snapshot, &objects), check_index(&snapshot, &objects, BY_VALUE, by_value)),
            (Ok(()), Ok(()))
        );
        assert!(check_keys(&snapshot, &without(&objects, "x/a")).unwrap_err().contains("2 objects"));
        let other = with_value(&objects, "x/a", "3");
        assert!(check_keys(&snapshot, &other).unwrap_err().contains("is not found by its key"));
        assert!(check_index(&snapshot, &other, BY_VALUE, by_value).unwrap_err().contains("has the values"));
        let other = with_value(&with_value(&objects, "x/a", "2"), "x/b", "1");
        assert!(check_index(&snapshot, &other, BY_VALUE, by_value).unwrap_err().contains("for 1"));
        let by_end: fn(&State) -> Option<&str> = |state| Some(end_of(state));
        assert_eq!(check_index(&snapshot, &objects, BY_END, by_end), Ok(()));
    }

    /// Snapshots whose differences are not those of their objects, or that go back, are errors.
    #[tokio::test(start_paused = true)]
    async fn snapshots_that_do_not_follow() {
        let (cluster, _factory, informer) = synced().await;
        let take = || informer.snapshot().unwrap();
        let (first, mut snapshots) = (take(), Snapshots::default());
        let earlier = objects_of(&first);
        assert_eq!(snapshots.check(take(), &earlier), Ok(()));
        let repeated = snapshots.check(take(), &without(&earlier, "x/a"));
        assert!(repeated.unwrap_err().contains("the same revision"));
        put(&cluster, "a", "3");
        let second = newer(&informer, first.revision()).await;
        let objects = objects_of(&second);
        assert_eq!(check_differences(&second, &first, &objects, &earlier), Ok(()));
        let began = check_differences(&second, &first, &objects, &without(&earlier, "x/a"));
        assert!(began.unwrap_err().contains("the difference of x/a begins with"));
        let lost = check_differences(&second, &first, &without(&objects, "x/b"), &earlier);
        assert!(lost.unwrap_err().contains("differ in [\"x/b\"]"));
        assert_eq!(snapshots.check(take(), &objects), Ok(()));
        assert!(snapshots.check(first, &earlier).unwrap_err().contains("went back from revision"));
        let changed = with_value(&objects, "x/b", "9");
        let mut snapshots = Snapshots { last: Some((second, changed)) };
        put(&cluster, "a", "4");
        let third = newer(&informer, take().revision()).await;
        let now = objects_of(&third);
        assert!(snapshots.check(third, &now).unwrap_err().contains("an old snapshot"));
    }
}
