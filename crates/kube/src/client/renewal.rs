//! Credentials that are renewed.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use kinformer_core::BoxError;
use kube_client::client::Body;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::credentials::{Generation, Source};
use super::exec::Process;
use super::transport::{AnswerBody, copy};
use crate::Error;

/// The least time between the beginnings of two renewals.
const INTERVAL: Duration = Duration::from_secs(5);
/// The least time between two looks at files.
const LOOK: Duration = Duration::from_secs(1);
/// How long a request waits for a renewal.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a plugin may run in a renewal. It may wait for its user.
const LIMIT: Duration = Duration::from_secs(5 * 60);

/// Sends requests with credentials, and renews these.
#[derive(Clone)]
pub(super) struct Renewing(Arc<Shared>);

struct Shared {
    source: Arc<Source>,
    state: Mutex<State>,
}

struct State {
    current: Arc<Generation>,
    looked: Instant,
    /// The last renewal, which may still run.
    last: Option<Renewal>,
}

/// A renewal, on a thread of its own since a plugin blocks. There is at most one such thread: a plugin that cannot be
/// killed keeps others from being started.
struct Renewal {
    began: Instant,
    process: Arc<Process>,
    /// Closed when it has ended.
    end: watch::Receiver<()>,
}

impl Drop for Renewal {
    /// With the client, or when the next one starts, and then it has ended.
    fn drop(&mut self) {
        self.process.kill();
    }
}

impl Renewing {
    /// Makes the first credentials.
    ///
    /// # Errors
    /// [`Error::Client`], [`Error::ExecPlugin`].
    pub(super) fn new(source: Source) -> Result<Self, Error> {
        let current = Arc::new(source.make(None, &Process::default())?);
        let state = Mutex::new(State { current, looked: Instant::now(), last: None });
        Ok(Self(Arc::new(Shared { source: Arc::new(source), state })))
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let shared = &self.0;
        let again = if shared.source.renewable { copy(&request) } else { None };
        let used = shared.ready().await;
        let answer = used.send(request).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || !shared.renew(&used).await {
            return Ok(answer);
        }
        let Some(again) = again else { return Ok(answer) };
        drop(answer);
        shared.current().send(again).await
    }
}

impl Shared {
    fn current(&self) -> Arc<Generation> {
        self.state.lock().current.clone()
    }

    /// Credentials that have not expired, and of the files as they are, as far as can be.
    async fn ready(self: &Arc<Self>) -> Arc<Generation> {
        let (current, look) = {
            let mut state = self.state.lock();
            let look = state.looked.elapsed() >= LOOK;
            if look {
                state.looked = Instant::now();
            }
            (state.current.clone(), look)
        };
        let outdated = current.has_expired() || look && self.source.has_changed(&current);
        if outdated && self.renew(&current).await { self.current() } else { current }
    }

    /// Waits until there are newer credentials than these; `false` if there will be none for now.
    async fn renew(self: &Arc<Self>, used: &Arc<Generation>) -> bool {
        if !self.source.renewable {
            return false;
        }
        let (mut end, start) = {
            let mut state = self.state.lock();
            if !Arc::ptr_eq(&state.current, used) {
                return true;
            }
            match &state.last {
                // Closed when it has ended.
                Some(last) if last.end.has_changed().is_ok() => {
                    if last.began.elapsed() >= LIMIT {
                        last.process.kill();
                    }
                    (last.end.clone(), None)
                }
                Some(last) if last.began.elapsed() < INTERVAL => return false,
                _ => {
                    let (running, end) = watch::channel(());
                    let process = Arc::new(Process::default());
                    let last = Renewal { began: Instant::now(), process: process.clone(), end: end.clone() };
                    let before = state.last.replace(last);
                    (end, Some((running, process, before)))
                }
            }
        };
        if let Some((running, process, before)) = start {
            drop(before);
            self.start(running, process, used.clone());
        }
        // Nothing is ever sent: this is the end, or the limit.
        let _ = timeout(PATIENCE, end.changed()).await;
        !Arc::ptr_eq(&self.current(), used)
    }

    /// Renews on a thread that ends with the renewal, and earlier if the client is dropped.
    fn start(self: &Arc<Self>, running: watch::Sender<()>, process: Arc<Process>, before: Arc<Generation>) {
        let (shared, source, runtime) = (Arc::downgrade(self), self.source.clone(), Handle::current());
        let renewal = move || {
            let _runtime = runtime.enter();
            let made = source.make(Some(&before), &process);
            if let Some(shared) = shared.upgrade() {
                shared.finish(made);
            }
            drop(running);
        };
        if let Err(error) = std::thread::Builder::new().name("kinformer-renewal".into()).spawn(renewal) {
            tracing::warn!(%error, "credentials are not renewed: no thread");
        }
    }

    fn finish(&self, made: Result<Generation, Error>) {
        match made {
            Ok(made) => {
                let before = std::mem::replace(&mut self.state.lock().current, Arc::new(made));
                drop(before);
                tracing::debug!("credentials renewed");
            }
            Err(error) => tracing::warn!(%error, "credentials not renewed; the old ones stay"),
        }
    }
}
