//! The source of a reflector.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use kinformer_core::{Object, ResourceVersion};

use crate::{ApiError, DecodeError, ProbeBudget, WatchEvent};

/// The events of one watch. Dropping it ends the watch. The streams of this workspace's sources are fused; the reflector
/// polls no stream after its end.
pub type WatchStream<T> = BoxStream<'static, Result<WatchEvent<T>, ApiError>>;

/// What can be listed and then watched from where the list ended.
///
/// An API server is one; so is a list behind a lock, a table of a database or a folder of files: only
/// [`list`](Self::list) is required. Which objects are meant (a namespace, selectors) is the business of the
/// implementer.
///
/// The futures may be dropped at any time, which must end the request. A panic is contained and treated as
/// an error of the request.
///
/// Follows client-go 1.37 (`ListerWatcherWithContext`).
#[async_trait]
pub trait ListerWatcher<T: Object>: Send + Sync {
    /// Every object there is, or one page of them.
    ///
    /// A source that knows neither versions nor pages ignores the options.
    ///
    /// # Errors
    /// Whatever hindered it. The reflector lists again after a while.
    async fn list(&self, options: ListOptions) -> Result<List<T>, ApiError>;

    /// As [`Self::list`]; each object passes `each` as soon as it is there, and what that gives is in the list. A source
    /// that reads its objects one by one shows them one by one, so that a list of which little is kept is never held as a
    /// whole. By default they are shown when the list is whole.
    ///
    /// # Errors
    /// As [`Self::list`].
    async fn list_each(
        &self,
        options: ListOptions,
        each: &mut (dyn FnMut(Arc<T>) -> Arc<T> + Send),
    ) -> Result<List<T>, ApiError> {
        let mut list = self.list(options).await?;
        list.objects = list.objects.into_iter().map(each).collect();
        Ok(list)
    }

    /// The changes after `options.resource_version`, in their order.
    ///
    /// The stream may end at any time and then the reflector watches again from the last version it has
    /// seen. An event whose version [compares](ResourceVersion::compare) below `options.resource_version`, other
    /// than the initial ones, is taken as proof that the versions have begun again, and the newest state is
    /// listed. A source that cannot go on from a version (it keeps no history, or not that far back) says
    /// [`ApiError::expired`], at once or in the stream: then the reflector lists again. Nothing that comes
    /// after an error in the stream is read.
    ///
    /// By default there is nothing to watch: the stream is silent and expires with `options.timeout`, so
    /// that the source is listed once in that time.
    ///
    /// # Errors
    /// Whatever hindered it.
    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<T>, ApiError> {
        Ok(stream::once(async move {
            tokio::time::sleep(options.timeout).await;
            Err(ApiError::expired("this source can only be listed"))
        })
        .boxed())
    }

    /// The version of the newest state, from the source itself and not from a cache of it. `None`, the default, if the
    /// source cannot say: then it is not asked again.
    ///
    /// A watch from a version that the source has not reached may be silent for ever, for example after an older
    /// state was restored. So the reflector asks after a watch that ended before its time, and after some time of
    /// silence ([`ProbeBudget`] bounds how often), and lists again if the answer
    /// [compares](ResourceVersion::compare) below what it has seen. The answer must not be below any version that was
    /// issued, to any reader, before the question.
    ///
    /// # Errors
    /// Whatever hindered it. It is reported, the open watch goes on, and the question is asked again later.
    async fn newest_version(&self) -> Result<Option<ResourceVersion>, ApiError> {
        Ok(None)
    }

    /// What bounds the questions for the newest version. By default each reflector has a bound of its own.
    ///
    /// All sources that talk to the same server are to give the same [`ProbeBudget`].
    fn probe_budget(&self) -> Option<&ProbeBudget> {
        None
    }

    /// Whether a watch can bring the initial list as events, and whether the server behind it was found not
    /// to. `None`, the default, for a source that cannot: then no watch has `send_initial_events`.
    ///
    /// All sources that talk to the same server are to give the same [`WatchListSupport`].
    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        None
    }
}

#[async_trait]
impl<T: Object, L: ListerWatcher<T> + ?Sized> ListerWatcher<T> for Arc<L> {
    async fn list(&self, options: ListOptions) -> Result<List<T>, ApiError> {
        (**self).list(options).await
    }

