//! The public types are Send and Sync where it matters, and the futures can be spawned.

use k8s_openapi::api::core::v1::Pod;
use kinformer_cache::*;
use static_assertions::assert_impl_all;

assert_impl_all!(Cache: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(CacheBuilder: Send, std::fmt::Debug);
assert_impl_all!(Kind<Pod>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(Query: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(RestMapper: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(Error: Send, Sync, Clone, std::error::Error);

#[test]
fn futures_can_be_spawned() {
    fn sendable<T: Send>(_: impl Fn(&'static Cache, &'static Query) -> T) {}
    sendable(|cache, _| cache.get::<Pod>("default/a"));
    sendable(|cache, options| cache.list::<Pod>(options));
    sendable(|cache, _| cache.shutdown());
}
