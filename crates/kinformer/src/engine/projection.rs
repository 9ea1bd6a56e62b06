//! The source that switches from metadata to whole objects.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use kinformer_core::ResourceVersion;
use kinformer_kube::{KubeListerWatcher, PackedObject};
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, ProbeBudget, SourceError, VersionMatch, WatchEvent, WatchListSupport,
    WatchOptions, WatchStream,
};
use tokio_util::sync::CancellationToken;

/// The part of each object that is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Projection {
    Full,
    Metadata,
}

/// Whether whole objects are requested of an informer, for the sources of all its parts. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Switch {
    /// Cancelled when whole objects are requested.
    requested: CancellationToken,
}

impl Switch {
    /// Makes the sources list and watch whole objects from now on.
    pub(crate) fn request_whole(&self) {
        self.requested.cancel();
    }

    fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }
}

/// The epoch of lists of metadata.
const METADATA: u32 = 0;

/// The epoch of lists of whole objects.
pub(crate) const WHOLE_OBJECTS: u32 = 1;

/// Lists and watches metadata until whole objects are requested. A request ends the list or watch of metadata in
/// progress, and the reflector then lists and watches whole objects.
pub(crate) struct SwitchedSource {
    metadata: KubeListerWatcher<PackedObject>,
    full: KubeListerWatcher<PackedObject>,
    switch: Switch,
    /// Whether the last completed list was of whole objects; then all later lists are too.
    listed: Arc<AtomicBool>,
}

/// The prefix of the continue tokens of lists of metadata.
const METADATA_PAGE: &str = "metadata ";

/// Returns the error that ends a watch or a page of metadata, so that the reflector lists whole objects.
fn switched() -> SourceError {
    SourceError::expired("metadata was watched until now, and whole objects are requested")
}

impl SwitchedSource {
    pub(crate) fn new(
        metadata: KubeListerWatcher<PackedObject>,
        full: KubeListerWatcher<PackedObject>,
        switch: Switch,
    ) -> Self {
        let support = WatchListSupport::default();
        let metadata = metadata.watch_list_support(support.clone());
        Self { metadata, full: full.watch_list_support(support), switch, listed: Arc::default() }
    }

    fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    /// Lists metadata. Returns `None` if whole objects were requested meanwhile.
    async fn metadata_list(
        &self,
        mut options: ListOptions<PackedObject>,
    ) -> Option<Result<List<PackedObject>, SourceError>> {
        if let Some(token) = &mut options.continue_token {
            *token = token.strip_prefix(METADATA_PAGE).unwrap_or(token).to_owned();
        }
        let list = tokio::select! {
            biased;
            () = self.switch.requested.cancelled() => return None,
            list = self.metadata.list(options) => list,
        };
        let tagged = |mut list: List<PackedObject>| {
            let token = list.continue_token.filter(|token| !token.is_empty());
            list.continue_token = token.map(|token| format!("{METADATA_PAGE}{token}"));
            list
        };
        (!self.switch.is_requested()).then(|| list.map(tagged))
    }

    async fn whole_list(
        &self,
        options: ListOptions<PackedObject>,
    ) -> Result<List<PackedObject>, SourceError> {
        // A list at an exact version is only for a comparison.
        let is_compared = options.version_match == Some(VersionMatch::Exact);
        let list = self.full.list(options).await?;
        if list.continue_token.as_deref().is_none_or(str::is_empty) && !is_compared {
            self.listed.store(true, Ordering::Release);
        }
        Ok(list)
    }

    /// Watches metadata until whole objects are requested.
    async fn metadata_watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, SourceError> {
        let watch = tokio::select! {
            biased;
            () = self.switch.requested.cancelled() => return Err(switched()),
            watch = self.metadata.watch(options) => watch?,
        };
        let switch = self.switch.clone();
        let end =
            stream::once(async move { switch.is_requested().then(|| Err(switched())) }).filter_map(ready);
        Ok(watch.take_until(self.switch.requested.clone().cancelled_owned()).chain(end).fuse().boxed())
    }

    async fn whole_watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, SourceError> {
        let with_list = options.send_initial_events;
        if !with_list && !self.is_listed() {
            // The last list was one of metadata.
            return Err(switched());
        }
        let watch = self.full.watch(options).await?;
        if !with_list {
            return Ok(watch);
        }
        let listed = self.listed.clone();
        let watch = watch.inspect(move |event| {
            if let Ok(WatchEvent::Bookmark { initial_events_end: true, .. }) = event {
                listed.store(true, Ordering::Release);
            }
        });
        Ok(watch.boxed())
    }
}

#[async_trait]
impl ListerWatcher<PackedObject> for SwitchedSource {
    async fn list(&self, options: ListOptions<PackedObject>) -> Result<List<PackedObject>, SourceError> {
        let token = options.continue_token.as_deref();
        let (is_page, of_metadata) =
            (token.is_some(), token.is_some_and(|token| token.starts_with(METADATA_PAGE)));
        if !self.switch.is_requested()
            && let Some(list) = self.metadata_list(options.clone()).await
        {
            return list;
        }
        match is_page && of_metadata {
            true => Err(switched()),
            false => self.whole_list(options).await,
        }
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, SourceError> {
        match self.switch.is_requested() {
            true => self.whole_watch(options).await,
            false => self.metadata_watch(options).await,
        }
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        self.full.newest_version().await
    }

    fn probe_budget(&self) -> Option<&ProbeBudget> {
        ListerWatcher::probe_budget(&self.full)
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        ListerWatcher::watch_list_support(&self.full)
    }

    fn list_epoch(&self) -> u32 {
        if self.is_listed() { WHOLE_OBJECTS } else { METADATA }
    }
}
