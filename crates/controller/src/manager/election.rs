//! The leadership of a run.

use kinformer_leader_election::LeaderElector;

use super::layers::Progress;
use crate::error::Error;

/// How a manager takes part in an election.
pub(crate) struct Election<'a> {
    pub(crate) elector: &'a LeaderElector,
    /// Whether it is a candidate again when its leadership was lost.
    pub(crate) rejoins: bool,
}

impl Election<'_> {
    /// Runs `work` while this process is the leader, and `last` before the leadership is released.
    pub(crate) async fn lead<W: Future<Output = ()>>(
        &self,
        progress: &Progress,
        work: impl Fn() -> W,
        paused: impl Fn(),
        last: impl Future<Output = ()>,
    ) {
        loop {
            let leadership = tokio::select! {
                biased;
                () = progress.ending.cancelled() => return,
                leadership = self.elector.acquire() => leadership,
            };
            match leadership.run(work()).await {
                Ok(()) => {
                    last.await;
                    if let Err(error) = leadership.release().await {
                        tracing::warn!(%error, "the leadership was not released");
                    }
                    return;
                }
                Err(_) if self.rejoins && !progress.ending.is_cancelled() => paused(),
                Err(reason) => return progress.fail(Error::NotLeader(reason)),
            }
        }
    }
}
