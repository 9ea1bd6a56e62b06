//! A scripted source.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use kinformer_core::{Object, ResourceVersion};
use kinformer_reflector::{
    DecodeError, List, ListOptions, ListerWatcher, SourceError, WatchEvent, WatchListSupport, WatchOptions,
    WatchStream,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// A call of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A list request.
    List(ListOptions<()>),
    /// A watch request.
    Watch(WatchOptions),
    /// A request for the newest version.
    NewestVersion,
}

impl Call {
    /// Formats the call as text: `list 0 limit 500`, `list continue t`, `list 7`, `watch 7`, `watch-list 7`,
    /// `newest`. An unset version is written as `-`.
    pub fn text(&self) -> String {
        let version = |v: &ResourceVersion| if v.is_unset() { "-".to_owned() } else { v.to_string() };
        match self {
            Self::List(options) => {
                let mut text = match &options.continue_token {
                    Some(token) => format!("list continue {token}"),
                    None => format!("list {}", version(&options.resource_version)),
                };
                if let Some(matching) = options.version_match {
                    text += &format!(" {matching:?}");
                }
                if let Some(limit) = options.limit {
                    text += &format!(" limit {limit}");
                }
                text
            }
            Self::Watch(options) if options.send_initial_events => {
                format!("watch-list {}", version(&options.resource_version))
            }
            Self::Watch(options) => format!("watch {}", version(&options.resource_version)),
            Self::NewestVersion => "newest".to_owned(),
        }
    }
}

enum Answer<T> {
    List(Result<List<T>, SourceError>),
    Watch(WatchScript<T>),
    Refuse(SourceError),
    Hang,
    Panic,
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List(_) => "a list",
            Self::Watch(_) | Self::Refuse(_) => "a watch",
            Self::Hang | Self::Panic => "any call",
        })
    }
}

enum Step<T> {
    Item(Result<WatchEvent<T>, SourceError>),
    After(Duration),
    Panic,
    Hang,
}

/// The steps of one watch. The watch ends cleanly after the last step, unless that is [`hang`](Self::hang).
pub struct WatchScript<T>(VecDeque<Step<T>>);

impl<T> Default for WatchScript<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> WatchScript<T> {
    /// Creates a watch that ends at once.
    pub fn new() -> Self {
        Self(VecDeque::new())
    }

    fn step(mut self, step: Step<T>) -> Self {
        self.0.push_back(step);
        self
    }

    /// Sends an event.
    #[must_use]
    pub fn event(self, event: WatchEvent<T>) -> Self {
        self.step(Step::Item(Ok(event)))
    }

    /// Sends an `ADDED` event.
    #[must_use]
    pub fn added(self, object: Arc<T>) -> Self {
        self.event(WatchEvent::Added(object))
    }

    /// Sends a `MODIFIED` event.
    #[must_use]
    pub fn modified(self, object: Arc<T>) -> Self {
        self.event(WatchEvent::Modified(object))
    }

    /// Sends a `DELETED` event.
    #[must_use]
    pub fn deleted(self, object: Arc<T>) -> Self {
        self.event(WatchEvent::Deleted(object))
    }

    /// Sends a bookmark.
    #[must_use]
    pub fn bookmark(self, version: u64) -> Self {
        self.event(WatchEvent::bookmark(version))
    }

    /// Sends the bookmark that ends a watch-list.
    #[must_use]
    pub fn initial_events_end(self, version: u64) -> Self {
        self.event(WatchEvent::initial_events_end(version))
    }

    /// Sends an object that cannot be decoded.
    #[must_use]
    pub fn undecodable(self, error: DecodeError) -> Self {
        self.event(WatchEvent::Undecodable(error))
    }

    /// Sends an error.
    #[must_use]
    pub fn error(self, error: SourceError) -> Self {
        self.step(Step::Item(Err(error)))
    }

    /// Waits before the next step.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        self.step(Step::After(time))
    }

    /// Panics in the stream.
    #[must_use]
    pub fn panic(self) -> Self {
        self.step(Step::Panic)
    }

    /// Sends nothing more and never ends.
    #[must_use]
    pub fn hang(self) -> Self {
        self.step(Step::Hang)
    }
}

/// A source that answers each call as scripted, and records the calls.
///
/// An unexpected call is recorded, gets no answer, and makes [`finished`](Self::finished) panic.
pub struct ScriptedSource<T> {
    inner: Mutex<Inner<T>>,
    finished: watch::Sender<bool>,
    open_watches: Arc<AtomicUsize>,
    watch_list: Option<WatchListSupport>,
}

struct Inner<T> {
    script: VecDeque<Answer<T>>,
    /// `None` for a source that does not support the request.
    newest: Option<VecDeque<Result<Option<ResourceVersion>, SourceError>>>,
    calls: Vec<(Instant, Call)>,
    violation: Option<String>,
}

impl<T: Object> Default for ScriptedSource<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Object> ScriptedSource<T> {
    /// Creates an empty script, for a source without watch-list.
    pub fn new() -> Self {
        Self {
            inner: Mutex::new(Inner {
                script: VecDeque::new(),
                newest: None,
                calls: Vec::new(),
                violation: None,
            }),
            finished: watch::Sender::new(false),
            open_watches: Arc::default(),
            watch_list: None,
        }
    }

    /// Makes the source support watch-lists.
    #[must_use]
    pub fn with_watch_list(mut self, support: WatchListSupport) -> Self {
        self.watch_list = Some(support);
        self
    }

