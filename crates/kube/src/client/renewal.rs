//! Renewal of credentials.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use kinformer_core::BoxError;
use kube_client::client::Body;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::copy::copy;
use super::credentials::{Generation, Source};
use super::exec::Process;
use super::transport::AnswerBody;
use crate::Error;

/// The minimum time between the starts of two renewals.
const INTERVAL: Duration = Duration::from_secs(5);
/// The minimum time between two checks of files.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum time that a request waits for a renewal.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The maximum time that a plugin may run in a renewal. Long, since it may wait for user input.
const LIMIT: Duration = Duration::from_secs(5 * 60);

/// Sends requests with credentials, and renews the credentials.
#[derive(Clone)]
pub(super) struct Renewing(Arc<Shared>);

struct Shared {
    source: Arc<Source>,
    state: Mutex<State>,
}

struct State {
    current: Arc<Generation>,
    files_checked: Instant,
    /// The last renewal, which may still be running.
    last: Option<Renewal>,
}

/// A renewal, which runs on its own thread since a plugin blocks. There is at most one such thread: while a plugin
/// cannot be killed, no other renewal starts.
struct Renewal {
    began: Instant,
    process: Arc<Process>,
    /// Closed when the renewal has ended.
    end: watch::Receiver<()>,
}

impl Drop for Renewal {
    /// Runs when the client is dropped, or when the next renewal starts; this one has then ended.
    fn drop(&mut self) {
        self.process.kill();
    }
}

impl Renewing {
    /// Creates the first credentials.
    ///
    /// # Errors
    /// [`Error::Client`] if credentials or certificates are invalid, [`Error::ExecPlugin`] if the plugin failed.
    pub(super) fn new(source: Source) -> Result<Self, Error> {
        let current = Arc::new(source.make(None, &Process::default())?);
        let state = Mutex::new(State { current, files_checked: Instant::now(), last: None });
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

    /// Returns the current credentials, after a renewal if they have expired or their files have changed.
    async fn ready(self: &Arc<Self>) -> Arc<Generation> {
        let (current, check_files) = {
            let mut state = self.state.lock();
            let check_files = state.files_checked.elapsed() >= FILE_CHECK_INTERVAL;
            if check_files {
                state.files_checked = Instant::now();
            }
            (state.current.clone(), check_files)
        };
        let outdated = current.has_expired() || check_files && self.source.has_changed(&current);
        if outdated && self.renew(&current).await { self.current() } else { current }
    }

    /// Waits until there are newer credentials than `used`. Returns `false` if there are none for now.
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
                // Closed when the renewal has ended.
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
        // Nothing is ever sent on the channel, so this waits for its end or the time limit.
        let _ = timeout(MAX_WAIT, end.changed()).await;
        !Arc::ptr_eq(&self.current(), used)
    }

    /// Renews the credentials on a thread that ends with the renewal, or when the client is dropped.
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
            tracing::warn!(%error, "credentials not renewed: cannot start a thread");
        }
    }

    fn finish(&self, made: Result<Generation, Error>) {
        match made {
            Ok(made) => {
                let before = std::mem::replace(&mut self.state.lock().current, Arc::new(made));
                drop(before);
                tracing::debug!("credentials renewed");
            }
            Err(error) => tracing::warn!(%error, "credentials not renewed; the old ones stay in use"),
        }
    }
}
