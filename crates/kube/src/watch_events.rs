//! The events of an open watch, read from its body.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use kinformer_core::internal::contain;
use kinformer_core::{Object, ResourceVersion};
use kinformer_reflector::{SourceError, WatchEvent};
use kinformer_wire::{FromWire, ObjectDecoder, RawEvent, RawEventType, WatchDecoder};
use kube_core::discovery::ApiResource;

use crate::filter::Filter;
use crate::list_kind::Start;
use crate::selector::LabelSelector;
use crate::{decode, list_kind, scope};

/// About how many bytes of a watch are searched for the kind of a list.
const MAX_START: usize = 16 * 1024;

/// The events of an open watch.
pub(crate) struct WatchEvents<K> {
    pub(crate) body: stream::BoxStream<'static, Result<Bytes, SourceError>>,
    /// `None` once the body has ended.
    pub(crate) decoder: Option<WatchDecoder>,
    pub(crate) objects: ObjectDecoder,
    pub(crate) ready: VecDeque<Result<WatchEvent<K>, SourceError>>,
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) filter: Filter,
    /// The resource, if objects in namespaces are refused.
    pub(crate) cluster_scoped: Option<ApiResource>,
    /// The beginning of a body in JSON that may be a list; `None` once it is no list.
    pub(crate) start: Option<Vec<u8>>,
}

impl<K: Object + FromWire> WatchEvents<K> {
    pub(crate) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<WatchEvent<K>, SourceError>> + Send + 'static {
        stream::unfold(self, |mut events| async move {
            loop {
                if let Some(event) = events.ready.pop_front() {
                    return Some((event, events));
                }
                events.decoder.as_ref()?;
                let chunk = events.body.next().await;
                events.take(chunk);
            }
        })
        .fuse()
    }

    fn take(&mut self, chunk: Option<Result<Bytes, SourceError>>) {
        let Self { decoder, objects, ready, start, selector, filter, cluster_scoped, .. } = self;
        // Events after an error are ignored.
        let mut ended = false;
        let mut on_event = |event: Result<RawEvent<'_>, kinformer_wire::Error>| {
            if !ended && event.as_ref().map_or(true, |event| is_admitted(filter, event, objects)) {
                let event = decode::event(event, objects);
                let event = event.and_then(|event| scope::check(event, cluster_scoped.as_ref()));
                ended = event.is_err();
                let violation = event.as_ref().ok().and_then(|event| violation(selector.as_ref()?, event));
                ready.push_back(event);
                ready.extend(violation.map(Ok));
            }
        };
        match chunk {
            Some(Ok(chunk)) => {
                let Some(open) = decoder else { return };
                if let Some(before) = start {
                    before.extend_from_slice(chunk.get(..MAX_START).unwrap_or(&chunk));
                    match list_kind::instead_of_watch(before) {
                        Start::List(kind) => {
                            ready.push_back(Err(SourceError::ListInsteadOfWatch { kind }));
                            *decoder = None;
                            return;
                        }
                        Start::Unknown if before.len() < MAX_START => {}
                        Start::Unknown | Start::Other => *start = None,
                    }
                }
                let fed = open.feed(&chunk, &mut on_event);
                if fed.is_err() || ended {
                    *decoder = None;
                }
                if let (Err(error), false) = (fed, ended) {
                    ready.push_back(Err(broken_off(error)));
                }
            }
            Some(Err(error)) => {
                ready.push_back(Err(error));
                *decoder = None;
            }
            None => {
                let Some(open) = decoder.take() else { return };
                let finished = open.finish(&mut on_event);
                if let (Err(error), false) = (finished, ended) {
                    ready.push_back(Err(broken_off(error)));
                }
            }
        }
    }
}

/// Whether an event has an object that the filter admits, or none.
fn is_admitted(filter: &Filter, event: &RawEvent<'_>, decoder: &ObjectDecoder) -> bool {
    let has_object =
        matches!(event.event_type, RawEventType::Added | RawEventType::Modified | RawEventType::Deleted);
    !has_object || filter.is_empty() || filter.admits(decoder, event.object)
}

/// Returns a report of an object that the selector does not match. The server may have ignored the selector, or may give it
/// another meaning, so the object itself is delivered.
fn violation<K: Object>(selector: &LabelSelector, event: &WatchEvent<K>) -> Option<WatchEvent<K>> {
    let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else { return None };
    let matches = contain(|| selector.matches_object(&**object)).unwrap_or(true);
    let what = || format!("{}, which the label selector {selector} does not match", object.key());
    (!matches).then(|| WatchEvent::unexpected(what(), ResourceVersion::UNSET))
}

/// Converts an error of a watch. A truncated watch is a transport error. After any other problem the start of the next
/// event is unknown.
fn broken_off(error: kinformer_wire::Error) -> SourceError {
    match error {
        kinformer_wire::Error::Truncated { .. } => SourceError::Transport { source: Box::new(error) },
        other => SourceError::UnidentifiedEvent { source: Box::new(other) },
    }
}
