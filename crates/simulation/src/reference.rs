//! A reflector with the loop and the backoff of client-go, without the protections of ours: the measure of how long an
//! informer may be without a list or a watch.
//!
//! Follows client-go 0.37 (`Reflector`, `Request.Watch`, `withRetry`). Left out are resyncs, and the retries of a watch after
//! internal errors, which are off by default.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use kinformer::generic::{ListOptions, ListerWatcher, WatchEvent, WatchOptions, WatchStream};
use kinformer::{Object, ResourceVersion, SourceError};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

const PAGE: NonZeroU32 = NonZeroU32::new(500).unwrap();
const FIRST_DELAY: Duration = Duration::from_millis(800);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// The delays start over at the first one that is this long after the last start.
const RESTARTED_AFTER: Duration = Duration::from_secs(120);
/// How often a request is repeated whose connection broke, or whose answer has a `Retry-After`.
const REPETITIONS: usize = 10;

/// The stored objects, by key.
pub type Stored<T> = Arc<Mutex<BTreeMap<String, Arc<T>>>>;

/// A reflector as client-go's.
pub struct Reference<T> {
    source: Arc<dyn ListerWatcher<T>>,
    watch_lists: bool,
    min_watch: Duration,
    page_size: Option<NonZeroU32>,
    stored: Stored<T>,
    version: ResourceVersion,
    is_unavailable: bool,
    is_paged: bool,
    /// The shortest length of the next delay, and the time at which the delays started.
    delay: (Duration, Instant),
}

impl<T: Object> Reference<T> {
    /// Creates a reflector. Its watches take at least `min_watch`.
    pub fn new(source: impl ListerWatcher<T> + 'static, watch_lists: bool, min_watch: Duration) -> Self {
        Self {
            source: Arc::new(source),
            watch_lists,
            min_watch,
            page_size: None,
            stored: Arc::default(),
            version: ResourceVersion::UNSET,
            is_unavailable: false,
            is_paged: false,
            delay: (FIRST_DELAY, Instant::now()),
        }
    }

    /// Sets the page size of all lists, as `WatchListPageSize` does. By default only those from etcd have pages.
    #[must_use]
    pub fn page_size(self, page_size: Option<NonZeroU32>) -> Self {
        Self { page_size, ..self }
    }

    /// Returns the stored objects.
    pub fn stored(&self) -> Stored<T> {
        self.stored.clone()
    }

    /// Lists and watches until it is dropped.
    pub async fn run(mut self) {
        loop {
            // Its error would only be logged: a delay follows in any case.
            drop(self.list_and_watch().await);
            self.back_off().await;
        }
    }

