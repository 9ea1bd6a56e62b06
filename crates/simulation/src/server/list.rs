//! Lists: which state answers a request, and its pages.

use serde_json::{Value, json};

use super::history::{History, Key};
use super::request::Query;
use super::status::Status;
use crate::state::State;

/// The state that answers a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The watch cache, when it has reached a version. Its lists have no pages.
    Cache {
        /// The version; 0 for any state.
        at_least: u64,
    },
    /// The newest state of the history: a consistent read.
    Newest,
    /// One state of the history.
    Exact(u64),
    /// The page after an object.
    Page {
        /// The version of the first page; `None` for the newest state.
        version: Option<u64>,
        /// The last object of the previous page.
        after: Key,
    },
}

impl Source {
    /// Follows kube-apiserver 1.37 (`shouldDelegateList`).
    pub(crate) fn of(query: &Query) -> Result<Self, Status> {
        let version = query.number("resourceVersion")?;
        let limit = query.number("limit")?.unwrap_or(0);
        let token = query.param("continue");
        let version_match = query.param("resourceVersionMatch");
        if !token.is_empty() {
            if !version_match.is_empty() || version.is_some_and(|version| version > 0) {
                return Err(Status::invalid("a continue token determines the version"));
            }
            return page_of(token).ok_or_else(|| Status::of_code(400));
        }
        match (version_match, version) {
            ("", None) => Ok(Self::Newest),
            ("", Some(version)) if limit > 0 && version > 0 => Ok(Self::Exact(version)),
            ("Exact", Some(version)) if version > 0 => Ok(Self::Exact(version)),
            ("" | "NotOlderThan", Some(at_least)) => Ok(Self::Cache { at_least }),
            _ => Err(Status::invalid("resourceVersionMatch does not fit resourceVersion")),
        }
    }
}

fn page_of(token: &str) -> Option<Source> {
    let mut parts = token.split(' ');
    let version = parts.next()?.parse::<i64>().ok()?;
    let after = Key::new(parts.next()?, parts.next()?, parts.next()?);
    Some(Source::Page { version: u64::try_from(version).ok(), after })
}

fn token(version: &str, after: &Key) -> String {
    format!("{version} {} {} {}", after.plural, after.namespace, after.name)
}

/// Returns the body of a list; `position` is that of the watch cache.
pub(crate) fn list(
    query: &Query,
    source: &Source,
    history: &History,
    position: u64,
    page_limit: Option<usize>,
) -> Result<Value, Status> {
    let newest = history.newest();
    let (version, after) = match source {
        Source::Cache { .. } => (position, None),
        Source::Newest => (newest, None),
        Source::Exact(version) => (*version, None),
        Source::Page { version, after } => (version.unwrap_or(newest), Some(after)),
    };
    if version > newest {
        return Err(Status::too_large(version, newest));
    }
    // The cache has its state in memory; compaction does not concern it.
    let is_compacted = version < history.compacted();
    match source {
        Source::Page { after, .. } if is_compacted => return Err(Status::too_old_page(token("-1", after))),
        Source::Exact(_) if is_compacted => return Err(Status::too_old_list()),
        _ => {}
    }
    let limit = match source {
        Source::Cache { .. } => usize::MAX,
        _ => match query.number("limit")? {
            None | Some(0) => usize::MAX,
            Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        },
    };
    let limit = page_limit.map_or(limit, |most| most.min(limit));
    let objects = history.objects_at(version).into_iter();
    let mut objects = objects.filter(|(key, object)| {
        query.has_key(key) && query.matches(object) && after.is_none_or(|after| *key > after)
    });
    let page: Vec<(&Key, &State)> = objects.by_ref().take(limit).collect();
    let remaining = objects.count();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let (Some((last, _)), Some(metadata)) = (page.last(), metadata.as_object_mut())
        && remaining > 0
    {
        metadata.insert("continue".into(), json!(token(&version.to_string(), last)));
        if !query.has_labels() {
            metadata.insert("remainingItemCount".into(), json!(remaining));
        }
    }
    let items: Vec<Value> = page.into_iter().map(|(_, object)| query.item(object)).collect();
    Ok(query.list(&metadata, &items))
}
