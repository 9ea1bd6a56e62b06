//! Reads a complete list, page by page.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use kinformer_core::internal::contain;
use kinformer_core::{Object, ResourceVersion};
use tokio::time::Instant;

use crate::contained::contained;
use crate::state::{Shared, count};
use crate::{
    DecodeError, Exchange, List, ListOptions, ListerWatcher, ReflectorOptions, ReflectorState, SourceError,
};

pub(crate) const PAGE_SIZE: NonZeroU32 = NonZeroU32::new(500).unwrap();

/// Upper bound on the objects for which space is reserved by a server's `remaining`.
const MAX_RESERVE: usize = 1 << 20;
/// A list of more pages counts as endless: with the default page size these are 5 million objects.
const MAX_PAGES: u32 = 10_000;
/// A list that takes longer counts as endless. An API server drops the state of a continue token after minutes.
const MAX_TIME: Duration = Duration::from_secs(3600);

/// All pages of a list, merged.
pub(crate) struct FullList<T> {
    pub(crate) objects: Vec<Arc<T>>,
    pub(crate) resource_version: ResourceVersion,
    /// Objects that could not be decoded, with their positions in the merged list.
    pub(crate) undecodable: Vec<DecodeError>,
    /// Whether the source returned the list in pages.
    pub(crate) paged: bool,
}

pub(crate) struct Pager<'a, T: Object> {
    pub(crate) source: &'a dyn ListerWatcher<T>,
    pub(crate) shared: &'a Shared,
    pub(crate) options: &'a ReflectorOptions,
    pub(crate) exchange: &'a Exchange<T>,
}

/// The reason for which a list failed.
enum Failed {
    /// The pages do not form one list. A request in one piece may succeed.
    Pages(SourceError),
    Request(SourceError),
}

impl<T: Object> Pager<'_, T> {
    /// Reads all pages. If a later page has expired or has another version, requests the full list again at once, in
    /// one piece.
    ///
    /// Follows client-go 0.37 (`ListPager.ListWithAlloc`), which ignores a continue token of the list in one piece, and
    /// the versions of later pages.
    pub(crate) async fn list(&self, first: ListOptions<T>) -> Result<FullList<T>, SourceError> {
        count(&self.shared.counters.lists);
        let in_one_piece = ListOptions { limit: None, ..first.clone() };
        match self.pages(first).await {
            Ok(full) => Ok(full),
            Err(Failed::Request(error)) => Err(error),
            // The earlier pages are dropped by now: they must not occupy memory while the full list arrives.
            Err(Failed::Pages(_)) => match self.pages(in_one_piece).await {
                Ok(full) => Ok(FullList { paged: true, ..full }),
                Err(Failed::Pages(error) | Failed::Request(error)) => Err(error),
            },
        }
    }

    async fn pages(&self, first: ListOptions<T>) -> Result<FullList<T>, Failed> {
        let started = Instant::now();
        let version = first.resource_version.clone();
        let limit = first.limit;
        let page = self.page(first).await.map_err(Failed::Request)?;
        let mut seen = Seen::default();
        seen.is_new(&page);
        let mut full = FullList {
            objects: page.objects,
            resource_version: page.resource_version,
            undecodable: page.undecodable,
            paged: page.continue_token.is_some(),
        };
        let mut token = page.continue_token;
        let mut remaining = page.remaining;
        let mut pages = 1_u32;
        while let Some(next) = token.take() {
            let endless =
                |problem, pages| SourceError::EndlessList { problem, pages, after: started.elapsed() };
            if pages >= MAX_PAGES {
                return Err(Failed::Request(endless("there are too many pages", pages)));
            }
            if started.elapsed() >= MAX_TIME {
                return Err(Failed::Request(endless("it takes too long", pages)));
            }
            self.shared.set_state(ReflectorState::Listing { resource_version: version.clone(), pages });
            if let Some(remaining) = remaining.and_then(|n| usize::try_from(n).ok()) {
                full.objects.reserve(remaining.min(MAX_RESERVE));
            }
            let options = ListOptions { limit, continue_token: Some(next), ..ListOptions::default() };
            let page = self.page(options).await.map_err(|error| match error.is_expired() {
                true => Failed::Pages(error),
                false => Failed::Request(error),
            })?;
            pages = pages.saturating_add(1);
            if !seen.is_new(&page) {
                return Err(Failed::Request(endless("a page repeats", pages)));
            }
            if page.resource_version != full.resource_version {
                let (version, first) = (page.resource_version, full.resource_version);
                return Err(Failed::Pages(SourceError::PagesDiffer { page: pages, version, first }));
            }
            let before = full.objects.len() + full.undecodable.len();
            let moved = page.undecodable.into_iter().map(|mut error| {
                error.position = error.position.map(|position| before + position);
                error
            });
            full.undecodable.extend(moved);
            full.objects.extend(page.objects);
            token = page.continue_token;
            remaining = page.remaining;
        }
        Ok(full)
    }

    async fn page(&self, options: ListOptions<T>) -> Result<List<T>, SourceError> {
        let after = self.options.list_timeout;
        let options = options.with_exchange(self.exchange.clone());
        let request = contained("list", async { self.source.list(options).await });
        let mut list =
            tokio::time::timeout(after, request).await.unwrap_or(Err(SourceError::Timeout { after }))?;
        count(&self.shared.counters.pages);
        self.exchange.apply_all(&mut list.objects);
        // On the wire, an empty token means that there is no next page.
        list.continue_token = list.continue_token.filter(|token| !token.is_empty());
        Ok(list)
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
