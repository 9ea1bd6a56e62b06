//! The spans of lists and watches. docs/observability.md lists their fields.

use kinformer_core::ResourceVersion;
use tracing::Span;
use tracing::field::{Empty, display};

use crate::SourceError;

/// The kind of a list, as it is named in its span.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListKind {
    List,
    WatchList,
}

/// Creates the span of a list or watch-list.
pub(crate) fn list(reflector: &str, kind: ListKind, is_relist: bool) -> Span {
    let kind = match kind {
        ListKind::List => "list",
        ListKind::WatchList => "watch_list",
    };
    tracing::info_span!(
        "list",
        kinformer.reflector.name = reflector,
        kinformer.list.kind = kind,
        kinformer.list.relist = is_relist,
        kinformer.list.objects = Empty,
        kinformer.list.resource_version = Empty,
        error.type = Empty,
    )
}

/// Records a list that the sink has applied.
pub(crate) fn listed(span: &Span, objects: usize, version: &ResourceVersion) {
    span.record("kinformer.list.objects", objects);
    span.record("kinformer.list.resource_version", display(version));
}

/// Creates the span of a watch from this version.
pub(crate) fn watch(reflector: &str, version: &ResourceVersion) -> Span {
    tracing::info_span!(
        "watch",
        kinformer.reflector.name = reflector,
        kinformer.watch.resource_version = %version,
        kinformer.watch.events = Empty,
        error.type = Empty,
    )
}

/// Records the number of events of a watch that has ended.
pub(crate) fn watched(span: &Span, events: u64) {
    span.record("kinformer.watch.events", events);
}

/// Records the error that ended a list or watch.
pub(crate) fn failed(span: &Span, error: &SourceError) {
    span.record("error.type", &*error.error_type());
}
