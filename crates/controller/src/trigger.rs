//! Triggers, which enqueue keys.

use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, unfold};
use futures::{FutureExt as _, Stream, StreamExt as _};
use kinformer::{Event, Informer, ObjectKey, PackedObject, PackedRef, Registration, Updated};
use kinformer_core::internal::panic_message;
use kinformer_workqueue::{Add, LOW_PRIORITY, WorkQueue};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::owner::OwnerKind;
use crate::predicate::Predicate;

/// What enqueues keys: the events of an informer, or a stream.
///
/// ```
/// use std::time::Duration;
///
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use kinformer::SharedInformerFactory;
/// use kinformer_controller::{Controller, Predicate, Trigger};
///
/// # fn example(factory: &SharedInformerFactory) {
/// let pods = factory.informer::<Pod>();
/// let pods = Trigger::on(&pods).filter(Predicate::labels_changed()).debounce(Duration::from_secs(1));
/// let controller = Controller::of(factory).reconciles::<ConfigMap>().trigger(pods.owner::<ConfigMap>());
/// # _ = controller;
/// # }
/// ```
pub struct Trigger<Key> {
    pub(crate) source: Source<Key>,
}

pub(crate) enum Source<Key> {
    Informer { resource: Arc<str>, attach: Attach<Key> },
    Stream(BoxStream<'static, Key>),
}

/// Adds the handler of an informer, which adds keys to the queue.
pub(crate) type Attach<Key> =
    Box<dyn FnOnce(Arc<str>, WorkQueue<Key>) -> Result<Attached, kinformer::Error> + Send + Sync>;

/// The handler of an informer.
pub(crate) struct Attached {
    pub(crate) registration: Registration,
    /// Waits until the deadline for the first list of the informer.
    pub(crate) wait_for_sync: SyncWait,
}

type SyncWait = Box<dyn Fn(Instant) -> BoxFuture<'static, Result<(), kinformer::Error>> + Send + Sync>;

impl<Key: Eq + Hash + Clone + Send + Sync + 'static> Trigger<Key> {
    /// Enqueues the keys that are sent to a channel.
    ///
    /// ```
    /// # use kinformer_controller::Trigger;
    /// let (sender, receiver) = tokio::sync::mpsc::channel(100);
    /// let trigger = Trigger::channel(receiver);
    /// # let trigger: Trigger<String> = trigger;
    /// # _ = (trigger, sender.try_send("web".to_owned()));
    /// ```
    ///
    /// The queue merges equal keys, so the channel needs no more room than a burst of different keys takes.
    ///
    /// Follows controller-runtime 0.25 (`source.Channel`).
    pub fn channel(receiver: mpsc::Receiver<Key>) -> Self {
        let next =
            |mut receiver: mpsc::Receiver<Key>| async move { Some((receiver.recv().await?, receiver)) };
        Self::stream(unfold(receiver, next))
    }

    /// Enqueues the keys of a stream.
    pub fn stream(keys: impl Stream<Item = Key> + Send + 'static) -> Self {
        Self { source: Source::Stream(keys.boxed()) }
    }
}

impl Trigger<()> {
    /// Returns the options of a trigger by the events of an informer.
    pub fn on<K: 'static>(informer: &Informer<K>) -> InformerTrigger<K> {
        InformerTrigger {
            informer: informer.clone(),
            predicate: None,
            add: Add::new(),
            is_priority_set: false,
        }
    }
}

/// Options of a [`Trigger`] by the events of an informer.
///
/// Keys of the initial list and of resyncs are enqueued with a low priority, so that they do not delay live changes.
#[must_use = "it does nothing until it is given to a controller"]
pub struct InformerTrigger<K> {
    informer: Informer<K>,
    predicate: Option<Predicate<K>>,
    add: Add,
    is_priority_set: bool,
}

