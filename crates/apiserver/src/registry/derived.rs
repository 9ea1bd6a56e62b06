//! A value that is made of the objects of some resources.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::storage::ResourceStore;

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
    /// call.
    pub(crate) fn get(
        &self,
        registry: &Registry,
        group: &str,
        resources: [&str; 4],
        read: impl FnOnce(&Stores) -> T,
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
        if let Some(cached) = self.0.lock().as_ref().filter(|cached| is_same(cached)) {
            return cached.value.clone();
        }
        let value = Arc::new(read(&stores));
        let replaced = self.0.lock().replace(Cached { stores, versions, value: value.clone() });
        drop(replaced);
        value
    }
}
