//! The options of one resource.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer_core::{BoxError, Transform};
use kinformer_kube::{DecodeAs, DecodedCache, FieldPath, ObjectDecoder, Packed, PackedObject};
use kinformer_shared_informer::SharedIndexInformerBuilder;
use kube_core::discovery::Scope;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::own_informer::{MakeInformer, NewInformer};
use crate::selection::{NamespaceOptions, Selections};

/// The time at which objects are decoded.
///
/// ```
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use kinformer::{Decode, SharedInformerFactory};
///
/// # fn example(client: kube_client::Client) {
/// let factory = SharedInformerFactory::builder(client)
///     .decode::<Node>(Decode::OnArrival) // all nodes are read for each decision
///     .decode::<Pod>(Decode::OnRead { keep: 5_000 }) // many pods; some are read often
///     .build();
/// # _ = factory;
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decode {
    /// When they are read. A number of the most recently read values of the resource stay decoded even if no reader holds
    /// them; 256 by default.
    OnRead {
        /// The number of values that stay decoded, in all namespaces together.
        keep: usize,
    },
    /// When they arrive. The values are kept as long as the objects: for kinds whose objects are read all the time. See
    /// [`Informer::decode_on_arrival`](crate::Informer::decode_on_arrival).
    OnArrival,
}

/// A transform; the decoder is that of the objects which it encodes.
type Change = dyn Fn(Arc<PackedObject>, &ObjectDecoder) -> Result<Arc<PackedObject>, BoxError> + Send + Sync;

/// The options of one resource of a factory, for all its views: see
/// [`SharedInformerFactoryBuilder::resource`](crate::SharedInformerFactoryBuilder::resource).
///
/// ```
/// use std::time::Duration;
///
/// use k8s_openapi::api::core::v1::Pod;
/// use kinformer::{FieldPath, ResourceOptions, SharedInformerFactory};
///
/// fn of_pods(options: ResourceOptions) -> ResourceOptions {
///     options
///         .labels("app in (web, api)")
///         .drop_fields([FieldPath::new(&["status", "conditions"])])
///         .resync(Duration::from_secs(600))
/// }
///
/// # fn example(client: kube_client::Client) {
/// let factory = SharedInformerFactory::builder(client).of_kind::<Pod>(of_pods).build();
/// # _ = factory;
/// # }
/// ```
#[doc(alias = "ByObject")]
#[derive(Clone, Default)]
#[must_use = "nothing is set yet"]
pub struct ResourceOptions {
    pub(crate) selections: Selections,
    /// The scope of the resource, if its type is known.
    pub(crate) scope: Option<Scope>,
    pub(crate) resync: Option<Duration>,
    changes: Vec<Arc<Change>>,
    pub(crate) dropped: Option<Vec<FieldPath>>,
    pub(crate) keep: Option<usize>,
    pub(crate) decode: Option<DecodeAs>,
    /// Whether whole objects are fetched even if only metadata is requested.
    pub(crate) whole_objects: bool,
    /// The user's own informer.
    pub(crate) informer: Option<Arc<MakeInformer>>,
}

impl ResourceOptions {
    /// Restricts the informer to objects that this label selector matches, instead of the selector of the factory. An empty
    /// selector matches all objects. A selector of a [namespace](Self::namespaces) replaces it.
    pub fn labels(mut self, selector: impl Into<Arc<str>>) -> Self {
        self.selections.selection.labels = Some(selector.into());
        self
    }

    /// Restricts the informer to objects that this field selector matches; see [`Self::labels`].
    pub fn fields(mut self, selector: impl Into<Arc<str>>) -> Self {
        self.selections.selection.fields = Some(selector.into());
        self
    }

