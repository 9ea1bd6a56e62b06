//! The queue of the pods without a node.
//!
//! Follows kube-scheduler's queue (`pkg/scheduler/backend/queue`): pods to decide next, in the order of their priority,
//! some of them delayed by a backoff; and pods that fit on no node, which wait until a change of a node lets them fit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kinformer_workqueue::{Add, Fairness, Item, ItemExponential, RateLimiter as _, WorkQueue};
use tokio::time::Instant;

use crate::pod::{PodInfo, Uid};

/// The delay of a pod after its first failure, and the longest one.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

pub(crate) struct Queue {
    /// By priority and then by age, as kube-scheduler's `PrioritySort`.
    active: WorkQueue<Uid>,
    /// The failures of pods: decisions for no node, and failed bindings.
    backoff: Arc<ItemExponential<Uid>>,
    /// The pods whose UIDs are in the work queue.
    queued: HashMap<Uid, Arc<PodInfo>>,
    /// The pods that fit on no node, with the end of their backoff.
    waiting: HashMap<Uid, (Arc<PodInfo>, Instant)>,
}

impl Queue {
    pub(crate) fn new() -> Self {
        let backoff = Arc::new(ItemExponential::new(BACKOFF.0, BACKOFF.1));
        let active = WorkQueue::builder().rate_limiter(backoff.clone()).fairness(Fairness::StrictPriorities);
        Self { active: active.build(), backoff, queued: HashMap::new(), waiting: HashMap::new() }
    }

    /// Adds a pod that is new or has changed.
    pub(crate) fn add(&mut self, pod: Arc<PodInfo>) {
        if self.waiting.get(&pod.uid).is_some_and(|(waiting, _)| *waiting == pod) {
            return; // what changed has nothing to do with scheduling
        }
        self.activate(pod, Add::new());
    }

    /// Adds a pod whose binding has failed, with its backoff.
    pub(crate) fn retry(&mut self, pod: Arc<PodInfo>) {
        self.activate(pod, Add::new().rate_limited());
    }

    /// Keeps a pod that fits on no node.
    pub(crate) fn wait(&mut self, pod: Arc<PodInfo>) {
        let backoff = self.backoff.when(&pod.uid);
        self.waiting.insert(pod.uid.clone(), (pod, Instant::now() + backoff));
    }

    /// Activates the waiting pods that fit now, each at the end of its backoff.
    pub(crate) fn activate_if(&mut self, fits: impl Fn(&PodInfo) -> bool) {
        let now = Instant::now();
        let fitting: Vec<_> =
            self.waiting.extract_if(|_, (pod, _)| fits(pod)).map(|(_, entry)| entry).collect();
        for (pod, end) in fitting {
            self.activate(pod, Add::new().after(end.saturating_duration_since(now)));
        }
    }

    /// Removes a pod that was bound or deleted, and forgets its failures.
    pub(crate) fn remove(&mut self, uid: &Uid) {
        self.queued.remove(uid);
        self.waiting.remove(uid);
        self.active.forget(uid);
    }

    /// Waits for the next pod to decide. It stays in the queue until it is [taken](Self::take).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn next(&self) -> Option<Item<Uid>> {
        self.active.next().await
    }

    /// Returns the pod, unless it was removed meanwhile. Dropping the item keeps the failures of the pod.
    pub(crate) fn take(&mut self, item: Item<Uid>) -> Option<Arc<PodInfo>> {
        self.queued.remove(item.key())
    }

    /// The number of pods to decide.
    pub(crate) fn queued(&self) -> usize {
        self.queued.len()
    }

    /// The number of pods that fit on no node.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn activate(&mut self, pod: Arc<PodInfo>, how: Add) {
        self.waiting.remove(&pod.uid);
        self.active.add_with(pod.uid.clone(), how.priority(pod.priority));
        self.queued.insert(pod.uid.clone(), pod);
    }
}
