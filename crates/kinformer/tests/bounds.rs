//! What every public type promises: it can be used from any thread.

use k8s_openapi::api::core::v1::Pod;
use kinformer::accessors::{Core, CoreV1};
use kinformer::{
    CacheSync, EagerObjects, Error, GenericInformer, InformerLease, LabelSelector, Lister, NamespaceLister,
    Packed, PackedObjects, SelectorError, SelectorProblem, SharedInformerFactory,
    SharedInformerFactoryBuilder,
};
use static_assertions::assert_impl_all;

assert_impl_all!(SharedInformerFactory: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(SharedInformerFactory<EagerObjects>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(PackedObjects: Send, Sync, Copy, std::fmt::Debug);
assert_impl_all!(EagerObjects: Send, Sync, Copy, std::fmt::Debug);
assert_impl_all!(SharedInformerFactoryBuilder: Send, Sync, std::fmt::Debug);
assert_impl_all!(CacheSync: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(InformerLease<Pod>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(GenericInformer<Pod>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(GenericInformer<Packed<Pod>>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(Core<'static>: Send, Sync, Copy, std::fmt::Debug);
assert_impl_all!(CoreV1<'static>: Send, Sync, Copy, std::fmt::Debug);
assert_impl_all!(CoreV1<'static, EagerObjects>: Send, Sync, Copy, std::fmt::Debug);
assert_impl_all!(Lister<Pod>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(NamespaceLister<Pod>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(LabelSelector: Send, Sync, Clone, Eq, std::hash::Hash, std::fmt::Display, std::fmt::Debug);
assert_impl_all!(Error: Send, Sync, std::error::Error);
assert_impl_all!(SelectorError: Send, Sync, std::error::Error);
assert_impl_all!(SelectorProblem: Send, Sync, std::error::Error);
