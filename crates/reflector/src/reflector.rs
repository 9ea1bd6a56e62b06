//! The public type of a reflector.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer_core::{KnownObjects, Object, ResourceVersion, Sink};
use tokio_util::sync::CancellationToken;

use crate::machine::Machine;
use crate::state::Shared;
use crate::{Exchange, ListerWatcher, ReflectorHandle, ReflectorOptions, StopReason};

/// Keeps a sink equal to a source: lists the source once, then applies its changes to the sink, across all failures.
///
/// * Changes reach the sink in the order of the source. After a failure, the next watch continues after the last
///   version. Where the source cannot continue there, a list replaces the missed changes: their intermediate states are
///   not delivered.
/// * The last version ([`ReflectorHandle::last_version`]) moves only after the sink has taken the change.
/// * A failure is retried after a delay ([`Backoff`](crate::Backoff)) until [`Self::run`] is cancelled or the sink is
///   closed; none ends the reflector. Each is counted, logged, and passed to the error hook.
/// * A panic of the source, the sink or the hooks is contained and treated as a failure.
///
/// Follows client-go 0.37 (`Reflector`), with the differences listed in the [crate's documentation](crate).
pub struct Reflector<T: Object, S: Sink<T>> {
    source: Arc<dyn ListerWatcher<T>>,
    sink: S,
    exchange: Exchange<T>,
    known: Option<Arc<dyn KnownObjects<T>>>,
    not_before: ResourceVersion,
    options: ReflectorOptions,
    stop_on_drop: StopOnDrop,
}

/// Publishes the end of the reflector to its handles, also if the reflector is dropped.
pub(crate) struct StopOnDrop(pub(crate) Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop(StopReason::Dropped);
    }
}

impl<T: Object, S: Sink<T>> Reflector<T, S> {
    /// Creates a reflector with the default options. The name appears in logs and errors.
    #[doc(alias("NewNamedReflector", "NewReflector"))]
    pub fn new(name: impl Into<Arc<str>>, source: impl ListerWatcher<T> + 'static, sink: S) -> Self {
        Self::with_options(name, source, sink, ReflectorOptions::default())
    }

    /// Creates a reflector with options.
    #[doc(alias = "NewReflectorWithOptions")]
    pub fn with_options(
        name: impl Into<Arc<str>>,
        source: impl ListerWatcher<T> + 'static,
        sink: S,
        options: ReflectorOptions,
    ) -> Self {
        let shared = Arc::new(Shared::new(name.into()));
        let exchange = Exchange::none();
        let stop_on_drop = StopOnDrop(shared);
        let not_before = ResourceVersion::UNSET;
        Self { source: Arc::new(source), sink, exchange, known: None, not_before, options, stop_on_drop }
    }

    /// Exchanges the objects of lists and watch-lists for identical ones that the sink already holds: see [`Exchange`].
    #[must_use]
    pub fn exchange(mut self, exchange: Exchange<T>) -> Self {
        self.exchange = exchange;
        self
    }

    /// Sets the objects that the consumer of the sink knows, in which the reflector looks up the object of an event below
    /// the version at which its watch started. An event about the known version of the object is then no sign that the
    /// source's versions have gone back: some servers repeat objects, or delete them at the version of their last update.
    #[must_use]
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<T>>) -> Self {
        self.known = Some(known);
        self
    }

    /// Requests no list before this version: for a sink that has objects of the source up to it already, which an older list
    /// would take back. If the source does not have the version, the newest list is requested. By default, the first list
    /// may have any version.
    #[must_use]
    pub fn not_before(mut self, version: ResourceVersion) -> Self {
        self.not_before = version;
        self
    }

    /// Sets the resync period: see [`ReflectorOptions::resync_period`].
    #[must_use]
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.options = self.options.resync_period(period);
        self
    }

    /// Returns a handle that observes the reflector before, during and after its run.
    pub fn handle(&self) -> ReflectorHandle {
        ReflectorHandle { shared: self.stop_on_drop.0.clone() }
    }

    /// Runs until the token is cancelled or the sink is closed, and returns the reason.
    ///
    /// All work happens in this future: it spawns no task, and no request outlives it. Cancelling the token ends every
    /// wait at once and closes the watch. If the token is cancelled before the first poll, the source receives no
    /// request. The sink keeps its contents in either case.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_reflector::Reflector;
    /// # use kinformer_testing::{FakeSource, Item, RecordingSink};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1));
    /// # let sink = std::sync::Arc::new(RecordingSink::new());
    /// # let reflector = Reflector::new("items", source.clone(), sink.clone());
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let (handle, cancel) = (reflector.handle(), CancellationToken::new());
    /// let running = tokio::spawn(reflector.run(cancel.clone()));
    /// handle.wait_for_sync().await?;
    /// assert_eq!(sink.keys(), ["kitchen/kettle"]);
    /// cancel.cancel();
    /// running.await?;
    /// assert!(handle.is_stopped());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future ends the reflector: the request in progress is dropped, the watch is closed, and the handles
    /// report [`StopReason::Dropped`]. The sink keeps every delta that it was given before. Lost are the pages of an
    /// unfinished list, the initial events of an unfinished watch-list, and a complete list that waits for room in the
    /// sink or for the consistency check. An event of a watch is given to the sink as it is received, without an await in
    /// between; only an event that the sink has refused for lack of room is lost.
    #[doc(alias("ListAndWatch", "ListAndWatchWithContext", "RunWithContext"))]
    pub async fn run(self, cancel: CancellationToken) -> StopReason {
        let Self { source, sink, exchange, known, not_before, options, stop_on_drop } = self;
        let shared = stop_on_drop.0.clone();
        let machine = Machine::new(source, sink, exchange, known, options, shared.clone(), cancel);
        let mut machine = machine.not_before(not_before);
        let reason = machine.run().await;
        shared.stop(reason);
        tracing::debug!(reflector = %shared.name, ?reason, "reflector stopped");
        reason
    }
}

impl<T: Object, S: Sink<T>> fmt::Debug for Reflector<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector")
            .field("name", &self.stop_on_drop.0.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
