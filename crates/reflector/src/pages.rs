//! Requests the pages of a list one after the other.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use kinformer_core::internal::contain;
use kinformer_core::{Object, ResourceVersion};
use tokio::time::{Instant, sleep, timeout};

use crate::backoff::{Backoff, after};
use crate::contained::contained;
use crate::{List, ListOptions, ListerWatcher, SourceError};

/// A list of more pages counts as endless: with the default page size these are 5 million objects.
const MAX_PAGES: u32 = 10_000;
/// A list that takes longer counts as endless. An API server drops the state of a continue token after minutes.
const MAX_TIME: Duration = Duration::from_secs(3600);
/// How often a page is requested again, and for how long after its first error: its token expires.
const MAX_REPETITIONS: u32 = 10;
const REPEATED_FOR: Duration = Duration::from_secs(60);

/// The shortest and the longest delay before a page is requested again, without a `Retry-After`.
const REPEATED_AFTER: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(15);

/// Receives an error after which a page is requested again, and the delay before that.
pub(crate) type ReportRepetition = Arc<dyn Fn(SourceError, Duration) + Send + Sync>;

/// The pages of one list. Checks that they form one list and that it ends.
pub(crate) struct Pages<T: Object> {
    source: Arc<dyn ListerWatcher<T>>,
    /// The time in which the source must answer each request.
    timeout: Duration,
    /// Called with each error after which a page is requested again, and the delay. Without it, no page is.
    repeats: Option<ReportRepetition>,
    /// The next request; `None` after the last page or an error.
    next: Option<ListOptions<T>>,
    started: Instant,
    /// The number of received pages.
    received: u32,
    /// The version of the first page.
    version: Option<ResourceVersion>,
    seen: Seen,
    /// The number of unidentified objects so far.
    unidentified: usize,
}

impl<T: Object> Pages<T> {
    pub(crate) fn new(
        source: Arc<dyn ListerWatcher<T>>,
        first: ListOptions<T>,
        timeout: Duration,
        repeats: Option<ReportRepetition>,
    ) -> Self {
        Self {
            source,
            timeout,
            repeats,
            next: Some(first),
            started: Instant::now(),
            received: 0,
            version: None,
            seen: Seen::default(),
            unidentified: 0,
        }
    }

    /// Returns the number of received pages.
    pub(crate) fn received(&self) -> u32 {
        self.received
    }

    /// Requests the next page. Returns `None` after the last one and after an error.
    pub(crate) async fn next(&mut self) -> Option<Result<List<T>, SourceError>> {
        let options = self.next.take()?;
        Some(self.read(options).await)
    }

    async fn read(&mut self, options: ListOptions<T>) -> Result<List<T>, SourceError> {
        if self.received >= MAX_PAGES {
            return Err(self.endless("there are too many pages"));
        }
        if self.received > 0 && self.started.elapsed() >= MAX_TIME {
            return Err(self.endless("it takes too long"));
        }
        let (limit, exchange) = (options.limit, options.exchange.clone());
        let page =
            self.repeated(options).await.map_err(|error| match self.received > 0 && error.is_expired() {
                true => SourceError::PageExpired { page: self.received + 1, source: Box::new(error) },
                false => error,
            })?;
        self.received = self.received.saturating_add(1);
        if !self.seen.is_new(&page) {
            return Err(self.endless("a page repeats"));
        }
        self.unidentified += page.undecodable.iter().filter(|error| error.key.is_none()).count();
        SourceError::check_unidentified(self.unidentified)?;
        let first = self.version.get_or_insert_with(|| page.resource_version.clone());
        if page.resource_version != *first {
            let (version, first) = (page.resource_version, first.clone());
            return Err(SourceError::PagesDiffer { page: self.received, version, first });
        }
        self.next = page.continue_token.clone().map(|token| {
            let next = ListOptions { limit, continue_token: Some(token), ..ListOptions::default() };
            next.with_exchange(exchange)
        });
        Ok(page)
    }

    /// Requests a page. Pages after the first are requested again after transient errors; otherwise the list would start over.
    ///
    /// client-go 0.37 (`withRetry`) repeats each request after a broken connection or an answer with `Retry-After`.
    async fn repeated(&self, options: ListOptions<T>) -> Result<List<T>, SourceError> {
        let mut repetitions = if self.received > 0 && self.repeats.is_some() { MAX_REPETITIONS } else { 0 };
        let (mut until, mut delays) = (None, Backoff::growing(REPEATED_AFTER, LONGEST_DELAY, 1.5).start());
        loop {
            let error = match self.request(options.clone()).await {
                Err(error) if repetitions > 0 && error.is_transient() => error,
                answer => return answer,
            };
            let until = *until.get_or_insert_with(|| Instant::now() + REPEATED_FOR);
            let pause = after(&error, delays.next_delay());
            if Instant::now() + pause > until {
                return Err(error);
            }
            if let Some(report) = &self.repeats {
                report(error, pause);
            }
            sleep(pause).await;
            repetitions -= 1;
        }
    }

    async fn request(&self, options: ListOptions<T>) -> Result<List<T>, SourceError> {
        let (after, exchange) = (self.timeout, options.exchange.clone());
        let request = contained("list", async { self.source.list(options).await });
        let mut page = timeout(after, request).await.unwrap_or(Err(SourceError::Timeout { after }))?;
        exchange.apply_all(&mut page.objects);
        // On the wire, an empty token means that there is no next page.
        page.continue_token = page.continue_token.filter(|token| !token.is_empty());
        Ok(page)
    }

    fn endless(&self, problem: &'static str) -> SourceError {
        SourceError::EndlessList { problem, pages: self.received, after: self.started.elapsed() }
    }
}

/// Detects repeated pages by their continue token and the key of their first object. Stores hashes, so that the size of
/// tokens does not matter.
#[derive(Default)]
struct Seen {
    seed: RandomState,
    tokens: HashSet<u64>,
    first_keys: HashSet<u64>,
}

impl Seen {
    fn is_new<T: Object>(&mut self, page: &List<T>) -> bool {
        let token = page.continue_token.as_ref().map(|token| self.seed.hash_one(token));
        // A panic of the accessor is reported when the object is stored.
        let first = page.objects.first();
        let first = first.and_then(|object| contain(|| self.seed.hash_one(object.key())).ok());
        token.is_none_or(|token| self.tokens.insert(token))
            & first.is_none_or(|key| self.first_keys.insert(key))
    }
}