    async fn list_and_watch(&mut self) -> Result<(), SourceError> {
        let mut open = None;
        if self.watch_lists {
            open = self.watch_list().await.ok();
        }
        if open.is_none() {
            self.list().await?;
        }
        loop {
            let started = Instant::now();
            let opened = match open.take() {
                Some(stream) => Ok(stream),
                None => self.open(WatchOptions::from(self.version.clone(), self.watch_time())).await,
            };
            let ended = match opened {
                Ok(stream) => self.follow(stream, started).await,
                Err(error) if is_retriable(&error) => Err(error),
                Err(error) => return Err(error),
            };
            match ended {
                Ok(()) => {}
                Err(error) if is_retriable(&error) => self.back_off().await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Applies the events of a watch until it ends.
    async fn follow(&mut self, mut watch: WatchStream<T>, started: Instant) -> Result<(), SourceError> {
        let mut is_past_initial = !self.version.is_unset() && self.version != ResourceVersion::number(0);
        let mut events = 0_u64;
        while let Some(event) = watch.next().await {
            let event = match event {
                Err(error) if is_broken(&error) => break,
                event => event?,
            };
            events += 1;
            is_past_initial |= !matches!(event, WatchEvent::Added(_));
            if let Some(version) = apply(&mut self.stored.lock(), event)?
                && is_past_initial
            {
                self.version = version;
            }
        }
        check_length(started, events)
    }

    async fn watch_list(&mut self) -> Result<WatchStream<T>, SourceError> {
        loop {
            let version = if self.is_unavailable { ResourceVersion::UNSET } else { self.version.clone() };
            let options = WatchOptions::from(version, self.watch_time()).with_initial_events();
            match self.initial_events(options).await {
                Ok(Some(watch)) => return Ok(watch),
                Ok(None) => {}
                Err(error) if is_retriable(&error) => self.back_off().await,
                Err(error) if is_version_unavailable(&error) => self.is_unavailable = true,
                Err(error) => return Err(error),
            }
        }
    }

    /// Stores the initial events. Returns the open watch, or `None` if it ended before the bookmark.
    async fn initial_events(&mut self, options: WatchOptions) -> Result<Option<WatchStream<T>>, SourceError> {
        let started = Instant::now();
        let mut watch = self.open(options).await?;
        let mut objects = BTreeMap::new();
        let mut events = 0_u64;
        while let Some(event) = watch.next().await {
            let event = match event {
                Err(error) if is_broken(&error) => break,
                event => event?,
            };
            events += 1;
            let is_end = matches!(event, WatchEvent::Bookmark { initial_events_end: true, .. });
            let version = apply(&mut objects, event)?;
            if is_end {
                self.replace(objects, version.unwrap_or_default());
                return Ok(Some(watch));
            }
        }
        check_length(started, events).map(|()| None)
    }

    async fn list(&mut self) -> Result<(), SourceError> {
        let version = match &self.version {
            _ if self.is_unavailable => ResourceVersion::UNSET,
            version if version.is_unset() => ResourceVersion::number(0),
            version => version.clone(),
        };
        let is_any = version == ResourceVersion::number(0);
        let mut listed = self.pages(version).await;
        if listed.as_ref().is_err_and(is_version_unavailable) {
            self.is_unavailable = true;
            listed = self.pages(ResourceVersion::UNSET).await;
        }
        let (objects, version, is_paged) = listed?;
        self.is_paged |= is_any && is_paged;
        self.replace(objects, version);
        Ok(())
    }

    /// Requests the pages of a list, and the list in one piece if a page has expired.
    async fn pages(
        &self,
        version: ResourceVersion,
    ) -> Result<(BTreeMap<String, Arc<T>>, ResourceVersion, bool), SourceError> {
        let in_pages = self.is_paged || version.is_unset() || version == ResourceVersion::number(0);
        let limit = self.page_size.or_else(|| in_pages.then_some(PAGE));
        let mut options = ListOptions::at_version(version.clone());
        options.limit = limit;
        let (mut objects, mut is_paged) = (BTreeMap::new(), false);
        loop {
            let has_token = options.continue_token.is_some();
            let list = match repeated(|| self.source.list(options.clone())).await {
                Err(error) if has_token && error.is_expired() => {
                    (objects, options) = (BTreeMap::new(), ListOptions::at_version(version.clone()));
                    continue;
                }
                list => list?,
            };
            if let Some(error) = list.undecodable.into_iter().next() {
                return Err(SourceError::Undecodable(error));
            }
            objects.extend(list.objects.into_iter().map(|object| (object.key().to_string(), object)));
            let is_in_one_piece = is_paged && options.continue_token.is_none();
            match list.continue_token.filter(|token| !token.is_empty() && !is_in_one_piece) {
                None => return Ok((objects, list.resource_version, is_paged)),
                Some(token) => {
                    is_paged = true;
                    options = ListOptions::default();
                    options.limit = limit;
                    options.continue_token = Some(token);
                }
            }
        }
    }

    /// Opens a watch. One that is never answered counts as a watch without events.
    async fn open(&self, options: WatchOptions) -> Result<WatchStream<T>, SourceError> {
        match repeated(|| self.source.watch(options.clone())).await {
            Err(error) if is_broken(&error) => Ok(stream::empty().boxed()),
            opened => opened,
        }
    }

    fn watch_time(&self) -> Duration {
        self.min_watch.mul_f64(1.0 + fastrand::f64())
    }

    fn replace(&mut self, objects: BTreeMap<String, Arc<T>>, version: ResourceVersion) {
        *self.stored.lock() = objects;
        self.version = version;
        self.is_unavailable = false;
    }

    async fn back_off(&mut self) {
        if self.delay.1.elapsed() > RESTARTED_AFTER {
            self.delay = (FIRST_DELAY, Instant::now());
        }
        let delay = self.delay.0;
        self.delay.0 = (delay * 2).min(LONGEST_DELAY);
        sleep(delay.mul_f64(1.0 + fastrand::f64())).await;
    }
}

/// Sends a request, and repeats it as the client below the reflector does.
async fn repeated<R, F: Future<Output = Result<R, SourceError>>>(
    request: impl Fn() -> F,
) -> Result<R, SourceError> {
    for _ in 0..REPETITIONS {
        let delay = match request().await {
            Err(error) if is_broken(&error) => Duration::from_secs(1),
            Err(error) if error.retry_after().is_some() => error.retry_after().unwrap_or_default(),
            answer => return answer,
        };
        sleep(delay).await;
    }
    request().await
}

/// A watch that ends at once without an event is an error.
fn check_length(started: Instant, events: u64) -> Result<(), SourceError> {
    match events == 0 && started.elapsed() < Duration::from_secs(1) {
        true => Err(SourceError::VeryShortWatch { lasted: started.elapsed(), events }),
        false => Ok(()),
    }
}

/// Whether a connection broke, or there was no answer.
fn is_broken(error: &SourceError) -> bool {
    matches!(error, SourceError::Transport { .. } | SourceError::Timeout { .. })
}

/// Whether another watch follows after a delay, without a list.
fn is_retriable(error: &SourceError) -> bool {
    error.is_connection_refused() || error.is_too_many_requests()
}

fn is_version_unavailable(error: &SourceError) -> bool {
    error.is_expired() || error.is_too_large_resource_version()
}

/// Applies an event. Returns its version.
fn apply<T: Object>(
    objects: &mut BTreeMap<String, Arc<T>>,
    event: WatchEvent<T>,
) -> Result<Option<ResourceVersion>, SourceError> {
    Ok(Some(match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            let version = object.resource_version();
            objects.insert(object.key().to_string(), object);
            version
        }
        WatchEvent::Deleted(object) => {
            objects.remove(&object.key().to_string());
            object.resource_version()
        }
        WatchEvent::Bookmark { version, .. } => version,
        WatchEvent::Undecodable(error) => return Err(SourceError::Undecodable(error)),
        _ => return Ok(None),
    }))
}
