//! Every public type is Send and Sync.

use kinformer_core::*;
use static_assertions::{assert_impl_all, assert_obj_safe};

assert_impl_all!(ObjectKey: Send, Sync, Unpin);
assert_impl_all!(KeyRef<'static>: Send, Sync, Copy);
assert_impl_all!(ResourceVersion: Send, Sync);
assert_impl_all!(Keyed<u32>: Send, Sync, Object);
assert_impl_all!(Delta<Keyed<u32>>: Send, Sync, Clone);
assert_impl_all!(Replacement<Keyed<u32>>: Send, Sync, Clone);
assert_impl_all!(Tombstone<std::sync::Arc<Keyed<u32>>>: Send, Sync, Clone);
assert_impl_all!(Transform<Keyed<u32>>: Send, Sync, Clone);
assert_impl_all!(Error: Send, Sync, std::error::Error);
assert_impl_all!(KeyError: Send, Sync, std::error::Error);
assert_impl_all!(ObjectError: Send, Sync, std::error::Error);
assert_impl_all!(PartialErrors: Send, Sync);
assert_impl_all!(ReadyFuture<'static>: Send);
assert_impl_all!(DecodeError: Send, Sync, Clone, std::error::Error);
assert_impl_all!(WatchEvent<Keyed<u32>>: Send, Sync, Clone);
assert_obj_safe!(Sink<Keyed<u32>>, KnownObjects<Keyed<u32>>, Object);
