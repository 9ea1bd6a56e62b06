//! Controllers whose objects are shared out among processes.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::Poll;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use kinformer::{Event, Informer, ObjectKey, Scope, ShardField};
use kinformer_ring::{ListFrom, Ring, RunError, Shards, Slots, StopReason};
use kinformer_workqueue::{Add, LOW_PRIORITY};
use kube_client::Client;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::action::{Action, ReconcileError};
use crate::manager::Task;
use crate::reason::Reason;
use crate::trigger::{Queue, Source, Trigger};
use crate::worker::Reconcile;

/// Shares the objects of controllers out among processes, by a [`Ring`].
///
/// Each process reconciles the objects whose hash is in a slot that it owns, and no others. The informer of the reconciled kind
/// holds only these objects; with [`ShardField::Namespace`], so do those of all other namespaced kinds of the triggers. With
/// [`ShardField::Uid`] the other informers hold the objects of all processes, because an object and the objects that it owns
/// have different UIDs.
///
/// * A slot that moves to another process: no key of it is reconciled any more, running reconciliations are finished, and the
///   other process begins after that, with a list that is not older.
/// * A slot that is lost, since the Lease was not renewed: running reconciliations are dropped at their await points, with the error
///   [`ShardLost`] in the metrics and the log. Writes of [`Self::client`] are refused.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kinformer_controller::kinformer_ring::Ring;
/// use kinformer_controller::{Action, Controller, Manager, Sharding};
///
/// # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let sharding = Sharding::new(Ring::leases(client.clone(), "default", "my-controller").build()?);
/// let factory = kinformer::SharedInformerFactory::new(client.clone());
/// let writer = sharding.client(&client); // its writes are refused when the Lease is not renewed
/// let pods = Controller::of(&factory).reconciles::<Pod>().sharded(&sharding).build(move |request| {
///     let _writer = writer.clone();
///     async move {
///         println!("{} is reconciled by this process", *request);
///         Ok(Action::none())
///     }
/// });
/// Manager::new().add(pods)?.sharding(&sharding)?.run_until_signal().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sharding(Arc<Inner>);

struct Inner {
    ring: Ring,
    state: Mutex<State>,
    /// Notified when a reconciliation has ended.
    ended: Notify,
    /// Notified when slots were lost, so that the informers hold more than the slots.
    lost: Notify,
    controllers: Mutex<Vec<Member>>,
    /// Locked while informers change their scope: the slots that they hold.
    held: tokio::sync::Mutex<Slots>,
}

/// A controller whose objects are shared out.
#[derive(Clone)]
struct Member {
    number: u64,
    queue: Queue<ObjectKey>,
    reconciled: Informer<()>,
    /// The informers that hold only objects of the slots.
    informers: Vec<Informer<()>>,
}

#[derive(Default)]
struct State {
    /// The slots whose objects are being listed, each with the number of the list.
    listing: BTreeMap<u16, u64>,
    /// Those whose keys are reconciled.
    acting: Slots,
    /// Those whose running reconciliations are finished.
    leaving: Slots,
    /// The objects of each controller that were deleted, until they have been reconciled: they are not in the store any more.
    /// Without namespaces only, since a key has no UID.
    deleted: BTreeMap<u64, HashMap<ObjectKey, Deletion>>,
    running: BTreeMap<u64, Running>,
    next: u64,
}

/// An object that was deleted.
#[derive(Clone, Copy)]
struct Deletion {
    slot: u16,
    number: u64,
}

/// A reconciliation that runs.
struct Running {
    slot: u16,
    lost: CancellationToken,
}

/// The process does not own the object of a reconciliation any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reconciliation was dropped: this process does not own the object any more")]
#[non_exhaustive]
pub struct ShardLost;

impl Sharding {
    /// Creates it for this process of a ring.
    #[must_use]
    pub fn new(ring: Ring) -> Self {
        Self(Arc::new(Inner {
            ring,
            state: Mutex::default(),
            ended: Notify::new(),
            lost: Notify::new(),
            controllers: Mutex::default(),
            held: tokio::sync::Mutex::default(),
        }))
    }

