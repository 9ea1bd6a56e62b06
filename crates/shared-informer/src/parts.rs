//! The sources of an informer: one, or one for each part of its objects.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kinformer_core::internal::contain;
use kinformer_core::{
    ByNamespace, Delta, Deltas, Error as CoreError, Object, ObjectName, PartId, PartialErrors, Partition,
    Parts, ReadyFuture, Sink, Tombstone,
};
use kinformer_delta_fifo::Queue;
use kinformer_reflector::{ListerWatcher, ReflectorHandle};

use crate::Error;

/// The sources of an informer or an informer loop: one for each [part](Partition) of its objects.
///
/// ```
/// use kinformer_shared_informer::{SharedIndexInformer, Sources};
/// use kinformer_testing::{FakeSource, Item};
///
/// let (kitchen, office) = (FakeSource::<Item>::new(), FakeSource::<Item>::new());
/// let sources = Sources::by_namespace([("kitchen", kitchen), ("office", office)]);
/// let informer = SharedIndexInformer::builder_of(sources).name("appliances").build()?;
/// assert_eq!(informer.parts().len(), 2);
/// # Ok::<(), kinformer_shared_informer::Error>(())
/// ```
pub struct Sources<T> {
    pub(crate) parts: Parts<T>,
    pub(crate) sources: Vec<NamedSource<T>>,
    /// Whether all of them have the versions of one server.
    pub(crate) is_one_server: bool,
}

/// The source of a part, with the name of the part.
pub(crate) type NamedSource<T> = (Arc<str>, Arc<dyn ListerWatcher<T>>);

impl<T: Object> Sources<T> {
    /// Creates a single source of all objects.
    pub fn one(source: impl ListerWatcher<T> + 'static) -> Self {
        Self::only("", source)
    }

    /// Creates the source of all objects, with a name in logs and errors, such as the only namespace. The name distinguishes
    /// it from other sources when the sources are [changed](crate::SharedIndexInformer::set_sources).
    pub fn only(name: impl Into<Arc<str>>, source: impl ListerWatcher<T> + 'static) -> Self {
        Self { parts: Parts::one(), sources: vec![(name.into(), Arc::new(source))], is_one_server: false }
    }

    /// Creates a source for each of these namespaces. Each namespace may occur once.
    pub fn by_namespace<N, S>(sources: impl IntoIterator<Item = (N, S)>) -> Self
    where
        N: Into<Arc<str>>,
        S: ListerWatcher<T> + 'static,
    {
        let sources: Vec<(Arc<str>, S)> =
            sources.into_iter().map(|(namespace, source)| (namespace.into(), source)).collect();
        let partition = ByNamespace::new(sources.iter().map(|(namespace, _)| namespace.clone()));
        Self::new(partition, sources)
    }

    /// Declares that all sources have the resource versions of one server, also those of earlier and later
    /// [changes](crate::SharedIndexInformer::set_sources): a new part is then not listed before the versions that the informer
    /// knows. A list from a cache of the server that is behind would otherwise take back objects that stay.
    #[must_use]
    pub fn of_one_server(self) -> Self {
        Self { is_one_server: true, ..self }
    }

    /// Checks that there is one source for each part, each with another name.
    pub(crate) fn check(&self, informer: &Arc<str>) -> Result<(), Error> {
        let names: HashSet<&str> = self.sources.iter().map(|(name, _)| &**name).collect();
        match self.parts.count() as usize {
            parts if parts == self.sources.len() && parts == names.len() => Ok(()),
            _ => {
                let (parts, sources) = (self.parts.count(), self.sources.len());
                // Of two sources with one name, only one can be used.
                let sources = if sources == parts as usize { names.len() } else { sources };
                Err(Error::Sources { informer: informer.clone(), parts, sources })
            }
        }
    }

