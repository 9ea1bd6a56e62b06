//! Shared by the tests: objects, a running processor, and handlers that record their events.

use std::sync::Arc;

use kinformer_core::{Change, KeyRef, Object, ResourceVersion, Tombstone};
use kinformer_processor::{Added, Deleted, Error, Event, Left, SharedProcessor, Updated};
use kinformer_testing::reentrant::{self, within};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[derive(Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub version: u64,
}

impl Drop for Pod {
    fn drop(&mut self) {
        reentrant::run_checks("the drop of an object");
    }
}

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(&self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::number(self.version)
    }
}

pub fn pod(name: &str, version: u64) -> Arc<Pod> {
    Arc::new(Pod { name: name.to_owned(), version })
}

pub fn added(name: &str, version: u64) -> Change<Pod> {
    Change::added(pod(name, version))
}

/// Changes at a revision of the store.
pub fn at_revision<T>(revision: u64, changes: impl IntoIterator<Item = Change<T>>) -> Vec<Change<T>> {
    changes.into_iter().map(|change| change.at_revision(revision)).collect()
}

pub fn updated(name: &str, old: u64, new: u64) -> Change<Pod> {
    Change::updated(pod(name, old), pod(name, new))
}

pub fn deleted(name: &str, version: u64) -> Change<Pod> {
    Change::deleted(pod(name, version))
}

/// An event as text: `+a1`, `+a1!` (initial list), `a1>2`, `-a2`, `-a2?` (final state unknown), `oa2` (left the scope).
pub fn describe(event: &Event<Arc<Pod>>) -> String {
    match event {
        Event::Added(Added { object, in_initial_list, .. }) => {
            format!("+{}{}{}", object.name, object.version, if *in_initial_list { "!" } else { "" })
        }
        Event::Updated(Updated { old, new, .. }) => format!("{}{}>{}", new.name, old.version, new.version),
        Event::Deleted(Deleted { tombstone: Tombstone::FinalState(object), .. }) => {
            format!("-{}{}", object.name, object.version)
        }
        Event::Deleted(Deleted { tombstone: Tombstone::FinalStateUnknown(missed), .. }) => {
            format!("-{}{}?", missed.key, missed.last_known.as_ref().map_or(0, |pod| pod.version))
        }
        Event::Left(Left { object, .. }) => format!("o{}{}", object.name, object.version),
        _ => unreachable!("unknown tombstone"),
    }
}

/// Records the events of handlers.
#[derive(Clone)]
pub struct Recorder(watch::Sender<Vec<String>>);

impl Recorder {
    pub fn new() -> Self {
        Self(watch::Sender::new(Vec::new()))
    }

    pub fn note(&self, event: &Event<Arc<Pod>>) {
        self.0.send_modify(|delivered| delivered.push(describe(event)));
    }

    pub fn handler(&self) -> impl FnMut(&Event<Arc<Pod>>) + Send + 'static {
        let recorder = self.clone();
        move |event| recorder.note(event)
    }

    pub fn recorded(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// Waits for at least `n` events. Returns all recorded events.
    pub async fn received(&self, n: usize) -> Vec<String> {
        let mut delivered = self.0.subscribe();
        within(delivered.wait_for(|delivered| delivered.len() >= n)).await.unwrap().clone()
    }
}

/// A running processor. Its metrics are read wherever user code runs, which fails if a lock is held there.
pub struct Running {
    _check: reentrant::CheckGuard,
    pub cancel: CancellationToken,
    pub task: JoinHandle<Result<(), Error>>,
}

pub fn start<T: Object>(processor: &SharedProcessor<T>) -> Running {
    let cancel = CancellationToken::new();
    reentrant::install();
    let checked = processor.clone();
    let _check = reentrant::add_check(move || {
        drop(format!("{checked:?}"));
        drop((
            checked.handler_metrics(),
            checked.has_synced(),
            checked.is_ready(),
            checked.resync_check_period(),
        ));
    });
    let (processor, token) = (processor.clone(), cancel.clone());
    Running { _check, cancel, task: tokio::spawn(async move { processor.run(token).await }) }
}

impl Running {
    pub async fn stop(self) -> Result<(), Error> {
        self.cancel.cancel();
        let ended = within(self.task).await.unwrap();
        assert_eq!(reentrant::blocked_checks(), [""; 0]);
        ended
    }
}

/// Blocks callbacks. Open once it is dropped.
pub struct Gate {
    reached: Arc<Notify>,
    open: std::sync::mpsc::Sender<()>,
}

/// Returns a gate, and a function that waits at the gate, to be called in the callback.
pub fn gate() -> (Gate, impl FnMut() + Send + 'static) {
    let (open, passage) = std::sync::mpsc::channel();
    let reached = Arc::new(Notify::new());
    let gate = Gate { reached: reached.clone(), open };
    let wait = move || {
        reached.notify_one();
        let _ = passage.recv();
    };
    (gate, wait)
}

impl Gate {
    /// Waits until a callback has reached the gate.
    pub async fn reached(&self) {
        within(self.reached.notified()).await;
    }

    /// Lets one callback through.
    pub fn let_one_pass(&self) {
        self.open.send(()).unwrap();
    }
}
