//! The reflector as its user sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer_core::{Object, Sink};
use tokio_util::sync::CancellationToken;

use crate::machine::Machine;
use crate::state::Shared;
use crate::{Exchange, ListerWatcher, ReflectorHandle, ReflectorOptions, StopReason};

/// Keeps a sink equal to a source: lists it once, then follows its changes, through every failure.
///
/// Follows client-go 1.37 (`Reflector`), with the differences that the crate's documentation names.
pub struct Reflector<T: Object, S: Sink<T>> {
    source: Arc<dyn ListerWatcher<T>>,
    sink: S,
    exchange: Exchange<T>,
    options: ReflectorOptions,
    stop_on_drop: StopOnDrop,
}

/// Tells the handles, whichever way the reflector comes to its end.
pub(crate) struct StopOnDrop(pub(crate) Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop(StopReason::Dropped);
    }
}

impl<T: Object, S: Sink<T>> Reflector<T, S> {
    /// A reflector with the default options. The name is for messages.
    pub fn new(name: impl Into<Arc<str>>, source: impl ListerWatcher<T> + 'static, sink: S) -> Self {
        Self::with_options(name, source, sink, ReflectorOptions::default())
    }

    /// A reflector with options.
    pub fn with_options(
        name: impl Into<Arc<str>>,
        source: impl ListerWatcher<T> + 'static,
        sink: S,
        options: ReflectorOptions,
    ) -> Self {
        let shared = Arc::new(Shared::new(name.into()));
        let exchange = Exchange::none();
        Self { source: Arc::new(source), sink, exchange, options, stop_on_drop: StopOnDrop(shared) }
    }

    /// Exchanges the objects of lists and watch-lists for identical ones that the sink holds already: see [`Exchange`].
    #[must_use]
    pub fn exchange(mut self, exchange: Exchange<T>) -> Self {
        self.exchange = exchange;
        self
    }

    /// Sets the period of its resyncs: see [`ReflectorOptions::resync_period`].
    #[must_use]
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.options = self.options.resync_period(period);
        self
    }

    /// What looks at it from anywhere, before, while and after it runs.
    pub fn handle(&self) -> ReflectorHandle {
        ReflectorHandle { shared: self.stop_on_drop.0.clone() }
    }

    /// Runs until the token is cancelled or the sink is closed.
    ///
    /// All of it happens in this future: nothing is spawned, and nothing is left when it ends. A cancel ends
    /// every wait at once and closes the watch; cancelled before the start, nothing is asked of the source.
    /// Dropping the future has the same effect as a cancel. In each case the sink stays as it is.
    pub async fn run(self, cancel: CancellationToken) -> StopReason {
        let Self { source, sink, exchange, options, stop_on_drop } = self;
        let shared = stop_on_drop.0.clone();
        let reason = Machine::new(source, sink, exchange, options, shared.clone(), cancel).run().await;
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
