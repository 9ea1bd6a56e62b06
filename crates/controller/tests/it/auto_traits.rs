//! The public types are Send and Sync where it matters, and the futures can be spawned.

use kinformer::ObjectKey;
use kinformer_controller::*;
use static_assertions::assert_impl_all;

assert_impl_all!(Controller: Send, std::fmt::Debug);
assert_impl_all!(ControllerBuilder<ObjectKey>: Send, std::fmt::Debug);
assert_impl_all!(NewController: Send, Sync, std::fmt::Debug);
assert_impl_all!(Manager: Send, std::fmt::Debug);
assert_impl_all!(Health: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(ControllerState: Send, Sync, Clone, Eq, std::fmt::Debug, std::fmt::Display);
assert_impl_all!(Trigger<u32>: Send, std::fmt::Debug);
assert_impl_all!(InformerTrigger<()>: Send, Sync, std::fmt::Debug);
assert_impl_all!(Predicate<()>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(Request<ObjectKey>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(Action: Send, Sync, Copy);
assert_impl_all!(ReconcileError: Send, Sync, std::fmt::Debug, std::fmt::Display);
assert_impl_all!(Error: Send, Sync, std::error::Error);
assert_impl_all!(OwnerError: Send, Sync, std::error::Error);
assert_impl_all!(WriteError: Send, Sync, std::error::Error);
assert_impl_all!(condition::Status: Send, Sync, Copy, Eq, std::fmt::Debug);
assert_impl_all!(events::EventRecorder: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(ControllerMetrics: Send, Sync, Clone);
#[cfg(feature = "prometheus")]
assert_impl_all!(prometheus::ControllerCollector: Send, Sync, Clone, std::fmt::Debug);
