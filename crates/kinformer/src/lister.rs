//! Listers, which read the stored objects of an informer.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kinformer_core::{KeyError, KeyRef};
use kinformer_kube::{Packed, PackedObject, PackedRef};
use kinformer_store::{NAMESPACE_INDEX, Reader};

use crate::callbacks::Object;
use crate::objects::Objects;
use crate::started::Started;
use crate::{Error, LabelSelector};

/// Reads the objects of an [`Informer`](crate::Informer) by key and by label. Cheap to clone.
///
/// Every call reads one consistent state and does not block the writer. Returned objects are shared and immutable, and
/// in no particular order.
///
/// The store of an informer that was never started is empty, so its reads return [`Error::NotStarted`]. An informer that
/// has started and not synced yet has the objects received so far.
///
/// ```
/// use k8s_openapi::api::core::v1::Service;
/// use kinformer::{Error, Lister, SharedInformerFactory};
///
/// /// A part of a program that reads services.
/// struct Router {
///     services: Lister<Service>,
/// }
///
/// impl Router {
///     fn new(factory: &SharedInformerFactory) -> Self {
///         Self { services: factory.informer::<Service>().lister() }
///     }
///
///     fn has_service(&self, namespace: &str, name: &str) -> Result<bool, Error> {
///         Ok(self.services.get_opt((namespace, name))?.is_some())
///     }
/// }
/// ```
///
/// Follows controller-runtime 0.25 (`ErrCacheNotStarted`) in this, and otherwise client-go 0.37 (`listers`).
#[doc(alias = "GenericLister")]
pub struct Lister<K> {
    objects: Objects,
    kind: PhantomData<fn() -> K>,
}

/// Reads the objects of one namespace. Cheap to clone.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// use kinformer::{Error, NamespaceLister, SharedInformerFactory};
///
/// fn names(pods: &NamespaceLister<Pod>, app: &str) -> Result<Vec<String>, Error> {
///     let pods = pods.list(&format!("app={app}").parse()?)?;
///     Ok(pods.iter().map(|pod| pod.name().to_owned()).collect())
/// }
///
/// # fn example(factory: &SharedInformerFactory) -> Result<(), Error> {
/// let team_a = factory.core().v1().pods().lister().namespace("team-a");
/// println!("{:?}", names(&team_a, "web")?);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "GenericNamespaceLister")]
pub struct NamespaceLister<K> {
    objects: Objects,
    namespace: Arc<str>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Lister<K> {
    pub(crate) fn of(objects: Objects) -> Self {
        Self { objects, kind: PhantomData }
    }

    /// Creates a lister of any store. Errors name the type of the objects in place of the resource: see
    /// [`Self::resource_name`].
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kinformer::{Lister, Packed};
    /// use kinformer_store::Indexer;
    /// use serde_json::json;
    ///
    /// // A test of code that takes a lister needs neither a server nor an informer.
    /// let store = Indexer::new();
    /// let pod = json!({"metadata": {"name": "web-0", "namespace": "default"}});
    /// let pod: Pod = serde_json::from_value(pod)?;
    /// store.add(Packed::from_value(pod)?.into_object())?;
    /// let lister = Lister::<Pod>::new(store.reader());
    /// assert_eq!(lister.get("default/web-0")?.name(), "web-0");
    /// assert_eq!(lister.get("default/web-1").unwrap_err().to_string(), r#"Pod "default/web-1" not found"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "NewGenericLister")]
    pub fn new(reader: Reader<PackedObject>) -> Self {
        let name = type_name::<K>();
        Self::of(Objects::new(reader, name.rsplit("::").next().unwrap_or(name).into(), Started::always()))
    }

    /// Sets the resource name for errors, such as `deployments.apps`.
    #[must_use]
    pub fn resource_name(mut self, resource: impl Into<Arc<str>>) -> Self {
        self.objects.resource = resource.into();
        self
    }

    /// Returns the object with this key. O(1).
    ///
    /// The key is a string (`namespace/name`, or `name` for a cluster-scoped object), a pair `(namespace, name)`, an
    /// [`ObjectKey`](crate::ObjectKey) or a [`KeyRef`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// let lister = pods.lister();
    /// assert_eq!(lister.get("default/web-0")?.name(), "web-0");
    /// assert_eq!(lister.get("default/web-1").unwrap_err().to_string(), r#"pods "default/web-1" not found"#);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such object; [`Error::NotStarted`] if its informer was never started;
    /// [`Error::Key`] if a string is not the key of a Kubernetes object.
    pub fn get<'k>(&self, key: impl TryInto<KeyRef<'k>, Error: Into<KeyError>>) -> Result<Packed<K>, Error> {
        get(&self.objects, key.try_into().map_err(Into::into)?).map(Packed::new)
    }

