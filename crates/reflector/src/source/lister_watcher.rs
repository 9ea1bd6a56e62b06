//! The trait of a source.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use kinformer_core::{Object, ResourceVersion};

use crate::source::{List, ListOptions, WatchListSupport, WatchOptions};
use crate::{ProbeBudget, SourceError, WatchEvent};

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
#[doc(alias(
    "ListerWatcherWithContext",
    "ToListerWatcherWithContext",
    "ToListerWithContext",
    "ToWatcherWithContext"
))]
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
    #[doc(alias("ListerWithContext", "ListFunc", "ListWithContextFunc"))]
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
    #[doc(alias("WatcherWithContext", "WatchFunc", "WatchFuncWithContext"))]
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
