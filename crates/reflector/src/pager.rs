//! Reads a list page by page: as a stream, or merged.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, ready};
use kinformer_core::{Object, ResourceVersion};
use tokio::sync::mpsc;

use crate::pages::{Pages, ReportRepetition};
use crate::{DecodeError, List, ListOptions, ListerWatcher, SourceError, VersionMatch};

pub(crate) const PAGE_SIZE: NonZeroU32 = NonZeroU32::new(500).unwrap();
pub(crate) const PAGE_TIMEOUT: Duration = Duration::from_secs(600);

/// Upper bound on the objects for which space is reserved by a server's `remaining`.
const MAX_RESERVE: usize = 1 << 20;

/// Reads a list page by page, once: for a job over many objects that keeps only some of them at a time. To keep the
/// objects up to date, use a [`Reflector`](crate::Reflector) or an informer.
///
/// [`pages`](Self::pages) and [`objects`](Self::objects) are streams; [`list`](Self::list) reads everything. By default
/// the newest state is listed, 500 objects a page. The reflector reads its lists in the same way.
///
/// * The pages are those of one list: of one version, in the order of the source, each object once.
/// * If the first page fails, the stream ends with its error. Later pages are requested again after transient errors.
///   `list` alone has a fallback.
/// * Of the pages, at most the one that the consumer has is in memory, and those requested
///   [ahead](Self::prefetch).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), kinformer_reflector::SourceError> {
/// use futures::TryStreamExt;
/// use kinformer_reflector::Pager;
/// # use kinformer_testing::{FakeSource, Item};
/// # let source = FakeSource::new(); // anything that implements ListerWatcher
/// # source.apply(Item::of("kitchen/kettle", 0, 1));
/// # source.apply(Item::of("kitchen/pan", 0, 1));
///
/// let mut objects = Pager::new(source).page_size(100.try_into().unwrap()).prefetch(1).objects();
/// let mut values = 0;
/// while let Some(item) = objects.try_next().await? {
///     values += item.value;
/// }
/// assert_eq!(values, 2);
/// # Ok(())
/// # }
/// ```
///
/// Follows client-go 0.37 (`ListPager`). Its default reads 10 pages ahead.
#[doc(alias = "ListPager")]
pub struct Pager<T: Object> {
    pub(crate) source: Arc<dyn ListerWatcher<T>>,
    /// The request for the first page.
    pub(crate) first: ListOptions<T>,
    pub(crate) page_timeout: Duration,
    pub(crate) prefetch: usize,
    /// Called with each error after which a page is requested again; `None` if none is.
    pub(crate) repeats: Option<ReportRepetition>,
}

/// All pages of a list, merged.
pub(crate) struct FullList<T> {
    pub(crate) objects: Vec<Arc<T>>,
    pub(crate) resource_version: ResourceVersion,
    /// Objects that could not be decoded, with their positions in the merged list.
    pub(crate) undecodable: Vec<DecodeError>,
    /// Whether the source returned the list in pages.
    pub(crate) paged: bool,
}

impl<T: Object> Pager<T> {
    /// Creates a pager that reads the newest state in pages of 500 objects.
    pub fn new(source: impl ListerWatcher<T> + 'static) -> Self {
        let first = ListOptions { limit: Some(PAGE_SIZE), ..ListOptions::default() };
        let repeats: ReportRepetition = Arc::new(|error, delay| {
            tracing::debug!(%error, ?delay, "page of a list failed; it is requested again");
        });
        let (page_timeout, prefetch) = (PAGE_TIMEOUT, 0);
        Self { source: Arc::new(source), first, page_timeout, prefetch, repeats: Some(repeats) }
    }

    /// Sets the number of objects in a page. A source may send fewer, and a source without pages sends all.
    ///
    /// Follows client-go 0.37 (`PageSize`).
    #[must_use]
    pub fn page_size(mut self, objects: NonZeroU32) -> Self {
        self.first.limit = Some(objects);
        self
    }

    /// Lists a state at least as new as this version, or any state for `0`. A server that reads such a list from its
    /// memory may send it in one page.
    #[must_use]
    pub fn at_version(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.first.resource_version = version.into();
        self
    }

    /// Sets how the source interprets the [version](Self::at_version).
    #[must_use]
    pub fn version_match(mut self, matching: VersionMatch) -> Self {
        self.first.version_match = Some(matching);
        self
    }