    /// Creates a source for each part of a partition, in the order of the parts' numbers, with the name of the part in
    /// logs and errors.
    pub fn new<N, S>(
        partition: impl Partition<T> + 'static,
        sources: impl IntoIterator<Item = (N, S)>,
    ) -> Self
    where
        N: Into<Arc<str>>,
        S: ListerWatcher<T> + 'static,
    {
        let each = |(name, source): (N, S)| -> NamedSource<T> { (name.into(), Arc::new(source)) };
        let sources = sources.into_iter().map(each).collect();
        Self { parts: Parts::new(partition), sources, is_one_server: false }
    }
}

impl<T> fmt::Debug for Sources<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sources.iter().map(|(name, _)| name)).finish()
    }
}

/// A part of an informer: its number, its name, and the handle of its reflector.
#[derive(Clone)]
pub struct Part {
    id: PartId,
    name: Arc<str>,
    reflector: ReflectorHandle,
    is_listed: Arc<AtomicBool>,
}

impl Part {
    pub(crate) fn new(id: PartId, name: Arc<str>, reflector: ReflectorHandle) -> Self {
        Self { id, name, reflector, is_listed: Arc::default() }
    }

    /// Returns the number of the part, which identifies it in the [versions](kinformer_core::Versions) of a store and
    /// in waits for versions.
    pub fn id(&self) -> PartId {
        self.id
    }

    /// Returns the name of the part in logs and errors, such as its namespace; empty for a source of all objects.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the store has included the first list of the part.
    pub fn is_listed(&self) -> bool {
        self.is_listed.load(Ordering::Relaxed)
    }

    /// Notes that the store has included the first list of the part. Returns whether it was not noted before.
    pub(crate) fn set_listed(&self) -> bool {
        !self.is_listed() && !self.is_listed.swap(true, Ordering::Relaxed)
    }

    /// Returns the handle of its reflector: its state, last version, last error and metrics.
    pub fn reflector(&self) -> &ReflectorHandle {
        &self.reflector
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part")
            .field("id", &self.id.number())
            .field("name", &self.name)
            .field("state", &self.reflector.state())
            .finish_non_exhaustive()
    }
}

/// A deletion with a final state, relative to the part of its source.
enum Deletion<T> {
    /// The final state is in this part.
    OfPart,
    /// The key is in another part.
    Foreign(CoreError),
    /// The object has left this part: the deltas to queue instead.
    Left([Delta<T>; 2], CoreError),
}

/// Adds the deltas from the source of one part to a queue, marked with the part. Leaves out objects of other parts,
/// because no list of this part would ever delete them.
pub(crate) struct PartSink<T: Object> {
    pub(crate) queue: Arc<dyn Queue<T>>,
    pub(crate) part: PartId,
    pub(crate) parts: Parts<T>,
}

impl<T: Object> PartSink<T> {
    /// Returns the error of an object in another part; `None` if it is in this part.
    fn foreign(&self, object: &Arc<T>) -> Option<CoreError> {
        // The queue leaves out and reports an object that panics.
        let is_foreign = contain(|| !self.parts.contains(self.part, object)).unwrap_or_default();
        is_foreign.then(|| self.other_part(object))
    }

    /// Classifies a deletion by its final state. If that is in another part, the object left this part with its last
    /// change: the stored state of this part must be removed, and the part has reached the version.
    fn deletion(&self, object: &Arc<T>) -> Deletion<T> {
        let error = match contain(|| self.parts.contains(self.part, object)) {
            Ok(true) => return Deletion::OfPart,
            Ok(false) => self.other_part(object),
            Err(source) => CoreError::Accessor { object: ObjectName::of(|| object.key()), source },
        };
        // A key of another part never had a state in this part.
        let part = contain(|| self.parts.of_key(object.key())).ok().flatten();
        if part.is_some_and(|part| part != self.part) {
            return Deletion::Foreign(error);
        }
        // The queue reports an object without a key.
        let Some(key) = ObjectName::of(|| object.key()).key() else { return Deletion::OfPart };
        let tombstone = Tombstone::final_state_unknown(key, None).from_part(self.part);
        let version = contain(|| object.resource_version()).unwrap_or_default();
        let reached = Delta::Bookmark { part: self.part, resource_version: version };
        Deletion::Left([Delta::Deleted(tombstone), reached], error)
    }

