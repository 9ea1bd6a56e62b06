//! The loop of the scheduler. It owns all state, so nothing is locked, and no event can come between the decision that a
//! pod fits nowhere and the moment at which it waits for such events.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::{
    Added, BoxError, CancellationToken, Deleted, Event, Packed, Registration, SharedInformerFactory, Updated,
};
use kinformer_workqueue::Item;
use kube_client::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use crate::binding::{self, Outcome};
use crate::cache::Cache;
use crate::pod::{PodInfo, Uid};
use crate::queue::Queue;

/// The most requests at the same time. With so many, the next pod waits for its decision.
const MAX_REQUESTS: usize = 16;
/// How often expired assumptions are looked up.
const EXPIRY_PERIOD: Duration = Duration::from_millis(200);

/// The selector of kube-scheduler's informer: a finished pod takes no room (`newPodInformer` in Kubernetes 1.37). One
/// informer has the pods with a node, for the cache, and those without, for the queue.
const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

pub(crate) struct Options {
    /// The scheduler name of the pods to schedule.
    pub(crate) name: String,
    /// The longest duration of a request, and the time after which an assumption expires.
    pub(crate) limit: Duration,
}

/// The state of the scheduler, in numbers of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) bound: usize,
    /// They fit on no node.
    pub(crate) waiting: usize,
    /// They are queued, or assumed on a node.
    pub(crate) underway: usize,
    /// Bindings that were refused, and assumptions that expired without a binding. The pods were queued again.
    pub(crate) refused: usize,
    pub(crate) expired: usize,
    /// Assumptions that expired although the pod was bound. They are kept until the informer confirms them.
    pub(crate) late: usize,
}

pub(crate) struct Scheduler {
    client: Client,
    options: Options,
    cache: Cache,
    queue: Queue,
    requests: JoinSet<(Arc<PodInfo>, Outcome)>,
    progress: watch::Sender<Progress>,
}

