//! What a list or a watch requests.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use kinformer_core::ResourceVersion;

use crate::source::Exchange;

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
