//! The indexes of an informer.

use std::sync::Arc;

use axum::response::Response;
use kinformer::kube_core::DynamicObject;
use kinformer::{NAMESPACE_INDEX, Snapshot};
use serde::Serialize;

use crate::app::App;
use crate::objects::{DEFAULT, MOST};
use crate::query::Query;
use crate::reply::{Failure, json_of};
use crate::watched::Watched;

/// The error of an unknown index.
pub(crate) fn no_index(snapshot: &Snapshot<DynamicObject>, error: &str) -> Failure {
    let mut names: Vec<String> = snapshot.index_names().iter().map(ToString::to_string).collect();
    names.sort_unstable();
    Failure::not_found(format!("{error}; the indexes are: {}", names.join(", ")))
}

/// Refuses an index whose values may be those of a hidden field.
///
/// # Errors
/// 403.
pub(crate) fn check_index(app: &App, index: &str) -> Result<(), Failure> {
    if app.settings.hidden.is_empty() || index == NAMESPACE_INDEX {
        return Ok(());
    }
    match app.settings.index_fields.get(index) {
        Some(fields) if !fields.iter().any(|field| app.settings.hidden.touches(field)) => Ok(()),
        Some(_) => Err(Failure::hidden(format!("the index {index:?} reads a hidden field"))),
        None => Err(Failure::hidden(format!(
            "fields are hidden, and the fields that the index {index:?} reads are not known to the server"
        ))),
    }
}

#[derive(Serialize)]
struct Indexes {
    indexes: Vec<IndexSize>,
}

#[derive(Serialize)]
struct IndexSize {
    name: String,
    values: Option<usize>,
}

/// `GET …/indexes`. The number of values is `null` where the values are not shown.
pub(crate) fn indexes(app: &App, watched: &Watched) -> Response {
    let snapshot = watched.snapshot();
    let names = snapshot.iter().flat_map(Snapshot::index_names);
    let mut indexes: Vec<IndexSize> = names
        .map(|name| {
            let is_shown = !watched.is_hidden && check_index(app, &name).is_ok();
            let values = snapshot.as_ref().filter(|_| is_shown).and_then(|all| all.index_values(&name).ok());
            IndexSize { name: name.to_string(), values: values.map(|values| values.len()) }
        })
        .collect();
    indexes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    json_of(&Indexes { indexes })
}

#[derive(Serialize)]
struct IndexPage<'a> {
    index: &'a str,
    total: usize,
    offset: usize,
    items: Vec<IndexValue<'a>>,
}

#[derive(Serialize)]
struct IndexValue<'a> {
    value: &'a str,
    objects: usize,
}

/// `GET …/indexes/{index}`.
pub(crate) async fn index(
    app: Arc<App>,
    watched: Arc<Watched>,
    index: String,
    query: Query,
) -> Result<Response, Failure> {
    watched.check_shown()?;
    check_index(&app, &index)?;
    let limit = query.number("limit", DEFAULT, 1..=MOST)?;
    let offset = query.number("offset", 0, 0..=usize::MAX)?;
    let filter = query.get("filter").map(str::to_owned);
    let computed = app.read(move || {
        let snapshot =
            watched.snapshot().ok_or_else(|| Failure::not_found("the informer was not started"))?;
        let mut values =
            snapshot.index_values(&index).map_err(|error| no_index(&snapshot, &error.to_string()))?;
        values.retain(|value| filter.as_deref().is_none_or(|filter| value.contains(filter)));
        values.sort_unstable();
        let items = values
            .iter()
            .skip(offset)
            .take(limit)
            .map(|value| IndexValue { value, objects: snapshot.index_len(&index, value).unwrap_or(0) });
        Ok(json_of(&IndexPage { index: &index, total: values.len(), offset, items: items.collect() }))
    });
    computed.await?
}
