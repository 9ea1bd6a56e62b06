//! What is set of a factory before it gives out informers.

use std::any::{Any, TypeId};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer_core::{Object, Transform};
use kinformer_kube::{Encoding, FieldPath, KubeListerWatcher, Packed, Params};
use kinformer_reflector::{Failure, ListerWatcher, ProbeBudget, ReflectorOptions};
use kinformer_shared_informer::{SharedIndexInformer, SharedIndexInformerBuilder};
use kube_client::Client;
use kube_core::discovery::Scope;

use crate::SharedInformerFactory;

type Tweak = dyn Fn(&mut Params) + Send + Sync;
type ErrorHook = dyn Fn(&Failure<'_>) + Send + Sync;
type ChangeReflector = dyn Fn(ReflectorOptions) -> ReflectorOptions + Send + Sync;

/// The options of a factory. Defaults: all namespaces, no resync, nothing changed.
#[derive(Clone, Default)]
pub(crate) struct Options {
    name: Option<Arc<str>>,
    namespace: Option<String>,
    resync: Duration,
    resyncs: HashMap<TypeId, Duration>,
    /// A `Transform<T>` under the id of `T`.
    transforms: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    /// The packed forms of these types.
    eager_transforms: HashSet<TypeId>,
    dropped_fields: HashMap<TypeId, Vec<FieldPath>>,
    decoded_cache_sizes: HashMap<TypeId, usize>,
    tweak: Option<Arc<Tweak>>,
    encoding: Option<Encoding>,
    error_hook: Option<Arc<ErrorHook>>,
    reflector: Option<Arc<ChangeReflector>>,
    grace: Option<Duration>,
    /// All sources of the factory talk to one server.
    probes: ProbeBudget,
}

/// Puts a [`SharedInformerFactory`] together.
///
/// Follows client-go 1.37 (`SharedInformerOption`).
#[must_use = "nothing is built yet"]
pub struct SharedInformerFactoryBuilder {
    client: Client,
    options: Options,
}

impl SharedInformerFactoryBuilder {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, options: Options::default() }
    }

    /// A name that stands before those of the informers, in messages and metrics. Factories whose informers are
    /// registered for metrics together need different names, unless their namespaces differ.
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// Only the objects of one namespace. No effect on kinds that are in none.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.options.namespace = Some(namespace.into());
        self
    }

    /// How often handlers that do not name a period are told of every object again. Zero, the default, means
    /// never.
    pub fn default_resync(mut self, period: Duration) -> Self {
        self.options.resync = period;
        self
    }

    /// As [`Self::default_resync`], for one kind, in whichever form its objects are kept.
    pub fn resync_for<K: Object>(mut self, period: Duration) -> Self {
        self.options.resyncs.extend(forms::<K>().map(|form| (form, period)));
        self
    }

    /// Drops these fields as well from every object of a kind as it arrives, in whichever form objects are kept:
    /// `drop_fields::<Pod>([FieldPath::new(&["metadata", "annotations"])])`. They are neither decoded nor stored; see
    /// [`KubeListerWatcher::drop_fields`].
    pub fn drop_fields<K: Object>(mut self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        let fields: Vec<FieldPath> = fields.into_iter().collect();
        for form in forms::<K>() {
            self.options.dropped_fields.entry(form).or_default().extend_from_slice(&fields);
        }
        self
    }

    /// How many packed objects of a kind stay decoded after they were read; 256 by default. See
    /// [`KubeListerWatcher::decoded_cache_size`].
    pub fn decoded_cache_size_for<K: Object>(mut self, objects: usize) -> Self {
        self.options.decoded_cache_sizes.insert(TypeId::of::<Packed<K>>(), objects);
        self
    }

    /// Changes the parameters of every list and watch before it is sent, such as its selectors. Must not block.
    pub fn tweak_list_options(mut self, tweak: impl Fn(&mut Params) + Send + Sync + 'static) -> Self {
        self.options.tweak = Some(Arc::new(tweak));
        self
    }

    /// What the server is asked for. Without it that is protobuf where a kind has it, and else JSON: see
    /// [`KubeListerWatcher::encoding`].
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.options.encoding = Some(encoding);
        self
    }

    /// What every object of one type passes once, before store and handlers see it. The type is that in which objects
    /// are kept: a `Transform<Packed<Pod>>` is for the packed ones, and a `Transform<Pod>` for those that are decoded
    /// at once.
    pub fn transform<T: Object>(mut self, transform: Transform<T>) -> Self {
        self.options.transforms.insert(TypeId::of::<T>(), Arc::new(transform));
        self.options.eager_transforms.insert(TypeId::of::<Packed<T>>());
        self
    }

    /// Called with everything that goes wrong with the lists and watches of any informer; it is named.
    pub fn on_error(mut self, hook: impl Fn(&Failure<'_>) + Send + Sync + 'static) -> Self {
        self.options.error_hook = Some(Arc::new(hook));
        self
    }

    /// Changes the options of every reflector: pages, watch-lists, backoff, deadlines.
    pub fn reflector(
        mut self,
        change: impl Fn(ReflectorOptions) -> ReflectorOptions + Send + Sync + 'static,
    ) -> Self {
        self.options.reflector = Some(Arc::new(change));
        self
    }

    /// How long handlers may take to return from their last event when an informer stops; 10 seconds by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.grace = Some(grace);
        self
    }

    /// Builds the factory. It gives out packed objects; `.build().eager()` those that are decoded at once.
    pub fn build(self) -> SharedInformerFactory {
        SharedInformerFactory::from_options(self.client, self.options)
    }
}