    /// The process of the ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.0.ring
    }

    /// As [`Ring::client`]: for the writes of reconciliations.
    pub fn client(&self, client: &Client) -> Client {
        self.0.ring.client(client)
    }

    /// Returns the task that takes part in the ring.
    pub(crate) fn task(&self) -> Task {
        let sharding = self.clone();
        let run = move |stop| {
            let sharding = sharding.clone();
            async move { sharding.run(stop).await }
        };
        Task::new("ring", run).need_leader_election(false).grace(self.0.ring.leave_timeout() * 2)
    }

    /// Takes part in the ring until the token is cancelled, and hands the slots over.
    ///
    /// # Cancel safety
    /// As [`Ring::run`]. Running reconciliations are dropped, as those of lost slots, and the controllers reconcile nothing any more.
    ///
    /// # Errors
    /// [`ShardingError::Ring`] as [`Ring::run`]. [`ShardingError::Scope`] if an informer cannot hold a shard: its resource is
    /// cluster-scoped, or it has sources of the program.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), ShardingError> {
        let inner = &self.0;
        let ended = inner.ring.run(Work(inner.clone()), stop);
        tokio::pin!(ended);
        // A second run at the same time ends here; the first one goes on.
        if let Poll::Ready(ended) = futures::poll!(&mut ended) {
            return Ok(ended?);
        }
        let _run = Run(inner);
        inner.hold(&mut *inner.held.lock().await, Slots::default(), ListFrom::Latest).await?;
        tokio::select! {
            biased;
            ended = &mut ended => Ok(ended?),
            error = inner.narrow_after_losses() => Err(error),
        }
    }

    /// Returns the number of a new controller.
    pub(crate) fn next_controller(&self) -> u64 {
        self.0.state.lock().next_number()
    }

    /// Returns a trigger by the deletions of objects of this process, whose keys have no UID any more. Other triggers do not see
    /// that an object has left.
    pub(crate) fn deletions(&self, controller: u64, reconciled: &Informer<()>) -> Trigger<ObjectKey> {
        let (inner, of_handler) = (Arc::downgrade(&self.0), reconciled.clone());
        let attach = move |name: Arc<str>, queue: Queue<ObjectKey>| {
            let inner = inner.clone();
            of_handler.handler().name(name).inline().for_each(move |event| {
                if !matches!(event, Event::Deleted(_) | Event::Left(_)) {
                    return;
                }
                let (Some(object), Some(inner)) = (event.object(), inner.upgrade()) else { return };
                let Ok(key) = ObjectKey::try_from(object.key()) else { return }; // a stored object has a valid one
                if matches!(event, Event::Left(_)) {
                    inner.state.lock().note_left(controller, &key);
                } else if inner.note_deleted(controller, &key, object.uid().unwrap_or_default()) {
                    queue.add_with(key, Add::new().marks(Reason::Deleted.mark()));
                }
            })
        };
        Trigger { source: Source::Informer { informer: reconciled.clone(), attach: Box::new(attach) } }
    }

    /// Adds a controller, and returns its function with the check of each key.
    pub(crate) fn add(
        &self,
        number: u64,
        queue: &Queue<ObjectKey>,
        reconciled: &Informer<()>,
        others: impl Iterator<Item = Informer<()>>,
        reconcile: Box<Reconcile<ObjectKey>>,
    ) -> Box<Reconcile<ObjectKey>> {
        let is_by_namespace = self.0.ring.params().field == ShardField::Namespace;
        let others = others.filter(|informer| is_by_namespace && informer.selection().is_namespaced());
        let informers: Vec<Informer<()>> = std::iter::once(reconciled.clone()).chain(others).collect();
        let nothing = Scope::shard(self.0.ring.params().selector(&Slots::default()));
        for informer in &informers {
            // Before the start it takes effect at once, so that not all objects are listed first. An error is that of the run.
            _ = informer.set_scope(&nothing).now_or_never();
        }
        let member = Member { number, queue: queue.clone(), reconciled: reconciled.clone(), informers };
        let (inner, admitted) = (Arc::downgrade(&self.0), member.clone());
        queue.admit(move |key| inner.upgrade().is_some_and(|inner| inner.admits(key, &admitted)));
        self.0.controllers.lock().push(member.clone());
        self.0.lost.notify_one(); // one that is added later
        let inner = self.0.clone();
        Box::new(move |request| match inner.begin(&request.key, &member) {
            Some(running) => until_lost(running, request.key.clone(), reconcile(request)).boxed(),
            // The slot has left since the key was taken from the queue.
            None => std::future::ready(Ok(Action::none())).boxed(),
        })
    }
}

