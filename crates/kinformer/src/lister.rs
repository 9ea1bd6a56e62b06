//! Reading what an informer has stored.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;

use kinformer_core::{KeyError, KeyRef, Object};
use kinformer_store::{NAMESPACE_INDEX, Reader, Snapshot};

use crate::{Error, LabelSelector};

/// Reads a store of objects by key and by label. Cheap to clone.
///
/// Every call reads one consistent state and holds nobody up. What it gives is shared and cannot be changed. Objects
/// come in no particular order. Follows client-go 1.37 (`listers`).
pub struct Lister<K> {
    reader: Reader<K>,
    resource: Arc<str>,
}

impl<K: Object> Lister<K> {
    /// A lister of this store. In errors it names the resource by the name of the type: see [`Self::of_resource`].
    pub fn new(reader: Reader<K>) -> Self {
        // Of `a::Packed<b::Pod>` it is the last part that tells the resource.
        let name = type_name::<K>();
        let name = name.rsplit("::").next().unwrap_or(name).trim_end_matches('>');
        Self { reader, resource: name.into() }
    }

    /// What to call the resource in errors, as `deployments.apps`.
    #[must_use]
    pub fn of_resource(mut self, resource: impl Into<Arc<str>>) -> Self {
        self.resource = resource.into();
        self
    }

    /// The store.
    pub fn reader(&self) -> &Reader<K> {
        &self.reader
    }

    /// The object with this key. O(1).
    ///
    /// The key may be given as its text, `namespace/name`, or `name` for a cluster-scoped object; as
    /// `(namespace, name)`; as an [`ObjectKey`](crate::ObjectKey); or as a [`KeyRef`].
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Key`] if the text is not the key of a Kubernetes object.
    pub fn get<'k>(&self, key: impl TryInto<KeyRef<'k>, Error: Into<KeyError>>) -> Result<Arc<K>, Error> {
        let key = key.try_into().map_err(Into::into)?;
        let not_found = || Error::NotFound { resource: self.resource.clone(), key: key.to_string() };
        self.reader.get_by_key(key).ok_or_else(not_found)
    }

    /// All objects that the selector selects. O(n).
    ///
    /// Prefer [`Self::for_each`], which touches no reference count.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<K>> {
        if selector.is_everything() {
            self.reader.list()
        } else {
            collect(|visit| self.for_each(selector, visit))
        }
    }

    /// Visits all objects that the selector selects, by reference, in one state of the store. O(n).
    pub fn for_each(&self, selector: &LabelSelector, mut visit: impl FnMut(&Arc<K>)) {
        select(self.reader.snapshot().iter(), selector, &mut visit);
    }

    /// Reads only this namespace; all of them if it is empty.
    pub fn namespace(&self, namespace: impl Into<Arc<str>>) -> NamespaceLister<K> {
        NamespaceLister { all: self.clone(), namespace: namespace.into() }
    }
}

/// Reads the objects of one namespace. Cheap to clone.
///
/// Where the store has an index of the name [`NAMESPACE_INDEX`], which is trusted to be one by namespace, only the
/// objects of the namespace are looked at; without it, all are.
pub struct NamespaceLister<K> {
    all: Lister<K>,
    namespace: Arc<str>,
}

impl<K: Object> NamespaceLister<K> {
    /// The object of this name in the namespace. O(1).
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn get(&self, name: &str) -> Result<Arc<K>, Error> {
        self.all.get(KeyRef::new(&self.namespace, name))
    }

    /// All objects of the namespace that the selector selects.
    ///
    /// Prefer [`Self::for_each`], which touches no reference count.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<K>> {
        if self.namespace.is_empty() {
            return self.all.list(selector);
        }
        collect(|visit| self.for_each(selector, visit))
    }

    /// Visits all objects of the namespace that the selector selects, by reference, in one state of the store.
    pub fn for_each(&self, selector: &LabelSelector, mut visit: impl FnMut(&Arc<K>)) {
        if self.namespace.is_empty() {
            return self.all.for_each(selector, visit);
        }
        let namespace = &*self.namespace;
        let snapshot: Snapshot<K> = self.all.reader.snapshot();
        match snapshot.by_index(NAMESPACE_INDEX, namespace) {
            Ok(objects) => select(objects, selector, &mut visit),
            Err(_) => {
                let objects = snapshot.iter().filter(|object| object.key().namespace() == Some(namespace));
                select(objects, selector, &mut visit);
            }
        }
    }
}

/// Asks about labels only where there is something to ask.
fn select<'a, K: Object>(
    objects: impl Iterator<Item = &'a Arc<K>>,
    selector: &LabelSelector,
    visit: &mut impl FnMut(&Arc<K>),
) {
    if selector.is_everything() {
        objects.for_each(visit);
    } else {
        objects.filter(|object| selector.matches_object(&***object)).for_each(visit);
    }
}

fn collect<K>(for_each: impl FnOnce(&mut dyn FnMut(&Arc<K>))) -> Vec<Arc<K>> {
    let mut objects = Vec::new();
    for_each(&mut |object| objects.push(object.clone()));
    objects
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self { reader: self.reader.clone(), resource: self.resource.clone() }
    }
}

impl<K> Clone for NamespaceLister<K> {
    fn clone(&self) -> Self {
        Self { all: self.all.clone(), namespace: self.namespace.clone() }
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("resource", &self.resource).finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for NamespaceLister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("NamespaceLister");
        debug
            .field("resource", &self.all.resource)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}
