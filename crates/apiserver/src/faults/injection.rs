//! The handle that injects faults into a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::fault::{Fault, Kind};
use super::listener::{Listener, ListenerState};
use super::requested::Requested;

/// Identifies an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultId(u64);

#[derive(Debug)]
struct Rule {
    id: FaultId,
    fault: Fault,
    has_fired: bool,
}

#[derive(Debug)]
struct Inner {
    rules: Mutex<Vec<Rule>>,
    /// The number of rules, which watches read without taking the lock.
    armed: AtomicUsize,
    next: AtomicU64,
    fired: AtomicU64,
    listener: Listener,
    changed: watch::Sender<u64>,
}

/// A handle for injecting faults into a server. Clones share one state.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Inner>);

impl Faults {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            rules: Mutex::new(Vec::new()),
            armed: AtomicUsize::new(0),
            next: AtomicU64::new(1),
            fired: AtomicU64::new(0),
            listener: Listener::new(),
            changed: watch::Sender::new(0),
        }))
    }

    /// Injects a fault. It also applies to open watches, immediately.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use serde_json::json;
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "default"}});
    /// use kinformer_apiserver::{Fault, Verb};
    ///
    /// let fault = server.faults().inject(Fault::too_many_requests(1).on(Verb::Watch).resource("pods"));
    /// server.faults().remove(fault);
    /// assert_eq!(server.faults().fired(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inject(&self, fault: Fault) -> FaultId {
        let id = FaultId(self.0.next.fetch_add(1, Ordering::Relaxed));
        if fault.times != Some(0) {
            let mut rules = self.0.rules.lock();
            rules.push(Rule { id, fault, has_fired: false });
            self.0.armed.store(rules.len(), Ordering::Release);
        }
        self.0.changed.send_modify(|count| *count = count.wrapping_add(1));
        id
    }

    /// Removes a fault. Does nothing if it has been removed already or has fired for the last time.
    pub fn remove(&self, id: FaultId) {
        let mut rules = self.0.rules.lock();
        rules.retain(|rule| rule.id != id);
        self.0.armed.store(rules.len(), Ordering::Release);
    }

    /// Removes all faults and accepts connections again.
    pub fn clear(&self) {
        let mut rules = self.0.rules.lock();
        rules.clear();
        self.0.armed.store(0, Ordering::Release);
        drop(rules);
        self.0.listener.request(ListenerState::Open);
    }

    /// Returns how often faults have fired.
    pub fn fired(&self) -> u64 {
        self.0.fired.load(Ordering::Acquire)
    }

    /// Returns the injected faults that no request has met yet, oldest first. The text of one says what it waits for.
    ///
    /// A test that ends with such a fault has not tested what it names:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// use kinformer_apiserver::{Fault, Verb};
    ///
    /// server.faults().inject(Fault::conflict().on(Verb::Create).resource("pods"));
    /// let unfired: Vec<String> = server.faults().unfired().iter().map(ToString::to_string).collect();
    /// assert_eq!(
    ///     unfired,
    ///     ["conflict on create of pods; it cannot fire: a conflict answers updates and patches only"]
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub fn unfired(&self) -> Vec<Fault> {
        let rules = self.0.rules.lock();
        rules.iter().filter(|rule| !rule.has_fired).map(|rule| rule.fault.clone()).collect()
    }

    /// Closes the listening socket, so that the operating system refuses new connections. Open connections are not
    /// affected. The port stays reserved. Completes when the socket is closed.
    ///
    /// # Cancel safety
    /// The first poll requests the close. Dropping the future then only ends the wait.
    pub async fn refuse_connections(&self) {
        self.0.listener.set(ListenerState::Closed).await;
    }

    /// Listens again on the same port. Completes when the socket is open.
    ///
    /// # Cancel safety
    /// The first poll requests the socket. Dropping the future then only ends the wait.
    pub async fn accept_connections(&self) {
        self.0.listener.set(ListenerState::Open).await;
    }

    pub(crate) fn listener(&self) -> &Listener {
        &self.0.listener
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Fires a fault that matches the filter, if there is one.
    pub(super) fn take(
        &self,
        requested: &Requested,
        events: u64,
        wanted: impl Fn(Kind) -> bool,
    ) -> Option<Kind> {
        if !self.are_armed() {
            return None;
        }
        let mut rules = self.0.rules.lock();
        let index = rules.iter().position(|Rule { fault, .. }| {
            wanted(fault.kind) && fault.after_events <= events && fault.applies_to(requested)
        })?;
        let Rule { fault, has_fired, .. } = rules.get_mut(index)?;
        *has_fired = true;
        let kind = fault.kind;
        if let Some(times) = &mut fault.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                drop(rules.remove(index));
                self.0.armed.store(rules.len(), Ordering::Release);
            }
        }
        self.0.fired.fetch_add(1, Ordering::AcqRel);
        Some(kind)
    }

    /// Whether any fault is injected.
    pub(super) fn are_armed(&self) -> bool {
        self.0.armed.load(Ordering::Acquire) > 0
    }

    /// Counts a fault of a request's own header.
    pub(super) fn count(&self) {
        self.0.fired.fetch_add(1, Ordering::AcqRel);
    }
}
