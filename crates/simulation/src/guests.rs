//! The actor of other factories, which users stop, drop and remove parts of at any time. The others go on.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{CancellationToken, Informer, InformerLease, QueueKind, SharedInformerFactory};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use crate::api_server::ApiServer;
use crate::factory::factory;
use crate::random::{pause, pick};
use crate::trace::Recorder;
use crate::view::View;

/// The name of the lines about a guest.
const NAME: &str = "guest";

/// The time after which a new informer requests the same lists as one that has ended: longer than each `Retry-After` and
/// than the times of R-21, which hold for each informer.
const APART: Duration = Duration::from_secs(70);

/// Longer than the grace period of an informer.
const GRACE: Duration = Duration::from_secs(20);

/// The guest of a world, if there is one now. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Guests {
    now: Arc<Mutex<Option<Guest>>>,
}

/// A factory with one informer. Clones are handles.
#[derive(Clone)]
struct Guest {
    factory: SharedInformerFactory,
    queue: QueueKind,
    view: View<ConfigMap>,
    /// Keeps the informer, unless the factory does.
    lease: Option<InformerLease<ConfigMap>>,
    server: ApiServer,
    recorder: Recorder,
}

impl Guests {
    /// Creates factories and ends them in some seeds. The last one may stay.
    pub(crate) async fn run(self, mut rng: Rng, server: ApiServer, recorder: Recorder) {
        if rng.u8(..3) > 0 {
            return;
        }
        for _ in 0..rng.usize(1..4) {
            pause(&mut rng).await;
            let mut guest = Guest::new(&mut rng, &server, &recorder);
            *self.now.lock() = Some(guest.clone());
            if rng.u8(..4) == 0 {
                guest.run_informer(&mut rng).await;
            } else {
                guest.start();
                guest.live(&mut rng).await;
                if guest.replace_informer(&mut rng, &self).await {
                    guest.live(&mut rng).await;
                }
                if rng.u8(..3) == 0 {
                    recorder.note(NAME, "stays");
                    return;
                }
            }
            self.now.lock().take();
            guest.end(&mut rng).await;
        }
    }

    /// Whether the informer of the guest has reached a version.
    pub(crate) fn has_reached(&self, version: u64) -> bool {
        let now = self.now.lock();
        now.as_ref().is_none_or(|guest| guest.view.has_reached(version))
    }

    /// The number of parts of the guest that stays. Each has a reflector.
    pub(crate) fn parts(&self) -> usize {
        self.now.lock().as_ref().map_or(0, |guest| guest.view.parts())
    }

    /// Waits until the guest that stays has the objects of the server.
    ///
    /// # Errors
    /// It has others at the deadline.
    pub(crate) async fn check_end(&self, deadline: Instant) -> Result<(), String> {
        let guest = self.now.lock().clone();
        match guest {
            Some(guest) => guest.view.check_end(deadline).await,
            None => Ok(()),
        }
    }

    /// Drops the guest that stays.
    pub(crate) fn leave(&self) {
        self.now.lock().take();
    }
}

impl Guest {
    fn new(rng: &mut Rng, server: &ApiServer, recorder: &Recorder) -> Self {
        let (factory, settings) = factory(rng, server, recorder);
        let queue = settings.queue;
        let (informer, lease) = informer(rng, &factory);
        let view = View::of(informer, queue, server, recorder);
        let guest = Self { factory, queue, view, lease, server: server.clone(), recorder: recorder.clone() };
        guest.add_handlers(rng);
        recorder.note(NAME, format_args!("arrives, leased: {}", guest.lease.is_some()));
        guest
    }

    fn add_handlers(&self, rng: &mut Rng) {
        for name in ["of guest", "also of guest"] {
            self.view.keep(self.view.add(rng, name));
        }
    }

    fn start(&self) {
        if let Err(error) = self.factory.start() {
            self.recorder.violation(error);
        }
    }

    /// Waits, drops waits, and reads the store.
    async fn live(&self, rng: &mut Rng) {
        for _ in 0..rng.usize(..5) {
            let longest = Duration::from_millis(rng.u64(..10_000));
            let informer = self.view.informer();
            match rng.u8(..4) {
                0 => _ = timeout(longest, self.factory.wait_for_cache_sync()).await,
                1 => _ = timeout(longest, informer.wait_for_sync()).await,
                2 => _ = timeout(longest, informer.stopped()).await,
                _ => self.remove_handler(rng, longest).await,
            }
            self.view.check_store();
        }
    }

