//! A watch that continues across the ends of connections.

use std::fmt;
use std::sync::Arc;

use futures::{StreamExt, stream};
use kinformer_core::internal::contain;
use kinformer_core::{Object, ResourceVersion};
use tokio::time::{Instant, sleep, timeout_at};

use crate::backoff::{FOREVER, RunningBackoff, WARN_FROM, after};
use crate::history::{ShortWatches, reopens_after, went_back};
use crate::options::{MIN_WATCH_TIMEOUT, STALL_MARGIN};
use crate::request_limit::RequestWindow;
use crate::stream::{OpenWatch, watch_timeout};
use crate::unidentified::{unidentified_event, version_of};
use crate::{Backoff, ListerWatcher, RequestLimit, SourceError, WatchEvent, WatchOptions, WatchStream};

/// A watch from a given version that survives the end of connections: each watch continues at the last version of the
/// one before, so no event is skipped and none is repeated.
///
/// Use it to wait for something that follows a known version, such as the own write, without a list and without a store.
/// To know all objects, use a [`Reflector`](crate::Reflector) or an informer: they list when the version has expired,
/// which ends a retry watcher, and they detect a source whose older state was restored.
///
/// A watch is opened again after its end and after any failure that another watch may repair, with the delays of the
/// reflector: [`Backoff`], a server's `Retry-After`, and [`RequestLimit`]. A watch that goes on for longer than
/// its requested duration is ended.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), kinformer_reflector::SourceError> {
/// use futures::TryStreamExt;
/// use kinformer_reflector::{RetryWatcher, WatchEvent};
/// # use kinformer_testing::{FakeSource, Item};
/// # let source = FakeSource::new(); // anything that implements ListerWatcher
/// let written = source.apply(Item::of("kitchen/kettle", 0, 1));
/// let mut events = RetryWatcher::new(source.clone(), written)?.events();
/// # source.apply(Item::of("kitchen/kettle", 0, 2));
/// source.disconnect();
/// let event = events.try_next().await?;
/// assert!(matches!(event, Some(WatchEvent::Modified(kettle)) if kettle.value == 2));
/// # Ok(())
/// # }
/// ```
///
/// Follows client-go 0.37 (`RetryWatcher`), with these differences: 410 ends it also as the answer to a request, and so
/// do a version that the server does not have, a version that goes back, and 404; 401 and 403 end it also within a
/// watch; an unidentified event is requested once more before it ends the stream; all delays grow and have jitter.
pub struct RetryWatcher<T: Object> {
    source: Arc<dyn ListerWatcher<T>>,
    version: ResourceVersion,
    backoff: Backoff,
    request_limit: RequestLimit,
    bookmarks: Bookmarks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bookmarks {
    Hidden,
    Delivered,
}

impl<T: Object> RetryWatcher<T> {
    /// Creates a watch of the changes after this version, which is usually that of a list or of a written object.
    ///
    /// # Errors
    /// [`SourceError::NoWatchVersion`] if the version is unset or `0`.
    pub fn new(
        source: impl ListerWatcher<T> + 'static,
        version: impl Into<ResourceVersion>,
    ) -> Result<Self, SourceError> {
        let version = version.into();
        if version.is_unset() || version == ResourceVersion::number(0) {
            return Err(SourceError::NoWatchVersion { version });
        }
        Ok(Self {
            source: Arc::new(source),
            version,
            backoff: Backoff::default(),
            request_limit: RequestLimit::default(),
            bookmarks: Bookmarks::Hidden,
        })
    }

    /// Sets the delays after failures.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the limit on the watches that are started.
    #[must_use]
    pub fn request_limit(mut self, limit: RequestLimit) -> Self {
        self.request_limit = limit;
        self
    }

    /// Delivers bookmarks as well. Without this they only move the version from which the next watch continues.
    #[must_use]
    pub fn bookmarks(mut self) -> Self {
        self.bookmarks = Bookmarks::Delivered;
        self
    }

