//! Actors of worlds with informers.

use std::time::Duration;

use fastrand::Rng;
use kinformer::kube_core::Resource;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::limits::Limits;
use crate::random::pause;
use crate::view::View;

/// The simulated time within which everything is in sync after the last fault.
pub(crate) const CONVERGES: Duration = Duration::from_secs(900);

/// Longer than each call of a handler.
pub(crate) const LONGEST_CALL: Duration = Duration::from_secs(4);

/// The actors of a world.
pub(crate) struct Actors<'a> {
    pub(crate) tasks: JoinSet<()>,
    pub(crate) limits: &'a Limits,
}

impl Actors<'_> {
    pub(crate) fn spawn(&mut self, name: &'static str, actor: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.limits.clone().run(name, actor));
    }
}

/// Adds a handler and removes it, again and again.
pub(crate) async fn visitor<K: Resource<DynamicType = ()> + 'static>(mut rng: Rng, view: View<K>) {
    for number in 0..rng.usize(1..6) {
        pause(&mut rng).await;
        let Some(handler) = view.add(&mut rng, &format!("visitor {number}")) else { return };
        pause(&mut rng).await;
        if rng.u8(..4) == 0 {
            view.keep(Some(handler));
            continue;
        }
        handler.remove().await;
        view.recorder.note(handler.registration.name(), "removed");
    }
}

/// Waits for versions, and drops some of these waits.
pub(crate) async fn waiter<K: Resource<DynamicType = ()> + 'static>(mut rng: Rng, view: View<K>) {
    for _ in 0..rng.usize(..20) {
        pause(&mut rng).await;
        let Some((key, version)) = view.newest() else { continue };
        let (longest, dropped) = (rng.u64(..30_000), rng.u64(..60_000));
        let wait = view.wait_for(&key, version, Duration::from_millis(longest));
        if let Ok(Err(problem)) = timeout(Duration::from_millis(dropped), wait).await {
            view.recorder.violation(problem);
        }
    }
}

/// Reads the store.
pub(crate) async fn reader<K: Resource<DynamicType = ()> + 'static>(mut rng: Rng, view: View<K>) {
    for _ in 0..rng.usize(20..80) {
        sleep(Duration::from_millis(rng.u64(..2_000))).await;
        view.check_store();
    }
}

/// Adds the handlers that stay.
pub(crate) fn add_handlers<K: Resource<DynamicType = ()> + 'static>(rng: &mut Rng, view: &View<K>) {
    for name in ["first", "second"] {
        let added = view.add(rng, name);
        view.keep(added);
    }
}