    fn then(self, answer: Answer<T>) -> Self {
        self.inner.lock().script.push_back(answer);
        self
    }

    /// Expects a list, and returns this one.
    #[must_use]
    pub fn list(self, list: List<T>) -> Self {
        self.then(Answer::List(Ok(list)))
    }

    /// Expects a list, and fails it.
    #[must_use]
    pub fn list_error(self, error: SourceError) -> Self {
        self.then(Answer::List(Err(error)))
    }

    /// Expects a watch, and runs this script.
    #[must_use]
    pub fn watch(self, script: WatchScript<T>) -> Self {
        self.then(Answer::Watch(script))
    }

    /// Expects a watch, and fails it.
    #[must_use]
    pub fn watch_error(self, error: SourceError) -> Self {
        self.then(Answer::Refuse(error))
    }

    /// Answers the next request for the newest version, at any position in the script. Requests after the last of these
    /// answers get none. Without any such answer, the source does not support the request.
    #[must_use]
    pub fn newest_version(self, answer: Result<Option<ResourceVersion>, SourceError>) -> Self {
        self.inner.lock().newest.get_or_insert_default().push_back(answer);
        self
    }

    /// Expects any call, and never answers it.
    #[must_use]
    pub fn hang(self) -> Self {
        self.then(Answer::Hang)
    }

    /// Expects any call, and panics.
    #[must_use]
    pub fn panic(self) -> Self {
        self.then(Answer::Panic)
    }

    /// Returns the calls so far, formatted by [`Call::text`].
    pub fn texts(&self) -> Vec<String> {
        self.inner.lock().calls.iter().map(|(_, call)| call.text()).collect()
    }

    /// Returns the calls so far, with their times.
    pub fn calls(&self) -> Vec<(Instant, Call)> {
        self.inner.lock().calls.clone()
    }

    /// Returns the number of open watches.
    pub fn open_watches(&self) -> usize {
        self.open_watches.load(Ordering::Relaxed)
    }

    /// Waits until every answer has been given. Events of the last watch may still be undelivered.
    ///
    /// # Cancel safety
    /// Nothing is lost: a later call returns at once if the script has finished.
    ///
    /// # Panics
    /// If a call was not in the script.
    pub async fn finished(&self) {
        let mut finished = self.finished.subscribe();
        while !*finished.borrow_and_update() && finished.changed().await.is_ok() {}
        if let Some(violation) = self.violation() {
            std::panic::resume_unwind(Box::new(violation));
        }
    }

    /// Returns the first call that was not in the script.
    pub fn violation(&self) -> Option<String> {
        self.inner.lock().violation.clone()
    }

    fn newest_answer(&self) -> Option<Result<Option<ResourceVersion>, SourceError>> {
        let mut inner = self.inner.lock();
        let Some(answers) = &mut inner.newest else { return Some(Ok(None)) };
        let answer = answers.pop_front();
        inner.calls.push((Instant::now(), Call::NewestVersion));
        answer
    }

    fn answer(&self, call: Call) -> Option<Answer<T>> {
        let mut inner = self.inner.lock();
        let fits = match inner.script.front() {
            Some(Answer::List(_)) => matches!(call, Call::List(_)),
            Some(Answer::Watch(_) | Answer::Refuse(_)) => matches!(call, Call::Watch(_)),
            Some(Answer::Hang | Answer::Panic) => true,
            None => false,
        };
        let answer = if fits {
            inner.script.pop_front()
        } else {
            let expected = inner.script.front().map_or("nothing".to_owned(), |answer| format!("{answer:?}"));
            let violation = format!("expected {expected}, received {}", call.text());
            inner.violation.get_or_insert(violation);
            None
        };
        inner.calls.push((Instant::now(), call));
        let finished = inner.script.is_empty() || inner.violation.is_some();
        drop(inner);
        self.finished.send_replace(finished);
        answer
    }
}

impl<T> fmt::Debug for ScriptedSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock();
        f.debug_struct("ScriptedSource").field("script", &inner.script).field("calls", &inner.calls).finish()
    }
}

/// Counts a watch for as long as it is open.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl<T: Object> ListerWatcher<T> for ScriptedSource<T> {
    async fn list(&self, options: ListOptions<T>) -> Result<List<T>, SourceError> {
        match self.answer(Call::List(options.retyped())) {
            Some(Answer::List(answer)) => answer,
            Some(Answer::Panic) => std::panic::resume_unwind(Box::new("scripted panic of a list")),
            _ => std::future::pending().await,
        }
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<T>, SourceError> {
        let script = match self.answer(Call::Watch(options)) {
            Some(Answer::Watch(script)) => script,
            Some(Answer::Refuse(error)) => return Err(error),
            Some(Answer::Panic) => std::panic::resume_unwind(Box::new("scripted panic of a watch")),
            _ => std::future::pending().await,
        };
        let state = (script.0, Open::new(&self.open_watches));
        Ok(stream::unfold(state, |(mut steps, open)| async move {
            loop {
                match steps.pop_front()? {
                    Step::Item(item) => return Some((item, (steps, open))),
                    Step::After(time) => tokio::time::sleep(time).await,
                    Step::Panic => std::panic::resume_unwind(Box::new("scripted panic of a stream")),
                    Step::Hang => std::future::pending().await,
                }
            }
        })
        .fuse()
        .boxed())
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        match self.newest_answer() {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        self.watch_list.as_ref()
    }
}
