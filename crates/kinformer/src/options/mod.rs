//! The options of a factory, and what they mean for a resource.

mod builder;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer_core::Object;
use kinformer_kube::{DecodeAs, DecodedCache, Encoding, FieldPath, KubeListerWatcher, PackedObject, Params};
use kinformer_reflector::{ProbeBudget, ReflectorOptions};
use kinformer_shared_informer::{
    Queue, QueueParts, SharedIndexInformer, SharedIndexInformerBuilder, Sources,
};
use kube_core::discovery::{ApiResource, Scope};
use parking_lot::Mutex;

use crate::arrival::ErrorHook;
use crate::entry::Key;
use crate::own_informer::MakeInformer;
use crate::projection::Projection;
use crate::resource_options::ResourceOptions;
use crate::selection::{Selected, Selections, WatchChoice};

pub use self::builder::SharedInformerFactoryBuilder;

type Tweak = dyn Fn(&mut Params) + Send + Sync;

type ChangeReflector = dyn Fn(ReflectorOptions) -> ReflectorOptions + Send + Sync;

type NewQueue = dyn Fn(QueueParts<PackedObject>) -> Arc<dyn Queue<PackedObject>> + Send + Sync;

/// The options of a factory. Defaults: all namespaces, no resync, nothing changed.
#[derive(Clone, Default)]
pub(crate) struct Options {
    name: Option<Arc<str>>,
    selections: Selections,
    /// The scope that was set for all informers.
    pub(crate) scope: Arc<Mutex<Option<crate::scope::Scope>>>,
    resync: Duration,
    /// The largest share of a resync period by which it is longer or shorter.
    resync_jitter: f64,
    resources: HashMap<Key, ResourceOptions>,
    /// The transform and the dropped fields of resources without their own.
    defaults: ResourceOptions,
    tweak: Option<Arc<Tweak>>,
    encoding: Option<Encoding>,
    error_hook: Option<Arc<ErrorHook>>,
    reflector: Option<Arc<ChangeReflector>>,
    grace: Option<Duration>,
    queue: Option<Arc<NewQueue>>,
    cluster: Arc<str>,
    /// Shared, because all sources of the factory send their requests to one server.
    probes: ProbeBudget,
}

impl Options {
    fn of_resource(&self, resource: &ApiResource) -> Option<&ResourceOptions> {
        self.resources.get(&Key::of_resource(resource))
    }

    /// The options whose transform applies to a resource.
    fn transformed_by(&self, resource: &ApiResource) -> &ResourceOptions {
        self.of_resource(resource).filter(|own| own.has_transform()).unwrap_or(&self.defaults)
    }

    /// The fields that are dropped from the objects of a resource.
    pub(crate) fn dropped(&self, resource: &ApiResource) -> impl Iterator<Item = &FieldPath> {
        let own = self.of_resource(resource).and_then(|own| own.dropped.as_ref());
        own.or(self.defaults.dropped.as_ref()).into_iter().flatten()
    }

    /// Whether the objects of a resource may have other labels and fields than on the server; a field that is dropped has no
    /// value to select by.
    pub(crate) fn has_transform(&self, resource: &ApiResource) -> bool {
        let has_labels =
            |field: &FieldPath| field.names().zip(["metadata", "labels"]).all(|(name, of)| name == of);
        self.transformed_by(resource).has_transform() || self.dropped(resource).any(has_labels)
    }

    /// The user's own informer of a resource.
    pub(crate) fn own_informer(&self, resource: &ApiResource) -> Option<&Arc<MakeInformer>> {
        self.of_resource(resource)?.informer.as_ref()
    }

    /// Returns the projection of a new informer: whole objects if an option needs or requests them.
    pub(crate) fn projection(&self, resource: &ApiResource, requested: Projection) -> Projection {
        let of_resource = self.of_resource(resource);
        let is_whole = self.transformed_by(resource).has_transform()
            || of_resource.is_some_and(|own| own.whole_objects || own.informer.is_some());
        if is_whole { Projection::Whole } else { requested }
    }

    /// The type that objects are decoded as on arrival.
    pub(crate) fn decode(&self, resource: &ApiResource) -> Option<DecodeAs> {
        self.of_resource(resource)?.decode
    }

    /// Returns an informer builder of Kubernetes objects with the options of the resource.
    pub(crate) fn kubernetes_builder(
        &self,
        sources: Sources<PackedObject>,
        resource: &ApiResource,
        display_name: &str,
        name: &str,
        cache: &DecodedCache,
    ) -> SharedIndexInformerBuilder<PackedObject> {
        let own = self.of_resource(resource);
        let resync = own.and_then(|own| own.resync).unwrap_or(self.resync);
        let mut builder = self.builder_with_resync(sources, display_name, name, resync);
        if let Some(queue) = self.queue.clone() {
            builder = builder.queue_with(move |parts| queue(parts));
        }
        if let Some(transform) = self.transformed_by(resource).transforms(cache) {
            builder = builder.transform(transform);
        }
        builder
    }