    /// As [`Self::get`], for an object that may not exist.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// use kinformer::{BoxError, Lister, ObjectKey};
    ///
    /// /// The node of a pod, which may have been deleted since its key was queued.
    /// fn node(pods: &Lister<Pod>, key: &ObjectKey) -> Result<Option<String>, BoxError> {
    ///     let Some(pod) = pods.get_opt(key)? else { return Ok(None) };
    ///     Ok(pod.decode()?.spec.as_ref().and_then(|spec| spec.node_name.clone()))
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`Self::get`] other than [`Error::NotFound`].
    #[doc(alias = "IgnoreNotFound")]
    pub fn get_opt<'k>(
        &self,
        key: impl TryInto<KeyRef<'k>, Error: Into<KeyError>>,
    ) -> Result<Option<Packed<K>>, Error> {
        optional(self.get(key))
    }

    /// Returns all objects that the selector matches. O(n).
    ///
    /// Prefer [`Self::for_each`], which borrows the objects and changes no reference counts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// let selected = |selector: &str| Ok::<_, kinformer::Error>(pods.lister().list(&selector.parse()?)?.len());
    /// assert_eq!(selected("app in (web, api), !canary")?, 1);
    /// assert_eq!(selected("app=api")?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotStarted`] if the informer was never started.
    #[doc(alias = "state_filter_selector")]
    pub fn list(&self, selector: &LabelSelector) -> Result<Vec<Packed<K>>, Error> {
        list(&self.objects, "", selector).map(typed)
    }

    /// Calls `visit` with a reference to each object that the selector matches, in one state of the store. O(n).
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kinformer::{Lister, Packed};
    /// # let store = kinformer_store::Indexer::new();
    /// # for (name, app) in [("web-0", "web"), ("web-1", "web"), ("db-0", "db")] {
    /// #     let labels = serde_json::json!({"app": app});
    /// #     let metadata = serde_json::json!({"name": name, "namespace": "default", "labels": labels});
    /// #     let pod = serde_json::json!({"metadata": metadata});
    /// #     store.add(Packed::from_value(serde_json::from_value::<Pod>(pod)?)?.into_object())?;
    /// # }
    /// # let lister = Lister::<Pod>::new(store.reader());
    /// use std::collections::BTreeMap;
    ///
    /// let mut counts = BTreeMap::new();
    /// lister.for_each(&"app".parse()?, |pod| {
    ///     let app = pod.label("app").unwrap_or_default();
    ///     *counts.entry(app.to_owned()).or_insert(0) += 1;
    /// })?;
    /// assert_eq!(counts, BTreeMap::from([("db".to_owned(), 1), ("web".to_owned(), 2)]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotStarted`] if the informer was never started.
    #[doc(alias("ListAll", "state_filter"))]
    pub fn for_each(
        &self,
        selector: &LabelSelector,
        mut visit: impl FnMut(PackedRef<'_, K>),
    ) -> Result<(), Error> {
        for_each(&self.objects, "", selector, &mut |object| visit(PackedRef::new(object)))
    }

    /// Returns the objects that have this value in this index.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// pods.index_by_field("node", &["spec", "nodeName"])?;
    /// assert_eq!(pods.lister().by_index("node", "node-1")?.len(), 1);
    /// assert!(pods.lister().by_index("zone", "a").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Index`] if there is no index of this name; [`Error::NotStarted`] if the informer was never started.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Packed<K>>, Error> {
        by_index(&self.objects, index, value).map(typed)
    }

    /// Returns a lister of one namespace, or of all if `namespace` is empty.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// assert_eq!(pods.lister().namespace("default").get("web-0")?.name(), "web-0");
    /// assert!(pods.lister().namespace("kube-system").get("web-0").is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "ByNamespace")]
    pub fn namespace(&self, namespace: impl Into<Arc<str>>) -> NamespaceLister<K> {
        NamespaceLister { objects: self.objects.clone(), namespace: namespace.into(), kind: PhantomData }
    }
}