impl<K: 'static> InformerTrigger<K> {
    /// Ignores the events that the predicate does not pass. Several predicates must all pass an event.
    pub fn filter(mut self, predicate: Predicate<K>) -> Self {
        self.predicate = Some(match self.predicate {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Sets the priority of the keys for all events. The default is 0, and
    /// [`LOW_PRIORITY`](kinformer_workqueue::LOW_PRIORITY) for the initial list and resyncs.
    pub fn priority(mut self, priority: i64) -> Self {
        self.add = self.add.priority(priority);
        self.is_priority_set = true;
        self
    }

    /// Enqueues keys after a delay, so that several changes lead to one reconciliation. A change during the delay does not
    /// change it.
    pub fn debounce(mut self, delay: Duration) -> Self {
        self.add = self.add.after(delay);
        self
    }

    /// Enqueues the key of the object.
    pub fn object(self) -> Trigger<ObjectKey> {
        // A stored object has a valid key.
        self.map_objects(|object, keys| keys.extend(ObjectKey::try_from(object.key())))
    }

    /// Enqueues the owner of kind `O` that controls the object.
    pub fn owner<O>(self) -> Trigger<ObjectKey>
    where
        O: kube_core::Resource<DynamicType = (), Scope: 'static> + 'static,
    {
        let is_namespaced =
            std::any::TypeId::of::<O::Scope>() != std::any::TypeId::of::<k8s_openapi::ClusterResourceScope>();
        let resource = kube_core::discovery::ApiResource::erase::<O>(&());
        self.owner_kind(OwnerKind::of(&resource, is_namespaced))
    }

    /// Enqueues the owner that controls the object, if it is of the kind of this informer.
    pub fn owner_of<O>(self, owners: &Informer<O>) -> Trigger<ObjectKey> {
        self.owner_kind(OwnerKind::of(owners.api_resource(), owners.is_namespaced()))
    }

    /// Enqueues all owners that are of the kind of this informer, not only the one that controls the object.
    pub fn all_owners_of<O>(self, owners: &Informer<O>) -> Trigger<ObjectKey> {
        let kind = OwnerKind::of(owners.api_resource(), owners.is_namespaced());
        self.owner_kind(OwnerKind { is_controller: false, ..kind })
    }

    pub(crate) fn informer(&self) -> &Informer<K> {
        &self.informer
    }

    pub(crate) fn owner_kind(self, kind: OwnerKind) -> Trigger<ObjectKey> {
        self.map_objects(move |object, keys| kind.keys_of(object, keys))
    }

    /// Enqueues the keys that the function appends. It receives each state in the event: of an update the old and the new
    /// one, of a deletion the last known one.
    fn map_objects(
        self,
        map: impl Fn(&PackedObject, &mut Vec<ObjectKey>) + Send + Sync + 'static,
    ) -> Trigger<ObjectKey> {
        self.map(move |event, keys| match event {
            Event::Updated(Updated { old, new, .. }) => {
                map(old.object(), keys);
                map(new.object(), keys);
            }
            event => {
                if let Some(object) = event.object() {
                    map(object.object(), keys);
                }
            }
        })
    }

    /// Enqueues the keys that the function appends for an event. It runs on the threads of the runtime and must not block;
    /// reading stores is fine. If it panics, the event is logged and enqueues nothing.
    pub fn map<Key>(
        self,
        map: impl Fn(&Event<PackedRef<'_, K>>, &mut Vec<Key>) + Send + Sync + 'static,
    ) -> Trigger<Key>
    where
        Key: Eq + Hash + Clone + Send + Sync + 'static,
    {
        let resource: Arc<str> = self.informer.resource().into();
        let attach = move |controller: Arc<str>, queue: WorkQueue<Key>| {
            let Self { informer, predicate, add, is_priority_set } = self;
            let mut keys = Vec::new();
            let handler = informer.handler().name(controller.clone()).inline();
            let registration = handler.for_each(move |event| {
                if predicate.as_ref().is_some_and(|predicate| !predicate.passes(&event)) {
                    return;
                }
                keys.clear();
                let mapped = catch_unwind(AssertUnwindSafe(|| map(&event, &mut keys)));
                if let Err(panic) = mapped {
                    let error = panic_message(panic);
                    tracing::error!(%controller, key = %event.key(), %error, "trigger panicked; no key is enqueued");
                    return;
                }
                let is_old = !is_priority_set && is_old(&event);
                let add = if is_old { add.priority(LOW_PRIORITY) } else { add };
                for key in keys.drain(..) {
                    queue.add_with(key, add);
                }
            })?;
            let wait_for_sync: SyncWait = Box::new(move |deadline| {
                let informer = informer.clone();
                async move { informer.wait_for_sync_until(deadline).await }.boxed()
            });
            Ok(Attached { registration, wait_for_sync })
        };
        Trigger { source: Source::Informer { resource, attach: Box::new(attach) } }
    }
}

/// Whether the event is part of the initial list or of a resync.
fn is_old<K>(event: &Event<PackedRef<'_, K>>) -> bool {
    match event {
        Event::Added(added) => added.in_initial_list,
        Event::Updated(Updated { old, new, .. }) => {
            old.object().resource_version() == new.object().resource_version()
        }
        _ => false,
    }
}

impl<Key> fmt::Debug for Trigger<Key> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Informer { resource, .. } => f.debug_tuple("Trigger").field(resource).finish(),
            Source::Stream(_) => f.debug_tuple("Trigger").field(&"stream").finish(),
        }
    }
}

impl<K> fmt::Debug for InformerTrigger<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerTrigger")
            .field("informer", &self.informer)
            .field("predicate", &self.predicate)
            .field("add", &self.add)
            .finish()
    }
}
