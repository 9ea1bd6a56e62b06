//! The state machine of a reflector: its data, and the steps it consists of.
//!
//! `run.rs` performs one step after the other. A step is in `list.rs`, `watch_list.rs` or `watch.rs`; each returns the
//! next step. The steps use what is below them: `replace.rs` and `apply.rs` (a list, an event), `recovery.rs` (the step
//! after a watch), `incomplete_list.rs`, `not_served.rs`, `resync.rs`, `requests.rs` (opening a watch, the limit on requests), `sink.rs`,
//! `report.rs` (failures) and `wait.rs`. The words are those of the crate's documentation.
//!
//! What the steps remember is in values with their own rules: those of [`history`](crate::history), and [`Probing`].

mod apply;
mod incomplete_list;
mod list;
mod not_served;
mod recovery;
mod replace;
mod report;
mod requests;
mod resync;
mod run;
mod sink;
mod wait;
mod watch;
mod watch_list;

use std::sync::Arc;
use std::time::Duration;

use kinformer_core::{KnownObjects, Object, ResourceVersion, Sink};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::backoff::FOREVER;
use crate::history::{
    Attempts, LastVersion, NotServed, Repetition, RequestTimes, ShortWatches, SourceVersions,
};
use crate::probe::Probing;
use crate::state::Shared;
use crate::stream::OpenWatch;
use crate::{Exchange, ListerWatcher, NextRequest, ReflectorOptions};

pub(crate) struct Machine<T: Object, S> {
    source: Arc<dyn ListerWatcher<T>>,
    sink: S,
    /// Replaces objects of lists and watch-lists by the equal ones that the sink has already, which saves their memory.
    exchange: Exchange<T>,
    known: Option<Arc<dyn KnownObjects<T>>>,
    options: ReflectorOptions,
    shared: Arc<Shared>,
    cancel: CancellationToken,
    /// The last version of the sink, and what the next list requests.
    version: LastVersion,
    /// What is known about the versions of the source.
    source_versions: SourceVersions,
    attempts: Attempts,
    requests: RequestTimes,
    repetition: Repetition,
    probing: Probing,
    short_watches: ShortWatches,
    /// Set while the source answers that it does not have the resource.
    not_served: Option<NotServed>,
    /// The time of the next resync, if there are any.
    resync_at: Option<Instant>,
    /// Whether the source paged a list at version `0`: it then has no cache from which it could read a list in one
    /// piece.
    paged: bool,
    /// Whether the sink has applied its first list.
    synced: bool,
    /// Whether the next watch continues an earlier one.
    is_restart: bool,
    /// The span of the current list or watch.
    span: Span,
}

/// A step of the machine. Each returns the next one.
enum Step<T: Object> {
    /// A watch-list where it is possible, else a list.
    WatchListOrList,
    List,
    /// A list that follows an incomplete list, or objects that were left out, and may be complete.
    RepeatIncompleteList,
    /// `Some` continues a watch-list that is open already.
    Watch(Option<OpenWatch<T>>),
    BackOff {
        delay: Duration,
        next: NextRequest,
    },
}

impl<T: Object, S: Sink<T>> Machine<T, S> {
    pub(crate) fn new(
        source: Arc<dyn ListerWatcher<T>>,
        sink: S,
        exchange: Exchange<T>,
        known: Option<Arc<dyn KnownObjects<T>>>,
        options: ReflectorOptions,
        shared: Arc<Shared>,
        cancel: CancellationToken,
    ) -> Self {
        let budget = source.probe_budget().cloned().unwrap_or_default();
        Self {
            source,
            sink,
            exchange,
            known,
            version: LastVersion::default(),
            source_versions: SourceVersions::new(false),
            attempts: Attempts::new(),
            requests: RequestTimes::new(&options),
            repetition: Repetition::new(&options.backoff),
            probing: Probing::new(budget),
            short_watches: ShortWatches::default(),
            options,
            shared,
            cancel,
            not_served: None,
            resync_at: None,
            paged: false,
            synced: false,
            is_restart: false,
            span: Span::none(),
        }
    }

    /// The first list is not before this version.
    pub(crate) fn not_before(self, version: ResourceVersion) -> Self {
        let source_versions = SourceVersions::new(!version.is_unset());
        Self { version: LastVersion::not_before(version), source_versions, ..self }
    }
}