impl Scheduler {
    pub(crate) fn new(client: Client, options: Options) -> Self {
        let (cache, queue, requests) = (Cache::default(), Queue::new(), JoinSet::new());
        Self { client, options, cache, queue, requests, progress: watch::Sender::default() }
    }

    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Schedules pods until the token is cancelled.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), BoxError> {
        let factory = SharedInformerFactory::builder(self.client.clone())
            .of_kind::<Pod>(|pods| pods.fields(UNFINISHED))
            .build();
        let mut nodes = factory.informer::<Node>().handler().name("nodes").stream()?;
        let mut pods = factory.informer::<Pod>().handler().name("pods").stream()?;
        let initial = [nodes.registration().clone(), pods.registration().clone()];
        factory.start()?;
        let mut expiry = interval(EXPIRY_PERIOD);
        loop {
            let may_decide = self.requests.len() < MAX_REQUESTS;
            tokio::select! {
                biased; // all delivered events come before the next decision
                () = stop.cancelled() => break,
                Some(event) = nodes.next() => self.on_node(&event),
                Some(event) = pods.next() => self.on_pod(&event),
                Some(ended) = self.requests.join_next() => self.on_ended(ended?),
                _ = expiry.tick() => self.check_expired(),
                Some(item) = next_after(&initial, &self.queue), if may_decide => self.decide(item),
            }
            self.publish();
        }
        self.requests.shutdown().await;
        factory.shutdown().await?;
        Ok(())
    }

    fn on_node(&mut self, event: &Event<Packed<Node>>) {
        let name = event.key().name().to_owned();
        match event {
            Event::Added(Added { object: node, .. }) | Event::Updated(Updated { new: node, .. }) => {
                match node.decode() {
                    Ok(node) => self.cache.set_node(&name, &node),
                    Err(error) => eprintln!("{name}: {error}"),
                }
                self.on_room(&name);
            }
            Event::Deleted(_) | Event::Left(_) => self.cache.remove_node(&name),
        }
    }

    fn on_pod(&mut self, event: &Event<Packed<Pod>>) {
        match event {
            Event::Added(Added { object: pod, .. }) => self.on_state(pod),
            Event::Updated(Updated { old, new, .. }) => {
                if old.uid() != new.uid() {
                    self.on_removed(old); // it was created again under its name
                }
                self.on_state(new);
            }
            Event::Deleted(Deleted { tombstone, .. }) => {
                if let Some(pod) = tombstone.object() {
                    self.on_removed(pod);
                }
            }
            Event::Left(left) => self.on_removed(&left.object),
        }
    }

    fn on_state(&mut self, pod: &Packed<Pod>) {
        let pod = match pod.decode() {
            Ok(pod) => Arc::new(PodInfo::of(&pod)),
            Err(error) => return eprintln!("{}: {error}", pod.key()),
        };
        match &pod.node {
            Some(node) => {
                self.queue.remove(&pod.uid);
                if let Some(before) = self.cache.confirm(pod.clone(), node) {
                    self.on_room(&before); // it was assumed elsewhere, or requests less than before
                }
            }
            // A deletion has begun: its binding would be refused.
            None if pod.is_held => self.remove(&pod.uid),
            None if pod.scheduler == self.options.name && !self.cache.is_assumed(&pod.uid) => {
                self.queue.add(pod)
            }
            None => {}
        }
    }

    fn on_removed(&mut self, pod: &Packed<Pod>) {
        self.remove(&pod.uid().unwrap_or_default().into());
    }

    fn remove(&mut self, uid: &Uid) {
        self.queue.remove(uid);
        if let Some(node) = self.cache.remove(uid) {
            self.on_room(&node);
        }
    }

    /// A node has changed or has more room: the waiting pods that it accepts are decided again.
    fn on_room(&mut self, node: &str) {
        self.queue.activate_if(|pod| self.cache.accepts(node, pod));
    }

    fn decide(&mut self, item: Item<Uid>) {
        let Some(pod) = self.queue.take(item) else { return };
        let Some(node) = self.cache.best_node(&pod) else { return self.queue.wait(pod) };
        let (client, limit) = (self.client.clone(), self.options.limit);
        self.cache.assume(pod.clone(), &node, Instant::now() + limit);
        self.requests.spawn(async move {
            let outcome = binding::bind(client, &pod, &node, limit).await;
            (pod, outcome)
        });
    }

    fn on_ended(&mut self, (pod, outcome): (Arc<PodInfo>, Outcome)) {
        if let Outcome::Written | Outcome::Unknown = outcome {
            return; // the informer confirms it, or the assumption expires
        }
        self.progress.send_modify(|progress| match outcome {
            Outcome::Refused => progress.refused += 1,
            Outcome::Bound => progress.late += 1,
            _ => progress.expired += 1,
        });
        if let Outcome::Bound = outcome {
            return; // its room stays taken
        }
        // There is nothing to forget if the pod was deleted, or bound by another scheduler.
        let Some(node) = self.cache.forget(&pod.uid) else { return };
        self.queue.retry(pod);
        self.on_room(&node);
    }

    /// Reads the pods whose assumptions have expired. If a pod is bound and only its event is late, its room stays taken.
    fn check_expired(&mut self) {
        let (now, limit) = (Instant::now(), self.options.limit);
        let room = MAX_REQUESTS.saturating_sub(self.requests.len());
        for pod in self.cache.expired(now, now + 2 * limit, room) {
            let client = self.client.clone();
            self.requests.spawn(async move {
                let outcome = binding::check(client, &pod, limit).await;
                (pod, outcome)
            });
        }
    }

    fn publish(&self) {
        let (bound, waiting) = (self.cache.bound(), self.queue.waiting());
        let underway = self.queue.queued() + self.cache.assumed();
        self.progress.send_if_modified(|progress| {
            let before = *progress;
            *progress = Progress { bound, waiting, underway, ..before };
            *progress != before
        });
    }
}

/// Waits for the next pod, but not before the initial lists have been processed: a decision needs all nodes.
async fn next_after(initial: &[Registration], queue: &Queue) -> Option<Item<Uid>> {
    for list in initial {
        list.synced().await.ok()?;
    }
    queue.next().await
}
