//! The last checks of a run, without faults: resyncs, own writes, and a conversion of all objects.

use fastrand::Rng;
use kinformer::kube_core::Resource;
use tokio::runtime::Handle;
use tokio::time::{Duration, Instant};

use crate::api_server::ApiServer;
use crate::trace::Recorder;
use crate::view::View;

/// The time within which everything is in sync.
const CONVERGES: Duration = Duration::from_secs(900);

/// The time within which broken watches are open again.
const REOPENS: Duration = Duration::from_secs(60);

/// Checks two informers that are in sync.
///
/// # Errors
/// A handler was not resynced, a wait for a write does not end with it, or changed content is not delivered.
pub(crate) async fn check<K, L>(
    rng: &mut Rng,
    one: &View<K>,
    other: &View<L>,
    server: &ApiServer,
) -> Result<(), String>
where
    K: Resource<DynamicType = ()> + 'static,
    L: Resource<DynamicType = ()> + 'static,
{
    one.keep(one.add(rng, "last"));
    other.keep(other.add(rng, "last"));
    let in_sync = async || {
        let deadline = Instant::now() + CONVERGES;
        one.check_end(deadline).await?;
        other.check_end(deadline).await
    };
    in_sync().await?;
    let (of_one, of_other) = tokio::join!(one.check_resyncs(), other.check_resyncs());
    of_one.and(of_other)?;
    // A write is not received through a connection that is silent.
    server.break_watches();
    tokio::time::sleep(REOPENS).await;
    for decodes in [true, false] {
        one.check_own_write(decodes).await?;
        other.check_own_write(decodes).await?;
        in_sync().await?;
    }
    if rng.bool() {
        server.convert();
        in_sync().await.map_err(|problem| format!("after a conversion: {problem}"))?;
    }
    Ok(())
}

/// Records a violation if there are more tasks than these, or open responses.
pub(crate) fn check_left(tasks: usize, server: &ApiServer, recorder: &Recorder) {
    let left = Handle::current().metrics().num_alive_tasks() - tasks;
    if left > 0 {
        recorder.violation(format_args!("{left} tasks are left"));
    }
    if server.open_bodies() > 0 {
        recorder.violation(format_args!("{} responses are open after the end", server.open_bodies()));
    }
}
