//! Waits for a condition of an object.

use futures::StreamExt as _;
use kinformer_core::{KeyError, KeyRef, ObjectKey, Wait};
use kinformer_kube::{Packed, PackedRef};
use kinformer_processor::Event;

use crate::error::Error;
use crate::informer::Informer;
use crate::kind::resource_name;

/// The state that fulfils a condition.
type Found<K> = Result<Option<Packed<K>>, Error>;

impl<K: 'static> Informer<K> {
    /// Waits until an object fulfils a condition, and returns the state that does; `None` if there is no such object and the
    /// condition accepts that.
    ///
    /// The condition is called for the state in the store when the informer has synced, and for each later state that a
    /// handler would receive, with `None` after a deletion. It runs in this future. [`conditions`](crate::conditions) has
    /// some of them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default"},
    /// #     "spec": {"containers": [{"name": "web", "image": "web:1"}]}, "status": {"phase": "Running"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// use kinformer::conditions;
    ///
    /// let pod = pods.wait_for_condition("default/web-0", |pod| pod.is_some_and(conditions::is_pod_running)).await?;
    /// assert!(pod.is_some());
    /// # server.delete("v1", "Pod", "default", "web-0")?;
    /// pods.wait_for_condition("default/web-0", |pod| pod.is_none()).await?; // it was deleted
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait; nothing else changes. A later call begins with the state in the store.
    ///
    /// # Errors
    /// [`Error::ConditionNotMet`] if the informer stops or [the deadline](Wait::until) passes first; the errors of
    /// [`Self::wait_for_sync`]; [`Error::Key`] if a string is not the key of a Kubernetes object.
    ///
    /// Follows client-go 0.37 (`watch.UntilWithSync`) and kube-runtime 5 (`await_condition`), which list and watch the object
    /// for each wait.
    #[doc(alias("await_condition", "is_created", "UntilWithSync", "watch_object"))]
    pub fn wait_for_condition<'k>(
        &self,
        key: impl TryInto<KeyRef<'k>, Error: Into<KeyError>>,
        condition: impl FnMut(Option<&Packed<K>>) -> bool,
    ) -> Wait<impl Future<Output = Found<K>>, impl Fn() -> Found<K>> {
        let key = owned(key);
        let text = key.as_ref().map(ToString::to_string).unwrap_or_default();
        let at_deadline = move || {
            self.wait_for_sync().at_deadline()?;
            Err(self.not_met(&text, false))
        };
        let wait = async move {
            let key = key?;
            self.wait_for_sync().await?;
            self.next_match(&key, condition).await
        };
        Wait::new(wait, at_deadline)
    }

    async fn next_match(
        &self,
        key: &ObjectKey,
        mut condition: impl FnMut(Option<&Packed<K>>) -> bool,
    ) -> Found<K> {
        let of_key = key.clone();
        let is_of_key = move |object: PackedRef<'_, K>| object.key() == KeyRef::from(&of_key);
        // The name is in metrics, which must not have keys.
        let mut events = self.handler().name("wait").filter(is_of_key).stream()?;
        // Events of states that are not newer than this one are skipped.
        let snapshot = self.snapshot()?;
        let stored = snapshot.get(key).map(|object| object.into_owned());
        let revision = snapshot.revision();
        drop(snapshot);
        if condition(stored.as_ref()) {
            return Ok(stored);
        }
        while let Some(event) = events.next().await {
            if event.revision() <= revision {
                continue;
            }
            let state = match &event {
                Event::Deleted(_) => None,
                // Its state is unknown until it comes back.
                Event::Left(_) => continue,
                event => event.object().cloned(),
            };
            if condition(state.as_ref()) {
                return Ok(state);
            }
        }
        Err(self.not_met(&key.to_string(), true))
    }

    fn not_met(&self, key: &str, is_stopped: bool) -> Error {
        let resource = resource_name(self.selection().api_resource()).into();
        Error::ConditionNotMet { resource, key: key.to_owned(), is_stopped }
    }
}

fn owned<'k>(key: impl TryInto<KeyRef<'k>, Error: Into<KeyError>>) -> Result<ObjectKey, Error> {
    Ok(ObjectKey::try_from(key.try_into().map_err(Into::into)?)?)
}