    /// Returns the events in the order of the source. The first request starts when the stream is polled; dropping the
    /// stream ends the watch. The stream is fused.
    ///
    /// An object that could not be decoded but has a key is delivered as [`WatchEvent::Undecodable`].
    ///
    /// # Errors
    /// The stream ends with the first error, which no further watch repairs: the version has expired
    /// ([`is_expired`](SourceError::is_expired)) or is one that the server has not reached
    /// ([`is_too_large_resource_version`](SourceError::is_too_large_resource_version)), a corrupt object was removed from
    /// its storage ([`is_store_read_error`](SourceError::is_store_read_error)), the resource does not exist (404), or the
    /// credentials do not suffice (401, 403); [`SourceError::VersionsWentBack`]; an event without a version
    /// ([`SourceError::EventWithoutVersion`]) or whose version cannot be read ([`SourceError::Panic`]); an unidentified
    /// event that was received twice ([`SourceError::UnidentifiedEvent`]). It ends only with an error.
    pub fn events(self) -> WatchStream<T> {
        let running = async move {
            let watching = Watching {
                source: self.source,
                version: self.version,
                bookmarks: self.bookmarks,
                backoff: self.backoff.start(),
                requests: RequestWindow::new(self.request_limit),
                short_watches: ShortWatches::default(),
                failures: 0,
                unidentified_event_at: None,
                watch: None,
            };
            stream::unfold(Some(watching), |watching| async move {
                let mut watching = watching?;
                let event = watching.next().await;
                let remaining = event.is_ok().then_some(watching);
                Some((event, remaining))
            })
        };
        stream::once(running).flatten().fuse().boxed()
    }
}

impl<T: Object> fmt::Debug for RetryWatcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryWatcher")
            .field("version", &self.version)
            .field("backoff", &self.backoff)
            .field("request_limit", &self.request_limit)
            .field("bookmarks", &self.bookmarks)
            .finish_non_exhaustive()
    }
}

/// The state of the stream.
struct Watching<T: Object> {
    source: Arc<dyn ListerWatcher<T>>,
    /// The version of the last event.
    version: ResourceVersion,
    bookmarks: Bookmarks,
    backoff: RunningBackoff,
    requests: RequestWindow,
    short_watches: ShortWatches,
    /// The number of consecutive failures.
    failures: u32,
    /// The version after which an unidentified event was received.
    unidentified_event_at: Option<ResourceVersion>,
    watch: Option<Watch<T>>,
}

struct Watch<T> {
    open: OpenWatch<T>,
    /// The version after which the watch was requested.
    requested: ResourceVersion,
    events: u64,
    /// Whether the version has moved.
    moved: bool,
}

impl<T: Object> Watching<T> {
    /// Returns the next event to deliver.
    ///
    /// # Errors
    /// The error that ends the stream.
    async fn next(&mut self) -> Result<WatchEvent<T>, SourceError> {
        loop {
            let Some(watch) = &mut self.watch else {
                self.open().await?;
                continue;
            };
            // The consumer did not poll since then.
            watch.open.not_read_for(watch.open.last_received.elapsed());
            match timeout_at(watch.open.ends_by, watch.open.stream.next()).await {
                Ok(Some(Ok(event))) => {
                    watch.open.last_received = Instant::now();
                    watch.events = watch.events.saturating_add(1);
                    if let Some(event) = self.received(event).await? {
                        return Ok(event);
                    }
                }
                Ok(Some(Err(error))) => self.failed(error).await?,
                Ok(None) => self.closed().await?,
                Err(_) => match watch.open.stalled(STALL_MARGIN) {
                    Some(error) => self.failed(error).await?,
                    None => self.closed().await?,
                },
            }
        }
    }

