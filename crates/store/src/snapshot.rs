//! One state of a store, to be read at leisure.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use kinformer_core::{KeyRef, KnownObjects, Object, ObjectKey, ResourceVersion};

use crate::roots::Roots;
use crate::{Error, IndexFunction};

/// How many objects a long asynchronous walk visits before it lets other tasks run.
const YIELD_EVERY: usize = 2048;

/// One consistent state of an [`Indexer`](crate::Indexer): its objects, all its indexes and its version.
///
/// Taking one, and cloning one, is O(1). Nothing that is written later shows in it, and nobody waits for it:
/// it holds no lock. While it is held, a write copies the small part that it changes (a leaf of 32 objects
/// and the way to it), so a snapshot costs the memory of what has changed since; drop it when done.
///
/// Objects come in no particular order, unless [ordered](Self::ordered).
pub struct Snapshot<T> {
    roots: Roots<T>,
}

/// Where a page ended; see [`Snapshot::page`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cursor(usize);

/// A part of a snapshot; see [`Snapshot::page`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Page<'a, T> {
    /// The objects of this page.
    pub objects: Vec<&'a Arc<T>>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Cursor>,
}

impl<T: Object> Snapshot<T> {
    pub(crate) fn new(roots: Roots<T>) -> Self {
        Self { roots }
    }

    /// The object with this key. O(1).
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&Arc<T>> {
        self.roots.get(key.into())
    }

    /// How many objects there are. O(1).
    pub fn len(&self) -> usize {
        self.roots.len
    }

    /// Whether there are no objects. O(1).
    pub fn is_empty(&self) -> bool {
        self.roots.len == 0
    }

