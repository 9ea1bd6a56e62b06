//! Auto traits of the public types.

use kinformer_core::{Change, KeyRef, Object};
use kinformer_processor::{
    Added, Buffer, Deleted, Error, Event, EventHandler, EventHandlerFuncs, HandlerMetrics, InitialState,
    InlineListenerBuilder, ListenerBuilder, ListenerStream, Registration, SharedProcessor,
    SharedProcessorBuilder, ThreadMetrics, Updated,
};
use static_assertions::{assert_impl_all, assert_obj_safe};
use std::sync::Arc;

struct Anything;

impl Object for Anything {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named("anything")
    }
}

assert_impl_all!(SharedProcessor<Anything>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(SharedProcessorBuilder<Anything>: Send, Sync, std::fmt::Debug);
assert_impl_all!(InitialState<Anything>: Send, std::fmt::Debug);
assert_impl_all!(ListenerBuilder<'static, Anything>: Send, std::fmt::Debug);
assert_impl_all!(InlineListenerBuilder<'static, Anything>: Send, std::fmt::Debug);
assert_impl_all!(Registration: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(ListenerStream<Anything>: Send, Unpin, std::fmt::Debug, futures::Stream);
assert_impl_all!(Added<Arc<Anything>>: Send, Sync, Clone);
assert_impl_all!(Updated<Arc<Anything>>: Send, Sync, Clone);
assert_impl_all!(Deleted<Arc<Anything>>: Send, Sync, Clone);
assert_impl_all!(Event<Arc<Anything>>: Send, Sync, Clone);
assert_impl_all!(Event<u8>: std::fmt::Debug);
assert_impl_all!(Change<Anything>: Send, Sync);
assert_impl_all!(Change<u8>: std::fmt::Debug);
assert_impl_all!(EventHandlerFuncs<Arc<Anything>>: Send, Default, std::fmt::Debug, EventHandler<Arc<Anything>>);
assert_impl_all!(Buffer: Send, Sync, Copy, Eq, std::hash::Hash, Default, std::fmt::Debug);
assert_impl_all!(HandlerMetrics: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(ThreadMetrics: Send, Sync, Copy, Eq, std::fmt::Debug);
assert_impl_all!(Error: Send, Sync, Clone, std::error::Error);
assert_obj_safe!(EventHandler<Arc<Anything>>);

fn is_send<V: Send>(value: V) -> V {
    value
}

/// All futures of the crate can be spawned.
#[test]
fn futures_are_send() {
    let processor = SharedProcessor::<Anything>::new("test");
    let registration = processor.add_handler(|_: &Event<Arc<Anything>>| ()).unwrap();
    drop(is_send(processor.run(tokio_util::sync::CancellationToken::new())));
    drop(is_send(processor.send(Vec::new())));
    drop(is_send(processor.ready()));
    drop(is_send(registration.synced()));
    drop(is_send(processor.remove_handler(&registration)));
    assert!(!registration.is_removed(), "no future was polled");
    drop(is_send(registration.remove()));
    assert!(registration.is_removed());
}
