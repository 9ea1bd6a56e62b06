//! A value that is made of the objects of some resources.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::storage::{ResourceStore, Stored};

use super::Registry;

/// The stores of the resources; `None` for one that is not served.
pub(crate) type Stores = [Option<Arc<ResourceStore>>; 4];

/// A value that is read again after one of its resources was written.
pub(crate) struct Derived<T>(Mutex<Option<Cached<T>>>);

struct Cached<T> {
    stores: Stores,
    versions: [u64; 4],
    value: Arc<T>,
}

impl<T> Default for Derived<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Derived<T> {
    /// Returns the value of the present objects of these resources, in version `v1` of a group. They are the same in each
    /// call. `read` gets the value of former objects, if there is one.
    pub(crate) fn get(
        &self,
        registry: &Registry,
        group: &str,
        resources: [&str; 4],
        read: impl FnOnce(&Stores, Option<&T>) -> T,
    ) -> Arc<T> {
        let stores =
            resources.map(|plural| registry.get(group, "v1", plural).map(|resource| resource.store.clone()));
        // Before the objects are read: a write between them is found by the next call.
        let versions = stores.each_ref().map(|store| store.as_ref().map_or(0, |store| store.last_write()));
        let is_same = |cached: &Cached<T>| {
            let address = |store: &Option<Arc<ResourceStore>>| store.as_ref().map(Arc::as_ptr);
            cached.versions == versions
                && cached.stores.each_ref().map(address) == stores.each_ref().map(address)
        };
        let former = match self.0.lock().as_ref() {
            Some(cached) if is_same(cached) => return cached.value.clone(),
            cached => cached.map(|cached| cached.value.clone()),
        };
        let value = Arc::new(read(&stores, former.as_deref()));
        let replaced = self.0.lock().replace(Cached { stores, versions, value: value.clone() });
        drop(replaced);
        value
    }
}

/// What is made of each object of a resource, in the order of their names.
#[derive(Debug)]
pub(crate) struct Each<T>(Vec<(u64, Arc<T>)>);

impl<T> Default for Each<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Each<T> {
    /// Makes the values of the present objects; that of an object with the same version is taken over.
    pub(crate) fn read(
        store: Option<&ResourceStore>,
        former: Option<&Self>,
        make: impl Fn(&Stored) -> T,
    ) -> Self {
        let known: HashMap<u64, &Arc<T>> = former
            .into_iter()
            .flat_map(|former| &former.0)
            .map(|(version, value)| (*version, value))
            .collect();
        let snapshot = store.map(ResourceStore::snapshot);
        let objects = snapshot.iter().flat_map(|snapshot| snapshot.objects.values());
        let value = |stored: &Arc<Stored>| match known.get(&stored.version()) {
            Some(value) => (stored.version(), Arc::clone(value)),
            None => (stored.version(), Arc::new(make(stored))),
        };
        Self(objects.map(value).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| &**value)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use super::*;
    use crate::storage::{Change, Key, Versions, Window};

    // contract: E-28f
    #[test]
    fn only_objects_that_were_written_are_parsed_again() {
        let window = Window { events: 10, bytes: usize::MAX };
        let store = ResourceStore::new(Arc::new(Versions::starting_at(1)), Vec::new(), window);
        let put = |name: &str| {
            let object = json!({"apiVersion": "v1", "kind": "T", "metadata": {"name": name}});
            let object = object.as_object().unwrap();
            store.write(&Key::new("", name), |_| Ok(Change::Put(object.clone()))).unwrap();
        };
        let parsed = RefCell::new(Vec::new());
        let read = |former: Option<&Each<String>>| {
            Each::read(Some(&store), former, |stored| {
                let name = stored.key().name().to_owned();
                parsed.borrow_mut().push(name.clone());
                name
            })
        };
        let names = |each: &Each<String>| each.iter().cloned().collect::<Vec<_>>();
        put("b");
        put("a");
        let first = read(None);
        assert_eq!(
            (names(&first), parsed.take()),
            (vec!["a".into(), "b".into()], vec!["a".into(), "b".into()])
        );
        put("b");
        put("c");
        let second = read(Some(&first));
        assert_eq!((names(&second).len(), parsed.take()), (3, vec!["b".into(), "c".into()]));
        store.write(&Key::new("", "a"), |_| Ok(Change::Remove(serde_json::Map::new()))).unwrap();
        let third = read(Some(&second));
        assert_eq!((names(&third), parsed.take()), (vec!["b".into(), "c".into()], vec![]));
    }
}
