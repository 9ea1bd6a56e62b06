//! A ring of processes on Leases.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kinformer_kube::ShardField;
use kinformer_leader_election::{BootClock, Clock, NotLeader, Term, default_identity};
use kinformer_reflector::{Backoff, Reflector, ReflectorOptions};
use kube_client::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::driver::Driver;
use super::error::RunError;
use super::inner::{Counters, Inner, RingMetrics, Source, incarnation};
use super::names::{LABEL, Names};
use super::owned::Owned;
use super::process::RingProcess;
use super::reads::Reads;
use super::shards::Shards;
use super::writes::Writer;
use crate::config::{Config, InvalidConfig, Params, check_ring_name};
use crate::machine::{Machine, Status};
use crate::slots::Slots;

/// One process of a ring, whose processes share 1,024 slots of hashes by Leases.
///
/// A clone is a handle of the same process. See the [crate's documentation](crate) for the protocol and its limits.
///
/// ```
/// use std::time::Duration;
/// use kinformer_ring::{ListFrom, Ring, Shards, Slots, StopReason};
/// use tokio_util::sync::CancellationToken;
///
/// struct Work(tokio::sync::mpsc::UnboundedSender<Slots>);
///
/// impl Shards for Work {
///     fn own(&self, slots: Slots, _: ListFrom) -> impl Future<Output = u64> + Send + 'static {
///         let _ = self.0.send(slots); // lists the objects of the slots, and begins to process them
///         std::future::ready(7) // the version of the list
///     }
///
///     fn release(&self, _: Slots) -> impl Future<Output = Option<u64>> + Send + 'static {
///         std::future::ready(None) // when nothing of the slots is in progress any more
///     }
///
///     fn stop(&self, _: Slots, _: StopReason) {}
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
/// # let client = kube_client::Client::try_from(server.config()?)?;
/// let ring = Ring::leases(client, "default", "my-controller").build()?;
/// let (sender, mut owned) = tokio::sync::mpsc::unbounded_channel();
/// let stop = CancellationToken::new();
/// let running = tokio::spawn({
///     let (ring, stop) = (ring.clone(), stop.clone());
///     async move { ring.run(Work(sender), stop).await }
/// });
/// // the only process owns all slots
/// assert_eq!(owned.recv().await.ok_or("stopped")?.to_string(), "0-1023");
/// assert!(ring.owns("the UID of an object"));
/// stop.cancel();
/// running.await??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Ring(Arc<Inner>);

/// Options of a [`Ring`].
///
/// ```
/// # fn example(client: kube_client::Client) -> Result<(), kinformer_ring::InvalidConfig> {
/// use kinformer_kube::ShardField;
/// use kinformer_ring::Ring;
///
/// // Twice the share of the others, for a larger machine. All objects of a namespace have one owner.
/// let ring = Ring::leases(client, "default", "my-controller")
///     .identity("my-controller-0")
///     .weight(2)
///     .shard_by(ShardField::Namespace)
///     .build()?;
/// assert_eq!((ring.name(), ring.identity()), ("my-controller", "my-controller-0"));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct RingBuilder {
    client: Client,
    names: Names,
    config: Config,
    leave_timeout: Option<Duration>,
    clock: Arc<dyn Clock>,
}

impl RingBuilder {
    /// Sets the name of this process in the ring, which must be unique: a-z, 0-9, `-` and `.`, at most 100 characters. The default
    /// is the host name, which is the name of the pod in Kubernetes, and a random UUID.
    pub fn identity(mut self, identity: impl Into<Arc<str>>) -> Self {
        self.config.identity = identity.into();
        self
    }

    /// Sets the share of the slots, relative to the weights of the other processes: 1 to 1,000. The default is 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.config.weight = weight;
        self
    }

    /// Sets the hashed field. The default is the UID. With the namespace all objects of a namespace are in one slot, so an object
    /// and those that it owns have one owner. All processes of a ring need the same.
    pub fn shard_by(mut self, field: ShardField) -> Self {
        self.config.params.field = field;
        self
    }

    /// Sets all parameters that the processes of a ring share.
    pub fn params(mut self, params: Params) -> Self {
        self.config.params = params;
        self
    }

    /// Sets how often the Lease is renewed. The default is 3 s.
    pub fn renew_period(mut self, period: Duration) -> Self {
        self.config.renew_period = period;
        self
    }

    /// Sets after how long a failed write is repeated. The default is 500 ms.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.config.retry_period = period;
        self
    }

    /// Sets for how long a process that ends waits for the handover of its slots. The default is the lease duration: after it
    /// other processes own the slots in any case.
    pub fn leave_timeout(mut self, timeout: Duration) -> Self {
        self.leave_timeout = Some(timeout);
        self
    }

    /// Sets the clock. The default is the [`BootClock`].
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Builds the process. It joins the ring with [`Ring::run`].
    ///
    /// # Errors
    /// An option is invalid.
    pub fn build(self) -> Result<Ring, InvalidConfig> {
        let Self { client, names, config, leave_timeout, clock } = self;
        check_ring_name(&names.name)?;
        let machine = Machine::new(config.clone())?;
        let status = watch::Sender::new(machine.status());
        let lease = format!("{}/{}.{}", names.namespace, names.name, config.identity).into();
        let owned = Owned::new(lease, config.identity.clone(), config.params.clone(), clock);
        let leave_timeout = leave_timeout.unwrap_or(config.params.lease_duration);
        let (error, is_running, counters) = (Mutex::default(), AtomicBool::new(false), Counters::default());
        let inner = Inner {
            client,
            names,
            config,
            machine,
            leave_timeout,
            owned,
            status,
            error,
            is_running,
            counters,
            reads: Mutex::default(),
        };
        Ok(Ring(Arc::new(inner)))
    }
}