/// Runs a reconciliation until it ends or its slot is lost.
async fn until_lost(
    running: OnEnd,
    key: ObjectKey,
    reconciliation: BoxFuture<'static, Result<Action, ReconcileError>>,
) -> Result<Action, ReconcileError> {
    let mut reconciliation = reconciliation;
    // The clock is read each time: the process may have been suspended.
    let while_owned = poll_fn(|context| match running.is_owned() {
        true => reconciliation.as_mut().poll(context),
        false => Poll::Ready(Err(ReconcileError::permanent(ShardLost))),
    });
    let result = tokio::select! {
        biased;
        () = running.lost.cancelled() => Err(ReconcileError::permanent(ShardLost)),
        result = while_owned => result,
    };
    let is_last = match &result {
        Ok(action) => action.requeue_after.is_none(),
        Err(error) => error.is_permanent(),
    };
    if let (true, Some(inner), Some(deletion)) = (is_last, running.inner.upgrade(), running.deletion) {
        inner.state.lock().reconciled(running.controller, &key, deletion);
    }
    result
}

/// Removes a reconciliation when it has ended, also if its future is dropped.
struct OnEnd {
    inner: Weak<Inner>,
    number: u64,
    controller: u64,
    /// The deletion that it has seen.
    deletion: Option<Deletion>,
    lost: CancellationToken,
}

impl OnEnd {
    fn is_owned(&self) -> bool {
        self.inner.upgrade().is_some_and(|inner| inner.ring.check().is_ok())
    }
}

impl Drop for OnEnd {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.state.lock().running.remove(&self.number);
            inner.ended.notify_waiters();
        }
    }
}

impl Inner {
    /// The slot of the object with a key; `None` if it is neither stored nor was deleted here, so it is that of another process.
    fn slot_of(&self, key: &ObjectKey, member: &Member) -> Option<u16> {
        let params = self.ring.params();
        let stored = match params.field {
            ShardField::Namespace => Some(params.slot_of(key.namespace().unwrap_or_default())),
            ShardField::Uid => {
                let object = member.reconciled.lister().get_opt(key.as_key()).ok().flatten();
                object.and_then(|object| object.object().uid().map(|uid| params.slot_of(uid)))
            }
        };
        stored.or_else(|| self.state.lock().deletion(member.number, key).map(|deletion| deletion.slot))
    }

    fn admits(&self, key: &ObjectKey, member: &Member) -> bool {
        self.slot_of(key, member).is_some_and(|slot| self.state.lock().acting.contains(slot))
    }

    /// Notes an object that was deleted, and returns whether it is to be reconciled here.
    fn note_deleted(&self, controller: u64, key: &ObjectKey, uid: &str) -> bool {
        let slot = self.ring.params().slot_of(uid);
        let mut state = self.state.lock();
        let is_acting = state.acting.contains(slot);
        if is_acting {
            let number = state.next_number();
            state.deleted.entry(controller).or_default().insert(key.clone(), Deletion { slot, number });
        } else {
            state.note_left(controller, key);
        }
        is_acting
    }

    /// Begins a reconciliation, unless the process does not own the object.
    fn begin(self: &Arc<Self>, key: &ObjectKey, member: &Member) -> Option<OnEnd> {
        let slot = self.slot_of(key, member)?;
        // The clock is read here: the process may have been suspended.
        self.ring.check().ok()?;
        let mut state = self.state.lock();
        if !state.acting.contains(slot) {
            return None;
        }
        let (number, lost) = (state.next_number(), CancellationToken::new());
        state.running.insert(number, Running { slot, lost: lost.clone() });
        let (controller, deletion) = (member.number, state.deletion(member.number, key));
        Some(OnEnd { inner: Arc::downgrade(self), number, controller, deletion, lost })
    }

