//! The state machine of a reflector: its data, and the steps it consists of.
//!
//! `run.rs` performs one step after the other. A step is in `list.rs`, `watch_list.rs` or `watch.rs`; each returns the
//! next step. The steps use what is below them: `replace.rs` and `apply.rs` (a list, an event), `recovery.rs` (the step
//! after a watch), `incomplete_list.rs`, `not_served.rs`, `resync.rs`, `requests.rs` (opening a watch, the limit on requests), `sink.rs`,
//! `report.rs` (failures) and `wait.rs`. The words are those of the crate's documentation.

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

use crate::backoff::{FOREVER, RunningBackoff};
use crate::left_out::LeftOut;
use crate::not_served::NotServed;
use crate::probe::Probing;
use crate::request_limit::RequestWindow;
use crate::short_watches::ShortWatches;
use crate::source_versions::SourceVersions;
use crate::state::Shared;
use crate::stream::OpenWatch;
use crate::{Exchange, ListerWatcher, NextRequest, ReflectorOptions};

/// The number of watches without progress or failed watch-lists in a row after which the reflector lists, and after which
/// failed watch-lists count as unsupported. Errors that prove that no request was processed (connection refused, 429) do
/// not count: they are retried forever.
const MAX_TRIES_WITHOUT_PROGRESS: u32 = 5;

pub(crate) struct Machine<T: Object, S> {
    source: Arc<dyn ListerWatcher<T>>,
    sink: S,
    /// Replaces objects of lists and watch-lists by the equal ones that the sink has already, which saves their memory.
    exchange: Exchange<T>,
    known: Option<Arc<dyn KnownObjects<T>>>,
    options: ReflectorOptions,
    shared: Arc<Shared>,
    cancel: CancellationToken,
    backoff: RunningBackoff,
    /// The backoff of the lists that repeat an incomplete one, separate so that they do not lengthen the delays of watches
    /// that fail meanwhile.
    incomplete_list_backoff: RunningBackoff,
    /// The last version: the sink has everything up to it.
    version: ResourceVersion,
    /// Whether the server no longer has `version`: the next list requests the newest.
    version_unavailable: bool,
    source_versions: SourceVersions,
    /// How often the versions of the source had gone back at the last list.
    went_back_before: u64,
    /// The version at which the last watch has expired, or that the last list requested and has: another list that requests
    /// this version may return the same state again.
    repeated_at: Option<ResourceVersion>,
    /// Whether the source paged a list at version `0`: it then has no cache from which it could read a list in one
    /// piece.
    paged: bool,
    /// The number of consecutive watches without progress.
    tries_without_progress: u32,
    /// The time of the last list, or of the end of the last watch after it that was alive.
    current_at: Instant,
    /// The number of lists since the last watch that was alive.
    lists_without_watch: u32,
    /// The number of consecutive failures of any kind.
    failures: u32,
    /// Set while the source answers that it does not have the resource.
    not_served: Option<NotServed>,
    /// The times of the first and the last of a series of internal errors.
    internal_errors: Option<(Instant, Instant)>,
    /// The time of the next resync, if there are any.
    resync_at: Option<Instant>,
    /// The number of consecutive watch-lists that failed with an error that does not say whether the server lacks
    /// watch-lists or fails in general; 0 after a list that failed as well. If there are many, and the list that follows
    /// succeeds, watch-lists count as unsupported.
    failed_watch_lists: u32,
    /// Whether the sink has applied its first list.
    synced: bool,
    requests: RequestWindow,
    probing: Probing,
    short_watches: ShortWatches,
    /// Whether the next watch continues an earlier one.
    is_restart: bool,
    /// The version after which the last watch received an unidentified event.
    unidentified_event_at: Option<ResourceVersion>,
    left_out: LeftOut,
    /// The time at which the last list is repeated, if it was incomplete or objects were left out.
    repeat_at: Option<Instant>,
    /// The time before which the source has asked for no list (`Retry-After`), whatever happens to a watch meanwhile.
    lists_not_before: Option<Instant>,
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
            requests: RequestWindow::new(options.request_limit),
            probing: Probing::new(budget),
            short_watches: ShortWatches::default(),
            backoff: options.backoff.start(),
            // The delays start over with a complete list only.
            incomplete_list_backoff: options.backoff.clone().reset_after(FOREVER).start(),
            options,
            shared,
            cancel,
            version: ResourceVersion::UNSET,
            version_unavailable: false,
            source_versions: SourceVersions::new(),
            went_back_before: 0,
            repeated_at: None,
            paged: false,
            tries_without_progress: 0,
            current_at: Instant::now(),
            lists_without_watch: 0,
            failures: 0,
            not_served: None,
            internal_errors: None,
            resync_at: None,
            failed_watch_lists: 0,
            synced: false,
            is_restart: false,
            unidentified_event_at: None,
            left_out: LeftOut::default(),
            repeat_at: None,
            lists_not_before: None,
            span: Span::none(),
        }
    }
}
