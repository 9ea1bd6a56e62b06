//! Every public type is Send and Sync.

use k8s_openapi::api::core::v1::Pod;
use kinformer_kube::{Error, KubeListerWatcher, Params};
use kinformer_reflector::ListerWatcher;
use kube_core::DynamicObject;
use kube_core::metadata::PartialObjectMeta;
use static_assertions::assert_impl_all;

assert_impl_all!(KubeListerWatcher<Pod>: Send, Sync, Clone, Unpin, ListerWatcher<Pod>);
assert_impl_all!(KubeListerWatcher<DynamicObject>: Send, Sync, ListerWatcher<DynamicObject>);
assert_impl_all!(KubeListerWatcher<PartialObjectMeta<Pod>>: Send, Sync, ListerWatcher<PartialObjectMeta<Pod>>);
assert_impl_all!(Params: Send, Sync, Clone);
assert_impl_all!(Error: Send, Sync, std::error::Error);
