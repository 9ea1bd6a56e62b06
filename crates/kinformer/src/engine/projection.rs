//! What is fetched of each object, and the source that changes it.

use std::cmp::Ordering::Greater;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use kinformer_core::{PartId, ResourceVersion};
use kinformer_kube::{KubeListerWatcher, PackedObject};
use kinformer_reflector::{
    ApiError, List, ListOptions, ListerWatcher, ProbeBudget, WatchEvent, WatchListSupport, WatchOptions,
    WatchStream,
};
use kinformer_store::{NAMESPACE_INDEX, Snapshot};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// What is fetched of each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Projection {
    Whole,
    Metadata,
}

/// The projection of one source: metadata until whole objects are requested, and whole objects from then on.
pub(crate) struct Switch {
    /// Cancelled when whole objects are requested.
    whole: CancellationToken,
    /// The only namespace of the objects, if the informer has a source for each of several.
    namespace: Option<Arc<str>>,
    /// How many objects the last complete list of whole objects has, and its version.
    listed: Mutex<Option<(usize, ResourceVersion)>>,
    /// A list of whole objects has been stored.
    stored: AtomicBool,
}

impl Switch {
    fn is_whole(&self) -> bool {
        self.whole.is_cancelled()
    }

    /// Whether a list of whole objects has been stored. Lists are stored as a whole, and a list of nothing leaves nothing that
    /// a reader of whole objects could miss. Of a list whose objects are all gone again, or were left out, the version of
    /// the part says so.
    fn is_stored(&self, part: PartId, snapshot: &Snapshot<PackedObject>) -> bool {
        if self.stored.load(Ordering::Acquire) {
            return true;
        }
        let Some((objects, version)) = self.listed.lock().clone() else { return false };
        let is_whole = |object: &Arc<PackedObject>| !object.is_metadata_only();
        let has_whole = || match &self.namespace {
            None => snapshot.iter().any(is_whole),
            Some(namespace) => {
                snapshot.by_index(NAMESPACE_INDEX, namespace).is_ok_and(|mut objects| objects.any(is_whole))
            }
        };
        let is_past = || snapshot.resource_versions().of(part).compare(&version) == Some(Greater);
        let stored = objects == 0 || has_whole() || is_past();
        self.stored.store(stored, Ordering::Release);
        stored
    }

    fn listed(&self, objects: usize, version: ResourceVersion) {
        *self.listed.lock() = Some((objects, version));
    }

    fn is_listed(&self) -> bool {
        self.listed.lock().is_some()
    }
}

/// The switches of all sources of an informer.
#[derive(Clone, Default)]
pub(crate) struct Switches {
    whole: CancellationToken,
    switches: Vec<Arc<Switch>>,
}

impl Switches {
    /// The switch of another source: of the objects of this namespace, if the informer has a source for each of several.
    pub(crate) fn add(&mut self, namespace: Option<Arc<str>>) -> Arc<Switch> {
        let (whole, listed, stored) = (self.whole.clone(), Mutex::default(), AtomicBool::new(false));
        let switch = Switch { whole, namespace, listed, stored };
        let switch = Arc::new(switch);
        self.switches.push(switch.clone());
        switch
    }

    /// From now on whole objects are listed and watched.
    pub(crate) fn request_whole(&self) {
        self.whole.cancel();
    }

    /// Whether the list of whole objects of this source is stored.
    pub(crate) fn is_stored(&self, part: PartId, snapshot: &Snapshot<PackedObject>) -> bool {
        let switch = self.switches.get(part.number() as usize);
        switch.is_some_and(|switch| switch.is_stored(part, snapshot))
    }
}

/// Lists and watches metadata until whole objects are requested. A request then ends what is on its way: the reflector
/// lists whole objects, and watches these.
pub(crate) struct SwitchedSource {
    metadata: KubeListerWatcher<PackedObject>,
    whole: KubeListerWatcher<PackedObject>,
    switch: Arc<Switch>,
    /// How many objects there are on the pages of the list of whole objects that is on its way.
    on_pages: AtomicUsize,
}

/// Stands before the continue tokens of lists of metadata.
const METADATA_PAGE: &str = "metadata ";

/// The watch or the page cannot be continued: a list of whole objects has to come first.
fn switched() -> ApiError {
    ApiError::expired("metadata was watched until now, and whole objects are requested")
}