    fn members(&self) -> Vec<Member> {
        self.controllers.lock().clone()
    }

    /// Makes the informers hold the objects of these slots.
    ///
    /// If it is dropped, they may hold more than that; `held` has these slots too.
    async fn hold(&self, held: &mut Slots, slots: Slots, list: ListFrom) -> Result<(), ShardingError> {
        *held = union(held, &slots);
        let scope = Scope::shard(self.ring.params().selector(&slots));
        let scope = match list {
            ListFrom::AtLeast(version) => scope.at_least(version),
            ListFrom::Latest => scope,
        };
        let members = self.members();
        let informers = members.iter().flat_map(|member| &member.informers);
        let changes = informers.map(|informer| informer.set_scope(&scope));
        for changed in join_all(changes).await {
            changed.map_err(ShardingError::Scope)?;
        }
        *held = slots;
        Ok(())
    }

    /// Lists the objects of slots that are new, and reconciles them. Returns the version of the list.
    async fn own(&self, slots: Slots, list: ListFrom, call: u64) -> Result<u64, ShardingError> {
        let mut held = self.held.lock().await;
        if slots.iter().any(|slot| held.contains(slot)) {
            // They were lost since, so they are as old as that.
            let others = held.without(&slots);
            self.hold(&mut held, others, list).await?;
        }
        let all = union(&held, &self.state.lock().listing_of(call));
        self.hold(&mut held, all, list).await?;
        drop(held);
        let members = self.members();
        for informer in members.iter().flat_map(|member| &member.informers) {
            informer.wait_for_scope().await.map_err(ShardingError::Scope)?;
        }
        let begun = self.state.lock().listed(call);
        members.iter().for_each(|member| self.enqueue(member, &begun));
        Ok(match list {
            ListFrom::AtLeast(version) => version,
            ListFrom::Latest => 0,
        })
    }

    /// Enqueues the keys of all objects of slots.
    fn enqueue(&self, member: &Member, slots: &Slots) {
        let Ok(objects) = member.reconciled.snapshot() else { return };
        let add = Add::new().marks(Reason::Listed.mark()).priority(LOW_PRIORITY);
        let params = self.ring.params();
        for object in objects.iter() {
            if slots.contains(params.slot_of(params.field.value(&**object.object())))
                && let Ok(key) = object.key().try_into()
            {
                member.queue.add_with(key, add);
            }
        }
    }

    /// Waits for the reconciliations of slots that leave and for their writes, and drops their objects.
    async fn release(&self, slots: Slots) -> Result<(), ShardingError> {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !self.state.lock().running.values().any(|running| slots.contains(running.slot)) {
                break;
            }
            ended.await;
        }
        // A write that a reconciliation has given up may still take effect.
        while let left = self.ring.unanswered_for()
            && !left.is_zero()
        {
            sleep(left).await;
        }
        let mut held = self.held.lock().await;
        let others = held.without(&slots);
        self.hold(&mut held, others, ListFrom::Latest).await?;
        let mut state = self.state.lock();
        state.leaving = state.leaving.without(&slots);
        Ok(())
    }

    /// Drops the running reconciliations of slots, whose keys are not reconciled any more.
    fn lose(&self, slots: &Slots) {
        let mut state = self.state.lock();
        state.lose(slots);
        let running = state.running.values().filter(|running| slots.contains(running.slot));
        let lost: Vec<CancellationToken> = running.map(|running| running.lost.clone()).collect();
        drop(state);
        lost.iter().for_each(CancellationToken::cancel);
    }

    /// Drops the objects of slots that were lost. Ends only with an error.
    async fn narrow_after_losses(&self) -> ShardingError {
        loop {
            self.lost.notified().await;
            let mut held = self.held.lock().await;
            let owned = self.state.lock().held();
            let left = held.iter().filter(|slot| owned.contains(*slot)).collect();
            if let Err(error) = self.hold(&mut held, left, ListFrom::Latest).await {
                return error;
            }
        }
    }
}