    fn other_part(&self, object: &Arc<T>) -> CoreError {
        CoreError::OtherPart { object: ObjectName::of(|| object.key()), part: Some(self.part) }
    }

    /// Sets the part of lists, bookmarks and tombstones, and removes objects of other parts.
    fn of_part(&self, deltas: Deltas<T>, errors: &mut PartialErrors) -> Deltas<T> {
        let mut kept = Deltas::with_capacity(deltas.len());
        for (index, mut delta) in deltas.into_iter().enumerate() {
            match &mut delta {
                Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                    if let Some(error) = self.foreign(object) {
                        errors.push(error.with_index(index));
                        continue;
                    }
                }
                Delta::Deleted(Tombstone::FinalState(object)) => match self.deletion(object) {
                    Deletion::OfPart => {}
                    Deletion::Foreign(error) => {
                        errors.push(error.with_index(index));
                        continue;
                    }
                    Deletion::Left(deltas, error) => {
                        errors.push_applied(error.with_index(index));
                        kept.extend(deltas);
                        continue;
                    }
                },
                Delta::Deleted(Tombstone::FinalStateUnknown(missed)) => missed.part = Some(self.part),
                Delta::ReplacedAll(list) => {
                    list.part = self.part;
                    self.remove_foreign(&mut list.objects, errors);
                }
                Delta::Bookmark { part, .. } => *part = self.part,
                _ => {}
            }
            kept.push(delta);
        }
        kept
    }

    /// Removes objects of other parts from a list.
    fn remove_foreign(&self, objects: &mut Vec<Arc<T>>, errors: &mut PartialErrors) {
        let mut index = 0;
        objects.retain(|object| {
            let error = self.foreign(object);
            let is_kept = error.is_none();
            error.into_iter().for_each(|error| errors.push(error.with_index(index)));
            index += 1;
            is_kept
        });
    }
}

impl<T: Object> Sink<T> for PartSink<T> {
    fn apply(&self, deltas: Deltas<T>) -> Result<PartialErrors, CoreError> {
        // An undivided collection that was divided before has another part.
        if self.part == PartId::ONLY && !self.parts.is_divided() {
            return self.queue.apply(deltas);
        }
        let mut errors = PartialErrors::default();
        let kept = self.of_part(deltas, &mut errors);
        errors.extend(self.queue.apply(kept)?);
        Ok(errors)
    }

    fn is_ready(&self) -> bool {
        self.queue.is_ready()
    }

    fn ready(&self) -> ReadyFuture<'_> {
        self.queue.ready()
    }
}

#[cfg(test)]
mod tests {
    use kinformer_core::{ObjectError, Replacement, Tombstone, Transform};
    use kinformer_delta_fifo::RealFifo;
    use kinformer_testing::Item;

    use super::*;