fn optional<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Err(Error::NotFound { .. }) => Ok(None),
        found => found.map(Some),
    }
}

impl<K> NamespaceLister<K> {
    /// Returns the object of this name in the namespace. O(1).
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such object; [`Error::NotStarted`] if its informer was never started.
    pub fn get(&self, name: &str) -> Result<Packed<K>, Error> {
        get(&self.objects, KeyRef::new(&self.namespace, name)).map(Packed::new)
    }

    /// As [`Self::get`], for an object that may not exist.
    ///
    /// # Errors
    /// [`Error::NotStarted`] if the informer was never started.
    pub fn get_opt(&self, name: &str) -> Result<Option<Packed<K>>, Error> {
        optional(self.get(name))
    }

    /// Returns all objects of the namespace that the selector matches.
    ///
    /// Prefer [`Self::for_each`], which borrows the objects and changes no reference counts.
    ///
    /// # Errors
    /// [`Error::NotStarted`] if the informer was never started.
    pub fn list(&self, selector: &LabelSelector) -> Result<Vec<Packed<K>>, Error> {
        list(&self.objects, &self.namespace, selector).map(typed)
    }

    /// Calls `visit` with a reference to each object of the namespace that the selector matches, in one state of the
    /// store.
    ///
    /// # Errors
    /// [`Error::NotStarted`] if the informer was never started.
    #[doc(alias = "ListAllByNamespace")]
    pub fn for_each(
        &self,
        selector: &LabelSelector,
        mut visit: impl FnMut(PackedRef<'_, K>),
    ) -> Result<(), Error> {
        for_each(&self.objects, &self.namespace, selector, &mut |object| visit(PackedRef::new(object)))
    }
}

/// Converts in place: allocates nothing and changes no reference counts.
fn typed<K>(objects: Vec<Object>) -> Vec<Packed<K>> {
    objects.into_iter().map(Packed::new).collect()
}

// The code below is not generic, so that it is compiled in this crate.

fn get(objects: &Objects, key: KeyRef<'_>) -> Result<Object, Error> {
    let found = objects.get(key);
    found.map_or_else(|| Err(not_found(objects, key)), Ok)
}

#[cold]
fn not_found(objects: &Objects, key: KeyRef<'_>) -> Error {
    let not_found = Error::NotFound { resource: objects.resource.clone(), key: key.to_string() };
    objects.started.check(&objects.resource).err().unwrap_or(not_found)
}

fn by_index(objects: &Objects, index: &str, value: &str) -> Result<Vec<Object>, Error> {
    let mut found = Vec::new();
    let read = objects.snapshot().by_index(index, value, &mut |object| found.push(object.clone()));
    read.map_err(|error| Error::index(&objects.resource, error))?;
    objects.started.check(&objects.resource)?;
    Ok(found)
}

fn list(objects: &Objects, namespace: &str, selector: &LabelSelector) -> Result<Vec<Object>, Error> {
    if namespace.is_empty() && selector.is_everything() {
        objects.started.check(&objects.resource)?;
        return Ok(objects.list());
    }
    let mut selected = Vec::new();
    for_each(objects, namespace, selector, &mut |object| selected.push(object.clone()))?;
    Ok(selected)
}

fn for_each(
    objects: &Objects,
    namespace: &str,
    selector: &LabelSelector,
    visit: &mut dyn FnMut(&Object),
) -> Result<(), Error> {
    objects.started.check(&objects.resource)?;
    let everything = selector.is_everything();
    let mut each = |object: &Object| {
        // Skips reading the labels if there are no requirements.
        if everything || selector.matches_object(&**object) {
            visit(object);
        }
    };
    let state = objects.snapshot();
    if namespace.is_empty() {
        state.for_each(&mut each);
    // A custom store may not have the index.
    } else if state.by_index(NAMESPACE_INDEX, namespace, &mut each).is_err() {
        state.for_each(&mut |object| {
            if object.namespace() == Some(namespace) {
                each(object);
            }
        });
    }
    Ok(())
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self::of(self.objects.clone())
    }
}

impl<K> Clone for NamespaceLister<K> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), namespace: self.namespace.clone(), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("resource", &self.objects.resource).finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for NamespaceLister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceLister")
            .field("resource", &self.objects.resource)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}
