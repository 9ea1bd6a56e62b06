//! Snapshots of a store.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kinformer_core::{KeyRef, ObjectKey, Versions};
use kinformer_kube::{Packed, PackedRef};
use kinformer_store::Error as StoreError;

use crate::Error;
use crate::objects::State;

/// An immutable snapshot of the objects of an [`Informer`](crate::Informer). Cheap to clone.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kinformer::{FieldPath, Informer, Snapshot};
///
/// /// The share of the pods that run. Both numbers are of one state, whatever happens meanwhile.
/// fn share_of_running(pods: &Snapshot<Pod>) -> f64 {
///     let phase = FieldPath::new(&["status", "phase"]);
///     let is_running = |phase: Option<String>| phase.as_deref() == Some("Running");
///     let running = pods.iter().filter(|pod| pod.field(&phase).is_ok_and(is_running)).count();
///     running as f64 / pods.len().max(1) as f64
/// }
///
/// # fn example(pods: &Informer<Pod>) -> Result<(), kinformer::Error> {
/// println!("{:.0} % run", 100.0 * share_of_running(&pods.snapshot()?));
/// # Ok(())
/// # }
/// ```
pub struct Snapshot<K> {
    state: State,
    resource: Arc<str>,
    kind: PhantomData<fn() -> K>,
}

/// An object that differs between two [snapshots](Snapshot::changes_since) because it was added, changed or deleted.
#[non_exhaustive]
pub struct Difference<'a, K> {
    /// The state in the earlier snapshot; `None` if the object was not in it.
    pub old: Option<PackedRef<'a, K>>,
    /// The state in the later snapshot; `None` if the object is no longer in it.
    pub new: Option<PackedRef<'a, K>>,
}

impl<K> Snapshot<K> {
    pub(crate) fn new(state: State, resource: Arc<str>) -> Self {
        Self { state, resource, kind: PhantomData }
    }

    /// Returns the object with this key. O(1).
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{Node, Pod};
    /// # use kinformer::{FieldPath, Informer, KeyRef};
    /// # fn example(pods: &Informer<Pod>, nodes: &Informer<Node>) -> Result<(), Box<dyn std::error::Error>> {
    /// let (pods, nodes) = (pods.snapshot()?, nodes.snapshot()?);
    /// let Some(pod) = pods.get(("default", "web-0")) else { return Ok(()) };
    /// let node: Option<String> = pod.field(&FieldPath::new(&["spec", "nodeName"]))?;
    /// let node = node.and_then(|node| nodes.get(KeyRef::named(&node)));
    /// let zone = node.as_ref().and_then(|node| node.label("topology.kubernetes.io/zone"));
    /// println!("its node has the zone {zone:?}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<PackedRef<'_, K>> {
        self.state.get(key.into()).map(PackedRef::new)
    }

    /// Whether the snapshot has an object with this key. O(1).
    pub fn contains<'k>(&self, key: impl Into<KeyRef<'k>>) -> bool {
        self.state.get(key.into()).is_some()
    }

    /// The number of objects. O(1).
    pub fn len(&self) -> usize {
        self.state.len()
    }

    /// Whether the snapshot is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest resource version that the snapshot reflects, for each part of the informer.
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn resource_versions(&self) -> &Versions {
        self.state.resource_versions()
    }

    /// The revision of the store. It increases with each write of objects: two snapshots of one informer with the same
    /// revision have the same objects, and one with a higher revision is later.
    pub fn revision(&self) -> u64 {
        self.state.revision()
    }

    /// All objects, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = PackedRef<'_, K>> {
        self.state.iter().map(PackedRef::new)
    }

    /// Calls `visit` with each object, in no particular order; faster than [`Self::iter`].
    pub fn for_each<'a>(&'a self, mut visit: impl FnMut(PackedRef<'a, K>)) {
        self.state.for_each(&mut |object| visit(PackedRef::new(object)));
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Packed<K>> {
        let mut objects = Vec::with_capacity(self.len());
        self.for_each(|object| objects.push(object.into_owned()));
        objects
    }

    /// All objects, ordered by key.
    pub fn ordered(&self) -> Vec<PackedRef<'_, K>> {
        self.state.ordered().into_iter().map(PackedRef::new).collect()
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.state.keys()
    }

    /// Returns the objects that have this value in this index.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(pods: &kinformer::Informer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
    /// pods.index_by_field("node", &["spec", "nodeName"])?;
    /// let pods = pods.snapshot()?;
    /// for pod in pods.by_index("node", "node-1")? {
    ///     let pod = pod.decode()?;
    ///     let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref());
    ///     println!("{:?} is at {address:?}", pod.metadata.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Index`] if there is no index of this name.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<PackedRef<'_, K>>, Error> {
        let mut objects = Vec::new();
        let found = self.state.by_index(index, value, &mut |object| objects.push(PackedRef::new(object)));
        found.map(|()| objects).map_err(|error| self.unknown(error))
    }

    /// Returns the number of objects that have this value in this index. O(1).
    ///
    /// # Errors
    /// [`Error::Index`] if there is no index of this name.
    pub fn index_len(&self, index: &str, value: &str) -> Result<usize, Error> {
        self.state.index_len(index, value).map_err(|error| self.unknown(error))
    }

    /// Returns all values of this index that at least one object has.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(pods: &kinformer::Snapshot<Pod>) -> Result<(), kinformer::Error> {
    /// for node in pods.index_values("node")? {
    ///     println!("{node}: {} pods", pods.index_len("node", &node)?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Index`] if there is no index of this name.
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, Error> {
        self.state.index_values(index).map_err(|error| self.unknown(error))
    }

    fn unknown(&self, error: StoreError) -> Error {
        Error::index(&self.resource, error)
    }

    /// Returns the differences from an earlier snapshot of the same informer: each object that was added, changed or
    /// deleted, once and in no particular order.
    ///
    /// O(writes in between), plus one comparison of pointers for each 2,048 objects; O(objects) if the informer released
    /// memory in between, because most of its objects were gone. For an object
    /// that was written several times, the difference has the first and the last state; an object that was added and
    /// deleted again is left out, and so is one that was stored again in the same state.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(earlier: kinformer::Snapshot<Pod>, later: kinformer::Snapshot<Pod>) {
    /// for change in later.changes_since(&earlier) {
    ///     match (change.old, change.new) {
    ///         (None, Some(pod)) => println!("{} was added", pod.key()),
    ///         (Some(_), Some(pod)) => println!("{} was changed", pod.key()),
    ///         (Some(pod), None) => println!("{} was deleted", pod.key()),
    ///         (None, None) => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn changes_since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = Difference<'a, K>> {
        let differences = self.state.changes_since(&earlier.state);
        differences
            .map(|(old, new)| Difference { old: old.map(PackedRef::new), new: new.map(PackedRef::new) })
    }

    /// The names of the indexes.
    pub fn index_names(&self) -> Vec<Arc<str>> {
        self.state.index_names()
    }
}

impl<K> Clone for Snapshot<K> {
    fn clone(&self) -> Self {
        Self::new(self.state.clone(), self.resource.clone())
    }
}

impl<K> fmt::Debug for Snapshot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("objects", &self.len())
            .field("resource_versions", self.resource_versions())
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

impl<K> Clone for Difference<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Difference<'_, K> {}

impl<K> fmt::Debug for Difference<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Difference").field("old", &self.old).field("new", &self.new).finish()
    }
}
