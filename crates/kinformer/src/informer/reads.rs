//! Reads of the stored objects, their indexes, and their decoding.

use std::sync::Arc;

use kinformer_core::BoxError;
use kinformer_kube::{DecodeAs, FieldPath, PackedObject, PackedRef};
use kinformer_store::IndexValues;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::index_by_field::by_field;
use crate::informer::Informer;
use crate::kube_informer::KubeInformer;
use crate::lister::Lister;
use crate::snapshot::Snapshot;

impl<K> Informer<K> {
    /// Returns a lister of the stored objects.
    ///
    /// ```
    /// # use kinformer::Informer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(pods: &Informer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
    /// let pod = pods.lister().get("default/web-0")?;
    /// println!("{:?}", pod.decode()?.spec);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "GetIndexer")]
    pub fn lister(&self) -> Lister<K> {
        Lister::of(self.kube().objects())
    }

    /// Returns a snapshot of the stored objects. O(1).
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
    /// let before = pods.snapshot()?;
    /// let written = server.create(pod("web-1"))?;
    /// let version = written["metadata"]["resourceVersion"].as_str().ok_or("no version")?;
    /// pods.wait_for(("default", "web-1"), &version.into()).await?;
    /// assert_eq!((before.len(), pods.snapshot()?.len()), (1, 2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotStarted`] if the informer was never started.
    #[doc(alias("GetIndexer", "GetStore"))]
    pub fn snapshot(&self) -> Result<Snapshot<K>, Error> {
        let informer = self.started()?;
        Ok(Snapshot::new(informer.snapshot(), informer.resource().clone()))
    }

    /// The informer, for a read of its store.
    fn started(&self) -> Result<&KubeInformer, Error> {
        let informer = self.kube();
        informer.started().check(informer.resource())?;
        Ok(informer)
    }

    /// Adds an index by the values that `function` returns for an object. May be called before and after the start.
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
    /// pods.index("app", |pod, values| {
    ///     if let Some(app) = pod.label("app") {
    ///         values.push(app);
    ///     }
    ///     Ok(())
    /// })?;
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// assert_eq!(pods.lister().by_index("app", "web")?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InformerError::Indexers`](crate::InformerError::Indexers) if the informer has an index of this name, which is unchanged. [`InformerError::Stopped`](crate::InformerError::Stopped) if the
    /// informer has stopped.
    ///
    /// Follows client-go 0.37 (`AddIndexers`).
    #[doc(alias("AddIndexers", "FieldIndexer", "state_filter"))]
    pub fn index(
        &self,
        name: impl Into<Arc<str>>,
        function: impl Fn(PackedRef<'_, K>, &mut IndexValues) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Result<(), Error>
    where
        K: 'static,
    {
        let index = Box::new(move |object: &Arc<PackedObject>, values: &mut IndexValues| {
            function(PackedRef::new(object), values)
        });
        Ok(self.kube().add_index(name.into(), index)?)
    }

    /// Adds an index by one field: `index_by_field("node", &["spec", "nodeName"])`. Only that field of an object is
    /// decoded.
    ///
    /// The path has the field names of the JSON form, in both encodings and also within JSON in protobuf. The value is
    /// a string, a number or a boolean, the same in both encodings and as in the decoded object. An object in which the
    /// field is missing or null has no value in the index. An object that is broken, or in which the field has another
    /// type, is reported and is not in the index.
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
    /// pods.index_by_field("node", &["spec", "nodeName"])?;
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// assert_eq!(pods.lister().by_index("node", "node-1")?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::index`].
    ///
    /// Follows controller-runtime 0.25 (`FieldIndexer`).
    #[doc(alias("AddIndexers", "FieldIndexer"))]
    pub fn index_by_field(&self, name: impl Into<Arc<str>>, path: &[&str]) -> Result<(), Error> {
        let (name, path) = (name.into(), FieldPath::new(path));
        Ok(self.kube().add_field_index(name, path.clone(), by_field(path))?)
    }

    /// The path of an index that was added by [`Self::index_by_field`]; `None` for other indexes.
    pub fn field_path(&self, index: &str) -> Option<FieldPath> {
        self.kube().field_path(index)
    }

    /// Decodes every object as a `K` when it arrives, and keeps the value: for kinds whose objects are read all the
    /// time. Objects that are already stored are decoded by this call. By default objects are decoded when they are
    /// read.
    ///
    /// The setting applies to the informer and all its views, and cannot be undone. One value is kept for each object:
    /// it has the type for which this was called first, by any view or
    /// [option](crate::SharedInformerFactoryBuilder::decode). Other types are decoded when they are read.
    ///
    /// An object whose decoding fails or panics is logged, reported to the factory's [error
    /// hook](crate::SharedInformerFactoryBuilder::on_error), [counted](crate::InformerStatus::undecoded), and stored and delivered
    /// anyway: other views can read it, and [`Packed::decode`](crate::Packed::decode) returns the error.
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
    /// pods.decode_on_arrival();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// assert!(pods.lister().get(("default", "web-0"))?.is_decoded());
    /// # Ok(())
    /// # }
    /// ```
    pub fn decode_on_arrival(&self) -> &Self
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        self.kube().decode_on_arrival(DecodeAs::of::<K>());
        self
    }
}
