//! A whole list, page by page.

use std::num::NonZeroU32;
use std::sync::Arc;

use kinformer_core::{Object, ResourceVersion};

use crate::contained::contained;
use crate::state::{Shared, count};
use crate::{ApiError, DecodeError, List, ListOptions, ListerWatcher, ReflectorOptions, ReflectorState};

pub(crate) const PAGE_SIZE: NonZeroU32 = NonZeroU32::new(500).unwrap();

/// What a server says of `remaining` objects is believed up to here when room is made for them.
const MAX_RESERVE: usize = 1 << 20;

/// All pages of a list together.
pub(crate) struct WholeList<T> {
    pub(crate) objects: Vec<Arc<T>>,
    pub(crate) resource_version: ResourceVersion,
    pub(crate) undecodable: Vec<DecodeError>,
    /// Whether the source gave it in pages.
    pub(crate) paged: bool,
}

pub(crate) struct Pager<'a, T: Object> {
    pub(crate) source: &'a dyn ListerWatcher<T>,
    pub(crate) shared: &'a Shared,
    pub(crate) options: &'a ReflectorOptions,
}

impl<T: Object> Pager<'_, T> {
    /// Follows client-go 1.37 (`ListPager.ListWithAlloc`): when a later page has expired, everything is asked
    /// for again, at once and in one piece.
    pub(crate) async fn list(&self, first: ListOptions) -> Result<WholeList<T>, ApiError> {
        count(&self.shared.counters.lists);
        let version = first.resource_version.clone();
        let in_one_piece = ListOptions { limit: None, ..first.clone() };
        let page = self.page(first.clone()).await?;
        let mut whole = WholeList {
            objects: page.objects,
            resource_version: page.resource_version,
            undecodable: page.undecodable,
            paged: page.continue_token.is_some(),
        };
        let mut token = page.continue_token;
        let mut remaining = page.remaining;
        let mut pages = 1_u32;
        while let Some(next) = token.take() {
            self.shared.set_state(ReflectorState::Listing { resource_version: version.clone(), pages });
            if let Some(remaining) = remaining.and_then(|n| usize::try_from(n).ok()) {
                whole.objects.reserve(remaining.min(MAX_RESERVE));
            }
            let options = ListOptions {
                limit: first.limit,
                continue_token: Some(next.clone()),
                ..ListOptions::default()
            };
            let page = match self.page(options).await {
                Ok(page) => page,
                Err(error) if error.is_expired() => {
                    // What has come so far belongs to a state that is gone: it must not lie about while the
                    // whole list comes.
                    drop(whole);
                    let list = self.page(in_one_piece).await?;
                    return Ok(WholeList {
                        objects: list.objects,
                        resource_version: list.resource_version,
                        undecodable: list.undecodable,
                        paged: true,
                    });
                }
                Err(error) => return Err(error),
            };
            if page.continue_token.as_ref() == Some(&next) {
                let what =
                    format!("page {} names itself as the next one ({next:?})", pages.saturating_add(1));
                return Err(ApiError::Unexpected { what });
            }
            whole.objects.extend(page.objects);
            whole.undecodable.extend(page.undecodable);
            token = page.continue_token;
            remaining = page.remaining;
            pages = pages.saturating_add(1);
        }
        Ok(whole)
    }

    async fn page(&self, options: ListOptions) -> Result<List<T>, ApiError> {
        let after = self.options.list_timeout;
        let request = contained("list", async { self.source.list(options).await });
        let mut list =
            tokio::time::timeout(after, request).await.unwrap_or(Err(ApiError::Timeout { after }))?;
        count(&self.shared.counters.pages);
        // An empty token is how the wire says that there is none.
        list.continue_token = list.continue_token.filter(|token| !token.is_empty());
        Ok(list)
    }
}
