//! Snapshots: immutable states of a store.

use std::fmt;
use std::iter;
use std::sync::Arc;

use kinformer_core::internal::{contain, drop_contained, yield_now};
use kinformer_core::{KeyRef, KnownObjects, Object, ObjectKey, Versions};

use crate::Error;
use crate::bucket::SlotSet;
use crate::evaluated::Evaluated;
use crate::index::{Index, Values};
use crate::index_function::IndexFunction;
use crate::roots::{Roots, SLOT_LEAF};

/// The contents of a store at one moment: objects, point look-ups, all indexes and the resource versions.
///
/// Taking and cloning a snapshot is O(1). Later writes do not affect it, and it blocks nothing, no matter how long it
/// is iterated. In return, objects that have since been replaced or deleted stay alive until the snapshot is dropped.
///
/// Iteration is in slot order, which has no meaning; it is stable within a snapshot and nearly stable from one to the
/// next. Internal iteration (`for_each`, `fold`) is the fastest.
pub struct Snapshot<T> {
    roots: Arc<Roots<T>>,
}

/// The number of objects that an async iteration visits between two yields.
const YIELD_AFTER: usize = 2048;

impl<T: Object> Snapshot<T> {
    pub(crate) fn new(roots: Arc<Roots<T>>) -> Self {
        Self { roots }
    }

    pub(crate) fn roots(&self) -> &Arc<Roots<T>> {
        &self.roots
    }

