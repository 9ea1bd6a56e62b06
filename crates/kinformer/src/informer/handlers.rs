//! The handlers of an informer.

use kinformer_kube::PackedRef;
use kinformer_processor::{Event, Registration};

use crate::Error;
use crate::handler::{EventStream, HandlerBuilder};
use crate::informer::Informer;

impl<K> Informer<K> {
    /// Returns a builder for a handler with a name, resync period, buffer or filter of its own.
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
    /// let (sender, mut names) = tokio::sync::mpsc::unbounded_channel();
    /// let handler = pods.handler().name("names").for_each(move |event| {
    ///     _ = sender.send(event.key().name().to_owned());
    /// })?;
    /// handler.synced().await?; // all stored objects were delivered
    /// assert_eq!(names.try_recv()?, "web-0");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("AddEventHandler", "AddEventHandlerWithOptions"))]
    pub fn handler(&self) -> HandlerBuilder<'_, K>
    where
        K: 'static,
    {
        HandlerBuilder::new(self.kube())
    }

    /// Adds a handler with default options: see [`HandlerBuilder::for_each`].
    ///
    /// # Errors
    /// [`InformerError::Stopped`](crate::InformerError::Stopped) if the informer has stopped.
    #[doc(alias("applied_objects", "touched_objects"))]
    pub fn for_each(
        &self,
        handler: impl FnMut(Event<PackedRef<'_, K>>) + Send + 'static,
    ) -> Result<Registration, Error>
    where
        K: 'static,
    {
        self.handler().for_each(handler)
    }

    /// Returns all events as a stream: see [`HandlerBuilder::stream`].
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
    /// use futures::StreamExt;
    /// use kinformer::Event;
    ///
    /// let mut events = pods.stream()?;
    /// let Some(Event::Added(added)) = events.next().await else { panic!("no addition") };
    /// assert_eq!(added.object.name(), "web-0");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InformerError::Stopped`](crate::InformerError::Stopped) if the informer has stopped.
    #[doc(alias("applied_objects", "ReflectHandle", "store_shared", "touched_objects"))]
    #[track_caller]
    pub fn stream(&self) -> Result<EventStream<K>, Error>
    where
        K: 'static,
    {
        self.handler().stream()
    }

    /// Removes a handler of this informer and waits until its running callback has returned. Returns `false`, without
    /// any effect, if the handler belongs to another informer or was removed before.
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
    /// let handler = pods.handler().for_each(|event| println!("{}", event.key()))?;
    /// assert!(pods.remove_handler(&handler).await);
    /// assert!(!pods.remove_handler(&handler).await);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// The first poll removes the handler. Dropping the future then only ends the wait for its running callback.
    #[doc(alias = "RemoveEventHandler")]
    pub async fn remove_handler(&self, registration: &Registration) -> bool {
        self.kube().remove_handler(registration).await
    }
}