    /// Returns an informer builder with the options that apply to every informer. The informer's name is prefixed with
    /// the factory's.
    pub(crate) fn builder_for<T: Object>(
        &self,
        sources: Sources<T>,
        resource: &str,
        name: &str,
    ) -> SharedIndexInformerBuilder<T> {
        self.builder_with_resync(sources, resource, name, self.resync)
    }

    fn builder_with_resync<T: Object>(
        &self,
        sources: Sources<T>,
        resource: &str,
        name: &str,
        resync: Duration,
    ) -> SharedIndexInformerBuilder<T> {
        let mut builder = SharedIndexInformer::builder_of(sources)
            .name(self.informer_name(name))
            .resource(resource)
            .cluster(self.cluster.clone())
            .resync(self.with_jitter(resync));
        if let Some(change) = self.reflector.clone() {
            builder = builder.reflector(|options| change(options));
        }
        if let Some(hook) = self.error_hook.clone() {
            builder = builder.on_error(move |failure| hook(failure));
        }
        if let Some(grace) = self.grace {
            builder = builder.grace(grace);
        }
        builder
    }

    /// Changes a resync period at random, for one informer.
    fn with_jitter(&self, period: Duration) -> Duration {
        if self.resync_jitter == 0.0 {
            return period;
        }
        let factor = 1.0 + self.resync_jitter * (2.0 * fastrand::f64() - 1.0);
        Duration::try_from_secs_f64(period.as_secs_f64() * factor).unwrap_or(period)
    }

    /// Returns the name of an informer, prefixed with the factory's.
    pub(crate) fn informer_name(&self, name: &str) -> Arc<str> {
        match &self.name {
            Some(factory) => format!("{factory}/{name}").into(),
            None => name.into(),
        }
    }

    pub(crate) fn error_hook(&self) -> Option<Arc<ErrorHook>> {
        self.error_hook.clone()
    }

    /// Returns the parts of an informer: by the scope of the factory, if it was changed, else by the options.
    pub(crate) fn parts(&self, resource: &ApiResource, scope: &Scope, choice: &WatchChoice) -> Vec<Selected> {
        let is_namespaced = *scope == Scope::Namespaced;
        let changed =
            self.scope.lock().clone().filter(|_| is_namespaced && self.own_informer(resource).is_none());
        if let Some(scope) = changed {
            return self.parts_of(resource, (&scope, choice), &[], &mut 1);
        }
        self.tweaked(self.own_selections(resource).parts(&self.selections, is_namespaced))
    }

    /// Returns the parts of an informer in this scope.
    pub(crate) fn parts_of(
        &self,
        resource: &ApiResource,
        scope: (&crate::scope::Scope, &WatchChoice),
        before: &[Selected],
        next: &mut u32,
    ) -> Vec<Selected> {
        self.tweaked(self.own_selections(resource).parts_within(&self.selections, scope, before, next))
    }

    fn own_selections(&self, resource: &ApiResource) -> Selections {
        self.of_resource(resource).map(|options| options.selections.clone()).unwrap_or_default()
    }

    fn tweaked(&self, mut parts: Vec<Selected>) -> Vec<Selected> {
        if let Some(tweak) = &self.tweak {
            parts.iter_mut().for_each(|part| part.note_tweak(&**tweak));
        }
        parts
    }

    /// Returns a cache of decoded values for the objects of one informer.
    pub(crate) fn decoded_cache(&self, resource: &ApiResource) -> DecodedCache {
        let keep = self.of_resource(resource).and_then(|own| own.keep);
        keep.map_or_else(DecodedCache::default, DecodedCache::new)
    }

    /// Applies the selection of a part and the options of the resource to a source.
    pub(crate) fn restrict(
        &self,
        source: KubeListerWatcher<PackedObject>,
        resource: &ApiResource,
        part: &Selected,
        cache: &DecodedCache,
    ) -> KubeListerWatcher<PackedObject> {
        let source = part.restrict(source).probe_budget(self.probes.clone());
        let mut source = source.decoded_cache(cache.clone());
        if let Some(encoding) = self.encoding {
            source = source.encoding(encoding);
        }
        source = source.drop_fields(self.dropped(resource).cloned());
        if let Some(tweak) = self.tweak.clone() {
            source = source.tweak(move |params| tweak(params));
        }
        source
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("selections", &self.selections)
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}
