//! The state of an informer's lists and watches, and its metrics.

use std::sync::Arc;

use kinformer_reflector::SourceError;
use kinformer_shared_informer::{InformerMetrics, Part, Phase};

use crate::informer::Informer;
use crate::kube_informer::KubeInformer;
use crate::selection::NamespaceWatches;

impl<K> Informer<K> {
    /// The state of the informer and of its lists and watches.
    pub fn status(&self) -> InformerStatus<'_> {
        InformerStatus { informer: self.kube() }
    }

    /// Adds the informer to a collector of metrics.
    ///
    /// # Errors
    /// [`InformerError::DuplicateMetrics`](crate::InformerError::DuplicateMetrics) if an informer with the same name, resource, cluster and scope is registered.
    #[cfg(feature = "prometheus")]
    pub fn add_to(
        &self,
        collector: &kinformer_shared_informer::prometheus::InformerCollector,
    ) -> Result<(), crate::Error> {
        Ok(self.kube().add_to(collector)?)
    }
}

/// The state of an informer and of its lists and watches. Each method returns the current state. From
/// [`Informer::status`].
///
/// ```
/// # fn example(pods: &kinformer::Informer<()>) {
/// let status = pods.status();
/// if let Some(error) = status.not_served() {
///     println!("the server has no such resource: {error}");
/// }
/// for part in status.parts().iter().filter(|part| !part.is_listed()) {
///     println!("{:?} was not listed yet", part.name()); // a namespace, if the informer has some
/// }
/// # }
/// ```
#[derive(Clone, Copy)]
#[must_use]
pub struct InformerStatus<'a> {
    informer: &'a KubeInformer,
}

impl<'a> InformerStatus<'a> {
    /// The phase of the informer: not started, running or stopped.
    pub fn phase(&self) -> Phase {
        self.informer.phase()
    }

    /// Whether the informer has stopped.
    pub fn is_stopped(&self) -> bool {
        self.phase() == Phase::Stopped
    }

    /// The present parts of the informer: one for each namespace that it is restricted to, one for [several of
    /// them](NamespaceWatches::One), or a single part. Each part has
    /// its own reflector.
    pub fn parts(&self) -> Arc<[Part]> {
        self.informer.parts()
    }

    /// How the namespaces of the scope are watched, each or by one watch, and why. `None` if the scope is no set of namespaces, or
    /// was not [set](Informer::set_scope): namespaces of the options have a watch each.
    pub fn namespace_watches(&self) -> Option<NamespaceWatches> {
        self.informer.namespace_watches()
    }

    /// Returns the error of the server while it does not serve the resource (404): its CustomResourceDefinition was deleted
    /// or is not installed, or the version is not served. Returns [`SourceError::OtherScope`] while the definition has another
    /// scope that the namespaces of the informer do not fit. Returns `None` otherwise.
    ///
    /// The informer continues: it requests the resource at most once a minute, and when [`Self::retry_if_not_served`] is
    /// called. It lists the resource when it is served again, with any schema. The store keeps its objects
    /// for 10 minutes; [`ReflectorHandle::not_served`](kinformer_reflector::ReflectorHandle::not_served) has the details.
    pub fn not_served(&self) -> Option<Arc<SourceError>> {
        self.parts().iter().find_map(|part| part.reflector().not_served())
    }

    /// Returns the error with which the server refuses to watch the resource, while it does: the store is then only as fresh
    /// as the last list. Returns `None` otherwise. See
    /// [`ReflectorHandle::not_watchable`](kinformer_reflector::ReflectorHandle::not_watchable).
    pub fn not_watchable(&self) -> Option<Arc<SourceError>> {
        self.parts().iter().find_map(|part| part.reflector().not_watchable())
    }

    /// Makes an informer whose resource is [not served](Self::not_served) request it now, at most once a second. Has no effect
    /// on other informers. See
    /// [`ReflectorHandle::retry_if_not_served`](kinformer_reflector::ReflectorHandle::retry_if_not_served).
    pub fn retry_if_not_served(&self) {
        self.parts().iter().for_each(|part| part.reflector().retry_if_not_served());
    }

    /// The number of objects that could not be [decoded on arrival](Informer::decode_on_arrival).
    pub fn undecoded(&self) -> u64 {
        self.informer.undecoded()
    }

    /// The current metrics of the informer.
    pub fn metrics(&self) -> InformerMetrics {
        self.informer.metrics()
    }

    /// How many bytes of memory the objects in the store take, as they were received: the encoded objects, their parsed
    /// metadata, and 72 bytes each. Values that were decoded on read, the store and its indexes are not counted. `None` if
    /// an object was [decoded on arrival](Informer::decode_on_arrival), since the size of its value is unknown.
    ///
    /// O(objects): the objects of a snapshot are added up, without a lock.
    pub fn bytes(&self) -> Option<u64> {
        self.informer.bytes()
    }
}
