//! Lists of what is mostly known already.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::ready;
use futures::stream::StreamExt;
use kinformer_core::{Object, ResourceVersion, ask};
use kinformer_reflector::{
    ApiError, List, ListOptions, ListerWatcher, ProbeBudget, WatchEvent, WatchListSupport, WatchOptions,
    WatchStream,
};
use kinformer_store::Indexer;

/// A source whose lists hold the store's own objects wherever they have not changed: so that listing everything again
/// takes the memory of what has.
pub(crate) struct Reusing<T: Object> {
    pub(crate) source: Arc<dyn ListerWatcher<T>>,
    pub(crate) store: Arc<Indexer<T>>,
}

#[async_trait]
impl<T: Object> ListerWatcher<T> for Reusing<T> {
    async fn list(&self, options: ListOptions) -> Result<List<T>, ApiError> {
        self.list_each(options, &mut |object| object).await
    }

    async fn list_each(
        &self,
        options: ListOptions,
        each: &mut (dyn FnMut(Arc<T>) -> Arc<T> + Send),
    ) -> Result<List<T>, ApiError> {
        self.source.list_each(options, &mut |object| each(known(&self.store, object))).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<T>, ApiError> {
        let lists = options.send_initial_events;
        let events = self.source.watch(options).await?;
        if !lists {
            return Ok(events);
        }
        let store = self.store.clone();
        let until_the_end = events.scan(true, move |listing, event| {
            let event = match event {
                Ok(WatchEvent::Added(object)) if *listing => Ok(WatchEvent::Added(known(&store, object))),
                Ok(WatchEvent::Bookmark { initial_events_end: true, .. }) => {
                    *listing = false;
                    event
                }
                event => event,
            };
            ready(Some(event))
        });
        Ok(until_the_end.boxed())
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, ApiError> {
        self.source.newest_version().await
    }

    fn probe_budget(&self) -> Option<&ProbeBudget> {
        self.source.probe_budget()
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        self.source.watch_list_support()
    }
}

/// The store's object if it is known to be the same, which takes a UID and a version: other sources may mean less by a
/// version than an API server does.
fn known<T: Object>(store: &Indexer<T>, object: Arc<T>) -> Arc<T> {
    let known = ask(|| {
        let known = store.get_by_key(object.key())?;
        is_same_state(&*known, &*object).then_some(known)
    });
    // One that panics when it is asked is left out where it is stored.
    known.ok().flatten().unwrap_or(object)
}

/// Whether the two are known to be one state of one object. Without a UID a version may mean anything.
fn is_same_state<T: Object>(known: &T, object: &T) -> bool {
    let version = object.resource_version();
    object.uid().is_some()
        && object.uid() == known.uid()
        && !version.is_unset()
        && version == known.resource_version()
        && known.has_same_content(object) != Some(false)
}
