//! What an informer fetches: whole objects, or only their metadata.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use kinformer_core::ResourceVersion;
use kinformer_kube::{KubeListerWatcher, PackedObject};
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, ProbeBudget, SourceError, WatchListSupport, WatchOptions, WatchStream,
};

/// The part of each object that an informer fetches.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = kinformer::client(kube_client::Config::new("http://localhost".parse()?))?;
/// # let factory = kinformer::SharedInformerFactory::new(client);
/// use k8s_openapi::api::core::v1::Secret;
/// use kinformer::Projection;
///
/// let names = factory.metadata::<Secret>();
/// assert_eq!(names.selection().projection(), Projection::Metadata);
/// let lister = factory.informer::<Secret>().lister(); // requested before the start
/// assert_eq!(names.selection().projection(), Projection::Whole, "one informer serves both");
/// # _ = lister;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Projection {
    /// The whole object.
    Whole,
    /// Only the metadata.
    Metadata,
}

impl Projection {
    /// Returns a name with the projection: `pods`, `pods (metadata)`.
    pub(crate) fn named(self, name: String) -> String {
        match self {
            Self::Whole => name,
            Self::Metadata => format!("{name} (metadata)"),
        }
    }
}

/// The projection of one informer, which is decided when it starts. Clones are the same decision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decision(Arc<OnceLock<Projection>>);

impl Decision {
    /// Decides for whole objects, unless the informer has started with metadata. Returns whether they are fetched.
    pub(crate) fn request_whole(&self) -> bool {
        *self.0.get_or_init(|| Projection::Whole) == Projection::Whole
    }

    /// Called at the start: decides for metadata, unless whole objects were requested before.
    pub(crate) fn start(&self) -> Projection {
        *self.0.get_or_init(|| Projection::Metadata)
    }

    /// The projection now. Before the start, a request may still change metadata to whole objects.
    pub(crate) fn get(&self) -> Projection {
        self.0.get().copied().unwrap_or(Projection::Metadata)
    }
}

/// The source of an informer that was requested for metadata, and may be requested for whole objects until it starts.
pub(crate) struct ProjectedSource {
    metadata: KubeListerWatcher<PackedObject>,
    whole: KubeListerWatcher<PackedObject>,
    decision: Decision,
}

impl ProjectedSource {
    pub(crate) fn new(
        source: impl Fn(Projection) -> KubeListerWatcher<PackedObject>,
        decision: Decision,
    ) -> Self {
        Self { metadata: source(Projection::Metadata), whole: source(Projection::Whole), decision }
    }

    /// The source of the requests, which are sent after the start.
    fn decided(&self) -> &KubeListerWatcher<PackedObject> {
        match self.decision.start() {
            Projection::Whole => &self.whole,
            Projection::Metadata => &self.metadata,
        }
    }
}

#[async_trait]
impl ListerWatcher<PackedObject> for ProjectedSource {
    async fn list(&self, options: ListOptions<PackedObject>) -> Result<List<PackedObject>, SourceError> {
        self.decided().list(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, SourceError> {
        self.decided().watch(options).await
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        self.decided().newest_version().await
    }

    // The limits of a server, which both sources have.
    fn probe_budget(&self) -> Option<&ProbeBudget> {
        ListerWatcher::probe_budget(&self.whole)
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        ListerWatcher::watch_list_support(&self.whole)
    }
}