    /// Sets the time in which the source must answer each request: 10 minutes by default.
    #[must_use]
    pub fn page_timeout(mut self, timeout: Duration) -> Self {
        self.page_timeout = timeout;
        self
    }

    /// Sets the number of pages that a stream requests ahead of its consumer: none by default. They take memory.
    ///
    /// There is no task: as with [`buffered`](StreamExt::buffered), the requests advance whenever the stream is polled. A
    /// consumer that does something else for many seconds should poll the stream in a task and receive from a channel,
    /// or read without prefetching: a server may end an answer that is not read.
    ///
    /// Follows client-go 0.37 (`PageBufferSize`), which reads in a goroutine.
    #[must_use]
    pub fn prefetch(mut self, pages: usize) -> Self {
        self.prefetch = pages.min(MAX_PREFETCH);
        self
    }

    /// Returns the pages, in order. The positions of undecodable objects are those in their page.
    ///
    /// The first request starts when the stream is polled. Dropping the stream ends the request in progress. The stream
    /// is fused, and each call begins a new list.
    ///
    /// # Errors
    /// A page after the first is requested again after a transient error: no or a broken connection, 429 or 5xx; up to 10
    /// times within a minute of its first error. The stream ends with the error of a request, with [`SourceError::PageExpired`] if the list expired after pages
    /// were delivered, and with [`SourceError::PagesDiffer`] or [`SourceError::EndlessList`] if the pages are not those
    /// of one list. The pages before are then a part of the list: to start over may deliver their objects again, and
    /// other ones.
    pub fn pages(&self) -> BoxStream<'static, Result<List<T>, SourceError>> {
        let mut pages = ReadAhead::new(self);
        stream::poll_fn(move |context| pages.poll_next(context)).boxed()
    }

    /// Returns the objects of all pages, in order. An object that could not be decoded is a
    /// [`SourceError::Undecodable`], after the objects of its page, and the stream continues.
    ///
    /// Dropping the stream ends the request in progress. The stream is fused, and each call begins a new list.
    ///
    /// # Errors
    /// As for [`Self::pages`], with [`SourceError::Undecodable`] besides. Each but that ends the stream.
    ///
    /// Follows client-go 0.37 (`EachListItemWithAlloc`).
    pub fn objects(&self) -> BoxStream<'static, Result<Arc<T>, SourceError>> {
        let mut pages = ReadAhead::new(self);
        let mut objects = Vec::new().into_iter();
        let mut errors = Vec::new().into_iter();
        let next = move |context: &mut Context<'_>| {
            pages.poll_ahead(context);
            loop {
                if let Some(object) = objects.next() {
                    return Poll::Ready(Some(Ok(object)));
                }
                if let Some(error) = errors.next() {
                    return Poll::Ready(Some(Err(error)));
                }
                let Some(page) = ready!(pages.poll_next(context)) else { return Poll::Ready(None) };
                let (page, error) = match page {
                    Ok(page) => (page, None),
                    Err(error) => (List::new([], ResourceVersion::UNSET), Some(error)),
                };
                let undecodable = page.undecodable.into_iter().map(SourceError::Undecodable);
                errors = undecodable.chain(error).collect::<Vec<_>>().into_iter();
                objects = page.objects.into_iter();
            }
        };
        stream::poll_fn(next).boxed()
    }

    /// Reads all pages and merges them. The result has no continue token.
    ///
    /// If a later page has expired or has another version, the list is requested again at once, in one piece.
    ///
    /// # Errors
    /// The error of a request, [`SourceError::EndlessList`], or [`SourceError::PagesDiffer`] if the answer to the
    /// request in one piece has pages of different versions as well.
    ///
    /// # Cancel safety
    /// Dropping the future ends the request in progress, and the pages read so far are lost. A later call begins a new
    /// list.
    ///
    /// Follows client-go 0.37 (`ListWithAlloc` with `FullListIfExpired`), which ignores a continue token of the list in
    /// one piece, and the versions of later pages.
    pub async fn list(&self) -> Result<List<T>, SourceError> {
        let full = match self.merged(|_, _| ()).await {
            // The earlier pages are dropped by now: they must not occupy memory while the full list arrives.
            Err(error) if error.needs_one_piece() => self.in_one_piece(|_, _| ()).await?,
            listed => listed?,
        };
        Ok(List::new(full.objects, full.resource_version).undecodable(full.undecodable))
    }

    /// Reads the list in one piece, after pages that were not those of one list.
    pub(crate) async fn in_one_piece(
        &self,
        received: impl Fn(&List<T>, u32) + Send + Sync,
    ) -> Result<FullList<T>, SourceError> {
        let pager = Self { first: ListOptions { limit: None, ..self.first.clone() }, ..self.clone() };
        let full = pager.merged(received).await.map_err(|error| match error {
            SourceError::PageExpired { source, .. } => *source,
            error => error,
        })?;
        Ok(FullList { paged: true, ..full })
    }

    /// Reads all pages and merges them, without another list if that fails. Calls `received` with each page and the number
    /// of pages so far.
    pub(crate) async fn merged(
        &self,
        received: impl Fn(&List<T>, u32) + Send + Sync,
    ) -> Result<FullList<T>, SourceError> {
        let Self { source, first, page_timeout, repeats, .. } = self.clone();
        let mut pages = Pages::new(source, first, page_timeout, repeats);
        let mut full = FullList {
            objects: Vec::new(),
            resource_version: ResourceVersion::UNSET,
            undecodable: Vec::new(),
            paged: false,
        };
        while let Some(page) = pages.next().await {
            let page = page?;
            received(&page, pages.received());
            full.paged |= page.continue_token.is_some();
            full.resource_version = page.resource_version;
            full.undecodable.extend(page.undecodable);
            if full.objects.is_empty() {
                full.objects = page.objects;
            } else {
                full.objects.extend(page.objects);
            }
            if let Some(remaining) = page.remaining.and_then(|n| usize::try_from(n).ok())
                && page.continue_token.is_some()
            {
                full.objects.reserve(remaining.min(MAX_RESERVE));
            }
        }
        Ok(full)
    }
}

