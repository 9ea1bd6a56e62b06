//! Handlers and events without the type of a program's objects: see [`crate::kube_informer`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt as _;
use kinformer_core::BoxError;
use kinformer_kube::PackedObject;
use kinformer_processor::{AsyncEventHandler, Buffer, Event, ListenerStream};
use kinformer_store::IndexValues;

/// The future of a method of an informer.
pub(crate) type BoxFuture<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;
pub(crate) type Object = Arc<PackedObject>;
pub(crate) type Filter = Box<dyn Fn(&Object) -> bool + Send>;
/// A function that returns an object's values in an index.
pub(crate) type ObjectIndex = Box<dyn Fn(&Object, &mut IndexValues) -> Result<(), BoxError> + Send + Sync>;
pub(crate) type Callback = Box<dyn FnMut(&Event<Object>) + Send>;

/// The options that a [`HandlerBuilder`](crate::HandlerBuilder) has collected.
#[derive(Default)]
pub(crate) struct HandlerSpec {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) resync: Option<Duration>,
    pub(crate) buffer: Buffer,
    pub(crate) filter: Option<Filter>,
}

/// A handler without the type of its objects.
pub(crate) enum Handler {
    Blocking(Callback),
    Inline(Callback),
    Async(Box<dyn AsyncHandler>),
}

/// A handler whose callbacks are futures, which are stored in memory that is reused for each event.
pub(crate) trait AsyncHandler: Send {
    /// Creates the future of the next event.
    fn begin(&mut self, event: Event<Object>);
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()>;
    /// Drops the future.
    fn end(&mut self);
}

/// Adapts an [`AsyncHandler`] to the processor.
pub(crate) struct Polled(pub(crate) Box<dyn AsyncHandler>);

impl AsyncEventHandler<Object> for Polled {
    async fn on_event(&mut self, event: Event<Object>) {
        /// Drops the future of the event when it has completed, has panicked or is cancelled.
        struct Running<'a>(&'a mut dyn AsyncHandler);

        impl Drop for Running<'_> {
            fn drop(&mut self) {
                self.0.end();
            }
        }

        let running = Running(&mut *self.0);
        running.0.begin(event);
        std::future::poll_fn(|context| running.0.poll(context)).await;
    }
}

/// Polls events for a stream of another type.
pub(crate) fn poll_next(
    events: &mut ListenerStream<PackedObject>,
    context: &mut Context<'_>,
) -> Poll<Option<Event<Object>>> {
    events.poll_next_unpin(context)
}