    /// Restricts the informer to these namespaces, instead of those of the factory: see
    /// [`SharedInformerFactoryBuilder::namespaces`](crate::SharedInformerFactoryBuilder::namespaces). No names, or an empty
    /// name among them, means all namespaces.
    ///
    /// A namespace without a selector of its own has that of the resource, else that of the same namespace of the factory,
    /// else that of the factory.
    ///
    /// ```
    /// # fn example(builder: kinformer::SharedInformerFactoryBuilder) {
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kinformer::NamespaceOptions;
    ///
    /// // Secrets of one namespace, although other kinds are read in all; and config maps of two.
    /// let of_team_b = NamespaceOptions::new("team-b").labels("app=web");
    /// let builder = builder
    ///     .of_kind::<Secret>(|secrets| secrets.namespaces(["team-a"]))
    ///     .of_kind::<ConfigMap>(|maps| maps.namespaces(["team-a".into(), of_team_b]));
    /// # _ = builder;
    /// # }
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`cache.ByObject.Namespaces`).
    pub fn namespaces<N: Into<NamespaceOptions>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.selections.set_namespaces(namespaces);
        self
    }

    /// Sets how often handlers without a period of their own receive every object again. Zero means never. The default
    /// is the factory's period.
    #[doc(alias = "SyncPeriod")]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Drops these fields, in addition to the managed fields, from every object as it arrives:
    /// `[FieldPath::new(&["metadata", "annotations"])]`. Dropped fields are neither decoded nor stored; see
    /// [`KubeListerWatcher::drop_fields`](crate::KubeListerWatcher::drop_fields). The default is the factory's
    /// [`default_drop_fields`](crate::SharedInformerFactoryBuilder::default_drop_fields).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"},
    /// #     "metadata": {"name": "settings", "namespace": "default", "annotations": {"note": "long"}}}))?;
    /// # let client = kinformer::client(server.config()?)?;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kinformer::{FieldPath, SharedInformerFactory};
    ///
    /// let factory = SharedInformerFactory::builder(client)
    ///     .of_kind::<ConfigMap>(|maps| maps.drop_fields([FieldPath::new(&["metadata", "annotations"])]))
    ///     .build();
    /// let maps = factory.informer::<ConfigMap>();
    /// factory.start()?;
    /// maps.wait_for_sync().await?;
    /// let settings = maps.lister().get("default/settings")?;
    /// assert!(settings.decode()?.data.is_some() && settings.decode()?.metadata.annotations.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_fields(mut self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        self.dropped.get_or_insert_default().extend(fields);
        self
    }

    /// Sets when objects are decoded as the type `K`. One value is kept for each object: of several calls, the last
    /// one is used. Metadata-only objects are never decoded by this option.
    pub fn decode<K: DeserializeOwned + Send + Sync + 'static>(mut self, decode: Decode) -> Self {
        match decode {
            Decode::OnRead { keep } => (self.keep, self.decode) = (Some(keep), None),
            Decode::OnArrival => self.decode = Some(DecodeAs::of::<K>()),
        }
        self
    }

    /// Fetches whole objects from the start, even if only [metadata](crate::SharedInformerFactory::metadata) is requested
    /// until then: for programs that request the whole objects later, which would make a second informer.
    ///
    /// ```
    /// # fn example(builder: kinformer::SharedInformerFactoryBuilder) -> Result<(), kinformer::Error> {
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kinformer::ResourceOptions;
    ///
    /// let factory = builder.of_kind::<Secret>(ResourceOptions::whole_objects).build();
    /// let names = factory.metadata::<Secret>().lister();
    /// factory.start()?;
    /// let secrets = factory.informer::<Secret>(); // the same informer, although it has started before
    /// # Ok(())
    /// # }
    /// ```
    pub fn whole_objects(mut self) -> Self {
        self.whole_objects = true;
        self
    }

    /// Adds a transform, which changes every object once before it is stored and delivered. The result is encoded as
    /// JSON and replaces the object in all views of the resource. Several transforms are applied in the order of the
    /// calls, instead of the factory's
    /// [`default_transform`](crate::SharedInformerFactoryBuilder::default_transform). The namespaces of a resource share its
    /// transform, which can read the namespace of an object.
    ///
    /// An object that cannot be decoded, or for which the transform fails, is not stored and is reported with its key.
    /// To drop fields, [`Self::drop_fields`] is cheaper.
    ///
    /// ```
    /// # fn example(builder: kinformer::SharedInformerFactoryBuilder) {
    /// use k8s_openapi::api::core::v1::Secret;
    ///
    /// // The program needs the names of the keys, and never stores the values.
    /// let builder = builder.of_kind::<Secret>(|secrets| {
    ///     secrets.transform(|secret: &mut Secret| {
    ///         secret.data.iter_mut().flatten().for_each(|(_, value)| value.0.clear());
    ///         Ok(())
    ///     })
    /// });
    /// # _ = builder;
    /// # }
    /// ```
    #[doc(alias = "SetTransform")]
    pub fn transform<K: DeserializeOwned + Serialize + 'static>(
        self,
        change: impl Fn(&mut K) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.change(move |object, decoder| {
            let mut value: K = object.decode_new()?;
            change(&mut value)?;
            Ok(Arc::new(object.encode_changed(&value, decoder)?))
        })
    }

    /// Adds a transform that does not decode the objects: for transforms that [drop fields](Packed::without_fields) of
    /// some objects, or reject some.
    pub fn transform_packed<K: 'static>(
        self,
        change: impl Fn(Packed<K>) -> Result<Packed<K>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.change(move |object, _| change(Packed::new(object)).map(Packed::into_object))
    }

    /// Replaces the informer of the resource by the user's own: with another source, or with other options than those of the
    /// factory. All its users share it as any other: views, listers, handlers, indexes, controllers, reads of a cache.
    ///
    /// The function is called each time that the factory creates the informer: for the first request, and for the first
    /// one after a removal. It is called without a lock, by the caller of the request. It must return a builder with sources
    /// and indexes of its own; [`NewInformer::builder`] has the options of the factory.
    ///
    /// The factory adds the index by namespace, and decodes on arrival as [`Self::decode`] says. Metadata is read
    /// from the whole objects. If the builder is refused, as for two indexes with one name, the informer does not sync, and
    /// the error of a wait for it says why.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kinformer::generic::ListerWatcher;
    /// use kinformer::{PackedObject, SharedInformerFactory, Sources};
    ///
    /// # fn example(client: kube_client::Client, source: impl ListerWatcher<PackedObject> + Clone + 'static) {
    /// let factory = SharedInformerFactory::builder(client)
    ///     .of_kind::<ConfigMap>(move |maps| {
    ///         let source = source.clone();
    ///         maps.informer(move |new| new.builder(Sources::one(source.clone())))
    ///     })
    ///     .build();
    /// # _ = factory;
    /// # }
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`cache.Options.NewInformer`).
    #[doc(alias = "NewInformer")]
    pub fn informer(
        mut self,
        make: impl Fn(NewInformer<'_>) -> SharedIndexInformerBuilder<PackedObject> + Send + Sync + 'static,
    ) -> Self {
        self.informer = Some(Arc::new(make));
        self
    }

    fn change(
        mut self,
        change: impl Fn(Arc<PackedObject>, &ObjectDecoder) -> Result<Arc<PackedObject>, BoxError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.changes.push(Arc::new(change));
        self
    }

    pub(crate) fn has_transform(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Combines all transforms into one. The values of the objects that it encodes are in the cache.
    pub(crate) fn transforms(&self, cache: &DecodedCache) -> Option<Transform<PackedObject>> {
        let changes = self.changes.clone();
        let decoder = ObjectDecoder::json().decoded_cache(cache.clone());
        self.has_transform().then(|| {
            Transform::new(move |object| {
                changes.iter().try_fold(object, |object, change| change(object, &decoder))
            })
        })
    }
}

impl fmt::Debug for ResourceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceOptions")
            .field("selections", &self.selections)
            .field("resync", &self.resync)
            .field("transforms", &self.changes.len())
            .field("dropped", &self.dropped)
            .field("keep", &self.keep)
            .field("decode", &self.decode)
            .field("has_own_informer", &self.informer.is_some())
            .finish()
    }
}
