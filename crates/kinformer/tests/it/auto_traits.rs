//! The auto traits of the public types.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::Pod;
use kinformer::accessors::{Core, CoreV1};
use kinformer::{
    CacheSync, Decode, Difference, Error, EventStream, HandlerBuilder, Informer, InformerLease,
    LabelSelector, Lister, NamespaceLister, Packed, PackedRef, SelectorError, SelectorProblem,
    SharedInformerFactory, SharedInformerFactoryBuilder, Snapshot,
};
use static_assertions::assert_impl_all;

/// Neither `Send` nor `Sync`: the auto traits of views do not depend on the type.
struct Local(#[expect(dead_code, reason = "for its type")] *const ());

assert_impl_all!(SharedInformerFactory: Send, Sync, Clone, Debug);
assert_impl_all!(SharedInformerFactoryBuilder: Send, Sync, Debug);
assert_impl_all!(CacheSync: Send, Sync, Clone, Debug);
assert_impl_all!(Decode: Send, Sync, Copy, Eq, Debug);
assert_impl_all!(Informer<Local>: Send, Sync, Clone, Debug);
assert_impl_all!(InformerLease<Local>: Send, Sync, Clone, Debug);
assert_impl_all!(HandlerBuilder<'static, Local>: Send, Debug);
assert_impl_all!(EventStream<Local>: Send, Unpin, Debug);
assert_impl_all!(Lister<Local>: Send, Sync, Clone, Debug);
assert_impl_all!(NamespaceLister<Local>: Send, Sync, Clone, Debug);
assert_impl_all!(Snapshot<Local>: Send, Sync, Clone, Debug);
assert_impl_all!(Difference<'static, Local>: Send, Sync, Copy, Debug);
assert_impl_all!(Packed<Local>: Send, Sync, Clone, Debug);
assert_impl_all!(PackedRef<'static, Local>: Send, Sync, Copy, Debug);
assert_impl_all!(Informer<Pod>: Send, Sync, Clone, Debug);
assert_impl_all!(Core<'static>: Send, Sync, Copy, Debug);
assert_impl_all!(CoreV1<'static>: Send, Sync, Copy, Debug);
assert_impl_all!(LabelSelector: Send, Sync, Clone, Eq, std::hash::Hash, std::fmt::Display, Debug);
assert_impl_all!(Error: Send, Sync, std::error::Error);
assert_impl_all!(SelectorError: Send, Sync, std::error::Error);
assert_impl_all!(SelectorProblem: Send, Sync, std::error::Error);