    /// Adds a handler, and drops its removal at some time.
    async fn remove_handler(&self, rng: &mut Rng, longest: Duration) {
        let Some(handler) = self.view.add(rng, "that guest removes") else { return };
        sleep(longest).await;
        let dropped = Duration::from_millis(rng.u64(..100));
        if timeout(dropped, handler.remove()).await.is_err() {
            self.recorder.note(NAME, "drops the removal of a handler");
            // The first poll has removed it (F-19c).
            if !handler.registration.is_removed() {
                self.recorder
                    .violation("the removal of a handler was polled, but the handler is not removed");
            }
        }
        // The informer publishes what it held back for this handler when its task runs next.
        sleep(Duration::from_millis(1)).await;
    }

    /// Runs the informer, and drops the run: no handler receives anything after that (F-19c).
    async fn run_informer(&self, rng: &mut Rng) {
        let (informer, token) = (self.view.informer().clone(), CancellationToken::new());
        let running = tokio::spawn(async move { informer.run(token).await });
        // A run that was never polled has no effect.
        sleep(Duration::from_millis(rng.u64(1..10_000))).await;
        self.live(rng).await;
        running.abort();
        _ = running.await;
        self.view.has_ended();
        self.recorder.note(NAME, "drops the run of its informer");
        if !self.view.informer().status().is_stopped() {
            self.recorder.violation("the run of an informer was dropped, but the informer has not stopped");
        }
        sleep(GRACE).await;
    }

    /// Removes or releases the informer at some time, perhaps drops that, and requests another one. Returns whether it
    /// did.
    async fn replace_informer(&mut self, rng: &mut Rng, guests: &Guests) -> bool {
        if rng.bool() {
            return false;
        }
        let dropped = Duration::from_millis(pick(rng, [0, 5, 20_000]));
        let before = self.view.clone();
        guests.now.lock().take();
        let ended = match self.lease.take() {
            Some(lease) => timeout(dropped, lease.release()).await.is_ok(),
            None => timeout(dropped, before.informer().remove()).await.is_ok(),
        };
        self.recorder.note(NAME, format_args!("ends its informer, waits for it: {ended}"));
        if ended {
            before.has_ended();
        }
        sleep(APART).await;
        if !before.informer().status().is_stopped() {
            self.recorder.violation("an informer was removed or released, but has not stopped");
        }
        before.has_ended();
        let (informer, lease) = informer(rng, &self.factory);
        self.view = View::of(informer, self.queue, &self.server, &self.recorder);
        self.lease = lease;
        self.add_handlers(rng);
        *guests.now.lock() = Some(self.clone());
        self.start();
        true
    }

    /// Shuts the factory down, drops the shutdown, or drops the factory.
    async fn end(self, rng: &mut Rng) {
        let view = self.view.clone();
        let dropped = Duration::from_millis(pick(rng, [0, 5, 20_000]));
        match rng.u8(..3) {
            0 => _ = self.factory.shutdown().await,
            1 => {
                if timeout(dropped, self.factory.shutdown()).await.is_err() {
                    self.recorder.note(NAME, "drops a shutdown");
                    sleep(dropped).await;
                }
                _ = self.factory.shutdown().await;
            }
            _ => {
                self.recorder.note(NAME, "is dropped");
                let recorder = self.recorder.clone();
                drop(self);
                sleep(GRACE).await;
                Self::ended(&view, &recorder);
                return;
            }
        }
        self.recorder.note(NAME, "has shut down");
        Self::ended(&view, &self.recorder);
    }

    fn ended(view: &View<ConfigMap>, recorder: &Recorder) {
        view.has_ended();
        if !view.informer().status().is_stopped() {
            recorder.violation("a factory has ended, but not its informer");
        }
    }
}

/// Returns an informer, which the factory keeps, or a lease does.
fn informer(
    rng: &mut Rng,
    factory: &SharedInformerFactory,
) -> (Informer<ConfigMap>, Option<InformerLease<ConfigMap>>) {
    match rng.bool() {
        true => (factory.informer(), None),
        false => {
            let lease = factory.informer::<ConfigMap>().lease();
            (Informer::clone(&lease), Some(lease))
        }
    }
}
