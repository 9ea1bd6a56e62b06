//! Triggers, which enqueue keys.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, unfold};
use futures::{Stream, StreamExt as _};
use kinformer::{
    BoxError, Event, Informer, ObjectKey, PackedObject, PackedRef, Registration, Updated, scope_of,
};
use kinformer_core::internal::{contain, with_causes};
use kinformer_workqueue::{Add, LOW_PRIORITY, WorkQueue};
use kube_core::discovery::{ApiResource, Scope};
use tokio::sync::{Mutex, mpsc};
use tracing::Span;

use crate::owner::OwnerKind;
use crate::predicate::Predicate;
use crate::reason::{Cause, Reason, reason_of};

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
#[doc(alias("SyncingSource", "TypedSource", "TypedSyncingSource"))]
pub struct Trigger<Key> {
    pub(crate) source: Source<Key>,
}

pub(crate) enum Source<Key> {
    Informer {
        informer: Informer<()>,
        attach: Attach<Key>,
    },
    /// Locked by the task that reads it.
    Stream(Arc<Mutex<BoxStream<'static, Key>>>),
}

/// The queue of a controller. Its items have the events that led to them.
pub type Queue<Key> = WorkQueue<Key, Cause>;

/// Adds a handler to an informer, which adds keys to the queue.
pub(crate) type Attach<Key> =
    Box<dyn Fn(Arc<str>, Queue<Key>) -> Result<Registration, kinformer::Error> + Send + Sync>;

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
    #[doc(alias = "TypedChannel")]
    pub fn channel(receiver: mpsc::Receiver<Key>) -> Self {
        let next =
            |mut receiver: mpsc::Receiver<Key>| async move { Some((receiver.recv().await?, receiver)) };
        Self::stream(unfold(receiver, next))
    }

    /// Enqueues the keys of a stream.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures::{StreamExt as _, stream};
    /// use kinformer_controller::Trigger;
    /// use tokio::time::sleep;
    ///
    /// // Reconciles the whole inventory once an hour.
    /// let hours = stream::repeat(()).then(|()| sleep(Duration::from_secs(3_600)));
    /// let trigger = Trigger::stream(hours.map(|()| "inventory"));
    /// # _ = trigger;
    /// ```
    #[doc(alias("reconcile_all_on", "reconcile_on", "TypedFunc"))]
    pub fn stream(keys: impl Stream<Item = Key> + Send + 'static) -> Self {
        Self { source: Source::Stream(Arc::new(Mutex::new(keys.boxed()))) }
    }
}

