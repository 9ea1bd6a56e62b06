//! An informer of the server.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use kinformer::kube_core::DynamicObject;
use kinformer::{Event, Informer, PackedObject, Projection, Registration, Snapshot, SourceError, WireError};
use kinformer_core::internal::with_causes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::Error;
use crate::change::Names;
use crate::hidden::HiddenFields;
use crate::memory::Memory;
use crate::reply::Failure;

/// The name of the handler that records changes.
const HANDLER: &str = "serve";
/// How long the number of stored bytes is kept.
const BYTES_AGE: Duration = Duration::from_secs(5);

/// An informer, with what the server keeps about it.
pub(crate) struct Watched {
    /// The number of the informer, in the order in which they were added.
    pub(crate) number: usize,
    pub(crate) informer: Informer<DynamicObject>,
    /// The names of the informer by its projection, which is decided at the start: see [`Self::name`].
    names: [(Projection, String); 2],
    pub(crate) cluster: Arc<str>,
    pub(crate) scope: String,
    /// When the handler was added.
    pub(crate) since: Timestamp,
    /// Whether objects or some of their fields are not shown.
    pub(crate) conceals: bool,
    /// Whether no objects are shown.
    pub(crate) is_hidden: bool,
    /// The time of the last event in milliseconds since 1970; 0 if there was none.
    last_event: Arc<AtomicI64>,
    /// The events since the handler was added, without those of initial lists.
    events: Arc<AtomicU64>,
    bytes: Mutex<Option<Bytes>>,
    /// `None` if the server shows no objects.
    registration: Option<Registration>,
}

#[derive(Clone, Copy)]
struct Bytes {
    at: Instant,
    revision: u64,
    sum: u64,
}

impl Watched {
    /// Adds the handler that records changes, if there is a memory for them.
    ///
    /// # Errors
    /// [`Error::Informer`] if the informer has stopped.
    pub(crate) fn new(
        number: usize,
        informer: Informer<DynamicObject>,
        memory: Option<&Arc<Memory>>,
        show_secrets: bool,
        hidden: &HiddenFields,
    ) -> Result<Self, Error> {
        let api = informer.selection().api_resource();
        let name = match api.group.is_empty() {
            true => api.plural.clone(),
            false => format!("{}.{}", api.plural, api.group),
        };
        let names = [(Projection::Metadata, format!("{name} (metadata)")), (Projection::Whole, name)];
        let is_hidden = !show_secrets && api.group.is_empty() && api.kind == "Secret";
        let last_event = Arc::new(AtomicI64::new(0));
        let events = Arc::new(AtomicU64::new(0));
        let since = Timestamp::now();
        let registration = memory
            .map(|memory| {
                let memory: Weak<Memory> = Arc::downgrade(memory);
                let (last, counted) = (last_event.clone(), events.clone());
                let handler = informer.handler().name(HANDLER).resync(Duration::ZERO).inline();
                handler.for_each(move |event| {
                    let now = Timestamp::now();
                    last.store(now.as_millisecond(), Ordering::Relaxed);
                    if !matches!(&event, Event::Added(added) if added.in_initial_list) {
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                    // Changes that are not shown do not displace others.
                    if !is_hidden && let Some(memory) = memory.upgrade() {
                        memory.record(number, &event, now);
                    }
                })
            })
            .transpose()?;
        Ok(Self {
            number,
            names,
            cluster: informer.status().metrics().cluster,
            scope: informer.selection().scope().to_owned(),
            since,
            conceals: is_hidden || !hidden.is_empty(),
            is_hidden,
            last_event,
            events,
            bytes: Mutex::default(),
            registration,
            informer,
        })
    }

    /// The name of the informer, such as `deployments.apps` or `deployments.apps (metadata)`.
    pub(crate) fn name(&self) -> &str {
        let projection = self.informer.selection().projection();
        self.names.iter().find(|(of, _)| *of == projection).map_or("", |(_, name)| name)
    }

    /// Removes the handler.
    pub(crate) async fn leave(&self) {
        if let Some(registration) = &self.registration {
            self.informer.remove_handler(registration).await;
        }
    }

    pub(crate) fn names(&self) -> Names<'_> {
        Names { informer: self.name(), cluster: &self.cluster, scope: &self.scope }
    }

