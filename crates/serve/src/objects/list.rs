//! Lists of objects, page by page.

use std::cmp::Ordering;
use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, StatusCode};
use kinformer::kube_core::DynamicObject;
use kinformer::{KeyRef, LabelSelector, NAMESPACE_INDEX, PackedObject, ResourceVersion, Snapshot};
use percent_encoding::utf8_percent_encode;
use serde::Serialize;

use crate::app::App;
use crate::objects::indexes::{check_index, no_index};
use crate::objects::{DEFAULT, ESCAPED, MOST};
use crate::query::Query;
use crate::reply::{Failure, json_of, tagged};
use crate::state;
use crate::summary::{self, Row};
use crate::views::{self, View};
use crate::watched::Watched;

/// A column by which objects are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Key,
    Namespace,
    Name,
    Status,
    Created,
    ResourceVersion,
}

/// What is listed, and in which order.
#[derive(Clone, Debug)]
struct Selection {
    index: Option<(String, String)>,
    namespace: Option<String>,
    labels: Option<LabelSelector>,
    /// A part of the key, in lower case.
    filter: Option<String>,
    column: Column,
    descending: bool,
}

/// A page of a view.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    view: &'a str,
    revision: u64,
    resource_version: &'a str,
    total: usize,
    offset: usize,
    next: Option<String>,
    items: Vec<Row>,
}

/// `GET /api/v1/informers/{informer}/objects`.
pub(crate) async fn list(
    app: Arc<App>,
    watched: Arc<Watched>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    watched.check_shown()?;
    let limit = query.number("limit", DEFAULT, 1..=MOST)?;
    let offset = query.number("offset", 0, 0..=usize::MAX)?;
    let view = match query.get("view") {
        Some(id) => match app.views.get(id) {
            Some(view) if view.informer == watched.number => view,
            _ => {
                return Err(Failure::new(
                    StatusCode::GONE,
                    "Expired",
                    "this view has expired; request the list again without the parameter view",
                ));
            }
        },
        None => view_of(&app, &watched, Selection::of(&app, &watched, &query)?).await?,
    };
    let tag = format!("{}-{offset}-{limit}", view.id);
    app.clone()
        .read(move || tagged(&headers, &tag, || page(&app, &watched, &view, (offset, limit), &query)))
        .await
}

fn page(
    app: &App,
    watched: &Watched,
    view: &View,
    (offset, limit): (usize, usize),
    query: &Query,
) -> Response {
    let kind = &watched.informer.selection().api_resource().kind;
    let objects = view.objects.iter().skip(offset).take(limit);
    let after = offset.saturating_add(limit);
    let next = (after < view.objects.len()).then(|| {
        let name = utf8_percent_encode(watched.name(), ESCAPED);
        let mut next =
            format!("/api/v1/informers/{name}/objects?view={}&offset={after}&limit={limit}", view.id);
        for parameter in ["cluster", "scope"] {
            if let Some(value) = query.value(parameter) {
                next.push_str(&format!("&{parameter}={}", utf8_percent_encode(value, ESCAPED)));
            }
        }
        next
    });
    json_of(&Page {
        view: &view.id,
        revision: view.revision,
        resource_version: &view.resource_version,
        total: view.objects.len(),
        offset,
        next,
        items: objects.map(|object| Row::of(object, kind, &app.settings.hidden)).collect(),
    })
}

impl Column {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "key" => Self::Key,
            "namespace" => Self::Namespace,
            "name" => Self::Name,
            "status" => Self::Status,
            "created" => Self::Created,
            "resourceVersion" => Self::ResourceVersion,
            _ => return None,
        })
    }
}

