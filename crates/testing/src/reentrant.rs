//! User code that asks for everything: from log calls, from wakers, from `Drop`.
//!
//! A library that runs user code while it holds a lock deadlocks as soon as that code asks it something. [`ask_all`] asks
//! everything that was [registered](on_ask), and finds out when an answer does not come. It asks from another
//! thread, which is refused the same locks: so that what fails is a test, and does not hang.
//!
//! ```
//! use kinformer_testing::reentrant;
//!
//! reentrant::install();
//! let indexer = std::sync::Arc::new(kinformer_store::Indexer::<kinformer_testing::Item>::new());
//! let _asked = reentrant::on_ask({
//!     let indexer = indexer.clone();
//!     move || drop(indexer.len())
//! });
//! // Whatever logs from here on asks for the length meanwhile.
//! reentrant::ask_all("an example");
//! assert!(reentrant::unanswered().is_empty());
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
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt as _};

/// How long an answer may take before it counts as none.
const PATIENCE: Duration = Duration::from_secs(20);

type Question = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Asked {
    next: u64,
    questions: BTreeMap<u64, Question>,
    unanswered: Vec<String>,
}

fn asked() -> &'static Mutex<Asked> {
    static ASKED: OnceLock<Mutex<Asked>> = OnceLock::new();
    ASKED.get_or_init(Mutex::default)
}

/// Asks from now on, wherever user code runs, until it is dropped.
#[must_use = "dropped, it is not asked"]
pub fn on_ask(question: impl Fn() + Send + Sync + 'static) -> OnAsk {
    let mut asked = asked().lock();
    let id = asked.next;
    asked.next += 1;
    asked.questions.insert(id, Arc::new(question));
    OnAsk(id)
}

/// A question, for as long as it is asked.
#[derive(Debug)]
pub struct OnAsk(u64);

impl Drop for OnAsk {
    fn drop(&mut self) {
        let question = asked().lock().questions.remove(&self.0);
        drop(question);
        if !is_asking() {
            // The round that may still have it: nothing of it is left behind.
            let _ = ask(Vec::new());
        }
    }
}

/// Asks all questions, and waits for the answers. To be called where user code runs: `from` says where.
///
/// # Panics
/// An answer did not come: the caller holds a lock that it needs. It is also in [`unanswered`] from then on, for what
/// contains panics.
pub fn ask_all(from: &str) {
    let questions: Vec<_> = asked().lock().questions.values().cloned().collect();
    if questions.is_empty() || is_asking() {
        return;
    }
    if ask(questions) == Err(RecvTimeoutError::Timeout) {
        let unanswered = format!("asked from {from}, it did not answer: a lock is held there");
        asked().lock().unanswered.push(unanswered.clone());
        assert!(thread::panicking(), "{unanswered}");
    }
}

fn ask(questions: Vec<Question>) -> Result<(), RecvTimeoutError> {
    let (answer, answered) = sync_channel(1);
    match asker().send((questions, answer)) {
        Ok(()) => answered.recv_timeout(PATIENCE),
        Err(_) => Err(RecvTimeoutError::Disconnected),
    }
}

/// From where there was no answer so far.
pub fn unanswered() -> Vec<String> {
    asked().lock().unanswered.clone()
}

type Round = (Vec<Question>, SyncSender<()>);

/// The thread that asks.
fn asker() -> &'static SyncSender<Round> {
    static ASKER: OnceLock<SyncSender<Round>> = OnceLock::new();
    ASKER.get_or_init(|| {
        let (asker, rounds) = sync_channel::<Round>(16);
        let ask = move || {
            while let Ok((questions, answer)) = rounds.recv() {
                questions.iter().for_each(|question| question());
                drop(questions);
                let _ = answer.send(());
            }
        };
        let _ = thread::Builder::new().name(ASKING.to_owned()).spawn(ask);
        asker
    })
}

const ASKING: &str = "kinformer-asking";

/// Whether this is the thread that asks: what it causes is not asked about.
fn is_asking() -> bool {
    thread::current().name() == Some(ASKING)
}

/// A layer of a subscriber that [asks](ask_all) from every log call of ours.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskFromLogCalls;

impl<S: Subscriber> Layer<S> for AskFromLogCalls {
    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        let metadata = event.metadata();
        if metadata.target().starts_with("kinformer") {
            ask_all(metadata.name());
        }
    }
}

/// Makes [`AskFromLogCalls`] the subscriber of this process, unless it has one.
pub fn install() {
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(AskFromLogCalls));
}

/// Asks when it is dropped: to be a part of objects, handlers and closures.
#[derive(Clone, Debug)]
pub struct AskWhenDropped(pub &'static str);

impl Drop for AskWhenDropped {
    fn drop(&mut self) {
        ask_all(self.0);
    }
}

/// The same future, polled with a waker that asks when it is woken, cloned or dropped.
pub fn ask_when_woken<F: Future + Unpin>(future: F) -> AskWhenWoken<F> {
    AskWhenWoken(future)
}

/// See [`ask_when_woken`].
#[derive(Debug)]
pub struct AskWhenWoken<F>(F);

struct AskingWaker {
    task: Waker,
    _dropped: AskWhenDropped,
}

impl Wake for AskingWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        ask_all("a waker");
        self.task.wake_by_ref();
    }
}

impl<F: Future + Unpin> Future for AskWhenWoken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let task = context.waker().clone();
        let asking = Waker::from(Arc::new(AskingWaker { task, _dropped: AskWhenDropped("a dropped waker") }));
        Pin::new(&mut self.0).poll(&mut Context::from_waker(&asking))
    }
}
