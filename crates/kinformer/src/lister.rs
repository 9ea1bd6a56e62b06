//! Reading what an informer has stored.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kinformer_core::{KeyError, KeyRef};
use kinformer_kube::{Packed, PackedObject, PackedRef};
use kinformer_store::{NAMESPACE_INDEX, Reader};

use crate::engine::handlers::Object;
use crate::engine::state::Objects;
use crate::{Error, LabelSelector};

/// Reads the objects of an [`Informer`](crate::Informer) by key and by label. Cheap to clone.
///
/// Every call reads one consistent state and holds nobody up. What it gives is shared and cannot be changed. Objects
/// come in no particular order. Follows client-go 1.37 (`listers`).
pub struct Lister<K> {
    objects: Objects,
    kind: PhantomData<fn() -> K>,
}

/// Reads the objects of one namespace. Cheap to clone.
pub struct NamespaceLister<K> {
    objects: Objects,
    namespace: Arc<str>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Lister<K> {
    pub(crate) fn of(objects: Objects) -> Self {
        Self { objects, kind: PhantomData }
    }

    /// A lister of a store of one's own. In errors it names the resource by the name of the type: see
    /// [`Self::of_resource`].
    pub fn new(reader: Reader<PackedObject>) -> Self {
        let name = type_name::<K>();
        Self::of(Objects::new(reader, name.rsplit("::").next().unwrap_or(name)))
    }

    /// What to call the resource in errors, as `deployments.apps`.
    #[must_use]
    pub fn of_resource(mut self, resource: impl Into<Arc<str>>) -> Self {
        self.objects.resource = resource.into();
        self
    }

    /// The object with this key. O(1).
    ///
    /// The key may be given as its text, `namespace/name`, or `name` for a cluster-scoped object; as
    /// `(namespace, name)`; as an [`ObjectKey`](crate::ObjectKey); or as a [`KeyRef`].
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Key`] if the text is not the key of a Kubernetes object.
    pub fn get<'k>(&self, key: impl TryInto<KeyRef<'k>, Error: Into<KeyError>>) -> Result<Packed<K>, Error> {
        get(&self.objects, key.try_into().map_err(Into::into)?).map(Packed::new)
    }

    /// All objects that the selector selects. O(n).
    ///
    /// Prefer [`Self::for_each`], which touches no reference count.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Packed<K>> {
        typed(list(&self.objects, "", selector))
    }

    /// Visits all objects that the selector selects, by reference, in one state of the store. O(n).
    pub fn for_each(&self, selector: &LabelSelector, mut visit: impl FnMut(PackedRef<'_, K>)) {
        for_each(&self.objects, "", selector, &mut |object| visit(PackedRef::new(object)));
    }

    /// The objects that have this value in this index.
    ///
    /// # Errors
    /// [`Error::Index`].
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Packed<K>>, Error> {
        by_index(&self.objects, index, value).map(typed)
    }

    /// Reads only this namespace; all of them if it is empty.
    pub fn namespace(&self, namespace: impl Into<Arc<str>>) -> NamespaceLister<K> {
        NamespaceLister { objects: self.objects.clone(), namespace: namespace.into(), kind: PhantomData }
    }
}

impl<K> NamespaceLister<K> {
    /// The object of this name in the namespace. O(1).
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn get(&self, name: &str) -> Result<Packed<K>, Error> {
        get(&self.objects, KeyRef::new(&self.namespace, name)).map(Packed::new)
    }

    /// All objects of the namespace that the selector selects.
    ///
    /// Prefer [`Self::for_each`], which touches no reference count.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Packed<K>> {
        typed(list(&self.objects, &self.namespace, selector))
    }

    /// Visits all objects of the namespace that the selector selects, by reference, in one state of the store.
    pub fn for_each(&self, selector: &LabelSelector, mut visit: impl FnMut(PackedRef<'_, K>)) {
        for_each(&self.objects, &self.namespace, selector, &mut |object| visit(PackedRef::new(object)));
    }
}

/// In place: nothing is allocated or counted.
fn typed<K>(objects: Vec<Object>) -> Vec<Packed<K>> {
    objects.into_iter().map(Packed::new).collect()
}

// Nothing below is generic, so that it is compiled in this crate.

fn get(objects: &Objects, key: KeyRef<'_>) -> Result<Object, Error> {
    let not_found = || Error::NotFound { resource: objects.resource.clone(), key: key.to_string() };
    objects.store.get(key).ok_or_else(not_found)
}

fn by_index(objects: &Objects, index: &str, value: &str) -> Result<Vec<Object>, Error> {
    let mut found = Vec::new();
    match objects.store.by_index(index, value, &mut |object| found.push(object.clone())) {
        Ok(()) => Ok(found),
        Err(error) => Err(Error::Index { resource: objects.resource.clone(), source: Arc::new(error) }),
    }
}

fn list(objects: &Objects, namespace: &str, selector: &LabelSelector) -> Vec<Object> {
    if namespace.is_empty() && selector.is_everything() {
        return objects.store.list();
    }
    let mut selected = Vec::new();
    for_each(objects, namespace, selector, &mut |object| selected.push(object.clone()));
    selected
}

fn for_each(objects: &Objects, namespace: &str, selector: &LabelSelector, visit: &mut dyn FnMut(&Object)) {
    let everything = selector.is_everything();
    let mut each = |object: &Object| {
        // Labels are read only where there is something to ask.
        if everything || selector.matches_object(&**object) {
            visit(object);
        }
    };
    if namespace.is_empty() {
        return objects.store.for_each(&mut each);
    }
    // A store of one's own may not have the index.
    if objects.store.by_index(NAMESPACE_INDEX, namespace, &mut each).is_err() {
        objects.store.for_each(&mut |object| {
            if object.namespace() == Some(namespace) {
                each(object);
            }
        });
    }
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self::of(self.objects.clone())
    }
}

impl<K> Clone for NamespaceLister<K> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), namespace: self.namespace.clone(), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("resource", &self.objects.resource).finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for NamespaceLister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceLister")
            .field("resource", &self.objects.resource)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}
