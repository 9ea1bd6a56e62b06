//! The user's own informers, in place of those of the factory.

use std::fmt;

use async_trait::async_trait;
use kinformer_kube::{KubeListerWatcher, PackedObject};
use kinformer_reflector::{List, ListOptions, ListerWatcher, SourceError, WatchOptions, WatchStream};
use kinformer_shared_informer::{Error, SharedIndexInformerBuilder, Sources};
use kube_core::discovery::ApiResource;

use crate::selection::{self, Selected};

/// Makes the user's own informer of a resource.
pub(crate) type MakeInformer =
    dyn Fn(NewInformer<'_>) -> SharedIndexInformerBuilder<PackedObject> + Send + Sync;

/// A new informer of Kubernetes objects, as the factory would create it: see
/// [`ResourceOptions::informer`](crate::ResourceOptions::informer).
pub struct NewInformer<'a> {
    pub(crate) resource: &'a ApiResource,
    pub(crate) parts: &'a [Selected],
    pub(crate) source: &'a dyn Fn(&Selected) -> KubeListerWatcher<PackedObject>,
    pub(crate) builder: &'a dyn Fn(Sources<PackedObject>) -> SharedIndexInformerBuilder<PackedObject>,
}

impl NewInformer<'_> {
    /// The resource.
    pub fn resource(&self) -> &ApiResource {
        self.resource
    }

    /// Returns the sources of the factory, each changed by a function: one for each namespace that the resource is
    /// restricted to, with its selectors, else one.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kinformer::{Encoding, SharedInformerFactoryBuilder};
    ///
    /// # fn example(builder: SharedInformerFactoryBuilder) {
    /// builder.of_kind::<Pod>(|pods| {
    ///     pods.informer(|new| new.builder(new.sources(|source| source.encoding(Encoding::Json))))
    /// });
    /// # }
    /// ```
    pub fn sources<S: ListerWatcher<PackedObject> + 'static>(
        &self,
        mut change: impl FnMut(KubeListerWatcher<PackedObject>) -> S,
    ) -> Sources<PackedObject> {
        selection::sources(self.parts, |part| change((self.source)(part)))
    }

    /// Returns an informer builder with the options of the factory and of the resource: name, resync period, transform,
    /// queue, reflector, error hook and grace period. The options of requests, such as selectors, dropped fields and the
    /// encoding, are in [`Self::sources`].
    pub fn builder(&self, sources: Sources<PackedObject>) -> SharedIndexInformerBuilder<PackedObject> {
        (self.builder)(sources)
    }
}

impl fmt::Debug for NewInformer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewInformer").field("resource", self.resource).finish_non_exhaustive()
    }
}

/// The source of an informer whose builder was refused: all requests fail with the error.
pub(crate) struct NotBuilt(pub(crate) Error);

impl NotBuilt {
    fn error(&self) -> SourceError {
        SourceError::other(self.0.clone())
    }
}

#[async_trait]
impl ListerWatcher<PackedObject> for NotBuilt {
    async fn list(&self, _: ListOptions<PackedObject>) -> Result<List<PackedObject>, SourceError> {
        Err(self.error())
    }

    async fn watch(&self, _: WatchOptions) -> Result<WatchStream<PackedObject>, SourceError> {
        Err(self.error())
    }
}
