//! What runs, in layers: a layer begins when those before it have begun, and ends when those after it have ended.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _, join_all};
use futures::stream::{FuturesUnordered, StreamExt as _};
use kinformer_core::internal::{contain, drop_contained, panic_message};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// Something that runs in a layer. If its future is dropped, because the leadership has ended, it can run again.
pub(crate) trait Run: Send {
    /// Runs until it is to stop. `begun` is dropped when the next layer may begin.
    fn run(&mut self, begun: Begun, ends: Ends) -> BoxFuture<'_, Result<(), Error>>;

    /// Whether the others go on when it ends without an error.
    fn may_end(&self) -> bool {
        false
    }
}

/// The ends that a member waits for.
#[derive(Clone)]
pub(crate) struct Ends {
    /// Cancelled when the end of the manager begins.
    pub(crate) ending: CancellationToken,
    /// Cancelled when the later layers have ended, so that this one is to end.
    pub(crate) stop: CancellationToken,
}

/// Its drop says that a member has begun.
pub(crate) struct Begun(#[expect(dead_code, reason = "its drop is the message")] oneshot::Sender<()>);

/// The errors of a run, and its end.
pub(crate) struct Progress {
    /// Cancelled when the shutdown is, or when something has failed.
    pub(crate) ending: CancellationToken,
    /// With their texts.
    errors: Mutex<Vec<(String, Error)>>,
}

impl Progress {
    pub(crate) fn until(shutdown: &CancellationToken) -> Self {
        Self { ending: shutdown.child_token(), errors: Mutex::default() }
    }

    /// Ends the run with an error. An informer that has stopped can be the error of two members.
    pub(crate) fn fail(&self, error: Error) {
        let text = contain(|| error.to_string()).unwrap_or_else(|panic| panic.to_string());
        let mut errors = self.errors.lock();
        if errors.iter().all(|(known, _)| *known != text) {
            errors.push((text, error));
        }
        drop(errors);
        self.ending.cancel();
    }

    pub(crate) fn result(self) -> Result<(), Error> {
        let mut errors: Vec<_> = self.errors.into_inner().into_iter().map(|(_, error)| error).collect();
        match errors.len() {
            0 => Ok(()),
            1 => errors.pop().map_or(Ok(()), Err),
            _ => Err(Error::Several(errors)),
        }
    }
}

struct Member {
    name: Arc<str>,
    /// Locked by the future that runs it. `None` in the drop.
    run: tokio::sync::Mutex<Option<Box<dyn Run>>>,
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Err(panic) = drop_contained(self.run.get_mut().take()) {
            tracing::error!(name = %self.name, %panic, "task panicked in its drop");
        }
    }
}

impl Member {
    async fn run(&self, begun: Begun, ends: Ends, progress: &Progress) {
        let mut member = self.run.lock().await;
        let Some(member) = &mut *member else { return };
        match AssertUnwindSafe(member.run(begun, ends)).catch_unwind().await {
            Ok(Ok(())) if member.may_end() => {}
            Ok(Ok(())) => progress.ending.cancel(),
            Ok(Err(error)) => progress.fail(error),
            Err(panic) => {
                let name = self.name.clone();
                progress.fail(Error::Panicked { name, message: panic_message(panic) });
            }
        }
    }
}

/// What begins and ends together.
pub(crate) struct Layer {
    /// Whether members can be added to it while it runs.
    is_open: bool,
    members: Mutex<Vec<Arc<Member>>>,
    added: Notify,
}

impl Layer {
    pub(crate) fn new(is_open: bool) -> Self {
        Self { is_open, members: Mutex::default(), added: Notify::new() }
    }

    /// Adds a member, which begins at once if the layer runs.
    pub(crate) fn add(&self, name: Arc<str>, run: Box<dyn Run>) {
        self.members.lock().push(Arc::new(Member { name, run: tokio::sync::Mutex::new(Some(run)) }));
        self.added.notify_one();
    }

    /// Whether it has no members, and gets none.
    fn is_empty(&self) -> bool {
        !self.is_open && self.members.lock().is_empty()
    }

    fn members_from(&self, known: usize) -> Vec<Arc<Member>> {
        self.members.lock().get(known..).unwrap_or_default().to_vec()
    }

    /// Runs the members. `inner` begins when all that were added before have begun. They end when it has ended.
    async fn around(&self, progress: &Progress, inner: BoxFuture<'_, ()>) {
        let ends = Ends { ending: progress.ending.clone(), stop: CancellationToken::new() };
        let (mut running, mut begun, mut known) = (FuturesUnordered::new(), Vec::new(), 0);
        let begin = |member: Arc<Member>, begun| {
            let ends = ends.clone();
            async move { member.run(Begun(begun), ends, progress).await }
        };
        for member in self.members_from(known) {
            let (sender, receiver) = oneshot::channel();
            known += 1;
            running.push(begin(member, sender));
            begun.push(receiver);
        }
        let mut inner = pin!(async {
            tokio::select! {
                biased;
                () = progress.ending.cancelled() => return,
                _ = join_all(begun) => {}
            }
            inner.await;
        });
        let mut is_ending = false;
        while !(is_ending && running.is_empty()) {
            tokio::select! {
                biased;
                () = &mut inner, if !is_ending => {
                    is_ending = true;
                    ends.stop.cancel();
                }
                Some(()) = running.next(), if !running.is_empty() => {}
                () = self.added.notified(), if !is_ending => {
                    for member in self.members_from(known) {
                        known += 1;
                        running.push(begin(member, oneshot::channel().0));
                    }
                }
            }
        }
    }
}

/// Runs layers, each around the next one, and `inner` in the last one. Empty ones are left out: they would only use stack.
pub(crate) fn run<'a>(
    layers: &'a [Layer],
    progress: &'a Progress,
    inner: impl Future<Output = ()> + Send + 'a,
) -> BoxFuture<'a, ()> {
    let around = |inner, layer: &'a Layer| layer.around(progress, inner).boxed();
    layers.iter().rev().filter(|layer| !layer.is_empty()).fold(inner.boxed(), around)
}