impl Selection {
    fn of(app: &App, watched: &Watched, query: &Query) -> Result<Self, Failure> {
        let index = match (query.get("index"), query.has("value")) {
            (None, false) => None,
            (Some(index), true) => {
                check_index(app, index)?;
                Some((index.to_owned(), query.get("value").unwrap_or_default().to_owned()))
            }
            _ => {
                return Err(Failure::bad_request("index and value belong together: index=node&value=node-1"));
            }
        };
        let labels = match query.get("labelSelector") {
            Some(_) if app.settings.hidden.touches("metadata.labels") => {
                return Err(Failure::hidden("labels are hidden, so objects cannot be selected by them"));
            }
            Some(text) => Some(text.parse().map_err(|error| Failure::bad_request(format!("{error}")))?),
            None => None,
        };
        let sort = query.get("sort").unwrap_or("key");
        let (name, descending) = match sort.strip_prefix('-') {
            Some(name) => (name, true),
            None => (sort, false),
        };
        let column = Column::of(name).ok_or_else(|| {
            let columns = state::COLUMNS.join(", ");
            Failure::bad_request(format!(
                "sort={sort:?} is none of key, {columns}, with - before it to reverse the order"
            ))
        })?;
        let is_hidden = match column {
            Column::Status => app.settings.hidden.touches("status"),
            Column::Created => app.settings.hidden.hides("metadata.creationTimestamp"),
            _ => false,
        };
        if is_hidden {
            return Err(Failure::hidden(format!("the field of the column {name} is hidden")));
        }
        if watched.snapshot().is_none() {
            return Err(Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "NotStarted",
                "the informer was not started",
            ));
        }
        let namespace = query.get("namespace").map(str::to_owned);
        let filter = query.get("filter").map(str::to_lowercase);
        Ok(Self { index, namespace, labels, filter, column, descending })
    }

    /// Returns the selected objects in their order. O(n log n).
    fn apply(
        &self,
        watched: &Watched,
        snapshot: &Snapshot<DynamicObject>,
        app: &App,
    ) -> Result<Vec<Arc<PackedObject>>, Failure> {
        let wanted = |object: &PackedObject| {
            self.namespace.as_deref().is_none_or(|namespace| object.namespace() == Some(namespace))
                && self.labels.as_ref().is_none_or(|labels| labels.matches_object(object))
                && self.filter.as_deref().is_none_or(|filter| matches(object.key(), filter))
        };
        let mut objects: Vec<Arc<PackedObject>> = Vec::new();
        let by_namespace = self.namespace.as_deref().filter(|_| watched.informer.selection().is_namespaced());
        let by_index = match (&self.index, by_namespace) {
            (Some((index, value)), _) => Some(snapshot.by_index(index, value)),
            (None, Some(namespace)) => snapshot.by_index(NAMESPACE_INDEX, namespace).ok().map(Ok),
            (None, None) => None,
        };
        match by_index {
            Some(found) => {
                let found = found.map_err(|error| no_index(snapshot, &error.to_string()))?;
                objects.extend(
                    found.into_iter().map(|object| object.object()).filter(|object| wanted(object)).cloned(),
                );
            }
            None => snapshot.for_each(|object| {
                if wanted(object.object()) {
                    objects.push(object.object().clone());
                }
            }),
        }
        let by_key = |one: &Arc<PackedObject>, other: &Arc<PackedObject>| one.key().cmp(&other.key());
        objects.sort_unstable_by(by_key);
        // Stable, so that objects that are equal in the column are in the order of their keys.
        match self.column {
            Column::Key | Column::Namespace => {}
            Column::Name => objects.sort_by(|one, other| one.name().cmp(other.name())),
            Column::Status => {
                let kind = &watched.informer.selection().api_resource().kind;
                objects.sort_by_cached_key(|object| summary::status(object, kind, &app.settings.hidden));
            }
            Column::Created => objects.sort_by_cached_key(|object| summary::created(object)),
            Column::ResourceVersion => {
                objects.sort_by(|one, other| by_version(&one.resource_version(), &other.resource_version()));
            }
        }
        if self.descending {
            objects.reverse();
        }
        Ok(objects)
    }
}

/// Orders versions by age. Those whose age is unknown, since they are no decimal numbers, come last, in the order of their
/// texts.
fn by_version(one: &ResourceVersion, other: &ResourceVersion) -> Ordering {
    let is_text = |version: &ResourceVersion| version.compare(&ResourceVersion::from("1")).is_none();
    one.compare(other).unwrap_or_else(|| {
        is_text(one).cmp(&is_text(other)).then_with(|| one.to_string().cmp(&other.to_string()))
    })
}

/// Whether a key contains a text in any case. `filter` is in lower case.
fn matches(key: KeyRef<'_>, filter: &str) -> bool {
    let contains = |text: &str| {
        if text.is_ascii() && filter.is_ascii() {
            let (text, filter) = (text.as_bytes(), filter.as_bytes());
            return text.windows(filter.len()).any(|window| window.eq_ignore_ascii_case(filter));
        }
        text.to_lowercase().contains(filter)
    };
    if filter.contains('/') {
        return contains(&key.to_string());
    }
    contains(key.name()) || key.namespace().is_some_and(contains)
}

/// Returns a view of the current state; one with the same parameters if the store has not changed since.
async fn view_of(app: &Arc<App>, watched: &Arc<Watched>, selection: Selection) -> Result<Arc<View>, Failure> {
    let snapshot = watched.snapshot().ok_or_else(|| Failure::internal("the informer was not started"))?;
    let query = format!("{selection:?}");
    let revision = snapshot.revision();
    if let Some(same) = app.views.same(watched.number, &query, revision) {
        return Ok(same);
    }
    let (background, of) = (app.clone(), watched.clone());
    let selected = app.read(move || {
        let objects = selection.apply(&of, &snapshot, &background)?;
        let resource_version = snapshot.resource_versions().lowest().to_string();
        Ok::<_, Failure>((views::bytes_of(&objects), objects, resource_version))
    });
    let (bytes, objects, resource_version) = selected.await??;
    let view = Arc::new(View {
        id: views::new_id(),
        informer: watched.number,
        query,
        revision,
        resource_version,
        objects,
        bytes,
    });
    app.views.add(view.clone());
    Ok(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_ignore_the_case() {
        let key = |namespace, name| KeyRef::new(namespace, name);
        assert!(matches(key("shop", "Web-0"), "web"));
        assert!(matches(key("shop", "web-0"), "hop"));
        assert!(matches(key("shop", "web-0"), "shop/w"));
        assert!(!matches(key("shop", "web-0"), "pw"), "not across the slash");
        assert!(matches(key("shop", "ÄÖ"), "äö"));
        assert!(!matches(key("", "a"), "abc"));
    }

    // contract: H-04a
    #[test]
    fn versions_of_any_form_have_one_order() {
        let sorted = ["1", "3", "20", "99999999999999999999999", "", "x", "y"].map(ResourceVersion::from);
        for (i, one) in sorted.iter().enumerate() {
            for (j, other) in sorted.iter().enumerate() {
                assert_eq!(by_version(one, other), i.cmp(&j), "{one} {other}");
            }
        }
    }
}
