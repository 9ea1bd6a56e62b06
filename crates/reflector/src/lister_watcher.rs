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

/// The events of one watch. Dropping the stream ends the watch. The streams of this workspace's sources are fused; the
/// reflector polls no stream after its end.
pub type WatchStream<T> = BoxStream<'static, Result<WatchEvent<T>, SourceError>>;

/// A source that can be listed and then watched from the version of the list.
///
/// Examples are an API server, a list behind a lock, a table of a database, and a folder of files. Only
/// [`list`](Self::list) is required. The implementation chooses the objects (a namespace, selectors).
///
/// The reflector may drop the futures at any time, which must end the request. A panic is contained and treated as an
/// error of the request.
///
/// Follows client-go 0.37 (`ListerWatcherWithContext`).
#[async_trait]
pub trait ListerWatcher<T: Object>: Send + Sync {
    /// Returns all objects, or one page of them.
    ///
    /// A source without versions and pages ignores the options. A source that reads its objects one by one calls
    /// [`ListOptions::exchange`] with each, so that a list whose objects are mostly known never occupies memory twice.
    ///
    /// # Errors
    /// Any [`SourceError`]. The reflector lists again after a delay.
    ///
    /// # Cancel safety
    /// Implementations must end the request when the future is dropped. The reflector drops it on cancellation and
    /// after [`list_timeout`](crate::ReflectorOptions::list_timeout), and never polls it again.
    async fn list(&self, options: ListOptions<T>) -> Result<List<T>, SourceError>;

    /// Returns the changes after `options.resource_version`, in order.
    ///
    /// The stream may end at any time; the reflector then watches again from its last version. An event whose version
    /// [compares](ResourceVersion::compare) below `options.resource_version`, other than an initial event or an event
    /// about the [known](crate::Reflector::known_objects) state of its object, is a sign that the versions have started
    /// over, and the reflector lists the newest state. A source that cannot continue from a
    /// version (it has no history, or a shorter one) returns [`SourceError::expired`], at once or in the stream; the
    /// reflector then relists. Nothing after an error in the stream is read.
    ///
    /// The default implementation delivers no events and expires after `options.timeout`, so the source is listed once
    /// in that time.
    ///
    /// # Errors
    /// Any [`SourceError`]. The reflector watches again or relists after a delay.
    ///
    /// # Cancel safety
    /// Implementations must end the request when the future is dropped, and the watch when the stream is dropped. The
    /// reflector drops the future on cancellation, on a requested relist, and after the stall timeout.
    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<T>, SourceError> {
        Ok(stream::once(async move {
            tokio::time::sleep(options.timeout).await;
            Err(SourceError::expired("this source can only be listed"))
        })
        .boxed())
    }

    /// Returns the version of the newest state, from the source itself and not from a cache of it. `None`, the default,
    /// means that the source cannot report it.
    ///
    /// A watch from a version that the source has not reached may stay silent forever, for example after an older state
    /// was restored. So the reflector calls this after a watch that ended early and after a time of silence, at the
    /// rate of [`ProbeBudget`]. It relists if the answer [compares](ResourceVersion::compare) below its last version.
    /// The answer must not be below any version that was issued to any reader before the call.
    ///
    /// # Errors
    /// Any [`SourceError`]. It is reported, the watch stays open, and the reflector calls again later.
    ///
    /// # Cancel safety
    /// Implementations must end the request when the future is dropped. The reflector drops it when the watch ends and
    /// after 30 seconds.
    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        Ok(None)
    }

    /// Returns the rate limit on [`newest_version`](Self::newest_version). With `None`, the default, each reflector has
    /// a limit of its own.
    ///
    /// All sources of the same server must return the same [`ProbeBudget`].
    fn probe_budget(&self) -> Option<&ProbeBudget> {
        None
    }

    /// Returns the support of watch-lists by the server. With `None`, the default, the source does not support them,
    /// and no watch has `send_initial_events`.
    ///
    /// All sources of the same server must return the same [`WatchListSupport`].
    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        None
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
}

/// How a server interprets the version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VersionMatch {
    /// Any state at least as new as the version.
    NotOlderThan,
    /// Exactly the state at the version.
    Exact,
}

/// The parameters of a list.
///
/// ```
/// use kinformer_core::Keyed;
/// use kinformer_reflector::ListOptions;
///
/// let options = ListOptions::<Keyed<u16>>::at_version("7"); // a state at least as new, in one answer
/// assert!(options.limit.is_none() && options.continue_token.is_none());
/// ```
#[non_exhaustive]
pub struct ListOptions<T> {
    /// The requested version. Unset: the newest state. `0`: any state. Any other: a state at least as new, unless
    /// `version_match` is set. Unset on all pages after the first, where the continue token determines the version.
    pub resource_version: ResourceVersion,
    /// The interpretation of the version; `None` for the one described above.
    pub version_match: Option<VersionMatch>,
    /// The maximum number of objects in one answer; `None` for all objects.
    pub limit: Option<NonZeroU32>,
    /// The continue token of the previous page; `None` for the first page.
    pub continue_token: Option<String>,
    pub(crate) exchange: Exchange<T>,
}

impl<T> ListOptions<T> {
    /// Creates the parameters of a list of all objects in one answer, at this version.
    pub fn at_version(resource_version: impl Into<ResourceVersion>) -> Self {
        Self { resource_version: resource_version.into(), ..Self::default() }
    }

