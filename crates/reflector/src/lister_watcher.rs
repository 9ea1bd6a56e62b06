//! The source of a reflector.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use kinformer_core::{Object, ResourceVersion};

use crate::{DecodeError, ProbeBudget, SourceError, WatchEvent};

/// The events of one watch. Dropping it ends the watch. The streams of this workspace's sources are fused; the reflector
/// polls no stream after its end.
pub type WatchStream<T> = BoxStream<'static, Result<WatchEvent<T>, SourceError>>;

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
    /// A source that knows neither versions nor pages ignores the options. One that reads its objects one by one calls
    /// [`ListOptions::exchange`] with each of them, so that a list that is mostly known is never held twice.
    ///
    /// # Errors
    /// Whatever hindered it. The reflector lists again after a while.
    async fn list(&self, options: ListOptions<T>) -> Result<List<T>, SourceError>;

    /// The changes after `options.resource_version`, in their order.
    ///
    /// The stream may end at any time and then the reflector watches again from the last version it has
    /// seen. An event whose version [compares](ResourceVersion::compare) below `options.resource_version`, other
    /// than the initial ones, is taken as proof that the versions have begun again, and the newest state is
    /// listed. A source that cannot go on from a version (it keeps no history, or not that far back) says
    /// [`SourceError::expired`], at once or in the stream: then the reflector lists again. Nothing that comes
    /// after an error in the stream is read.
    ///
    /// By default there is nothing to watch: the stream is silent and expires with `options.timeout`, so
    /// that the source is listed once in that time.
    ///
    /// # Errors
    /// Whatever hindered it.
    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<T>, SourceError> {
        Ok(stream::once(async move {
            tokio::time::sleep(options.timeout).await;
            Err(SourceError::expired("this source can only be listed"))
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
    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
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

    /// The epoch of the list that was completed last, by [`Self::list`] or by a watch-list: for a source that brings other
    /// objects from one list on, such as whole ones after metadata. It never goes down. A consumer learns which epoch its
    /// lists have [reached](kinformer_core::VersionUpdate::Set), whatever their versions are.
    fn list_epoch(&self) -> u32 {
        0
    }
}

#[async_trait]
impl<T: Object, L: ListerWatcher<T> + ?Sized> ListerWatcher<T> for Arc<L> {
    async fn list(&self, options: ListOptions<T>) -> Result<List<T>, SourceError> {
        (**self).list(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<T>, SourceError> {
        (**self).watch(options).await
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        (**self).newest_version().await
    }

    fn probe_budget(&self) -> Option<&ProbeBudget> {
        (**self).probe_budget()
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        (**self).watch_list_support()
    }

    fn list_epoch(&self) -> u32 {
        (**self).list_epoch()
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
#[non_exhaustive]
pub struct ListOptions<T> {
    /// Unset: the newest state. `0`: any state. Else a state at least as new, unless `version_match` says
    /// otherwise. Unset on all pages but the first, where the continue token stands for it.
    pub resource_version: ResourceVersion,
    /// How the version is meant; by default as said above.
    pub version_match: Option<VersionMatch>,
    /// The most objects wanted in one answer; `None` for all of them.
    pub limit: Option<NonZeroU32>,
    /// The page to go on with, as the last answer named it.
    pub continue_token: Option<String>,
    pub(crate) exchange: Exchange<T>,
}

impl<T> ListOptions<T> {
    /// Everything in one answer, at this version.
    pub fn at_version(resource_version: impl Into<ResourceVersion>) -> Self {
        Self { resource_version: resource_version.into(), ..Self::default() }
    }

    /// With a function that exchanges an object for the identical one that the receiver of the list holds.
    #[must_use]
    pub fn with_exchange(mut self, exchange: Exchange<T>) -> Self {
        self.exchange = exchange;
        self
    }

    /// The identical object that the receiver of the list holds already, or else this one.
    ///
    /// A source may call this with each object as soon as it is decoded, and put what it gets into the list: then the
    /// objects that have not changed take no memory while the list is read. Without these calls the list is just as
    /// correct; the reflector exchanges its objects when the list, or the page, is there.
    pub fn exchange(&self, object: Arc<T>) -> Arc<T> {
        self.exchange.apply(object)
    }

    /// The same request for objects of another type, without the exchange.
    pub fn retyped<U>(&self) -> ListOptions<U> {
        ListOptions {
            resource_version: self.resource_version.clone(),
            version_match: self.version_match,
            limit: self.limit,
            continue_token: self.continue_token.clone(),
            exchange: Exchange::none(),
        }
    }
}

impl<T> Clone for ListOptions<T> {
    fn clone(&self) -> Self {
        Self { exchange: self.exchange.clone(), ..self.retyped() }
    }
}

impl<T> Default for ListOptions<T> {
    fn default() -> Self {
        Self {
            resource_version: ResourceVersion::UNSET,
            version_match: None,
            limit: None,
            continue_token: None,
            exchange: Exchange::none(),
        }
    }
}

/// The exchange does not count.
impl<T> PartialEq for ListOptions<T> {
    fn eq(&self, other: &Self) -> bool {
        let parts = |options: &Self| {
            let Self { resource_version, version_match, limit, continue_token, .. } = options.clone();
            (resource_version, version_match, limit, continue_token)
        };
        parts(self) == parts(other)
    }
}

impl<T> Eq for ListOptions<T> {}

impl<T> fmt::Debug for ListOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListOptions")
            .field("resource_version", &self.resource_version)
            .field("version_match", &self.version_match)
            .field("limit", &self.limit)
            .field("continue_token", &self.continue_token)
            .finish_non_exhaustive()
    }
}

/// A function that exchanges an object from the source for the identical one that the receiver holds already, so that
/// listing everything again takes the memory of what has changed.
///
/// Clones share the function.
pub struct Exchange<T>(Option<Arc<ExchangeFunction<T>>>);

type ExchangeFunction<T> = dyn Fn(Arc<T>) -> Arc<T> + Send + Sync;

impl<T> Exchange<T> {
    /// Gives back each object as it is.
    pub fn none() -> Self {
        Self(None)
    }

    /// Exchanges objects by this function. It gives back the same object, or one that is identical to it in all that
    /// its users can see. It must not panic.
    pub fn new(function: impl Fn(Arc<T>) -> Arc<T> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(function)))
    }

    /// The identical object that is held already, or else this one.
    pub fn apply(&self, object: Arc<T>) -> Arc<T> {
        match &self.0 {
            Some(function) => function(object),
            None => object,
        }
    }

    /// Exchanges all objects of a list, where there is something to exchange.
    pub(crate) fn apply_all(&self, objects: &mut [Arc<T>]) {
        let Some(function) = &self.0 else { return };
        for object in objects {
            *object = function(object.clone());
        }
    }
}

impl<T> Clone for Exchange<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Exchange<T> {
    fn default() -> Self {
        Self::none()
    }
}

impl<T> fmt::Debug for Exchange<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Exchange" } else { "Exchange::none()" })
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