    async fn open(&mut self) -> Result<(), SourceError> {
        while let Some(delay) = self.requests.delay() {
            sleep(delay).await;
        }
        let now = Instant::now();
        self.requests.start(now);
        let requested = self.version.clone();
        let options = WatchOptions::from(requested.clone(), watch_timeout(MIN_WATCH_TIMEOUT));
        match OpenWatch::open(&*self.source, options, STALL_MARGIN, now + FOREVER).await {
            Ok(open) => {
                self.watch = Some(Watch { open, requested, events: 0, moved: false });
                Ok(())
            }
            Err(error) => {
                if error.is_unanswered() {
                    self.backoff.set_unanswered(now.elapsed());
                }
                self.failed(error).await
            }
        }
    }

    /// Moves the version to that of the event. Returns the event unless it is a hidden bookmark or unidentified.
    async fn received(&mut self, event: WatchEvent<T>) -> Result<Option<WatchEvent<T>>, SourceError> {
        if let WatchEvent::Undecodable(error) = &event
            && let Some(unidentified) = unidentified_event(error)
        {
            // It may have been damaged in transit: another watch delivers it again.
            if self.unidentified_event_at.replace(self.version.clone()).as_ref() == Some(&self.version) {
                return Err(unidentified);
            }
            return self.failed(unidentified).await.map(|()| None);
        }
        let version = contain(|| version_of(&event))
            .map_err(|source| SourceError::Panic { operation: "resource_version", source })?;
        if version.is_unset() && !matches!(event, WatchEvent::Unexpected { .. }) {
            return Err(SourceError::EventWithoutVersion { last: self.version.clone() });
        }
        if let Some(watch) = &mut self.watch {
            if let Some(error) = went_back(&watch.requested, &version) {
                return Err(error);
            }
            let is_new = !self.version.compare(&version).is_some_and(std::cmp::Ordering::is_ge);
            if is_new && !version.is_unset() {
                self.version = version;
                watch.moved = true;
                self.failures = 0;
            }
        }
        let is_hidden = matches!(event, WatchEvent::Bookmark { .. }) && self.bookmarks == Bookmarks::Hidden;
        Ok((!is_hidden).then_some(event))
    }

    /// Waits after the source has ended a watch without an error.
    async fn closed(&mut self) -> Result<(), SourceError> {
        let Some(watch) = self.watch.take() else { return Ok(()) };
        let lasted = watch.open.started.elapsed();
        self.backoff.watched(lasted);
        let events = watch.events;
        match self.short_watches.closed(lasted, watch.moved) {
            Some(delay) => {
                self.failures = 0;
                sleep(delay).await;
            }
            None => self.back_off(&SourceError::VeryShortWatch { lasted, events }).await,
        }
        Ok(())
    }

    /// Waits after a failure.
    ///
    /// # Errors
    /// This error, if no other watch repairs it.
    async fn failed(&mut self, error: SourceError) -> Result<(), SourceError> {
        if let Some(watch) = self.watch.take() {
            self.backoff.watched(watch.open.started.elapsed());
        }
        self.short_watches.failed();
        if is_final(&error) {
            return Err(error);
        }
        self.back_off(&error).await;
        Ok(())
    }

    async fn back_off(&mut self, error: &SourceError) {
        self.failures = self.failures.saturating_add(1);
        let (failures, version) = (self.failures, &self.version);
        let delay =
            reopens_after(error).unwrap_or_else(|| after(error, self.backoff.next_delay())).min(FOREVER);
        if failures >= WARN_FROM || !error.is_retryable() {
            tracing::warn!(%error, %version, ?delay, failures, "watch failed; it will be continued");
        } else {
            tracing::debug!(%error, %version, ?delay, failures, "watch failed; it will be continued");
        }
        sleep(delay).await;
    }
}

/// Returns whether no other watch from the same version repairs the error.
fn is_final(error: &SourceError) -> bool {
    let refused = error.status().is_some_and(|status| {
        matches!(status.code, 401 | 403) || matches!(status.reason.as_str(), "Unauthorized" | "Forbidden")
    });
    refused || error.is_version_unavailable() || error.is_store_read_error() || error.is_not_found()
}