    async fn list_each(
        &self,
        options: ListOptions,
        each: &mut (dyn FnMut(Arc<T>) -> Arc<T> + Send),
    ) -> Result<List<T>, ApiError> {
        (**self).list_each(options, each).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<T>, ApiError> {
        (**self).watch(options).await
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, ApiError> {
        (**self).newest_version().await
    }

    fn probe_budget(&self) -> Option<&ProbeBudget> {
        (**self).probe_budget()
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        (**self).watch_list_support()
    }
}

/// How a version in a request is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VersionMatch {
    /// Any state at least as new.
    NotOlderThan,
    /// Exactly that state.
    Exact,
}

/// What a list is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListOptions {
    /// Unset: the newest state. `0`: any state. Else a state at least as new, unless `version_match` says
    /// otherwise. Unset on all pages but the first, where the continue token stands for it.
    pub resource_version: ResourceVersion,
    /// How the version is meant; by default as said above.
    pub version_match: Option<VersionMatch>,
    /// The most objects wanted in one answer; `None` for all of them.
    pub limit: Option<NonZeroU32>,
    /// The page to go on with, as the last answer named it.
    pub continue_token: Option<String>,
}

impl ListOptions {
    /// Everything in one answer, at this version.
    pub fn at(resource_version: impl Into<ResourceVersion>) -> Self {
        Self { resource_version: resource_version.into(), ..Self::default() }
    }
}

/// What a watch is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchOptions {
    /// After which version the events begin. Unset or `0`: the state there is comes first, as events of the
    /// type added in no order.
    pub resource_version: ResourceVersion,
    /// How the version is meant; [`VersionMatch::NotOlderThan`] together with `send_initial_events`.
    pub version_match: Option<VersionMatch>,
    /// After how long the source is to end the watch.
    pub timeout: Duration,
    /// Whether bookmarks are welcome.
    pub bookmarks: bool,
    /// Whether the state there is comes first, as events of the type added, and a bookmark that ends them.
    pub send_initial_events: bool,
}

impl WatchOptions {
    /// The changes after this version, with bookmarks.
    pub fn from(resource_version: impl Into<ResourceVersion>, timeout: Duration) -> Self {
        Self {
            resource_version: resource_version.into(),
            version_match: None,
            timeout,
            bookmarks: true,
            send_initial_events: false,
        }
    }

    /// A watch-list: first the state, no older than that version, then the changes after it.
    #[must_use]
    pub fn with_initial_events(mut self) -> Self {
        self.version_match = Some(VersionMatch::NotOlderThan);
        self.send_initial_events = true;
        self
    }
}

/// The answer to a list.
#[derive(Debug)]
#[non_exhaustive]
pub struct List<T> {
    /// The objects, each in its own allocation, so that one of them never keeps the others alive.
    pub objects: Vec<Arc<T>>,
    /// The version of the state that was listed, which is the same on all pages; unset where there are no versions.
    pub resource_version: ResourceVersion,
    /// How to ask for the next page, if there is one.
    pub continue_token: Option<String>,
    /// How many objects come after this page, if the source knows.
    pub remaining: Option<u64>,
    /// The objects that exist but could not be decoded. One without a key makes the list incomplete: nothing is
    /// deleted by it, and the reflector lists again.
    pub undecodable: Vec<DecodeError>,
}

impl<T> List<T> {
    /// All objects, and the version of their state.
    pub fn new(
        objects: impl IntoIterator<Item = Arc<T>>,
        resource_version: impl Into<ResourceVersion>,
    ) -> Self {
        Self {
            objects: objects.into_iter().collect(),
            resource_version: resource_version.into(),
            continue_token: None,
            remaining: None,
            undecodable: Vec::new(),
        }
    }

    /// There is another page.
    #[must_use]
    pub fn continue_token(mut self, token: impl Into<String>) -> Self {
        self.continue_token = Some(token.into());
        self
    }

    /// How many objects come after this page.
    #[must_use]
    pub fn remaining(mut self, objects: u64) -> Self {
        self.remaining = Some(objects);
        self
    }

    /// Objects that could not be decoded.
    #[must_use]
    pub fn undecodable(mut self, errors: impl IntoIterator<Item = DecodeError>) -> Self {
        self.undecodable.extend(errors);
        self
    }
}

/// What is known of a server's ability to send the initial list as a watch: shared by all sources that talk
/// to the same server, so that it is refused once and not once per reflector.
#[derive(Clone, Debug, Default)]
pub struct WatchListSupport {
    refused: Arc<AtomicBool>,
}

impl WatchListSupport {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the server was found not to support it.
    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// The server does not support it.
    pub fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Forgets a refusal, for example after the server was upgraded.
    pub fn reset(&self) {
        self.refused.store(false, Ordering::Relaxed);
    }
}
