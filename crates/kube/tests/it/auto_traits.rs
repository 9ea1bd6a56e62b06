//! Every public type is Send and Sync.

use k8s_openapi::api::core::v1::Pod;
use kinformer_core::Object;
use kinformer_kube::{Error, KubeListerWatcher, KubeObject, PackedObject, Params};
use kinformer_reflector::ListerWatcher;
use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, Resource};
use static_assertions::{assert_impl_all, assert_not_impl_any};

assert_impl_all!(KubeListerWatcher<Pod>: Send, Sync, Clone, Unpin, ListerWatcher<KubeObject<Pod>>);
assert_impl_all!(KubeListerWatcher<DynamicObject>: Send, Sync, ListerWatcher<KubeObject<DynamicObject>>);
assert_impl_all!(KubeListerWatcher<PackedObject>: Send, Sync, ListerWatcher<PackedObject>);
assert_impl_all!(KubeListerWatcher<PartialObjectMeta<Pod>>: Send, Sync, ListerWatcher<KubeObject<PartialObjectMeta<Pod>>>);
assert_impl_all!(KubeObject<Pod>: Send, Sync, Unpin, Object, Clone, std::fmt::Debug, Default, PartialEq);
assert_impl_all!(Params: Send, Sync, Clone);
assert_impl_all!(Error: Send, Sync, std::error::Error);

// If `Object` and `kube::ResourceExt` are both imported, no call is ambiguous: no type implements both.
assert_not_impl_any!(Pod: Object);
assert_not_impl_any!(DynamicObject: Object);
assert_not_impl_any!(KubeObject<Pod>: Resource);
