//! Electing a leader: waiting for the Lease.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube_client::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::client::LeaderClient;
use crate::clock::{BootClock, Clock};
use crate::error::{End, Error, NotLeader};
use crate::leadership::Leadership;
use crate::lease::{Attempt, LeaseHolder, check};
use crate::term::Term;
use crate::timing::{Candidacy, JITTER, ObservedLeader, Timing, Waits};

/// Elects a leader among processes by a Lease: one of those with the same Lease is the leader at a time.
///
/// ```
/// use kinformer_leader_election::LeaderElector;
///
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn work(client: kube_client::Client) {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
/// # let client = kube_client::Client::try_from(server.config()?)?;
/// let elector = LeaderElector::builder(client.clone(), "default", "my-controller").build()?;
/// let leadership = elector.acquire().await;
/// // Its writes are refused when the leadership has ended.
/// let work = work(leadership.client(&client));
/// leadership.run(work).await?; // Err(NotLeader) if the leadership ends first
/// leadership.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// Follows client-go 0.37 (`tools/leaderelection`), apart from the differences in the [crate's](crate) documentation.
/// A clone is a handle of the same elector. If both wait for the leadership, one of them has it at a time.
#[derive(Clone)]
pub struct LeaderElector {
    client: Client,
    namespace: Arc<str>,
    name: Arc<str>,
    identity: Arc<str>,
    timing: Timing,
    clock: Arc<dyn Clock>,
    labels: BTreeMap<String, String>,
    leader: ObservedLeader,
    waits: Arc<Waits>,
    /// The last leadership of this elector.
    term: Arc<Mutex<Option<Arc<Term>>>>,
    slow_renewals: Arc<AtomicU64>,
}

/// Options of a [`LeaderElector`].
///
/// ```
/// # fn example(client: kube_client::Client) -> Result<(), kinformer_leader_election::Error> {
/// use std::time::Duration;
///
/// use kinformer_leader_election::LeaderElector;
///
/// // A follower takes over within 30 s, with fewer requests than the defaults need.
/// let elector = LeaderElector::builder(client, "default", "my-controller")
///     .identity("my-controller-7d9f")
///     .lease_duration(Duration::from_secs(30))
///     .renew_deadline(Duration::from_secs(20))
///     .retry_period(Duration::from_secs(5))
///     .build()?;
/// assert_eq!(elector.identity(), "my-controller-7d9f");
/// # Ok(())
/// # }
/// ```
#[doc(alias("LeaderElectionConfig", "ResourceLockConfig"))]
pub struct LeaderElectorBuilder {
    client: Client,
    namespace: String,
    name: String,
    identity: Option<String>,
    labels: BTreeMap<String, String>,
    timing: Timing,
    clock: Arc<dyn Clock>,
}

impl LeaderElectorBuilder {
    /// Adds a label of the Lease, which it has from the next acquisition on. Its other labels are kept.
    #[doc(alias("LeaderElectionLabels", "NewWithLabels"))]
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Sets the identity of this process in the Lease. It must be unique. The default is the host name, which is the
    /// name of the pod in Kubernetes, and a random UUID.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets for how long other candidates wait before they replace a leader that does not renew the Lease. The default is
    /// 15 s.
    #[must_use]
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timing.lease_duration = duration;
        self
    }

    /// Sets how long after its last renewal the leader ends its leadership. The default is 10 s. The rest of the lease
    /// duration is for writes that are in flight then.
    #[must_use]
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timing.renew_deadline = deadline;
        self
    }

    /// Sets how often the leader renews the Lease and candidates read it. The default is 2 s.
    #[must_use]
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timing.retry_period = period;
        self
    }

    /// Sets the clock. The default is the [`BootClock`].
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Builds the elector.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the lease duration is not longer than the renew deadline, the renew deadline is not
    /// longer than 1.2 retry periods, the lease duration is not between 1 s and 2^30 s, or a name is empty.
    pub fn build(self) -> Result<LeaderElector, Error> {
        let identity = self.identity.unwrap_or_else(default_identity);
        check(&self.namespace, &self.name, &identity, self.timing.lease_duration)?;
        let Timing { lease_duration, renew_deadline, retry_period } = self.timing;
        let error = |message: &str| Err(Error::InvalidOption(message.to_owned()));
        if lease_duration <= renew_deadline {
            return error("the lease duration must be longer than the renew deadline");
        }
        // First without the factor, which a very long period would overflow.
        let is_long = renew_deadline <= retry_period || renew_deadline <= retry_period.mul_f64(JITTER);
        if retry_period.is_zero() || is_long {
            return error("the renew deadline must be longer than 1.2 retry periods, which must not be zero");
        }
        Ok(LeaderElector {
            client: self.client,
            namespace: self.namespace.into(),
            name: self.name.into(),
            identity: identity.into(),
            timing: self.timing,
            clock: self.clock,
            labels: self.labels,
            leader: ObservedLeader::default(),
            waits: Arc::default(),
            term: Arc::default(),
            slow_renewals: Arc::default(),
        })
    }
}

