//! The auto traits of the public types.

use static_assertions::assert_impl_all;

use kinformer_reflector::{
    ApiStatus, Backoff, Exchange, List, ListOptions, Pager, Reflector, ReflectorHandle, ReflectorMetrics,
    ReflectorOptions, ReflectorState, RetryWatcher, SourceError, StatusCause, StopReason, WatchListSupport,
    WatchOptions, WatchStream,
};
use kinformer_testing::{FakeSource, Item, RecordingSink, ScriptedSource};

assert_impl_all!(SourceError: Send, Sync, std::error::Error);
assert_impl_all!(Backoff: Send, Sync, Clone);
assert_impl_all!(List<Item>: Send, Sync);
assert_impl_all!(ListOptions<Item>: Send, Sync, Clone);
assert_impl_all!(Exchange<Item>: Send, Sync, Clone);
assert_impl_all!(Pager<Item>: Send, Sync, Clone);
assert_impl_all!(Reflector<Item, RecordingSink<Item>>: Send, Sync);
assert_impl_all!(ReflectorHandle: Send, Sync, Clone);
assert_impl_all!(ReflectorOptions: Send, Sync, Clone);
assert_impl_all!(ReflectorState: Send, Sync, Clone);
assert_impl_all!(ReflectorMetrics: Send, Sync, Copy);
assert_impl_all!(ApiStatus: Send, Sync, Clone, std::error::Error);
assert_impl_all!(RetryWatcher<Item>: Send, Sync);
assert_impl_all!(StatusCause: Send, Sync, Clone);
assert_impl_all!(StopReason: Send, Sync, Copy);
assert_impl_all!(WatchListSupport: Send, Sync, Clone);
assert_impl_all!(WatchOptions: Send, Sync, Clone);
assert_impl_all!(WatchStream<Item>: Send);
assert_impl_all!(FakeSource<Item>: Send, Sync, Clone);
assert_impl_all!(ScriptedSource<Item>: Send, Sync);

/// Compiles only if the future of a run can be spawned.
#[test]
fn run_future_is_send() {
    fn is_send(_: impl Send + 'static) {}
    let reflector = Reflector::new("test", ScriptedSource::<Item>::new(), RecordingSink::new());
    is_send(reflector.run(tokio_util::sync::CancellationToken::new()));
}