    /// The newest resource version that is reflected.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.roots.version
    }

    /// All objects by reference. O(n) for all of them; [`Self::for_each`] is faster where all are visited.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.roots.objects.leaves(0).flat_map(|(_, leaf)| leaf.iter()).flatten()
    }

    /// Shows every object by reference: the fastest walk.
    pub fn for_each<'a>(&'a self, mut visit: impl FnMut(&'a Arc<T>)) {
        self.roots.objects.for_each(|object| {
            if let Some(object) = object {
                visit(object);
            }
        });
    }

    /// As [`Self::for_each`], for asynchronous code: lets other tasks run after every 2,048 objects. Needs no
    /// particular runtime. Cancel-safe: dropped, it visits no more.
    pub async fn for_each_yielding<'a>(&'a self, mut visit: impl FnMut(&'a Arc<T>)) {
        for (n, object) in self.iter().enumerate() {
            if n > 0 && n % YIELD_EVERY == 0 {
                YieldNow(false).await;
            }
            visit(object);
        }
    }

    /// All objects. O(n), one reference count each.
    pub fn list(&self) -> Vec<Arc<T>> {
        let mut list = Vec::with_capacity(self.len());
        self.for_each(|object| list.push(object.clone()));
        list
    }

    /// All keys. O(n), one allocation each.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.iter().filter_map(|object| object.key().try_into().ok()).collect()
    }

    /// At most `limit` objects from where the page before ended; `None` begins. O(`limit`): the rest is
    /// neither copied nor visited. Page after page, every object of the snapshot comes exactly once.
    pub fn page(&self, from: Option<Cursor>, limit: usize) -> Page<'_, T> {
        let from = from.map_or(0, |cursor| cursor.0);
        let leaves = self.roots.objects.leaves(from);
        let mut left = leaves
            .flat_map(|(first, leaf)| leaf.iter().enumerate().map(move |(i, object)| (first + i, object)))
            .filter(|(slot, _)| *slot >= from)
            .filter_map(|(slot, object)| Some((slot, object.as_ref()?)));
        let objects = left.by_ref().take(limit.max(1)).map(|(_, object)| object).collect();
        Page { objects, next: left.next().map(|(slot, _)| Cursor(slot)) }
    }

    /// All objects in the order of their keys. O(n log n) and one reference an object, each time it is asked
    /// for: the store itself keeps no order, because keeping one would make every write dearer.
    pub fn ordered(&self) -> Vec<&Arc<T>> {
        sorted(self.iter())
    }

    /// The objects of one namespace (the empty one: the cluster-scoped) in the order of their keys. O(n) to
    /// find them, unless there is an index named `namespace`; O(m log m) to sort the m found.
    pub fn ordered_in(&self, namespace: &str) -> Vec<&Arc<T>> {
        let in_namespace = |object: &&Arc<T>| object.key().namespace() == namespace;
        match self.by_index(crate::NAMESPACE_INDEX, namespace) {
            Ok(objects) => sorted(objects.filter(in_namespace)),
            Err(_) => sorted(self.iter().filter(in_namespace)),
        }
    }

    /// The objects that an index has under a value, by reference, each once. O(1) to find, O(m) to walk.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn by_index(&self, index: &str, value: &str) -> Result<impl Iterator<Item = &Arc<T>>, Error> {
        let (index, _) = self.index(index)?;
        let bucket = index.bucket(&self.roots.seed, value.as_bytes());
        let slots = bucket.into_iter().flat_map(crate::bucket::Bucket::iter);
        Ok(slots.filter_map(|slot| self.roots.object(slot)))
    }

    /// The objects that share at least one value of an index with this one, each once; itself among them if
    /// it is stored. The values are asked of the index function anew, so the object need not be stored.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`], or what the index function reports for this object.
    pub fn index_of(&self, name: &str, object: &T) -> Result<Vec<&Arc<T>>, Error> {
        let (index, function) = self.index(name)?;
        let mut values = crate::IndexValues::default();
        function.collect(&name.into(), object, &mut values)?;
        let values = values.set(0);
        let buckets = values.iter().filter_map(|value| index.bucket(&self.roots.seed, value));
        let mut slots: Vec<u32> = buckets.flat_map(crate::bucket::Bucket::iter).collect();
        if values.len() > 1 {
            slots.sort_unstable();
            slots.dedup();
        }
        Ok(slots.into_iter().filter_map(|slot| self.roots.object(slot)).collect())
    }

    /// The keys that an index has under a value.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Error> {
        Ok(self.by_index(index, value)?.filter_map(|object| object.key().try_into().ok()).collect())
    }

    /// How many objects an index has under a value. O(1).
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_len(&self, index: &str, value: &str) -> Result<usize, Error> {
        let (index, _) = self.index(index)?;
        Ok(index.bucket(&self.roots.seed, value.as_bytes()).map_or(0, crate::bucket::Bucket::len))
    }

    /// All values of an index under which there is at least one object.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_values(&self, index: &str) -> Result<impl ExactSizeIterator<Item = &Arc<str>>, Error> {
        let (index, _) = self.index(index)?;
        Ok(Counted { values: index.values(), left: index.len() })
    }

    /// The names of the indexes.
    pub fn index_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.roots.functions.iter().map(|(name, _)| name)
    }

    pub(crate) fn index_function(&self, name: &str) -> Result<IndexFunction<T>, Error> {
        self.index(name).map(|(_, function)| function.clone())
    }

    fn index(&self, name: &str) -> Result<(&crate::index::Index, &IndexFunction<T>), Error> {
        self.roots.index(name).ok_or_else(|| Error::UnknownIndex {
            name: name.to_owned(),
            known: self.index_names().cloned().collect(),
        })
    }
}

fn sorted<'a, T: Object>(objects: impl Iterator<Item = &'a Arc<T>>) -> Vec<&'a Arc<T>> {
    let mut objects: Vec<_> = objects.collect();
    objects.sort_unstable_by(|a, b| a.key().cmp(&b.key()));
    objects
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Self { roots: self.roots.clone() }
    }
}

impl<T: Object> std::fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.index_names().collect();
        f.debug_struct("Snapshot")
            .field("len", &self.len())
            .field("resource_version", self.resource_version())
            .field("indexes", &names)
            .finish()
    }
}

impl<T: Object> KnownObjects<T> for Snapshot<T> {
    fn keys(&self) -> Vec<ObjectKey> {
        self.keys()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>> {
        self.get(key).cloned()
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        self.for_each(visit);
    }
}

/// An iterator of known length.
struct Counted<I> {
    values: I,
    left: usize,
}

impl<I: Iterator> Iterator for Counted<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let next = self.values.next()?;
        self.left = self.left.saturating_sub(1);
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<I: Iterator> ExactSizeIterator for Counted<I> {}

/// Lets other tasks run once.
struct YieldNow(bool);

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
