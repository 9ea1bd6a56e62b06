//! Auto traits of the public types.

use kinformer_core::{Change, Delta, Deltas, KeyRef, Object, PartId};
use kinformer_store::{
    Applied, Cursor, Error, IndexFunction, IndexValues, Indexer, IndexerBuilder, Indexers, Lazy,
    ObjectDifference, Page, Reader, Snapshot, Store,
};
use static_assertions::{assert_impl_all, assert_obj_safe};

struct Anything;

impl Object for Anything {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named("anything")
    }
}

assert_impl_all!(Indexer<Anything>: Send, Sync, std::fmt::Debug, Default, Store<Anything>);
assert_impl_all!(IndexerBuilder<Anything>: Send, Sync, std::fmt::Debug);
assert_impl_all!(Reader<Anything>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(Snapshot<Anything>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(IndexFunction<Anything>: Send, Sync, Clone, std::fmt::Debug);
assert_impl_all!(Indexers<Anything>: Send, Sync, Clone, std::fmt::Debug, Default);
assert_impl_all!(Lazy<Anything>: Send, Sync, std::fmt::Debug);
assert_impl_all!(IndexValues: Send, Sync, Clone, std::fmt::Debug, Default);
assert_impl_all!(Delta<Anything>: Send, Sync, Clone);
assert_impl_all!(Deltas<Anything>: Send, Sync, Clone);
assert_impl_all!(Applied<Anything>: Send, Sync);
assert_impl_all!(Change<Anything>: Send, Sync, Clone);
assert_impl_all!(ObjectDifference<'static, Anything>: Send, Sync, Copy);
assert_impl_all!(Page<'static, Anything>: Send, Sync);
assert_impl_all!(Cursor: Send, Sync, Copy, Eq, std::hash::Hash);
assert_impl_all!(Error: Send, Sync, std::error::Error);
assert_obj_safe!(Store<Anything>);

fn is_send<V: Send>(value: V) -> V {
    value
}

/// All futures and iterators of the crate can be spawned.
#[test]
fn futures_and_iterators_are_send() {
    let indexer = Indexer::<Anything>::new();
    let snapshot = indexer.snapshot();
    let version = kinformer_core::ResourceVersion::UNSET;
    drop(is_send(indexer.wait_for(PartId::ONLY, &version)));
    drop(is_send(snapshot.for_each_yielding(|_| {})));
    drop(is_send(snapshot.iter()));
    assert!(indexer.is_empty());
}
