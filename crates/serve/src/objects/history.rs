//! The last changes of an object.

use std::sync::Arc;

use axum::response::Response;
use kinformer::ObjectKey;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::app::App;
use crate::change::Encoded;
use crate::format;
use crate::reply::{Failure, json_of};
use crate::watched::Watched;

#[derive(Serialize)]
struct History<'a> {
    key: String,
    since: String,
    complete: bool,
    items: Vec<&'a RawValue>,
}

/// The most changes of a history; the newest are returned.
const HISTORY: usize = 200;

/// `GET …/objects/{namespace}/{name}/history`.
pub(crate) async fn history(
    app: Arc<App>,
    watched: Arc<Watched>,
    key: ObjectKey,
) -> Result<Response, Failure> {
    watched.check_shown()?;
    let (changes, is_all) = app.memory.history(watched.number, &key);
    let skipped = changes.len().saturating_sub(HISTORY);
    let mut items = Vec::with_capacity(changes.len() - skipped);
    for change in changes.iter().skip(skipped) {
        items.push(app.encoded(change).await?);
    }
    Ok(json_of(&History {
        key: key.to_string(),
        since: format::rfc3339(watched.since),
        complete: is_all && skipped == 0,
        items: items.iter().filter_map(Encoded::json).collect(),
    }))
}