    /// Sets the function that exchanges an object for the identical one held by the receiver of the list.
    #[must_use]
    pub fn with_exchange(mut self, exchange: Exchange<T>) -> Self {
        self.exchange = exchange;
        self
    }

    /// Returns the identical object that the receiver of the list already holds, or else this one.
    ///
    /// A source may call this with each object as soon as it is decoded, and put the result into the list: unchanged
    /// objects then take no memory while the list is read. Without these calls the list is equally correct; the
    /// reflector exchanges its objects when the list, or the page, has arrived.
    pub fn exchange(&self, object: Arc<T>) -> Arc<T> {
        self.exchange.apply(object)
    }

    /// Returns the same request for objects of another type, without the exchange function.
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

/// Compares all parameters except the exchange function.
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

/// A function that exchanges an object from the source for the identical one that the receiver already holds, so that a
/// relist takes memory only for changed objects.
///
/// Clones share the function.
pub struct Exchange<T>(Option<Arc<ExchangeFunction<T>>>);

type ExchangeFunction<T> = dyn Fn(Arc<T>) -> Arc<T> + Send + Sync;

impl<T> Exchange<T> {
    /// Creates an exchange that returns every object unchanged.
    pub fn none() -> Self {
        Self(None)
    }

    /// Creates an exchange from a function. The function returns its argument, or an object that its users cannot
    /// distinguish from it. It must not panic.
    pub fn new(function: impl Fn(Arc<T>) -> Arc<T> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(function)))
    }

    /// Returns the identical object that is already held, or else this one.
    pub fn apply(&self, object: Arc<T>) -> Arc<T> {
        match &self.0 {
            Some(function) => function(object),
            None => object,
        }
    }

    /// Exchanges all objects of a list.
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

/// The parameters of a watch.
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_reflector::WatchOptions;
///
/// let watch = WatchOptions::from("7", Duration::from_secs(300)); // the changes after version 7
/// assert!(watch.bookmarks && !watch.send_initial_events);
/// let watch_list = WatchOptions::from("", Duration::from_secs(300)).with_initial_events();
/// assert!(watch_list.send_initial_events);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchOptions {
    /// The version after which the events start. Unset or `0`: the watch starts with the current state, as events of
    /// type `Added` in no particular order.
    pub resource_version: ResourceVersion,
    /// The interpretation of the version; [`VersionMatch::NotOlderThan`] together with `send_initial_events`.
    pub version_match: Option<VersionMatch>,
    /// The time after which the source should end the watch.
    pub timeout: Duration,
    /// Whether the source may send bookmarks.
    pub bookmarks: bool,
    /// Whether the watch starts with the current state, as events of type `Added`, followed by a bookmark that ends
    /// them.
    pub send_initial_events: bool,
}

impl WatchOptions {
    /// Creates the parameters of a watch for the changes after this version, with bookmarks.
    pub fn from(resource_version: impl Into<ResourceVersion>, timeout: Duration) -> Self {
        Self {
            resource_version: resource_version.into(),
            version_match: None,
            timeout,
            bookmarks: true,
            send_initial_events: false,
        }
    }

    /// Makes the watch a watch-list: first a state at least as new as the version, then the changes after that state.
    #[must_use]
    pub fn with_initial_events(mut self) -> Self {
        self.version_match = Some(VersionMatch::NotOlderThan);
        self.send_initial_events = true;
        self
    }
}

/// The answer to a list: all objects, or one page.
///
/// ```
/// use std::sync::Arc;
///
/// use kinformer_core::Keyed;
/// use kinformer_reflector::List;
///
/// # fn main() -> Result<(), kinformer_core::KeyError> {
/// let page = List::new([Arc::new(Keyed::by(|_| "web", 80)?)], "7").continue_token("web").remaining(12);
/// assert_eq!(page.objects.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct List<T> {
    /// The objects, each in its own allocation, so that none keeps the others alive.
    pub objects: Vec<Arc<T>>,
    /// The version of the listed state, the same on all pages; unset for a source without versions.
    pub resource_version: ResourceVersion,
    /// The token that requests the next page, if there is one.
    pub continue_token: Option<String>,
    /// The number of objects after this page, if the source knows it.
    pub remaining: Option<u64>,
    /// The objects that exist but could not be decoded. An object without a key makes the list incomplete: the list
    /// deletes nothing, and the reflector relists.
    pub undecodable: Vec<DecodeError>,
}

impl<T> List<T> {
    /// Creates a list of all objects at a version.
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

    /// Sets the token that requests the next page.
    #[must_use]
    pub fn continue_token(mut self, token: impl Into<String>) -> Self {
        self.continue_token = Some(token.into());
        self
    }

    /// Sets the number of objects after this page.
    #[must_use]
    pub fn remaining(mut self, objects: u64) -> Self {
        self.remaining = Some(objects);
        self
    }

    /// Adds objects that could not be decoded.
    #[must_use]
    pub fn undecodable(mut self, errors: impl IntoIterator<Item = DecodeError>) -> Self {
        self.undecodable.extend(errors);
        self
    }
}

/// Records whether a server refuses watch-lists. All sources of the same server share it, so that the server refuses
/// once and not once for each reflector.
#[derive(Clone, Debug, Default)]
pub struct WatchListSupport {
    refused: Arc<AtomicBool>,
}

impl WatchListSupport {
    /// Creates a record without a refusal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the server refused a watch-list.
    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Records that the server does not support watch-lists.
    pub fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Clears a refusal, for example after an upgrade of the server.
    pub fn reset(&self) {
        self.refused.store(false, Ordering::Relaxed);
    }
}
