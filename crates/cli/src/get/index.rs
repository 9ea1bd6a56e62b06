//! Reads through an informer and its indexes.

use std::collections::HashSet;
use std::time::Duration;

use kinformer::Snapshot;
use serde_json::json;
use tokio::time::Instant;

use crate::args::{ReadingArgs, SelectorArgs};
use crate::connect::Connection;
use crate::display_fields::DisplayFields;
use crate::exit::Error;
use crate::indexes;
use crate::informers::{Informers, Reading};
use crate::namespaces::Namespaces;
use crate::resources::Served;
use crate::stop::Stop;
use crate::table::Table;
use crate::text::Text;

/// How long the first list may take.
const SYNC: Duration = Duration::from_secs(120);
/// How long a received list of a resource that cannot be watched may take to be stored.
const LISTED: Duration = Duration::from_secs(2);

/// Namespaces, empty if there is none, and names.
pub(super) type Keys = HashSet<(String, String)>;

pub(super) fn key(namespace: Option<&str>, name: &str) -> (String, String) {
    (namespace.unwrap_or_default().to_owned(), name.to_owned())
}

/// A value of an index.
#[derive(Debug)]
pub(super) struct Query {
    name: String,
    value: String,
}

impl Query {
    /// # Errors
    /// [`Error::Usage`]: there is no such index.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let usage = |problem: String| Error::Usage(format!("--index {text}: {problem}"));
        let (name, value) =
            text.split_once('=').ok_or_else(|| usage("expected NAME=VALUE, such as node=node-1".into()))?;
        if !indexes::NAMES.contains(&name) {
            return Err(usage(format!("there is no index {name:?}, only {}", indexes::NAMES.join(", "))));
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }

    /// The namespaces and names of the objects that the index finds.
    ///
    /// # Errors
    /// Practically none: the name was checked.
    pub(super) fn keys(&self, snapshot: &Snapshot<DisplayFields>) -> Result<Keys, Error> {
        let found = snapshot.by_index(&self.name, &self.value).map_err(index_error)?;
        Ok(found.into_iter().map(|object| key(object.namespace(), object.name())).collect())
    }
}

/// Reads all objects of a resource into an informer with indexes; `None` if `stop` comes first.
///
/// # Errors
/// The resource cannot be listed.
pub(super) async fn snapshot(
    connection: &Connection,
    served: &Served,
    namespaces: &Namespaces,
    selectors: &SelectorArgs,
    stop: &Stop,
) -> Result<Option<Snapshot<DisplayFields>>, Error> {
    let can_watch = served.can("watch");
    let reading = Reading {
        namespaces,
        labels: selectors.selector.as_deref(),
        fields: selectors.field_selector.as_deref(),
        metadata_only: false,
        dropped: |_| &[],
        how: ReadingArgs { watch_list: can_watch, ..ReadingArgs::default() },
    };
    let informers = Informers::new(connection, [served], reading);
    let (informer, fatal_error) = informers.of(served);
    indexes::add_to(&informer).map_err(|error| Error::Usage(error.to_string()))?;
    informers.start()?;
    let limit = connection.request_timeout.unwrap_or(SYNC);
    let synced = tokio::select! {
        biased;
        Ok(error) = fatal_error => {
            // It may be the error of the watch that follows the list.
            let wait = if can_watch { Duration::ZERO } else { LISTED };
            informer.wait_for_sync().until(Instant::now() + wait).await.map_err(|_| error).map(|()| true)
        }
        synced = informer.wait_for_sync().until(Instant::now() + limit) => {
            synced.map_err(|error| Error::Timeout(error.to_string())).map(|()| true)
        }
        () = stop.requested() => Ok(false),
    };
    let snapshot = informer.snapshot().map_err(|error| Error::Runtime(std::io::Error::other(error)));
    informers.stop().await;
    if synced? { snapshot.map(Some) } else { Ok(None) }
}

/// Formats every index, with the number of objects for each of its values, the most frequent first.
///
/// # Errors
/// Practically none: the index names come from the snapshot.
pub(super) fn render(snapshot: &Snapshot<DisplayFields>, in_json: bool) -> Result<Text, Error> {
    let mut text = Text::default();
    let mut rows = Vec::new();
    for index in snapshot.index_names() {
        let mut values = Vec::new();
        for value in snapshot.index_values(&index).map_err(index_error)? {
            values.push((snapshot.index_len(&index, &value).map_err(index_error)?, value));
        }
        values.sort_by(|(count, value), (other, than)| other.cmp(count).then_with(|| value.cmp(than)));
        rows.extend(values.into_iter().map(|(count, value)| (index.clone(), value, count)));
    }
    if in_json {
        for (index, value, count) in rows {
            text.json(&json!({"index": index.as_ref(), "value": value.as_ref(), "objects": count}));
        }
        return Ok(text);
    }
    let mut table = Table::new(["INDEX", "VALUE", "OBJECTS"]);
    for (index, value, count) in rows {
        table.row([index.as_ref(), value.as_ref(), &count.to_string()]);
    }
    table.lines().iter().for_each(|line| text.push(line));
    Ok(text)
}

/// Converts the error of an unknown index, which is a mistake on the command line.
fn index_error(error: kinformer::Error) -> Error {
    Error::Usage(match error {
        kinformer::Error::Index { source, .. } => source.to_string(),
        other => other.to_string(),
    })
}