impl Ring {
    /// Returns the options of a process of the ring of this name, whose Leases are in this namespace: one of the name of the ring,
    /// and for each process one whose name begins with it and a dot.
    ///
    /// The client needs `get`, `list`, `watch`, `create`, `update` and `delete` on `leases` in `coordination.k8s.io` in this
    /// namespace. It should not repeat failed requests by itself, as that of [`kinformer_kube::client`].
    pub fn leases(client: Client, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> RingBuilder {
        let identity = default_identity().to_lowercase().replace('_', "-");
        RingBuilder {
            client,
            names: Names { namespace: namespace.into(), name: name.into() },
            config: Config::new(identity, incarnation()),
            leave_timeout: None,
            clock: Arc::new(BootClock),
        }
    }

    /// Takes part in the ring: calls the functions of `shards` for the slots that this process owns, until the token is
    /// cancelled. Then it hands its slots over, and ends when other processes can own them.
    ///
    /// Requests that fail are logged and repeated, without an end; [`Self::status`] and [`Self::error`] have the reason.
    ///
    /// # Cancel safety
    /// If the future is dropped, writes of [`Self::client`] are refused at once, the futures of `shards` are dropped, and nothing
    /// is called any more. Other processes own the slots when the Lease has expired.
    ///
    /// # Errors
    /// [`RunError`]: the ring runs already, a function of `shards` has panicked, or the slots were not handed over within the
    /// [limit](RingBuilder::leave_timeout).
    pub async fn run(&self, shards: impl Shards, stop: CancellationToken) -> Result<(), RunError> {
        let inner = &*self.0;
        if inner.is_running.swap(true, Ordering::AcqRel) {
            return Err(RunError::Running { ring: inner.text() });
        }
        let _running = Running(inner);
        let selector = format!("{LABEL}={}", inner.names.name);
        let source = Source::new(inner.client.clone()).namespace(&*inner.names.namespace).labels(&selector);
        let reads = Arc::new(Reads::new(inner.names.clone()));
        *inner.reads.lock() = Some(reads.clone());
        // A write must have ended before the next renewal.
        let limit = inner.config.renew_period * 2 / 3;
        let writer = Writer::new(inner.client.clone(), inner.names.clone(), limit);
        let options = ReflectorOptions::new()
            .backoff(Backoff::exponential(inner.config.retry_period, inner.config.renew_period));
        let reflector = Reflector::with_options(inner.text(), source.clone(), reads.clone(), options);
        let reading = CancellationToken::new();
        let driver = Driver::new(inner, reads, source, writer, Arc::new(shards));
        tokio::select! {
            biased;
            result = driver.run(stop) => result,
            _ = reflector.run(reading) => Err(RunError::NotHandedOver { ring: inner.text(), slots: Slots::default() }),
        }
    }

    /// Returns whether this process may act on the object with this value of the hashed field (its UID or its namespace) now. Reads
    /// the clock, so it is right also after the process was suspended.
    pub fn owns(&self, value: &str) -> bool {
        let owned = &self.0.owned;
        owned.has(owned.params().slot_of(value))
    }

    /// Returns for how long no other process can own the slots of this one.
    ///
    /// # Errors
    /// The Lease was not renewed in time, or the run has ended.
    pub fn check(&self) -> Result<Duration, NotLeader> {
        self.0.owned.term().check()
    }

    /// For how long a process that ends waits for the handover of its slots.
    pub fn leave_timeout(&self) -> Duration {
        self.0.leave_timeout
    }

    /// Returns a client that sends writes only while the Lease of this process is renewed in time, as
    /// [`Leadership::client`](kinformer_leader_election::Leadership::client) does for a leader: no write is started after the renew
    /// deadline, and one in flight is given up when the Lease has expired. It does not know the slots of an object: ask
    /// [`Self::owns`].
    pub fn client(&self, client: &Client) -> Client {
        let inner = self.0.clone();
        Term::client(client, move || inner.owned.term())
    }

    /// For how long a write of [`Self::client`] may still take effect that has had no response: it has failed, or its future was
    /// dropped. Until then the slot of its object must not be given away.
    pub fn unanswered_for(&self) -> Duration {
        let owned = &self.0.owned;
        owned.term().unanswered_until().saturating_sub(owned.now())
    }

    /// Returns what this process does, read at one moment.
    pub fn status(&self) -> Status {
        self.0.status.borrow().clone()
    }

    /// Returns a receiver of the status, which changes after each step of the protocol that changes it.
    pub fn subscribe(&self) -> watch::Receiver<Status> {
        self.0.status.subscribe()
    }

    /// Returns the error of the last write of a Lease, if it has failed.
    pub fn error(&self) -> Option<Arc<str>> {
        self.0.error.lock().clone()
    }

    /// Returns what this process has done since its start.
    pub fn metrics(&self) -> RingMetrics {
        self.0.counters.read()
    }

    /// Returns the processes of the ring by their names, as the Leases were read last; none while this process does not run.
    pub fn processes(&self) -> Vec<RingProcess> {
        let reads = self.0.reads.lock().clone();
        reads.map(|reads| reads.processes()).unwrap_or_default()
    }

    /// The name of the ring.
    pub fn name(&self) -> &str {
        &self.0.names.name
    }

    /// The parameters that the processes of the ring share.
    pub fn params(&self) -> &Params {
        self.0.owned.params()
    }

    /// The name of this process in the ring.
    pub fn identity(&self) -> &str {
        &self.0.config.identity
    }
}

/// The run of a process, which ends also when its future is dropped.
struct Running<'a>(&'a Inner);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.owned.end();
        self.0.reads.lock().take();
        self.0.is_running.store(false, Ordering::Release);
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("ring", &self.0.text())
            .field("identity", &self.identity())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RingBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}