impl LeaderElector {
    /// Returns the options of an elector for the Lease of this namespace and name.
    #[doc(alias(
        "LeaderElectionID",
        "LeaderElectionNamespace",
        "LeaseLock",
        "LeasesResourceLock",
        "NewFromKubeconfig",
        "NewLeaderElector"
    ))]
    pub fn builder(
        client: Client,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> LeaderElectorBuilder {
        LeaderElectorBuilder {
            client,
            namespace: namespace.into(),
            name: name.into(),
            identity: None,
            labels: BTreeMap::new(),
            timing: Timing {
                lease_duration: Duration::from_secs(15),
                renew_deadline: Duration::from_secs(10),
                retry_period: Duration::from_secs(2),
            },
            clock: Arc::new(BootClock),
        }
    }

    /// The identity of this process.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The name of the Lease.
    pub fn lease_name(&self) -> &str {
        &self.name
    }

    /// Whether this process is the leader now, by this elector or one of its clones.
    pub fn is_leader(&self) -> bool {
        self.term.lock().clone().is_some_and(|term| term.check().is_ok())
    }

    /// The number of renewals that needed a read of the Lease, since another client had changed it. Follows client-go 0.37
    /// (`leader_election_slowpath_total`).
    pub fn slow_renewals(&self) -> u64 {
        self.slow_renewals.load(Ordering::Relaxed)
    }

    /// Returns the identity of the leader that this elector has seen last; `None` if there was none.
    #[doc(alias = "GetLeader")]
    pub fn leader(&self) -> Option<Arc<str>> {
        self.leader.get()
    }

    /// Returns a receiver of the leader's identity, which changes while this elector waits for the leadership or has it.
    #[doc(alias = "OnNewLeader")]
    pub fn leaders(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.leader.subscribe()
    }

    /// Returns since when this elector waits for the leadership, when the API server last answered, and the last error; `None` while
    /// it does not wait. With it a health distinguishes a candidate that cannot reach the API server from one that waits for another leader.
    #[doc(alias("NewLeaderHealthzAdaptor", "WatchDog"))]
    pub fn candidacy(&self) -> Option<Candidacy> {
        self.waits.read()
    }

    /// As [`Leadership::client`], for all leaderships of this elector, also those to come: no write is sent before the
    /// first one. For controllers that are built before their process is the leader.
    pub fn client(&self, client: &Client) -> Client {
        let elector = self.clone();
        LeaderClient::wrap(client, move || match &*elector.term.lock() {
            Some(term) => Ok(term.clone()),
            None => Err(NotLeader {
                lease: elector.lease(),
                identity: elector.identity.clone(),
                end: End::NotElected,
            }),
        })
    }

    fn lease(&self) -> Arc<str> {
        format!("{}/{}", self.namespace, self.name).into()
    }

    /// Waits until this process is the leader. From then on, a task renews the Lease until the returned [`Leadership`] is
    /// released or dropped, or has ended.
    ///
    /// Requests that fail, as in a namespace that does not exist, are logged, and repeated after the retry period, without an
    /// end.
    ///
    /// # Cancel safety
    /// This process does not become the leader. If the future is dropped during the write that acquires the Lease, the
    /// Lease may be held without a leader until it expires.
    ///
    /// # Panics
    /// Outside of a tokio runtime with a timer.
    #[doc(alias("OnStartedLeading", "RunOrDie"))]
    pub async fn acquire(&self) -> Leadership {
        let mut holder = self.holder();
        let lease = self.lease();
        tracing::info!(%lease, identity = %self.identity, "waiting for leadership");
        let waiting = self.waits.begin();
        loop {
            let attempt = timeout(self.timing.attempt(), holder.try_hold()).await;
            match &attempt {
                Ok(Ok(_)) => waiting.attempted(true, None),
                Ok(Err(error)) => waiting.attempted(error.is_answer(), Some(error.to_string().into())),
                Err(_) => waiting.attempted(false, Some("no response in time".into())),
            }
            match attempt {
                Ok(Ok(Attempt::Held(hold))) => {
                    let term = Term::new(
                        lease.clone(),
                        self.identity.clone(),
                        self.clock.clone(),
                        self.timing.lease_duration,
                        self.timing.renew_deadline,
                        hold.since,
                    );
                    // The response may have taken long.
                    if !term.until_deadline().is_zero() {
                        self.leader.set(Some(self.identity.clone()));
                        tracing::info!(%lease, identity = %self.identity, "became leader");
                        let term = Arc::new(term);
                        *self.term.lock() = Some(term.clone());
                        let (timing, leader) = (self.timing, self.leader.clone());
                        return Leadership::begin(term, hold.transitions, holder, timing, leader);
                    }
                }
                Ok(Ok(Attempt::NotHeld { holder })) => self.leader.set(holder),
                Ok(Err(error)) => tracing::warn!(%error, "could not acquire the lease"),
                Err(_) => tracing::warn!(%lease, "could not acquire the lease: no response in time"),
            }
            sleep(self.timing.retry_period.mul_f64(1.0 + fastrand::f64() * JITTER)).await;
        }
    }

    fn holder(&self) -> LeaseHolder {
        LeaseHolder::unchecked(
            self.client.clone(),
            self.namespace.clone(),
            self.name.clone(),
            self.identity.clone(),
            self.timing.lease_duration,
            self.clock.clone(),
        )
        .labels(self.labels.clone())
        .count_slow_renewals(self.slow_renewals.clone())
    }
}

/// Returns the default identity of a process: the host name, which is the name of the pod in Kubernetes, and a random UUID.
pub fn default_identity() -> String {
    format!("{}_{}", host_name().unwrap_or_default(), Uuid::new_v4())
}

#[cfg(unix)]
fn host_name() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok()
}

#[cfg(not(unix))]
fn host_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

impl fmt::Debug for LeaderElector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElector")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("identity", &self.identity)
            .field("timing", &self.timing)
            .field("leader", &self.leader())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for LeaderElectorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElectorBuilder")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("identity", &self.identity)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}
