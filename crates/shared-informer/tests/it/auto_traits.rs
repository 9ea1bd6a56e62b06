//! The auto traits of the public types.

use std::fmt::Debug;

#[cfg(feature = "prometheus")]
use kinformer_shared_informer::prometheus::InformerCollector;
use kinformer_shared_informer::{
    Error, InformerLoop, InformerMetrics, LatencySummary, NotSynced, Phase, QueueKind, SharedIndexInformer,
    SharedIndexInformerBuilder, SyncProgress, WaitOutcome,
};
use kinformer_testing::{FakeSource, Item};
use static_assertions::assert_impl_all;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

assert_impl_all!(SharedIndexInformer<Item>: Send, Sync, Clone, Debug);
assert_impl_all!(SharedIndexInformerBuilder<Item>: Send, Debug);
assert_impl_all!(InformerLoop<Item, ()>: Send, Debug);
assert_impl_all!(InformerMetrics: Send, Sync, Clone, Debug);
#[cfg(feature = "prometheus")]
assert_impl_all!(InformerCollector: Send, Sync, Clone, Debug, Default);
assert_impl_all!(LatencySummary: Send, Sync, Clone, Debug, Default, PartialEq);
assert_impl_all!(Error: Send, Sync, Clone, std::error::Error);
assert_impl_all!(NotSynced: Send, Sync, Clone, std::error::Error);
assert_impl_all!(Phase: Send, Sync, Copy, Eq, std::hash::Hash, Debug);
assert_impl_all!(QueueKind: Send, Sync, Copy, Eq, std::hash::Hash, Debug, Default);
assert_impl_all!(SyncProgress: Send, Sync, Clone, Eq, std::hash::Hash, Debug);
assert_impl_all!(WaitOutcome: Send, Sync, Copy, Eq, std::hash::Hash, Debug);

fn is_send<V: Send>(value: V) -> V {
    value
}

#[tokio::test(start_paused = true)]
async fn runs_and_waits_can_be_spawned() -> Result<(), Error> {
    let informer = SharedIndexInformer::<Item>::builder(FakeSource::new()).name("items").build()?;
    let cancel = CancellationToken::new();
    cancel.cancel();
    drop(is_send(informer.wait_for_sync()));
    drop(is_send(informer.wait_for_sync().until(Instant::now())));
    is_send(informer.run(cancel)).await?;
    is_send(informer.stopped()).await;
    assert_eq!(informer.phase(), Phase::Stopped);
    Ok(())
}