    /// Returns the object with this key. O(1).
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::Indexer;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::new();
    /// pods.add(pod("default/web-0", 1))?;
    /// let snapshot = pods.snapshot();
    /// assert_eq!(snapshot.get(("default", "web-0")), Some(&pod("default/web-0", 1).into()));
    /// assert_eq!(snapshot.get(("default", "web-1")), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&Arc<T>> {
        self.roots.get(key.into())
    }

    /// Returns whether there is an object with this key. O(1).
    pub fn contains<'k>(&self, key: impl Into<KeyRef<'k>>) -> bool {
        self.get(key).is_some()
    }

    /// Returns the number of objects. O(1).
    pub fn len(&self) -> usize {
        self.roots.len
    }

    /// Returns whether the snapshot is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the newest resource version that this state reflects, by part.
    pub fn resource_versions(&self) -> &Versions {
        &self.roots.versions
    }

    /// Returns the revision of this state: the number of writes of objects that the store had published. Bookmarks and
    /// added indexes are not counted, so two snapshots of one revision have the same objects. A change is included in
    /// this state if its [`Applied::revision`](crate::Applied::revision) is not greater.
    pub fn revision(&self) -> u64 {
        self.roots.revision
    }

    /// Returns all objects, by reference.
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::Indexer;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::new();
    /// pods.add(pod("default/web-0", 1))?;
    /// pods.add(pod("other/web-0", 2))?;
    /// let snapshot = pods.snapshot();
    /// assert_eq!(snapshot.iter().map(|pod| ***pod).sum::<u32>(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.roots.slots.iter().flatten()
    }

    /// Calls `visit` with every object, by reference.
    pub fn for_each<'a>(&'a self, visit: impl FnMut(&'a Arc<T>)) {
        self.iter().for_each(visit);
    }

    /// Returns all objects. Prefer [`Self::iter`], which touches no reference count.
    pub fn list(&self) -> Vec<Arc<T>> {
        let mut objects = Vec::with_capacity(self.len());
        self.iter().for_each(|object| objects.push(object.clone()));
        objects
    }

    /// Returns the keys of all objects. O(n), one allocation per key.
    pub fn keys(&self) -> Vec<ObjectKey> {
        let mut keys = Vec::with_capacity(self.len());
        // Stored objects have valid keys.
        for object in self.iter() {
            keys.extend(contain(|| ObjectKey::try_from(object.key()).ok()).ok().flatten());
        }
        keys
    }

    /// Returns all objects in key order: by cluster, namespace, then name. O(n log n), on references.
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::Indexer;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::new();
    /// pods.add(pod("default/b", 1))?;
    /// pods.add(pod("default/a", 2))?;
    /// let snapshot = pods.snapshot();
    /// assert_eq!(snapshot.ordered(), [&pod("default/a", 2).into(), &pod("default/b", 1).into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ordered(&self) -> Vec<&Arc<T>> {
        in_order(self.iter())
    }

    /// Returns the objects of one namespace in name order. Finding them is O(n), unless the store has an index named
    /// [`NAMESPACE_INDEX`](crate::NAMESPACE_INDEX), which is assumed to be by namespace; sorting the m found objects is
    /// O(m log m).
    pub fn ordered_in(&self, namespace: &str) -> Vec<&Arc<T>> {
        match self.by_index(crate::NAMESPACE_INDEX, namespace) {
            Ok(objects) => in_order(objects),
            Err(_) => in_order(
                self.iter().filter(|object| object.key().namespace().unwrap_or_default() == namespace),
            ),
        }
    }

    /// Returns up to `limit` objects (at least one), starting at a cursor or at the beginning, and the cursor of the
    /// next page.
    ///
    /// All pages of one snapshot together contain every object once. O(limit). A cursor is valid only for the snapshot
    /// that returned it.
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::Indexer;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::new();
    /// pods.add(pod("default/web-0", 1))?;
    /// pods.add(pod("other/web-0", 2))?;
    /// let snapshot = pods.snapshot();
    /// let first = snapshot.page(None, 1);
    /// let second = snapshot.page(first.next, 1);
    /// assert_eq!((first.objects.len(), second.objects.len()), (1, 1));
    /// assert_ne!(first.objects, second.objects);
    /// assert!(second.next.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn page(&self, from: Option<Cursor>, limit: usize) -> Page<'_, T> {
        let limit = limit.clamp(1, self.len().max(1));
        let mut page = Page { objects: Vec::with_capacity(limit), next: None };
        let start = from.map_or(0, |Cursor(slot)| slot);
        for leaf in start / SLOT_LEAF..self.roots.slots.leaves() {
            let Some(objects) = self.roots.slots.leaf(leaf) else { continue };
            for (offset, object) in objects.iter().enumerate() {
                let slot = leaf * SLOT_LEAF + offset;
                let Some(object) = object.as_ref().filter(|_| slot >= start) else { continue };
                if page.objects.len() == limit {
                    page.next = Some(Cursor(slot));
                    return page;
                }
                page.objects.push(object);
            }
        }
        page
    }

    /// Returns the objects with this value in this index, by reference.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]: there is no index of this name.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::{IndexFunction, Indexer};
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::builder().index("namespace", IndexFunction::by_namespace()).build()?;
    /// pods.add(pod("default/web-0", 1))?;
    /// pods.add(pod("other/web-0", 2))?;
    /// let snapshot = pods.snapshot();
    /// let other: Vec<_> = snapshot.by_index("namespace", "other")?.collect();
    /// assert_eq!(other, [&pod("other/web-0", 2).into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by_index<'a>(
        &'a self,
        index: &str,
        value: &str,
    ) -> Result<impl Iterator<Item = &'a Arc<T>> + use<'a, T>, Error> {
        let slots = self.find_index(index)?.slots(&self.roots.hasher, value);
        Ok(self.objects_at(slots))
    }

    /// Returns the keys of the objects with this value in this index.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]: there is no index of this name.
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Error> {
        // Stored objects have valid keys.
        Ok(self.by_index(index, value)?.filter_map(|object| object.key().try_into().ok()).collect())
    }

    /// Returns the number of objects with this value in this index. O(1).
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]: there is no index of this name.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::{IndexFunction, Indexer};
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::builder().index("namespace", IndexFunction::by_namespace()).build()?;
    /// pods.add(pod("default/web-0", 1))?;
    /// pods.add(pod("other/web-0", 2))?;
    /// let snapshot = pods.snapshot();
    /// assert_eq!(snapshot.index_len("namespace", "other")?, 1);
    /// assert_eq!(snapshot.index_len("namespace", "absent")?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn index_len(&self, index: &str, value: &str) -> Result<usize, Error> {
        Ok(self.find_index(index)?.slots(&self.roots.hasher, value).map_or(0, SlotSet::len))
    }

    /// Returns all values in this index, in no particular order.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]: there is no index of this name.
    pub fn index_values<'a>(
        &'a self,
        index: &str,
    ) -> Result<impl ExactSizeIterator<Item = &'a Arc<str>> + use<'a, T>, Error> {
        Ok(self.find_index(index)?.values())
    }

    /// Returns the function of an index, for example to call it with objects that are not stored.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]: there is no index of this name.
    pub fn index_function(&self, index: &str) -> Result<IndexFunction<T>, Error> {
        let functions = &self.roots.functions;
        let function = functions.position(index).and_then(|number| functions.all.get(number));
        function.map(|(_, function)| function.clone()).ok_or_else(|| self.unknown(index))
    }

    /// Returns the objects that share a value of this index with the given object, each once. The given object need not
    /// be stored: the index function is called to get its values.
    ///
    /// # Errors
    /// * [`Error::UnknownIndex`]: there is no index of this name.
    /// * [`Error::IndexFunction`]: the function failed for the given object.
    pub fn index_of(&self, index: &str, object: &Arc<T>) -> Result<Vec<&Arc<T>>, Error> {
        let number = self.roots.functions.position(index).ok_or_else(|| self.unknown(index))?;
        let functions = self.roots.functions.all.get(number..=number).unwrap_or_default();
        let mut failed = None;
        let mut values = Evaluated::for_one();
        values.evaluate(functions, object, |index, source| failed = Some((index.clone(), source)));
        if let Some((index, source)) = failed {
            values.recycle();
            let key = ObjectKey::try_from(object.key()).map_err(kinformer_core::Error::from)?;
            return Err(Error::IndexFunction { key, index, source });
        }
        let mut slots = Vec::new();
        let result = values.result(0);
        for value in 0..result.len() {
            let set = self.find_index(index)?.slots(&self.roots.hasher, result.get(value));
            set.into_iter().flat_map(SlotSet::chunks).for_each(|chunk| slots.extend_from_slice(chunk));
        }
        if result.len() > 1 {
            slots.sort_unstable();
            slots.dedup();
        }
        values.recycle();
        Ok(slots.into_iter().filter_map(|slot| self.roots.object(slot)).collect())
    }

    /// Returns the names of the indexes, in the order in which they were added.
    pub fn index_names(&self) -> impl Iterator<Item = &Arc<str>> {
        let functions = &self.roots.functions;
        functions
            .all
            .iter()
            .enumerate()
            .filter(|(number, _)| functions.is_ready(*number))
            .map(|(_, (name, _))| name)
    }

    /// Returns the differences from an earlier state of the same store: each key that was added, changed (to another
    /// `Arc`) or deleted, once.
    ///
    /// Nodes that both states share are skipped: the cost is O(writes in between), plus one comparison of pointers for
    /// each 2,048 objects. It is O(objects) for states before and after the store released memory, which it does when
    /// most of its objects, or most values of an index, are gone, and for states of two different stores.
    ///
    /// ```
    /// # use kinformer_core::Keyed;
    /// # use kinformer_store::*;
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::new();
    /// pods.add(pod("default/web-0", 1))?;
    /// let (before, _) = (pods.snapshot(), pods.add(pod("default/web-1", 1))?);
    /// let after = pods.snapshot();
    /// let changes: Vec<_> = after.changes_since(&before).collect();
    /// assert_eq!(changes.len(), 1);
    /// assert!(changes[0].old.is_none() && changes[0].new == Some(&pod("default/web-1", 1).into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn changes_since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = ObjectDifference<'a, T>> {
        let (old, new) = (&*earlier.roots, &*self.roots);
        differing_leaves(old, new).flat_map(move |leaf| {
            let of = |roots: &'a Roots<T>| {
                roots.slots.leaf(leaf).into_iter().flat_map(|leaf| leaf.iter()).map(Option::as_ref)
            };
            let (mut olds, mut news) = (of(old), of(new));
            iter::from_fn(move || match (olds.next(), news.next()) {
                (None, None) => None,
                (before, after) => Some((before.flatten(), after.flatten())),
            })
            .filter(|(before, after)| !same(*before, *after))
            .flat_map(move |(before, after)| {
                let same_key = matches!((before, after), (Some(b), Some(a)) if b.key() == a.key());
                // If the slot was reused by another key, both objects may be in other slots of the other state.
                let deleted = before
                    .filter(|before| !same_key && new.get(before.key()).is_none())
                    .map(|before| ObjectDifference { old: Some(before), new: None });
                let put = after.and_then(|after| {
                    let old = if same_key { before } else { old.get(after.key()) };
                    (!same(old, Some(after))).then_some(ObjectDifference { old, new: Some(after) })
                });
                [deleted, put].into_iter().flatten()
            })
        })
    }

    /// Calls `visit` with every object, yielding to other tasks after every 2,048 objects.
    ///
    /// Use this in async code: with few cores, a long iteration without yields would starve the writer. Works in any
    /// runtime.
    ///
    /// # Cancel safety
    /// Dropping the future ends the iteration. The objects visited so far have been passed to `visit` in full batches
    /// of 2,048.
    pub async fn for_each_yielding(&self, mut visit: impl FnMut(&Arc<T>)) {
        let mut from = None;
        loop {
            let page = self.page(from, YIELD_AFTER);
            page.objects.iter().for_each(|object| visit(object));
            from = page.next;
            drop(page);
            if from.is_none() {
                return;
            }
            yield_now().await;
        }
    }

    fn objects_at<'a>(&'a self, slots: Option<&'a SlotSet>) -> impl Iterator<Item = &'a Arc<T>> {
        let slots = slots.into_iter().flat_map(SlotSet::chunks).flatten();
        slots.filter_map(|slot| self.roots.object(*slot))
    }

    fn unknown(&self, index: &str) -> Error {
        Error::UnknownIndex { name: index.into(), known: self.index_names().cloned().collect() }
    }

    fn find_index(&self, index: &str) -> Result<&Index, Error> {
        let position = self.roots.functions.position(index);
        position.and_then(|number| self.roots.indexes.get(number)).ok_or_else(|| self.unknown(index))
    }
}

fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

fn in_order<'a, T: Object>(objects: impl Iterator<Item = &'a Arc<T>>) -> Vec<&'a Arc<T>> {
    let mut objects: Vec<_> = objects.collect();
    objects.sort_unstable_by(|a, b| a.key().cmp(&b.key()));
    objects
}

/// Returns the numbers of the leaves that two states do not share.
fn differing_leaves<T>(old: &Roots<T>, new: &Roots<T>) -> impl Iterator<Item = usize> {
    let (old, new) = (&old.slots, &new.slots);
    let end = old.leaves().max(new.leaves());
    let mut next = 0;
    iter::from_fn(move || {
        while next < end {
            if new.shares_node(old, next) {
                next = crate::tree::Tree::<Option<Arc<T>>, SLOT_LEAF>::next_node(next);
                continue;
            }
            let leaf = next;
            next += 1;
            match (old.leaf(leaf), new.leaf(leaf)) {
                (None, None) => {}
                (Some(a), Some(b)) if Arc::ptr_eq(a, b) => {}
                _ => return Some(leaf),
            }
        }
        None
    })
}

/// The difference of one key between two states. At least one of the fields is `Some`.
#[non_exhaustive]
pub struct ObjectDifference<'a, T> {
    /// The earlier state; `None` if the object was added.
    pub old: Option<&'a Arc<T>>,
    /// The later state; `None` if the object was deleted.
    pub new: Option<&'a Arc<T>>,
}