impl Trigger<()> {
    /// Returns the options of a trigger by the events of an informer.
    #[doc(alias("TypedInformer", "TypedKind"))]
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
///
/// ```
/// # use k8s_openapi::api::core::v1::Node;
/// # fn example(factory: &kinformer::SharedInformerFactory) {
/// use std::time::Duration;
///
/// use kinformer_controller::{Action, Controller, Predicate, Trigger};
///
/// // At once for the initial list; later with a priority, and after a second in which the node may change more.
/// let nodes = Trigger::on(&factory.informer::<Node>());
/// let nodes = nodes.filter(Predicate::generation_changed()).priority(10).debounce(Duration::from_secs(1));
/// let controller = Controller::of(factory).reconciles_on(nodes).build(async |_| Ok(Action::none()));
/// # _ = controller;
/// # }
/// ```
#[doc(alias("ForOption", "OwnsOption", "WatchesOption"))]
#[must_use = "it does nothing until it is given to a controller"]
pub struct InformerTrigger<K> {
    informer: Informer<K>,
    predicate: Option<Predicate<K>>,
    add: Add,
    is_priority_set: bool,
}

impl<K: 'static> InformerTrigger<K> {
    /// Ignores the events that the predicate does not pass. Several predicates must all pass an event.
    #[doc(alias("predicate_filter", "PredicateFilter", "WithEventFilter", "WithPredicates"))]
    pub fn filter(mut self, predicate: Predicate<K>) -> Self {
        self.predicate = Some(match self.predicate {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Sets the priority of the keys for all events. The default is 0, and
    /// [`LOW_PRIORITY`](kinformer_workqueue::LOW_PRIORITY) for the initial list and resyncs.
    #[doc(alias("UsePriorityQueue", "WithLowPriorityWhenUnchanged"))]
    pub fn priority(mut self, priority: i64) -> Self {
        self.add = self.add.priority(priority);
        self.is_priority_set = true;
        self
    }

    /// Enqueues keys after a delay, so that several changes lead to one reconciliation. A change during the delay does not
    /// change it.
    #[doc(alias = "debounced_scheduler")]
    pub fn debounce(mut self, delay: Duration) -> Self {
        self.add = self.add.after(delay);
        self
    }

    /// Enqueues the key of the object.
    #[doc(alias("EnqueueRequestForObject", "trigger_self", "TypedEnqueueRequestForObject"))]
    pub fn object(self) -> Trigger<ObjectKey> {
        // A stored object has a valid key.
        self.map_objects(None, |object, keys| keys.extend(ObjectKey::try_from(object.key())))
    }

    /// Enqueues the owner of kind `O` that controls the object.
    #[doc(alias("EnqueueRequestForOwner", "from_owner_ref", "OnlyControllerOwner", "trigger_owners"))]
    pub fn owner<O>(self) -> Trigger<ObjectKey>
    where
        O: kube_core::Resource<DynamicType = (), Scope: 'static> + 'static,
    {
        self.owner_kind(OwnerKind::of(&ApiResource::erase::<O>(&()), scope_of::<O>() == Scope::Namespaced))
    }

    /// Enqueues the owner that controls the object, if it is of the kind of this informer.
    #[doc(alias = "TypedEnqueueRequestForOwner")]
    pub fn owner_of<O>(self, owners: &Informer<O>) -> Trigger<ObjectKey> {
        self.owner_kind(OwnerKind::of(owners.selection().api_resource(), owners.selection().is_namespaced()))
    }

    /// Enqueues all owners that are of the kind of this informer, not only the one that controls the object.
    #[doc(alias("MatchEveryOwner", "OwnerOption", "trigger_owners"))]
    pub fn all_owners_of<O>(self, owners: &Informer<O>) -> Trigger<ObjectKey> {
        let kind = OwnerKind::of(owners.selection().api_resource(), owners.selection().is_namespaced());
        self.owner_kind(OwnerKind { is_controller: false, ..kind })
    }

    pub(crate) fn informer(&self) -> &Informer<K> {
        &self.informer
    }

    pub(crate) fn owner_kind(self, kind: OwnerKind) -> Trigger<ObjectKey> {
        self.map_objects(Some(Reason::Owned), move |object, keys| kind.keys_of(object, keys))
    }

    /// As [`Self::map`], by a function that cannot fail.
    fn map_objects(
        self,
        reason: Option<Reason>,
        map: impl Fn(&PackedObject, &mut Vec<ObjectKey>) + Send + Sync + 'static,
    ) -> Trigger<ObjectKey> {
        self.attach(
            reason,
            of_states(move |object: PackedRef<'_, K>, keys: &mut Vec<ObjectKey>| {
                map(object.object(), keys);
                Ok(())
            }),
        )
    }

    /// Enqueues the keys that the function appends for an object. It is called for each state in an event: of an update the old
    /// and the new one, so that both owners are enqueued if an object refers to another one; of a deletion the last known one.
    ///
    /// It runs on the threads of the runtime and must not block. Reading stores is fine, also by their indexes: the informers of
    /// all triggers have synced before the first call. An error, such as that of an unknown index, is logged, and the keys that
    /// were appended before are enqueued. If the function panics, this is logged, and the event enqueues nothing.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    /// use kinformer::{ObjectKey, SharedInformerFactory};
    /// use kinformer_controller::{Controller, Trigger};
    ///
    /// # fn example(factory: &SharedInformerFactory) -> Result<(), Box<dyn std::error::Error>> {
    /// let pods = factory.informer::<Pod>();
    /// pods.index_by_field("config", &["metadata", "annotations", "example.com/config"])?;
    /// let of_config_map = {
    ///     let pods = pods.lister();
    ///     Trigger::on(&factory.informer::<ConfigMap>()).map(move |config_map, keys| {
    ///         for pod in pods.by_index("config", config_map.name())? {
    ///             if pod.namespace() == config_map.namespace() {
    ///                 keys.push(ObjectKey::try_from(pod.key())?);
    ///             }
    ///         }
    ///         Ok(())
    ///     })
    /// };
    /// let controller = Controller::of(factory).reconciles::<Pod>().trigger(of_config_map);
    /// # _ = controller;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`EnqueueRequestsFromMapFunc`).
    #[doc(alias(
        "EnqueueRequestsFromMapFunc",
        "MapFunc",
        "trigger_with",
        "TypedEnqueueRequestsFromMapFunc",
        "TypedMapFunc"
    ))]
    pub fn map<Key>(
        self,
        map: impl Fn(PackedRef<'_, K>, &mut Vec<Key>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Trigger<Key>
    where
        Key: Eq + Hash + Clone + Send + Sync + 'static,
    {
        self.map_events(of_states(map))
    }

    /// As [`Self::map`], by a function of the event, for keys that depend on what has changed.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(factory: &kinformer::SharedInformerFactory) {
    /// use kinformer::Event;
    /// use kinformer_controller::Trigger;
    ///
    /// // The names of apps that have lost a pod.
    /// let trigger = Trigger::on(&factory.informer::<Pod>()).map_events(|event, apps: &mut Vec<String>| {
    ///     if let (Event::Deleted(_), Some(pod)) = (event, event.object()) {
    ///         apps.extend(pod.label("app").map(str::to_owned));
    ///     }
    ///     Ok(())
    /// });
    /// # _ = trigger;
    /// # }
    /// ```
    #[doc(alias("EventHandler", "TypedEventHandler", "TypedFuncs"))]
    pub fn map_events<Key>(
        self,
        map: impl Fn(&Event<PackedRef<'_, K>>, &mut Vec<Key>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Trigger<Key>
    where
        Key: Eq + Hash + Clone + Send + Sync + 'static,
    {
        self.attach(Some(Reason::Mapped), map)
    }

    /// The reason is that of the key; `None` for the key of the object itself.
    fn attach<Key>(
        self,
        reason: Option<Reason>,
        map: impl Fn(&Event<PackedRef<'_, K>>, &mut Vec<Key>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Trigger<Key>
    where
        Key: Eq + Hash + Clone + Send + Sync + 'static,
    {
        let Self { informer, predicate, add, is_priority_set } = self;
        let of_handler = informer.clone();
        let functions = Arc::new((predicate, map));
        let attach = move |controller: Arc<str>, queue: Queue<Key>| {
            let resource: Arc<str> = of_handler.selection().resource().into();
            let functions = functions.clone();
            let mut keys = Vec::new();
            let handler = of_handler.handler().name(controller.clone()).inline();
            handler.for_each(move |event| {
                let (predicate, map) = &*functions;
                if matches!(event, Event::Left(_)) {
                    // It was not deleted, so there is nothing to reconcile.
                    if reason.is_none() {
                        keys.clear();
                        _ = contain(|| map(&event, &mut keys));
                        keys.drain(..).for_each(|key| _ = queue.remove(&key));
                    }
                    return;
                }
                if predicate.as_ref().is_some_and(|predicate| !predicate.passes(&event)) {
                    return;
                }
                keys.clear();
                let span = event_span(&controller, &resource, &event);
                let _entered = span.enter();
                match contain(|| map(&event, &mut keys)) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        let error = with_causes(&*error);
                        tracing::error!(%controller, key = %event.key(), %error, "trigger failed; keys may be missing");
                    }
                    Err(error) => {
                        tracing::error!(%controller, key = %event.key(), %error, "trigger panicked; no key is enqueued");
                        return;
                    }
                }
                let of_object = reason_of(&event);
                let add = add.marks(reason.unwrap_or(of_object).mark());
                let is_low = !is_priority_set && of_object.is_old();
                let add = if is_low { add.priority(LOW_PRIORITY) } else { add };
                // The cause of the key of an object is itself.
                let has_cause = !keys.is_empty() && (reason.is_some() || !span.is_none());
                let cause = has_cause.then(|| Cause::new(&event, &resource, span.clone()));
                for key in keys.drain(..) {
                    match &cause {
                        Some(cause) => queue.add_caused(key, add, cause.clone()),
                        None => queue.add_with(key, add),
                    };
                }
            })
        };
        Trigger { source: Source::Informer { informer: informer.cast(), attach: Box::new(attach) } }
    }
}

/// Calls a function for each state in an event.
fn of_states<K, Key>(
    map: impl Fn(PackedRef<'_, K>, &mut Vec<Key>) -> Result<(), BoxError>,
) -> impl Fn(&Event<PackedRef<'_, K>>, &mut Vec<Key>) -> Result<(), BoxError> {
    move |event, keys| match event {
        Event::Updated(Updated { old, new, .. }) => {
            let of_old = map(*old, keys);
            map(*new, keys).and(of_old)
        }
        event => event.object().map_or(Ok(()), |object| map(*object, keys)),
    }
}

/// The span of an event, which is the parent of the reconciliations to which it leads. Its own parent would be that of the
/// handler, which lasts as long as the program.
fn event_span<K>(controller: &str, resource: &str, event: &Event<PackedRef<'_, K>>) -> Span {
    tracing::debug_span!(
        parent: None,
        "event",
        kinformer.handler.name = controller,
        kinformer.informer.resource = resource,
        kinformer.event.key = %event.key(),
        kinformer.event.type = %reason_of(event),
    )
}

impl<Key> fmt::Debug for Trigger<Key> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Informer { informer, .. } => {
                f.debug_tuple("Trigger").field(&informer.selection().resource()).finish()
            }
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