/// Upper bound on the pages requested ahead, well below the capacity that a channel allows.
const MAX_PREFETCH: usize = 10_000;

/// The pages of a stream. The requests are polled with the stream, so that no task is needed.
struct ReadAhead<T> {
    /// Requests page after page, as long as the channel has a place; `None` after the last page.
    requests: Option<BoxFuture<'static, ()>>,
    pages: mpsc::Receiver<Result<List<T>, SourceError>>,
    /// Whether a page is requested before the consumer wants it.
    is_ahead: bool,
}

impl<T: Object> ReadAhead<T> {
    fn new(pager: &Pager<T>) -> Self {
        let (sender, pages) = mpsc::channel(pager.prefetch.max(1));
        let Pager { source, first, page_timeout, prefetch, repeats } = pager.clone();
        let requests = async move {
            // The limit on the time of the whole list starts with the first request.
            let mut pages = Pages::new(source, first, page_timeout, repeats);
            // The place is reserved before the request, so that a page counts while it is requested.
            while let Ok(place) = sender.reserve().await
                && let Some(page) = pages.next().await
            {
                place.send(page);
            }
        };
        Self { requests: Some(requests.boxed()), pages, is_ahead: prefetch > 0 }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<List<T>, SourceError>>> {
        self.poll_requests(context);
        let page = self.pages.poll_recv(context);
        if page.is_ready() {
            // The page has left a place for another one.
            self.poll_ahead(context);
        }
        page
    }

    fn poll_ahead(&mut self, context: &mut Context<'_>) {
        if self.is_ahead {
            self.poll_requests(context);
        }
    }

    fn poll_requests(&mut self, context: &mut Context<'_>) {
        if self.requests.as_mut().is_some_and(|requests| requests.poll_unpin(context).is_ready()) {
            self.requests = None;
        }
    }
}

impl<T: Object> Clone for Pager<T> {
    fn clone(&self) -> Self {
        let Self { source, first, page_timeout, prefetch, repeats } = self;
        Self {
            source: source.clone(),
            first: first.clone(),
            page_timeout: *page_timeout,
            prefetch: *prefetch,
            repeats: repeats.clone(),
        }
    }
}

impl<T: Object> fmt::Debug for Pager<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pager")
            .field("first", &self.first)
            .field("page_timeout", &self.page_timeout)
            .field("prefetch", &self.prefetch)
            .finish_non_exhaustive()
    }
}