    // contract: I-21a, I-21e
    #[test]
    fn objects_of_other_parts_are_left_out_and_named() {
        let parts = Parts::new(ByNamespace::new(["a", "b"]));
        let bad =
            Transform::new(|item: Arc<Item>| if item.name == "bad" { Err("bad".into()) } else { Ok(item) });
        let queue = Arc::new(RealFifo::builder().parts(parts.clone()).transform(bad).build());
        let sink = PartSink { queue: queue.clone(), part: PartId::ONLY, parts };
        let items = |names: &[&str]| names.iter().map(|name| Item::new(name, 1)).collect::<Vec<_>>();
        let list = items(&["b/0", "a/1", "c/2", "a/bad", "a/4", "b/5"]);
        let deltas = Deltas::from_iter([
            Delta::Added(Item::new("b/0", 1)),
            Delta::Added(Item::new("a/bad", 1)),
            Delta::ReplacedAll(Box::new(Replacement::new(list, 3).part(PartId::new(1)))),
            Delta::Deleted(Tombstone::FinalState(Item::new("b/8", 1))),
            Delta::Bookmark { part: PartId::new(1), resource_version: 9.into() },
            Delta::Updated(Item::new("a/bad", 1)),
            Delta::Updated(Item::new("a/11", 1)),
        ]);
        let errors = sink.apply(deltas).unwrap();
        let named = |foreign| {
            let of_kind =
                |problem: &&ObjectError| matches!(problem.error, CoreError::OtherPart { .. }) == foreign;
            let key = |problem: &ObjectError| problem.error.object().unwrap().to_string();
            errors.errors().iter().filter(of_kind).map(key).collect::<Vec<_>>()
        };
        assert_eq!(named(true), ["b/0", "b/0", "c/2", "b/5", "b/8"]);
        assert_eq!(named(false), ["a/bad", "a/bad", "a/bad"]);
        let mut queued = Vec::new();
        while let Some(popped) = queue.try_pop().unwrap() {
            for delta in popped.deltas() {
                queued.push(match delta {
                    Delta::ReplacedAll(list) => format!("{} of {}", list.objects.len(), list.part),
                    Delta::Bookmark { part, .. } => part.to_string(),
                    other => other.key().unwrap().to_string(),
                });
            }
        }
        assert_eq!(queued, ["2 of part 0", "part 0", "a/11"]);
        // The whole operation concerns another part.
        let errors = sink.apply(Delta::Added(Item::new("b/0", 1)).into()).unwrap();
        assert_eq!(errors.errors().len(), 1);
        assert!(queue.try_pop().unwrap().is_none());
        queue.close();
        let closed = sink.apply(Delta::Added(Item::new("b/0", 1)).into());
        assert!(matches!(closed, Err(CoreError::Closed)), "{closed:?}");
    }

    /// Divides items by their value, which may change.
    struct ByValue;

    impl Partition<Item> for ByValue {
        fn parts(&self) -> u32 {
            2
        }

        fn part_of(&self, item: &Item) -> Option<PartId> {
            u32::try_from(item.value).ok().map(PartId::new)
        }
    }

    /// A deletion by key alone, and with final states in this part, in another part, and in none.
    // contract: I-21c, I-21d, I-21f
    #[test]
    fn deletion_removes_the_state_of_its_own_part() {
        let item = |value, version| Arc::new(Item::of("ns/a", version, value));
        let key = || kinformer_core::ObjectKey::try_from(item(0, 0).key()).unwrap();
        for (deleted, is_reported) in [
            (Tombstone::FinalState(item(0, 5)), false),
            (Tombstone::FinalState(item(1, 5)), true),
            (Tombstone::FinalState(item(9, 5)), true),
            (Tombstone::final_state_unknown(key(), None), false),
            (Tombstone::final_state_unknown(key(), Some(item(1, 5))), false),
        ] {
            for (stored, is_removed) in [(item(0, 4), true), (item(1, 4), false)] {
                let parts = Parts::new(ByValue);
                let queue = Arc::new(RealFifo::builder().parts(parts.clone()).build());
                let indexer = kinformer_store::Indexer::builder().parts(parts.clone()).build().unwrap();
                indexer.add(stored).unwrap().into_result().unwrap();
                let sink = PartSink { queue: queue.clone(), part: PartId::ONLY, parts };
                let errors = sink.apply(Delta::Deleted(deleted.clone()).into()).unwrap();
                assert_eq!(errors.errors().len(), usize::from(is_reported), "{deleted:?}: {errors:?}");
                assert!(errors.errors().iter().all(|problem| !problem.left_out));
                while let Some(mut popped) = queue.try_pop().unwrap() {
                    let deltas = popped.take();
                    indexer.apply_at(deltas, popped.versions()).errors.into_result().unwrap();
                }
                assert_eq!(indexer.is_empty(), is_removed, "{deleted:?}");
                let version = indexer.resource_versions().of(PartId::ONLY).clone();
                let knows_version = matches!(deleted, Tombstone::FinalState(_));
                assert!(!knows_version || version == 5.into(), "{deleted:?}: {version}");
            }
        }
    }
}
