//! User code that runs checks in log calls, wakers and `Drop`, to detect locks that are held there.
//!
//! A library that runs user code while it holds a lock deadlocks as soon as that code calls back into it.
//! [`run_checks`] runs all [registered checks](add_check), which call such functions, on another thread. If they do
//! not return in time, a lock is held, and the test fails instead of hanging.
//!
//! ```
//! use kinformer_testing::reentrant;
//!
//! reentrant::install();
//! let indexer = std::sync::Arc::new(kinformer_store::Indexer::<kinformer_testing::Item>::new());
//! let _check = reentrant::add_check({
//!     let indexer = indexer.clone();
//!     move || drop(indexer.len())
//! });
//! // Every log call of kinformer runs the checks from here on.
//! reentrant::run_checks("an example");
//! assert!(reentrant::blocked_checks().is_empty());
//! ```

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// How long the checks may take before they count as blocked.
const TIMEOUT: Duration = Duration::from_secs(20);

type Check = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Checks {
    next: u64,
    checks: BTreeMap<u64, Check>,
    blocked: Vec<String>,
}

fn registry() -> &'static Mutex<Checks> {
    static REGISTRY: OnceLock<Mutex<Checks>> = OnceLock::new();
    REGISTRY.get_or_init(Mutex::default)
}

/// Registers a check, which runs wherever user code runs until the guard is dropped.
#[must_use = "dropping the guard removes the check"]
pub fn add_check(check: impl Fn() + Send + Sync + 'static) -> CheckGuard {
    let mut registry = registry().lock();
    let id = registry.next;
    registry.next += 1;
    registry.checks.insert(id, Arc::new(check));
    CheckGuard(id)
}

/// A registered check.
#[derive(Debug)]
pub struct CheckGuard(u64);

impl Drop for CheckGuard {
    fn drop(&mut self) {
        let check = registry().lock().checks.remove(&self.0);
        drop(check);
        if !is_checker() {
            // Waits for a running round that may still use the check, so that the round has ended on return.
            let _ = run(Vec::new());
        }
    }
}

/// Runs all checks and waits until they have returned. Call it in user code; `from` names the place.
///
/// # Panics
/// If a check is blocked: the caller holds a lock that the check needs. [`blocked_checks`] also reports it, in case
/// the panic is caught.
pub fn run_checks(from: &str) {
    let checks: Vec<_> = registry().lock().checks.values().cloned().collect();
    if checks.is_empty() || is_checker() {
        return;
    }
    if run(checks) == Err(RecvTimeoutError::Timeout) {
        let blocked = format!("a check run from {from} is blocked: a lock is held there");
        registry().lock().blocked.push(blocked.clone());
        assert!(thread::panicking(), "{blocked}");
    }
}

fn run(checks: Vec<Check>) -> Result<(), RecvTimeoutError> {
    let (done_sender, done) = sync_channel(1);
    match checker().send((checks, done_sender)) {
        Ok(()) => done.recv_timeout(TIMEOUT),
        Err(_) => Err(RecvTimeoutError::Disconnected),
    }
}

/// Returns the places from which a check was blocked.
pub fn blocked_checks() -> Vec<String> {
    registry().lock().blocked.clone()
}

type Round = (Vec<Check>, SyncSender<()>);

/// The thread that runs the checks.
fn checker() -> &'static SyncSender<Round> {
    static CHECKER: OnceLock<SyncSender<Round>> = OnceLock::new();
    CHECKER.get_or_init(|| {
        let (sender, rounds) = sync_channel::<Round>(16);
        let run = move || {
            while let Ok((checks, done)) = rounds.recv() {
                checks.iter().for_each(|check| check());
                drop(checks);
                let _ = done.send(());
            }
        };
        let _ = thread::Builder::new().name(THREAD.to_owned()).spawn(run);
        sender
    })
}

const THREAD: &str = "kinformer-checker";

/// Whether this is the checking thread, whose own calls run no checks.
fn is_checker() -> bool {
    thread::current().name() == Some(THREAD)
}

/// A subscriber layer that [runs the checks](run_checks) in every log call of kinformer, and when its spans are created
/// and closed.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOnLog;

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for CheckOnLog {
    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        run_checks_of(event.metadata());
    }

    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: LayerContext<'_, S>) {
        run_checks_of(span.metadata());
    }

    fn on_close(&self, id: Id, context: LayerContext<'_, S>) {
        if let Some(metadata) = context.metadata(&id) {
            run_checks_of(metadata);
        }
    }
}

fn run_checks_of(metadata: &Metadata<'static>) {
    if metadata.target().starts_with("kinformer") {
        run_checks(metadata.name());
    }
}

/// Installs [`CheckOnLog`] as the subscriber of this process, unless there is one already.
pub fn install() {
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(CheckOnLog));
}

/// Runs the checks when it is dropped; for use in objects, handlers and closures.
#[derive(Clone, Debug)]
pub struct CheckOnDrop(pub &'static str);

impl Drop for CheckOnDrop {
    fn drop(&mut self) {
        run_checks(self.0);
    }
}

/// Polls a future with a waker that runs the checks when it is woken, cloned or dropped.
pub fn check_on_wake<F: Future + Unpin>(future: F) -> CheckOnWake<F> {
    CheckOnWake(future)
}

/// Waits for a future as [`wait::within`](crate::wait::within) does, with a waker that [runs the checks](check_on_wake).
///
/// # Panics
/// If the future takes longer than [`PATIENCE`](crate::wait::PATIENCE).
///
/// # Cancel safety
/// Dropping it drops `future`, whose own cancel safety applies.
pub async fn within<F: Future>(future: F) -> F::Output {
    crate::wait::within("a future", check_on_wake(Box::pin(future))).await
}

/// The future of [`check_on_wake`].
#[derive(Debug)]
pub struct CheckOnWake<F>(F);

struct CheckingWaker {
    task: Waker,
    _dropped: CheckOnDrop,
}

impl Wake for CheckingWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        run_checks("a waker");
        self.task.wake_by_ref();
    }
}

impl<F: Future + Unpin> Future for CheckOnWake<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let task = context.waker().clone();
        let waker = Waker::from(Arc::new(CheckingWaker { task, _dropped: CheckOnDrop("a dropped waker") }));
        Pin::new(&mut self.0).poll(&mut Context::from_waker(&waker))
    }
}
