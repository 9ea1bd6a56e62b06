//! Readers of a store without the types of a program: see [`crate::engine`].

use std::sync::Arc;

use kinformer_core::{KeyRef, Object as _, ObjectKey, Versions};
use kinformer_kube::PackedObject;
use kinformer_store::{Error as StoreError, Reader, Snapshot};

use crate::engine::handlers::Object;
use crate::engine::started::Started;

/// One state of the store.
pub(crate) trait State: Send + Sync {
    fn get(&self, key: KeyRef<'_>) -> Option<&Object>;
    fn len(&self) -> usize;
    fn revision(&self) -> u64;
    fn resource_versions(&self) -> &Versions;
    fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a Object));
    fn iter(&self) -> Box<dyn Iterator<Item = &Object> + '_>;
    fn ordered(&self) -> Vec<&Object>;
    fn keys(&self) -> Vec<ObjectKey>;
    fn by_index<'a>(
        &'a self,
        index: &str,
        value: &str,
        visit: &mut dyn FnMut(&'a Object),
    ) -> Result<(), StoreError>;
    fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, StoreError>;
    fn index_names(&self) -> Vec<Arc<str>>;
    fn index_len(&self, index: &str, value: &str) -> Result<usize, StoreError>;
    fn stored(&self) -> &Snapshot<PackedObject>;
}

/// The old and the new state of an object.
type OldAndNew<'a> = (Option<&'a Object>, Option<&'a Object>);

/// Returns each object that differs in two states. A state that was stored again, as by an event that the server repeats,
/// is no difference. Takes time proportional to the number of writes in between.
pub(crate) fn changes_since<'a>(
    state: &'a dyn State,
    earlier: &'a dyn State,
) -> Box<dyn Iterator<Item = OldAndNew<'a>> + 'a> {
    let differences = state.stored().changes_since(earlier.stored());
    let differences = differences.map(|difference| (difference.old, difference.new));
    Box::new(differences.filter(|difference| match difference {
        (Some(old), Some(new)) => !is_same(old, new),
        _ => true,
    }))
}

fn is_same(old: &Object, new: &Object) -> bool {
    old.resource_version() == new.resource_version()
        && old.uid() == new.uid()
        && old.has_same_content(new) == Some(true)
}

impl State for Snapshot<PackedObject> {
    fn get(&self, key: KeyRef<'_>) -> Option<&Object> {
        Snapshot::get(self, key)
    }

    fn len(&self) -> usize {
        Snapshot::len(self)
    }

    fn revision(&self) -> u64 {
        Snapshot::revision(self)
    }

    fn resource_versions(&self) -> &Versions {
        Snapshot::resource_versions(self)
    }

    fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a Object)) {
        Snapshot::for_each(self, visit);
    }

    fn iter(&self) -> Box<dyn Iterator<Item = &Object> + '_> {
        Box::new(Snapshot::iter(self))
    }

    fn ordered(&self) -> Vec<&Object> {
        Snapshot::ordered(self)
    }

    fn keys(&self) -> Vec<ObjectKey> {
        Snapshot::keys(self)
    }

    fn by_index<'a>(
        &'a self,
        index: &str,
        value: &str,
        visit: &mut dyn FnMut(&'a Object),
    ) -> Result<(), StoreError> {
        Snapshot::by_index(self, index, value)?.for_each(visit);
        Ok(())
    }

    fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, StoreError> {
        Ok(Snapshot::index_values(self, index)?.cloned().collect())
    }

    fn index_names(&self) -> Vec<Arc<str>> {
        Snapshot::index_names(self).cloned().collect()
    }

    fn index_len(&self, index: &str, value: &str) -> Result<usize, StoreError> {
        Snapshot::index_len(self, index, value)
    }

    fn stored(&self) -> &Snapshot<PackedObject> {
        self
    }
}

/// A store whose code is not compiled in a program: see the module documentation.
pub(crate) trait Store: Send + Sync {
    fn get(&self, key: KeyRef<'_>) -> Option<Object>;
    fn list(&self) -> Vec<Object>;
    fn for_each(&self, visit: &mut dyn FnMut(&Object));
    fn by_index(&self, index: &str, value: &str, visit: &mut dyn FnMut(&Object)) -> Result<(), StoreError>;
}

impl Store for Reader<PackedObject> {
    fn get(&self, key: KeyRef<'_>) -> Option<Object> {
        self.get(key)
    }

    fn list(&self) -> Vec<Object> {
        self.list()
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Object)) {
        self.snapshot().for_each(visit);
    }

    fn by_index(&self, index: &str, value: &str, visit: &mut dyn FnMut(&Object)) -> Result<(), StoreError> {
        self.snapshot().by_index(index, value)?.for_each(visit);
        Ok(())
    }
}

/// A store with the name of its resource.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) resource: Arc<str>,
    pub(crate) started: Arc<Started>,
}

impl Objects {
    pub(crate) fn new(reader: Reader<PackedObject>, resource: Arc<str>, started: Arc<Started>) -> Self {
        Self { store: Arc::new(reader), resource, started }
    }
}
