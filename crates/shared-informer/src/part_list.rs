//! The parts of an informer, which may change while it runs.

use std::cmp;
use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures::task::AtomicWaker;
use kinformer_core::{Object, PartId, Parts, ResourceVersion};
use kinformer_reflector::ReflectorMetrics;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::parts::{NamedSource, Part, Sources};

/// The parts, shared by the handles of an informer and its loop. The handles request other sources; the loop ends and starts
/// reflectors until it has the parts that were requested last.
pub(crate) struct PartList<T> {
    /// The assignment of objects to parts, which the sinks, the queue and the store share.
    pub(crate) parts: Parts<T>,
    state: Mutex<State<T>>,
    /// Whether other sources are requested.
    is_requested: AtomicBool,
    /// Whether the store must apply a change of the parts.
    is_unapplied: AtomicBool,
    /// Wakes the loop after one of the two was set.
    waker: AtomicWaker,
    /// Notified of each request, each applied change, and each first list of a part.
    progress: watch::Sender<()>,
}

struct State<T> {
    current: Arc<[Part]>,
    /// The number of the next new part.
    next: u32,
    /// The sources that were requested last, until the loop takes them.
    requested: Option<Sources<T>>,
    /// The number of requests; that of the request whose parts are present; and of the last that the store has applied.
    requests: u64,
    present: u64,
    applied: u64,
    /// The counters of removed parts.
    removed: ReflectorMetrics,
    /// The newest version that a part had at a change, and how often versions had gone back until then.
    newest: ResourceVersion,
    went_back: u64,
}

/// The sources of the requested parts, compared with the present ones.
pub(crate) struct Difference<T> {
    /// The number of the request.
    number: u64,
    sources: Sources<T>,
    /// The parts that end.
    removed: Vec<Part>,
    /// Those of them whose reflectors have not ended yet.
    pub(crate) ending: Vec<PartId>,
}

impl<T: Object> PartList<T> {
    pub(crate) fn new(parts: Parts<T>, current: Vec<Part>) -> Self {
        let next = u32::try_from(current.len()).unwrap_or(u32::MAX);
        let state = State {
            current: current.into(),
            next,
            requested: None,
            requests: 0,
            present: 0,
            applied: 0,
            removed: ReflectorMetrics::default(),
            newest: ResourceVersion::UNSET,
            went_back: 0,
        };
        Self {
            parts,
            state: Mutex::new(state),
            is_requested: AtomicBool::new(false),
            is_unapplied: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            progress: watch::Sender::new(()),
        }
    }

    pub(crate) fn current(&self) -> Arc<[Part]> {
        self.state.lock().current.clone()
    }

    /// The sum of the metrics of all parts, also of removed ones.
    pub(crate) fn metrics(&self) -> ReflectorMetrics {
        let (current, removed) = {
            let state = self.state.lock();
            (state.current.clone(), state.removed)
        };
        current.iter().map(|part| part.reflector().metrics()).chain([removed]).sum()
    }

    /// Requests other sources, in place of those that were requested before and are not taken yet. Returns the number of
    /// the request.
    pub(crate) fn request(&self, sources: Sources<T>) -> u64 {
        let mut state = self.state.lock();
        let replaced = state.requested.replace(sources);
        state.requests += 1;
        let number = state.requests;
        drop(state);
        drop(replaced);
        self.progress.send_replace(());
        self.set(&self.is_requested);
        number
    }

    /// Waits until the store has applied this request or a later one.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes.
    pub(crate) async fn until_applied(&self, number: u64) {
        self.until(|list| list.state.lock().applied >= number).await;
    }

    /// Waits until [`Self::is_complete`].
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes.
    pub(crate) async fn until_complete(&self) {
        self.until(Self::is_complete).await;
    }