impl SwitchedSource {
    pub(crate) fn new(
        metadata: KubeListerWatcher<PackedObject>,
        whole: KubeListerWatcher<PackedObject>,
        switch: Arc<Switch>,
    ) -> Self {
        let support = WatchListSupport::default();
        let (metadata, whole) = (metadata.sharing(support.clone()), whole.sharing(support));
        Self { metadata, whole, switch, on_pages: AtomicUsize::new(0) }
    }

    /// `None` if whole objects were requested meanwhile.
    async fn metadata_list(
        &self,
        mut options: ListOptions<PackedObject>,
    ) -> Option<Result<List<PackedObject>, ApiError>> {
        if let Some(token) = &mut options.continue_token {
            *token = token.strip_prefix(METADATA_PAGE).unwrap_or(token).to_owned();
        }
        let list = tokio::select! {
            biased;
            () = self.switch.whole.cancelled() => return None,
            list = self.metadata.list(options) => list,
        };
        let tagged = |mut list: List<PackedObject>| {
            let token = list.continue_token.filter(|token| !token.is_empty());
            list.continue_token = token.map(|token| format!("{METADATA_PAGE}{token}"));
            list
        };
        (!self.switch.is_whole()).then(|| list.map(tagged))
    }

    async fn whole_list(&self, options: ListOptions<PackedObject>) -> Result<List<PackedObject>, ApiError> {
        let is_first = options.continue_token.is_none();
        let list = self.whole.list(options).await?;
        let before = if is_first { 0 } else { self.on_pages.load(Ordering::Relaxed) };
        let objects = before.saturating_add(list.objects.len());
        self.on_pages.store(objects, Ordering::Relaxed);
        if list.continue_token.is_none() {
            self.switch.listed(objects, list.resource_version.clone());
        }
        Ok(list)
    }

    /// A watch that ends when whole objects are requested.
    async fn metadata_watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, ApiError> {
        let watch = tokio::select! {
            biased;
            () = self.switch.whole.cancelled() => return Err(switched()),
            watch = self.metadata.watch(options) => watch?,
        };
        let switch = self.switch.clone();
        let end = stream::once(async move { switch.is_whole().then(|| Err(switched())) }).filter_map(ready);
        Ok(watch.take_until(self.switch.whole.clone().cancelled_owned()).chain(end).fuse().boxed())
    }

    async fn whole_watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, ApiError> {
        let with_list = options.send_initial_events;
        if !with_list && !self.switch.is_listed() {
            // The last list was one of metadata.
            return Err(switched());
        }
        let watch = self.whole.watch(options).await?;
        if !with_list {
            return Ok(watch);
        }
        let (switch, mut objects) = (self.switch.clone(), Some(0));
        let counted = watch.inspect(move |event| match event {
            Ok(WatchEvent::Added(_)) => objects = objects.map(|objects: usize| objects + 1),
            Ok(WatchEvent::Deleted(_)) => objects = objects.map(|objects| objects.saturating_sub(1)),
            Ok(WatchEvent::Bookmark { initial_events_end: true, version }) => {
                if let Some(objects) = objects.take() {
                    switch.listed(objects, version.clone());
                }
            }
            _ => {}
        });
        Ok(counted.boxed())
    }
}

#[async_trait]
impl ListerWatcher<PackedObject> for SwitchedSource {
    async fn list(&self, options: ListOptions<PackedObject>) -> Result<List<PackedObject>, ApiError> {
        let token = options.continue_token.as_deref();
        let (is_page, of_metadata) =
            (token.is_some(), token.is_some_and(|token| token.starts_with(METADATA_PAGE)));
        if !self.switch.is_whole()
            && let Some(list) = self.metadata_list(options.clone()).await
        {
            return list;
        }
        match is_page && of_metadata {
            true => Err(switched()),
            false => self.whole_list(options).await,
        }
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, ApiError> {
        match self.switch.is_whole() {
            true => self.whole_watch(options).await,
            false => self.metadata_watch(options).await,
        }
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, ApiError> {
        self.whole.newest_version().await
    }

    fn probe_budget(&self) -> Option<&ProbeBudget> {
        ListerWatcher::probe_budget(&self.whole)
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        self.whole.watch_list_support()
    }
}