impl Options {
    /// An informer builder with what these options say about its type. The name has the factory's in front.
    pub(crate) fn builder_for<T: Object>(
        &self,
        source: impl ListerWatcher<T> + 'static,
        resource: &str,
        name: &str,
    ) -> SharedIndexInformerBuilder<T> {
        let name = match &self.name {
            Some(factory) => format!("{factory}/{name}"),
            None => name.to_owned(),
        };
        let resync = self.resyncs.get(&TypeId::of::<T>()).copied().unwrap_or(self.resync);
        let transform = self.transforms.get(&TypeId::of::<T>());
        if transform.is_none() && self.eager_transforms.contains(&TypeId::of::<T>()) {
            tracing::warn!(informer = name, "the transform is for decoded objects, and these are packed");
        }
        let mut builder = SharedIndexInformer::builder(source).named(name).resource(resource).resync(resync);
        if let Some(transform) = transform.and_then(|transform| transform.downcast_ref::<Transform<T>>()) {
            builder = builder.transform(transform.clone());
        }
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

    /// The namespace that objects of this scope are restricted to.
    pub(crate) fn namespace_in(&self, scope: &Scope) -> Option<&str> {
        self.namespace.as_deref().filter(|_| *scope == Scope::Namespaced)
    }

    /// Restricts what is listed and watched, and what is kept of it.
    pub(crate) fn restrict<T: Object>(
        &self,
        mut source: KubeListerWatcher<T>,
        scope: &Scope,
    ) -> KubeListerWatcher<T> {
        if let Some(namespace) = self.namespace_in(scope) {
            source = source.namespace(namespace);
        }
        source = source.probe_budget(self.probes.clone());
        if let Some(encoding) = self.encoding {
            source = source.encoding(encoding);
        }
        if let Some(fields) = self.dropped_fields.get(&TypeId::of::<T>()) {
            source = source.drop_fields(fields.iter().cloned());
        }
        if let Some(objects) = self.decoded_cache_sizes.get(&TypeId::of::<T>()) {
            source = source.decoded_cache_size(*objects);
        }
        if let Some(tweak) = self.tweak.clone() {
            source = source.tweak(move |params| tweak(params));
        }
        source
    }
}

/// The types in which objects of a kind are kept.
fn forms<K: 'static>() -> [TypeId; 2] {
    [TypeId::of::<K>(), TypeId::of::<Packed<K>>()]
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SharedInformerFactoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformerFactoryBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