    /// Whether this is the informer of a request; parameters that are missing match everything.
    pub(crate) fn is_named(&self, name: &str, cluster: Option<&str>, scope: Option<&str>) -> bool {
        self.name() == name
            && cluster.is_none_or(|cluster| *self.cluster == *cluster)
            && scope.is_none_or(|scope| self.scope == scope)
    }

    /// # Errors
    /// 403 if the objects are not shown.
    pub(crate) fn check_shown(&self) -> Result<(), Failure> {
        if self.is_hidden {
            return Err(Failure::hidden(format!(
                "{} are not shown: start the server with --show-secrets (in a program: show_secrets()) to show them",
                self.name()
            )));
        }
        Ok(())
    }

    /// The text of an error, which may quote hidden values.
    pub(crate) fn text_of(&self, error: &SourceError) -> String {
        if self.conceals && may_quote(error) {
            return "objects could not be decoded or stored; the error may quote hidden values".to_owned();
        }
        with_causes(error)
    }

    /// As [`Self::text_of`], for the error of the decoder.
    pub(crate) fn text_of_decoding(&self, error: &WireError) -> String {
        if self.conceals { "the error may quote hidden values".to_owned() } else { error.to_string() }
    }

    /// The stored objects; `None` before the start.
    pub(crate) fn snapshot(&self) -> Option<Snapshot<DynamicObject>> {
        self.informer.snapshot().ok()
    }

    /// The time of the last event, including those of the initial list.
    pub(crate) fn last_event(&self) -> Option<Timestamp> {
        let milliseconds = self.last_event.load(Ordering::Relaxed);
        (milliseconds > 0).then(|| Timestamp::from_millisecond(milliseconds).ok()).flatten()
    }

    /// The events since the handler was added, without bookmarks and initial lists.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// The encoded bytes of the objects in a snapshot. O(objects) if they have changed and the last sum is old.
    pub(crate) fn bytes_of(&self, snapshot: &Snapshot<DynamicObject>) -> u64 {
        let known = *self.bytes.lock();
        if let Some(known) = known
            && (known.revision == snapshot.revision() || known.at.elapsed() < BYTES_AGE)
        {
            return known.sum;
        }
        let mut sum = 0_u64;
        snapshot.for_each(|object| sum += object.object().encoded_len() as u64);
        *self.bytes.lock() = Some(Bytes { at: Instant::now(), revision: snapshot.revision(), sum });
        sum
    }

    /// Decodes an object into JSON, with its type, and without the hidden fields.
    ///
    /// # Errors
    /// The error of the decoder.
    pub(crate) fn json_of(&self, object: &PackedObject, hidden: &HiddenFields) -> Result<Value, WireError> {
        let mut value: Value = object.decode_new()?;
        // Items of lists have no type.
        if let Value::Object(fields) = &mut value {
            let api = self.informer.selection().api_resource();
            let text = |text: &str| Value::String(text.to_owned());
            fields.entry("apiVersion").or_insert_with(|| text(&api.api_version));
            fields.entry("kind").or_insert_with(|| text(&api.kind));
        }
        hidden.remove_from(&mut value);
        Ok(value)
    }
}

/// Whether the text of an error may have parts of objects: all may, except those of the connection and of a `Status`.
fn may_quote(error: &SourceError) -> bool {
    !matches!(
        error,
        SourceError::Status(_)
            | SourceError::NotServed { .. }
            | SourceError::ConnectionRefused { .. }
            | SourceError::Transport { .. }
            | SourceError::Timeout { .. }
            | SourceError::WrongList { .. }
            | SourceError::ListInsteadOfWatch { .. }
            | SourceError::MissingVersion { .. }
            | SourceError::PagesDiffer { .. }
    )
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("name", &self.name())
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: H-15a, H-16a
    #[test]
    fn errors_of_decoders_may_quote_objects() {
        let text = || "it starts with {\"data\":{\"password\":\"c2VjcmV0\"}}".to_owned();
        for error in [
            SourceError::Decode { source: text().into() },
            SourceError::UnidentifiedEvent { source: text().into() },
            SourceError::IncompleteList { unidentified: 1, first: Vec::new() },
            SourceError::ContentType {
                resource: "pods".into(),
                content_type: "text/plain".into(),
                start: text(),
            },
            SourceError::Other { source: text().into() },
        ] {
            assert!(may_quote(&error), "{error}");
        }
        assert!(!may_quote(&SourceError::Timeout { after: Duration::from_secs(1) }));
        assert!(!may_quote(&SourceError::Transport { source: "connection reset".into() }));
    }
}
