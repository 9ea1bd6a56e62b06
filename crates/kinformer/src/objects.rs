//! The stored objects without the type of a program: see [`crate::kube_informer`].

use std::sync::Arc;

use kinformer_core::{KeyRef, Object as _, ObjectKey, Versions};
use kinformer_kube::PackedObject;
use kinformer_store::{Error as StoreError, Reader, Snapshot};

use crate::callbacks::Object;
use crate::started::Started;

/// One state of the store.
#[derive(Clone)]
pub(crate) struct State(Snapshot<PackedObject>);

/// The old and the new state of an object.
type OldAndNew<'a> = (Option<&'a Object>, Option<&'a Object>);

impl State {
    pub(crate) fn new(snapshot: Snapshot<PackedObject>) -> Self {
        Self(snapshot)
    }

    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<&Object> {
        self.0.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.0.revision()
    }

    pub(crate) fn resource_versions(&self) -> &Versions {
        self.0.resource_versions()
    }

    pub(crate) fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a Object)) {
        self.0.for_each(visit);
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = &Object> + '_> {
        Box::new(self.0.iter())
    }

    pub(crate) fn ordered(&self) -> Vec<&Object> {
        self.0.ordered()
    }

    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.0.keys()
    }

    pub(crate) fn by_index<'a>(
        &'a self,
        index: &str,
        value: &str,
        visit: &mut dyn FnMut(&'a Object),
    ) -> Result<(), StoreError> {
        self.0.by_index(index, value)?.for_each(visit);
        Ok(())
    }

    pub(crate) fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, StoreError> {
        Ok(self.0.index_values(index)?.cloned().collect())
    }

    pub(crate) fn index_names(&self) -> Vec<Arc<str>> {
        self.0.index_names().cloned().collect()
    }

    pub(crate) fn index_len(&self, index: &str, value: &str) -> Result<usize, StoreError> {
        self.0.index_len(index, value)
    }

    /// Returns each object that differs from an earlier state. One that was stored again in the same state, as by an event
    /// that the server repeats, does not. Takes time proportional to the number of writes in between.
    pub(crate) fn changes_since<'a>(
        &'a self,
        earlier: &'a Self,
    ) -> Box<dyn Iterator<Item = OldAndNew<'a>> + 'a> {
        let differences = self.0.changes_since(&earlier.0);
        let differences = differences.map(|difference| (difference.old, difference.new));
        Box::new(differences.filter(|difference| match difference {
            (Some(old), Some(new)) => !is_same(old, new),
            _ => true,
        }))
    }
}

fn is_same(old: &Object, new: &Object) -> bool {
    old.resource_version() == new.resource_version()
        && old.uid() == new.uid()
        && old.has_same_content(new) == Some(true)
}

/// A store with the name of its resource.
#[derive(Clone)]
pub(crate) struct Objects {
    reader: Reader<PackedObject>,
    pub(crate) resource: Arc<str>,
    pub(crate) started: Arc<Started>,
}

impl Objects {
    pub(crate) fn new(reader: Reader<PackedObject>, resource: Arc<str>, started: Arc<Started>) -> Self {
        Self { reader, resource, started }
    }

    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<Object> {
        self.reader.get(key)
    }

    pub(crate) fn list(&self) -> Vec<Object> {
        self.reader.list()
    }

    pub(crate) fn snapshot(&self) -> State {
        State::new(self.reader.snapshot())
    }
}
