//! Predicates, which decide about the events that enqueue keys.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kinformer::{Event, FieldPath, LabelSelector, PackedObject, PackedRef, Updated};
use kinformer_core::internal::drop_payload;

/// Decides which events of an informer enqueue keys.
///
/// The given ones, but [`labels_match`](Self::labels_match), decide about updates only; all additions and deletions pass, and so do objects that cannot be read or that
/// [have replaced another one](Self::on_update). A predicate that panics passes the event.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use kinformer_controller::Predicate;
///
/// let relevant: Predicate<Deployment> = Predicate::generation_changed().or(Predicate::labels_changed());
/// ```
///
/// Follows controller-runtime 0.25 (`predicate`).
#[doc(alias = "TypedPredicate")]
pub struct Predicate<K> {
    passes: Arc<Passes<K>>,
}

type Passes<K> = dyn Fn(&Event<PackedRef<'_, K>>) -> bool + Send + Sync;

impl<K: 'static> Predicate<K> {
    /// Creates a predicate over events.
    #[doc(alias(
        "CreateFunc",
        "DeleteFunc",
        "Funcs",
        "NewPredicateFuncs",
        "NewTypedPredicateFuncs",
        "TypedFuncs"
    ))]
    pub fn new(passes: impl Fn(&Event<PackedRef<'_, K>>) -> bool + Send + Sync + 'static) -> Self {
        Self { passes: Arc::new(passes) }
    }

    /// Creates a predicate over the old and the new state in updates of one object.
    ///
    /// An object that was deleted and created again while the watch was interrupted arrives as one update, whose states have
    /// two UIDs. It passes, as the deletion and the addition would have.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Node;
    /// use kinformer::FieldPath;
    /// use kinformer_controller::Predicate;
    ///
    /// // The kubelets write the status of their nodes all the time, which leaves the taints as they are.
    /// let taints = FieldPath::new(&["spec", "taints"]);
    /// let taints_changed: Predicate<Node> = Predicate::on_update(move |old, new| {
    ///     let taints = |node: kinformer::PackedRef<'_, Node>| node.field::<serde_json::Value>(&taints).ok();
    ///     taints(old) != taints(new)
    /// });
    /// # _ = taints_changed;
    /// ```
    #[doc(alias("Funcs", "hash_property", "TypedFuncs", "UpdateFunc"))]
    pub fn on_update(
        passes: impl Fn(PackedRef<'_, K>, PackedRef<'_, K>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |event| match event {
            Event::Updated(Updated { old, new, .. }) => old.uid() != new.uid() || passes(*old, *new),
            _ => true,
        })
    }

    /// Passes updates that change `metadata.generation`, which the API server increments with each change of the
    /// specification. Kinds without a generation pass always.
    ///
    /// ```
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # fn example(factory: &kinformer::SharedInformerFactory) {
    /// use kinformer_controller::{Action, Controller, Predicate, Trigger};
    ///
    /// // Its own writes of the status do not change the generation, so they cause no reconciliation.
    /// let deployments = Trigger::on(&factory.informer::<Deployment>());
    /// let deployments = deployments.filter(Predicate::generation_changed());
    /// let controller = Controller::of(factory).reconciles_on(deployments).build(async |_| Ok(Action::none()));
    /// # _ = controller;
    /// # }
    /// ```
    #[doc(alias("GenerationChangedPredicate", "TypedGenerationChangedPredicate"))]
    pub fn generation_changed() -> Self {
        let path = FieldPath::new(&["metadata", "generation"]);
        Self::on_update(move |old, new| {
            let generation = |object: &PackedObject| object.field::<i64>(&path).ok().flatten();
            match (generation(old.object()), generation(new.object())) {
                (Some(old), Some(new)) => old != new,
                _ => true,
            }
        })
    }

    /// Passes updates that change the labels.
    #[doc(alias("LabelChangedPredicate", "TypedLabelChangedPredicate"))]
    pub fn labels_changed() -> Self {
        Self::on_update(|old, new| !old.object().labels().eq(new.object().labels()))
    }

    /// Passes updates that change the annotations.
    #[doc(alias("AnnotationChangedPredicate", "TypedAnnotationChangedPredicate"))]
    pub fn annotations_changed() -> Self {
        Self::on_update(|old, new| match (old.object().annotations(), new.object().annotations()) {
            (Ok(old), Ok(new)) => old != new,
            _ => true,
        })
    }

    /// Passes updates that change the finalizers.
    pub fn finalizers_changed() -> Self {
        let path = FieldPath::new(&["metadata", "finalizers"]);
        Self::on_update(move |old, new| {
            let finalizers = |object: &PackedObject| object.field::<Vec<String>>(&path);
            match (finalizers(old.object()), finalizers(new.object())) {
                (Ok(old), Ok(new)) => old.unwrap_or_default() != new.unwrap_or_default(),
                _ => true,
            }
        })
    }

    /// Passes the events of objects with these labels: additions and deletions too, and updates before or after which the
    /// object has them.
    ///
    /// controller-runtime 0.25 (`LabelSelectorPredicate`) does not pass an update that takes the labels away.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kinformer::LabelSelector;
    /// use kinformer_controller::Predicate;
    ///
    /// let web: LabelSelector = "app=web".parse()?;
    /// let canary = Predicate::labels_match("canary".parse()?);
    /// let canaries: Predicate<Pod> = Predicate::labels_match(web).and(canary);
    /// # _ = canaries;
    /// # Ok::<(), kinformer::SelectorError>(())
    /// ```
    #[doc(alias = "LabelSelectorPredicate")]
    pub fn labels_match(selector: LabelSelector) -> Self {
        Self::new(move |event| {
            let matches = |object: PackedRef<'_, K>| selector.matches_object(&**object.object());
            match event {
                Event::Updated(Updated { old, new, .. }) => matches(*old) || matches(*new),
                event => event.object().is_none_or(|object| matches(*object)),
            }
        })
    }

    /// Passes updates that change the resource version: all but resyncs.
    #[doc(alias(
        "resource_version",
        "ResourceVersionChangedPredicate",
        "TypedResourceVersionChangedPredicate"
    ))]
    pub fn resource_version_changed() -> Self {
        Self::on_update(|old, new| old.object().resource_version() != new.object().resource_version())
    }

    /// Passes the events that both pass.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |event| self.passes(event) && other.passes(event))
    }

    /// Passes the events that one of the two passes.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |event| self.passes(event) || other.passes(event))
    }

    /// Passes the events that this predicate does not pass. Beware that the given ones pass all additions.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kinformer_controller::Predicate;
    ///
    /// let others: Predicate<Secret> = Predicate::labels_match("owner=helm".parse()?).not();
    /// # _ = others;
    /// # Ok::<(), kinformer::SelectorError>(())
    /// ```
    #[must_use]
    pub fn not(self) -> Self {
        Self::new(move |event| !(self.passes)(event))
    }

    pub(crate) fn passes(&self, event: &Event<PackedRef<'_, K>>) -> bool {
        catch_unwind(AssertUnwindSafe(|| (self.passes)(event))).unwrap_or_else(|panic| {
            drop_payload(panic);
            tracing::error!(key = %event.key(), "predicate panicked; the event passes");
            true
        })
    }
}

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self { passes: self.passes.clone() }
    }
}

impl<K> fmt::Debug for Predicate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").finish_non_exhaustive()
    }
}
