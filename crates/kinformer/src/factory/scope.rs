//! Changes of the scope of all informers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use futures::stream::{FuturesUnordered, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kinformer_core::{KeyRef, ResourceVersion};
use kinformer_kube::LabelSelector;
use kube_core::metadata::PartialObjectMeta;
use tokio::time::timeout;

use crate::error::Error;
use crate::factory::SharedInformerFactory;
use crate::scope::Scope;
use crate::snapshot::Snapshot;

/// How long a deleted namespace stays in scope at most. Longer than the time between two bookmarks, which is a minute.
const LAST_EVENTS: Duration = Duration::from_secs(90);

impl SharedInformerFactory {
    /// Changes the scope of all informers, also of those that are requested later: see
    /// [`Informer::set_scope`](crate::Informer::set_scope). The informers of cluster-scoped resources stay as they are, and so
    /// do those with sources of the program.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = kinformer::client(kube_client::Config::new("http://localhost".parse()?))?;
    /// # let factory = kinformer::SharedInformerFactory::new(client);
    /// use kinformer::Scope;
    ///
    /// let pods = factory.core().v1().pods();
    /// factory.set_scope(&Scope::namespaces(["team-a"])).await?;
    /// let maps = factory.core().v1().config_maps(); // requested later
    /// assert!(pods.selection().has_namespace("team-a") && !pods.selection().has_namespace("team-b"));
    /// assert!(!maps.selection().has_namespace("team-b"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first error of an informer that has not stopped; the others have changed.
    ///
    /// # Cancel safety
    /// Informers that are requested later have the scope. Of the others, those that wait for an earlier change may keep
    /// their scope if the future is dropped.
    pub async fn set_scope(&self, scope: &Scope) -> Result<(), Error> {
        *self.inner.options.scope.lock() = Some(scope.clone());
        let informers = self.entries().into_iter().filter_map(|entry| entry.kube_informer().cloned());
        let changing = informers.filter(|informer| !informer.has_fixed_scope());
        let changes = changing.map(|informer| async move {
            match informer.set_scope(scope).await {
                Err(Error::Informer(kinformer_shared_informer::Error::Stopped { .. })) => Ok(()),
                changed => changed,
            }
        });
        join_all(changes).await.into_iter().collect()
    }
}

impl SharedInformerFactory {
    /// Makes the scope of all informers follow the namespaces that a label selector matches: `scope` with those of its
    /// namespaces. Until the namespaces are known, the scope stays as it is, or is empty if the factory was not started. They come
    /// from the informer of the metadata of namespaces, which the factory starts as its others: a refused request is its error,
    /// and the scope stays as it is.
    ///
    /// The scope follows while the returned future is polled, so spawn it. It ends when the informer of namespaces stops.
    /// A namespace that no longer matches leaves the scope. One that is being deleted stays in it, and so do its objects until they
    /// are deleted, one by one. After it is gone, it leaves the scope when its part has reached the version of its deletion, or
    /// after 90 s if it does not, so that its objects are delivered as deleted and not as left.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// use kinformer::Scope;
    ///
    /// let maps = factory.core().v1().config_maps();
    /// tokio::spawn(factory.follow_namespaces("team=a", Scope::all_but(["kube-system"]))?);
    /// factory.start()?;
    /// # maps.wait_for_sync().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Selector`] if the selector is invalid. The future returns the first error of [`Self::set_scope`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the scope stays as it is.
    pub fn follow_namespaces(
        &self,
        selector: &str,
        scope: Scope,
    ) -> Result<impl Future<Output = Result<(), Error>> + Send + 'static, Error> {
        let selector: LabelSelector = selector.parse()?;
        let (factory, namespaces) = (self.clone(), self.metadata::<Namespace>().lease());
        if !self.is_started() {
            // Requested by the first poll.
            _ = self.set_scope(&scope.within([])).now_or_never();
        }
        Ok(async move {
            let mut followed = Followed::new(factory, selector);
            let mut revision = 0;
            loop {
                tokio::select! {
                    biased;
                    changed = namespaces.changed(revision) => match changed {
                        true => revision = followed.update(&namespaces.snapshot()?),
                        false => return Ok(()),
                    },
                    Some(name) = followed.last_events.next() => followed.ended(&name),
                }
                let names = followed.matching.iter().chain(&followed.deleted).cloned();
                followed.factory.set_scope(&scope.within(names)).await?;
            }
        })
    }

    /// Waits until all running informers have the objects of a namespace at a version, or do not have the namespace.
    async fn reached(&self, namespace: &str, version: &ResourceVersion) {
        let informers = self.entries().into_iter().filter_map(|entry| entry.kube_informer().cloned());
        let reached = informers.map(|informer| async move { informer.reached(namespace, version).await });
        join_all(reached).await;
    }
}

/// The namespaces that a scope follows.
struct Followed {
    factory: SharedInformerFactory,
    selector: LabelSelector,
    /// Those that the selector matches.
    matching: BTreeSet<Arc<str>>,
    /// Those that are gone, with events that may still arrive. One that was deleted several times is in it as often.
    deleted: Vec<Arc<str>>,
    /// The ends of their events.
    last_events: FuturesUnordered<BoxFuture<'static, Arc<str>>>,
}

impl Followed {
    fn new(factory: SharedInformerFactory, selector: LabelSelector) -> Self {
        let (matching, deleted, last_events) = Default::default();
        Self { factory, selector, matching, deleted, last_events }
    }

    /// Takes the namespaces of a snapshot. Returns its revision.
    fn update(&mut self, snapshot: &Snapshot<PartialObjectMeta<Namespace>>) -> u64 {
        let matching = snapshot.iter().filter(|one| self.selector.matches_object(&**one.object()));
        let matching: BTreeSet<Arc<str>> = matching.map(|one| one.key().name().into()).collect();
        let before = std::mem::replace(&mut self.matching, matching);
        let mut version = ResourceVersion::UNSET;
        snapshot.resource_versions().iter().for_each(|(_, reached)| version.advance(reached));
        for name in before.into_iter().filter(|name| !snapshot.contains(KeyRef::named(name))) {
            let (factory, name, version) = (self.factory.clone(), name.clone(), version.clone());
            self.deleted.push(name.clone());
            self.last_events.push(Box::pin(async move {
                // A refused request, or versions that cannot be compared, must not keep it in scope.
                _ = timeout(LAST_EVENTS, factory.reached(&name, &version)).await;
                name
            }));
        }
        snapshot.revision()
    }

    /// The last events of a deleted namespace have arrived.
    fn ended(&mut self, name: &str) {
        if let Some(index) = self.deleted.iter().position(|deleted| **deleted == *name) {
            self.deleted.swap_remove(index);
        }
    }
}