impl<T> Clone for ObjectDifference<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ObjectDifference<'_, T> {}

impl<T: fmt::Debug> fmt::Debug for ObjectDifference<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectDifference").field("old", &self.old).field("new", &self.new).finish()
    }
}

/// One page of a snapshot.
#[non_exhaustive]
pub struct Page<'a, T> {
    /// The objects.
    pub objects: Vec<&'a Arc<T>>,
    /// The cursor of the next page; `None` if this is the last page.
    pub next: Option<Cursor>,
}

impl<T: Object> fmt::Debug for Page<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.objects.iter().map(|object| object.key()).collect();
        f.debug_struct("Page").field("objects", &keys).field("next", &self.next).finish()
    }
}

/// The start of a page of one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor(usize);

impl<T: Object> KnownObjects<T> for Snapshot<T> {
    fn keys(&self) -> Vec<ObjectKey> {
        Self::keys(self)
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>> {
        self.get(key).cloned()
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        self.iter().for_each(visit);
    }
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Self { roots: self.roots.clone() }
    }
}

impl<T> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("len", &self.roots.len)
            .field("resource_versions", &self.roots.versions)
            .finish()
    }
}

/// Drops an object, containing a panic of its `Drop`.
pub(crate) fn discard<T>(object: Arc<T>) {
    if let Some(object) = Arc::into_inner(object) {
        _ = drop_contained(object);
    }
}