    /// Waits until [`Self::is_listed`].
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes.
    pub(crate) async fn until_listed(&self, name: &str) {
        self.until(|list| list.is_listed(name)).await;
    }

    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let mut progress = self.progress.subscribe();
        while !is_so(self) && progress.changed().await.is_ok() {}
    }

    /// Returns whether the parts are those requested last, and the first list of each was processed.
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.state.lock();
        state.applied == state.requests && state.current.iter().all(Part::is_listed)
    }

    /// Returns whether the first list of the part with this name was processed, or there is no such part after all requested
    /// changes.
    pub(crate) fn is_listed(&self, name: &str) -> bool {
        let state = self.state.lock();
        match state.current.iter().find(|part| part.name() == name) {
            Some(part) => part.is_listed(),
            None => state.applied == state.requests,
        }
    }

    /// Sets one of the two flags.
    fn set(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Waits for one of the two flags. Costs no lock, because it is polled with each event.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes. Only the task of the loop may wait.
    async fn wait(&self, flag: &AtomicBool) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if flag.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    pub(crate) async fn requested(&self) {
        self.wait(&self.is_requested).await;
    }

    pub(crate) async fn unapplied(&self) {
        self.wait(&self.is_unapplied).await;
    }

    /// Takes the sources that were requested last, if any were requested since.
    pub(crate) fn take_requested(&self) -> Option<Difference<T>> {
        if !self.is_requested.swap(false, Ordering::AcqRel) {
            return None;
        }
        let (sources, number, current) = {
            let mut state = self.state.lock();
            (state.requested.take()?, state.requests, state.current.clone())
        };
        let names: HashSet<&str> = sources.sources.iter().map(|(name, _)| &**name).collect();
        let removed = current.iter().filter(|part| !names.contains(part.name())).cloned().collect::<Vec<_>>();
        let ending = removed.iter().map(Part::id).collect();
        Some(Difference { number, sources, removed, ending })
    }

    /// Returns the newest version that a part has had, unless versions have gone back since. `current` are the parts before
    /// a change.
    fn newest(&self, current: &[Part]) -> ResourceVersion {
        let went_back = self.metrics().versions_went_back;
        let versions = current.iter().map(|part| part.reflector().last_version());
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.went_back, went_back) < went_back {
            state.newest = ResourceVersion::UNSET;
        }
        for version in versions {
            if state.newest.is_unset() || state.newest.compare(&version).is_some_and(cmp::Ordering::is_lt) {
                state.newest = version;
            }
        }
        state.newest.clone()
    }

    /// Changes the parts, after the reflectors of those that end have ended. `create` is called for each new part.
    pub(crate) fn change(
        &self,
        difference: Difference<T>,
        mut create: impl FnMut(PartId, NamedSource<T>, ResourceVersion) -> Part,
    ) {
        let Difference { number, sources: Sources { parts, sources, is_one_server }, removed, .. } =
            difference;
        let before = self.current();
        let not_before = self.newest(&before);
        let not_before = if is_one_server { not_before } else { ResourceVersion::UNSET };
        let before: HashMap<&str, &Part> = before.iter().map(|part| (part.name(), part)).collect();
        let mut next = self.state.lock().next;
        let mut part_of = |(name, source): NamedSource<T>| {
            before.get(&*name).copied().cloned().unwrap_or_else(|| {
                next += 1;
                create(PartId::new(next - 1), (name, source), not_before.clone())
            })
        };
        let current: Vec<Part> = sources.into_iter().map(&mut part_of).collect();
        self.parts.set(parts, current.iter().map(Part::id).collect());
        let counters = counters(&removed);
        let mut state = self.state.lock();
        (state.current, state.next, state.present) = (current.into(), next, number);
        state.removed = [std::mem::take(&mut state.removed), counters].into_iter().sum();
        drop(state);
        self.set(&self.is_unapplied);
    }

    /// Returns the number of the last request whose parts the store must apply, if there is one. The caller applies them.
    pub(crate) fn take_unapplied(&self) -> Option<u64> {
        let is_unapplied =
            self.is_unapplied.load(Ordering::Acquire) && self.is_unapplied.swap(false, Ordering::AcqRel);
        is_unapplied.then(|| self.state.lock().present)
    }

    /// The store has applied the parts of this request. There may be later ones by now.
    pub(crate) fn applied(&self, number: u64) {
        self.state.lock().applied = number;
        self.progress.send_replace(());
    }

    /// The first list of a part was processed.
    pub(crate) fn listed(&self, part: PartId) {
        let state = self.state.lock();
        let is_first = state.current.iter().any(|one| one.id() == part && one.set_listed());
        drop(state);
        if is_first {
            self.progress.send_replace(());
        }
    }
}

/// The counters of removed parts, without their gauges.
fn counters(removed: &[Part]) -> ReflectorMetrics {
    let mut metrics: ReflectorMetrics = removed.iter().map(|part| part.reflector().metrics()).sum();
    metrics.unidentified_objects = 0;
    metrics.ignored_version_signs = 0;
    metrics.not_watchable = 0;
    metrics.consecutive_failures = 0;
    metrics
}