/// A run. Its end, however it ends, is the end of the ownership of all slots.
struct Run<'a>(&'a Inner);

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let held = self.0.state.lock().held();
        self.0.lose(&held);
    }
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn deletion(&self, controller: u64, key: &ObjectKey) -> Option<Deletion> {
        self.deleted.get(&controller)?.get(key).copied()
    }

    /// Another process has the object of this name. That there was one here before does not matter any more.
    fn note_left(&mut self, controller: u64, key: &ObjectKey) {
        self.deleted.get_mut(&controller).map(|deleted| deleted.remove(key));
    }

    /// A deletion was reconciled. One that is newer is not forgotten.
    fn reconciled(&mut self, controller: u64, key: &ObjectKey, deletion: Deletion) {
        if let Some(deleted) = self.deleted.get_mut(&controller)
            && deleted.get(key).is_some_and(|found| found.number == deletion.number)
        {
            deleted.remove(key);
        }
    }

    fn held(&self) -> Slots {
        let listing = self.listing.keys().copied();
        listing.chain(self.acting.iter()).chain(self.leaving.iter()).collect()
    }

    /// The slots of a list that have not left since it began.
    fn listing_of(&self, call: u64) -> Slots {
        self.listing.iter().filter(|(_, of)| **of == call).map(|(slot, _)| *slot).collect()
    }

    /// A list has ended: its slots are reconciled, but those that have left since it began.
    fn listed(&mut self, call: u64) -> Slots {
        let begun = self.listing_of(call);
        self.acting = union(&self.acting, &begun);
        self.listing.retain(|_, of| *of != call);
        begun
    }

    fn lose(&mut self, slots: &Slots) {
        self.listing.retain(|slot, _| !slots.contains(*slot));
        self.acting = self.acting.without(slots);
        self.leaving = self.leaving.without(slots);
        let deleted = self.deleted.values_mut();
        deleted.for_each(|deleted| deleted.retain(|_, deletion| !slots.contains(deletion.slot)));
    }
}

fn union(a: &Slots, b: &Slots) -> Slots {
    a.iter().chain(b.iter()).collect()
}

/// The work of this process on its slots.
struct Work(Arc<Inner>);

impl Shards for Work {
    fn own(&self, slots: Slots, list: ListFrom) -> impl Future<Output = u64> + Send + 'static {
        let call = {
            let mut state = self.0.state.lock();
            let call = state.next_number();
            state.listing.extend(slots.iter().map(|slot| (slot, call)));
            call
        };
        let inner = self.0.clone();
        async move {
            match inner.own(slots, list, call).await {
                Ok(version) => version,
                Err(error) => never(&error).await,
            }
        }
    }

    fn release(&self, slots: Slots) -> impl Future<Output = Option<u64>> + Send + 'static {
        {
            let mut state = self.0.state.lock();
            let leaving: Slots = state.acting.iter().filter(|slot| slots.contains(*slot)).collect();
            state.lose(&slots);
            state.leaving = union(&state.leaving, &leaving);
        }
        let inner = self.0.clone();
        async move {
            match inner.release(slots).await {
                Ok(()) => None,
                Err(error) => never(&error).await,
            }
        }
    }

    fn stop(&self, slots: Slots, _: StopReason) {
        self.0.lose(&slots);
        self.0.lost.notify_one();
    }
}

/// An informer has stopped, so its controller ends with an error. Until the process ends, its slots stay without work.
async fn never<T>(error: &ShardingError) -> T {
    tracing::error!(%error, "slots cannot be listed or released");
    std::future::pending().await
}

/// The end of [`Sharding::run`] with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardingError {
    /// The ring.
    #[error(transparent)]
    Ring(#[from] RunError),
    /// An informer cannot hold a shard, or has stopped.
    #[error(transparent)]
    Scope(kinformer::Error),
}

impl fmt::Debug for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharding").field("ring", &self.0.ring).finish_non_exhaustive()
    }
}
