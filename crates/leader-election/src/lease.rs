//! Holding a Lease: one attempt at a time to acquire or renew it, and its release.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube_client::api::PostParams;
use kube_client::{Api, Client};

use crate::clock::Clock;
use crate::error::Error;

/// How many writes with an unknown outcome a holder remembers.
const REMEMBERED_WRITES: usize = 16;

/// Acquires, renews and releases one Lease. It has no loop and no timer: the caller decides when to try.
///
/// Only one of the processes that use the same Lease holds it at a time, as long as their clocks run at about the same
/// rate. Wall clocks are not compared: another holder's Lease is expired when it has not changed for its duration since
/// this holder first saw it in this state.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
/// # let client = kube_client::Client::try_from(server.config()?)?;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use kinformer_leader_election::{Attempt, BootClock, LeaseHolder};
///
/// let holder = |identity| {
///     let (client, duration) = (client.clone(), Duration::from_secs(15));
///     LeaseHolder::new(client, "default", "nightly-job", identity, duration, Arc::new(BootClock))
/// };
/// let (mut one, mut other) = (holder("one")?, holder("other")?);
/// assert!(matches!(one.try_hold().await?, Attempt::Held(_)));
/// assert_eq!(other.try_hold().await?, Attempt::NotHeld { holder: Some("one".into()) });
/// one.release().await?;
/// assert!(matches!(other.try_hold().await?, Attempt::Held(_)));
/// # Ok(())
/// # }
/// ```
///
/// Follows client-go 0.37 (`tools/leaderelection`) in how the Lease is read and written.
pub struct LeaseHolder {
    api: Api<Lease>,
    namespace: Arc<str>,
    name: Arc<str>,
    identity: Arc<str>,
    duration: Duration,
    clock: Arc<dyn Clock>,
    labels: BTreeMap<String, String>,
    /// The state that this holder wrote last, while it holds the Lease.
    written: Option<Lease>,
    /// The states that this holder may have written since: writes whose response did not arrive.
    unknown: VecDeque<LeaseSpec>,
    /// The last state of another holder, and when it was first seen.
    other: Option<(LeaseSpec, Duration)>,
    /// The renewals that found another version of the Lease.
    slow_renewals: Arc<AtomicU64>,
}

/// The result of an attempt to hold a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    /// This holder holds the Lease.
    Held(Hold),
    /// This holder does not hold the Lease, or holds it no more.
    NotHeld {
        /// The holder of the Lease; `None` if it has none or does not exist.
        holder: Option<Arc<str>>,
    },
}

/// A Lease that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hold {
    /// The time by the holder's clock just before the write was sent. No other holder acquires the Lease before this time
    /// plus its duration.
    pub since: Duration,
    /// How often the Lease has had another holder than before. It grows with each acquisition, as long as the Lease is
    /// not deleted, so that it can serve as a fencing token.
    pub transitions: i32,
}

impl LeaseHolder {
    /// Creates a holder, which sends no request yet.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if a name or the identity is empty, or the duration is not between 1 s and 2^30 s.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: impl Into<Arc<str>>,
        duration: Duration,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let identity = identity.into();
        check(namespace, name, &identity, duration)?;
        Ok(Self::unchecked(client, namespace.into(), name.into(), identity, duration, clock))
    }

    pub(crate) fn unchecked(
        client: Client,
        namespace: Arc<str>,
        name: Arc<str>,
        identity: Arc<str>,
        duration: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let api = Api::namespaced(client, &namespace);
        let (labels, written, unknown, other) = (BTreeMap::new(), None, VecDeque::new(), None);
        let slow_renewals = Arc::default();
        Self {
            api,
            namespace,
            name,
            identity,
            duration,
            clock,
            labels,
            written,
            unknown,
            other,
            slow_renewals,
        }
    }

    /// Sets labels that the Lease has from the next acquisition on. Its other labels are kept.
    #[must_use]
    pub fn labels(mut self, labels: BTreeMap<String, String>) -> Self {
        self.labels = labels;
        self
    }

    /// Tries to acquire the Lease, or to renew it if it is held. A renewal takes one request, an acquisition two.
    ///
    /// If the Lease was held and is held no more, the result is [`Attempt::NotHeld`], even if it is free now: the next
    /// attempt can acquire it again. This is also so if it was deleted, or if another holder with the same identity has
    /// written it.
    ///
    /// # Cancel safety
    /// The request may still take effect. The next attempt finds this out, and a Lease that was acquired in this way is
    /// held from then on.
    ///
    /// # Errors
    /// A request failed, or the Lease was changed between two of them. Whether the Lease is held is as before; a write may
    /// have taken effect all the same.
    pub async fn try_hold(&mut self) -> Result<Attempt, Error> {
        if let Some(lease) = self.written.clone()
            && let Some(hold) = self.renew(lease).await?
        {
            return Ok(Attempt::Held(hold));
        }
        if self.written.is_some() {
            self.slow_renewals.fetch_add(1, Ordering::Relaxed);
        }
        let found = self.api.get_opt(&self.name).await.map_err(|error| self.error(error))?;
        match found {
            Some(lease) if self.is_own(&lease) => match self.renew(lease).await? {
                Some(hold) => Ok(Attempt::Held(hold)),
                // The next attempt finds out by whom.
                None => Err(Error::Changed { lease: self.path() }),
            },
            found if self.written.is_some() => {
                self.forget();
                Ok(Attempt::NotHeld { holder: found.and_then(|lease| holder(&lease)) })
            }
            Some(lease) => self.acquire(lease).await,
            None => self.create().await,
        }
    }

    /// Releases the Lease if it is held, so that others can acquire it at once. Returns whether it was held.
    ///
    /// # Cancel safety
    /// As [`Self::try_hold`]: the Lease may be released or not, and expires otherwise.
    ///
    /// # Errors
    /// A request failed.
    pub async fn release(&mut self) -> Result<bool, Error> {
        let Some(mut lease) = self.written.clone() else { return Ok(false) };
        for _ in 0..2 {
            if self.write_released(lease).await? {
                self.forget();
                return Ok(true);
            }
            let found = self.api.get_opt(&self.name).await.map_err(|error| self.error(error))?;
            match found {
                Some(found) if self.is_own(&found) => lease = found,
                _ => break,
            }
        }
        self.forget();
        Ok(false)
    }

    /// Counts the renewals that need a read of the Lease, since another client has changed it.
    pub(crate) fn count_slow_renewals(mut self, count: Arc<AtomicU64>) -> Self {
        self.slow_renewals = count;
        self
    }

    fn forget(&mut self) {
        self.written = None;
        self.unknown.clear();
    }

    /// Whether the state was written by this holder, possibly by a write whose response did not arrive.
    fn is_own(&self, lease: &Lease) -> bool {
        let Some(spec) = &lease.spec else { return false };
        let is_written = self.written.as_ref().is_some_and(|written| {
            written.spec.as_ref() == Some(spec) && written.metadata.uid == lease.metadata.uid
        });
        is_written || self.unknown.contains(spec)
    }

    async fn create(&mut self) -> Result<Attempt, Error> {
        let metadata = ObjectMeta {
            namespace: Some(self.namespace.to_string()),
            name: Some(self.name.to_string()),
            ..ObjectMeta::default()
        };
        let mut lease = Lease { metadata, spec: Some(self.taken(0, LeaseSpec::default())) };
        self.label(&mut lease);
        Ok(match self.write(lease, true).await? {
            Some(hold) => Attempt::Held(hold),
            None => Attempt::NotHeld { holder: None },
        })
    }

    async fn acquire(&mut self, mut lease: Lease) -> Result<Attempt, Error> {
        self.label(&mut lease);
        let before = lease.spec.take().unwrap_or_default();
        let previous = before.holder_identity.as_deref().filter(|holder| !holder.is_empty()).map(Arc::from);
        if previous.is_some() && !self.observe_expiry(&before) {
            return Ok(Attempt::NotHeld { holder: previous });
        }
        let transitions = before.lease_transitions.unwrap_or_default().saturating_add(1);
        lease.spec = Some(self.taken(transitions, before));
        Ok(match self.write(lease, false).await? {
            Some(hold) => Attempt::Held(hold),
            None => Attempt::NotHeld { holder: previous },
        })
    }

    fn label(&self, lease: &mut Lease) {
        if !self.labels.is_empty() {
            lease.metadata.labels.get_or_insert_default().extend(self.labels.clone());
        }
    }

    /// Notes the state of another holder. Returns whether it has not changed for its duration.
    fn observe_expiry(&mut self, spec: &LeaseSpec) -> bool {
        let now = self.clock.now();
        match &self.other {
            Some((seen, since)) if seen == spec => {
                let duration = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
                now.saturating_sub(*since) >= duration.map_or(self.duration, Duration::from_secs)
            }
            _ => {
                self.other = Some((spec.clone(), now));
                false
            }
        }
    }

    async fn renew(&mut self, mut lease: Lease) -> Result<Option<Hold>, Error> {
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(self.identity.to_string());
        spec.lease_duration_seconds = Some(whole_seconds(self.duration));
        spec.renew_time = Some(self.wall_clock());
        self.write(lease, false).await
    }

    /// The state after an acquisition.
    fn taken(&self, transitions: i32, before: LeaseSpec) -> LeaseSpec {
        let now = self.wall_clock();
        LeaseSpec {
            holder_identity: Some(self.identity.to_string()),
            lease_duration_seconds: Some(whole_seconds(self.duration)),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..before
        }
    }

    /// Writes a state of this holder. Returns `None` if the Lease has another version than the state, or none.
    async fn write(&mut self, lease: Lease, is_new: bool) -> Result<Option<Hold>, Error> {
        if self.unknown.len() == REMEMBERED_WRITES {
            self.unknown.pop_front();
        }
        self.unknown.extend(lease.spec.clone());
        let since = self.clock.now();
        let response = match is_new {
            true => self.api.create(&PostParams::default(), &lease).await,
            false => self.api.replace(&self.name, &PostParams::default(), &lease).await,
        };
        match response {
            Ok(written) => {
                let transitions = written.spec.as_ref().and_then(|spec| spec.lease_transitions);
                self.unknown.clear();
                self.other = None;
                self.written = Some(written);
                Ok(Some(Hold { since, transitions: transitions.unwrap_or_default() }))
            }
            // A create that is answered by 404 finds no namespace, or no such resource.
            Err(error) if is_outdated(&error) && !(is_new && is_not_found(&error)) => {
                self.unknown.pop_back();
                Ok(None)
            }
            Err(error) => Err(self.error(error)),
        }
    }

    /// Writes the state of a Lease that is free. Returns `false` if the Lease has another version, or does not exist.
    async fn write_released(&self, mut lease: Lease) -> Result<bool, Error> {
        let now = self.wall_clock();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.acquire_time = Some(now.clone());
        spec.renew_time = Some(now);
        match self.api.replace(&self.name, &PostParams::default(), &lease).await {
            Ok(_) => Ok(true),
            Err(error) if is_outdated(&error) => Ok(false),
            Err(error) => Err(self.error(error)),
        }
    }

    fn path(&self) -> Arc<str> {
        format!("{}/{}", self.namespace, self.name).into()
    }

    /// The wall clock, as precise as a Lease has it. It is written for people only.
    fn wall_clock(&self) -> MicroTime {
        let now = Timestamp::try_from(self.clock.wall_clock()).unwrap_or_default();
        MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
    }

    fn error(&self, source: kube_client::Error) -> Error {
        Error::Request { lease: self.path(), source }
    }
}

pub(crate) fn check(namespace: &str, name: &str, identity: &str, duration: Duration) -> Result<(), Error> {
    let error = |message: &str| Err(Error::InvalidOption(message.to_owned()));
    if namespace.is_empty() || name.is_empty() {
        return error("the namespace and the name of the lease must not be empty");
    }
    if identity.is_empty() {
        return error("the identity must not be empty");
    }
    if duration < Duration::from_secs(1) || duration > Duration::from_secs(1 << 30) {
        return error("the lease duration must be at least 1 s and at most 2^30 s");
    }
    Ok(())
}

/// The Lease has another version than the written state, exists already, or does not exist.
fn is_outdated(error: &kube_client::Error) -> bool {
    is_not_found(error) || matches!(error, kube_client::Error::Api(status) if status.code == 409)
}

fn is_not_found(error: &kube_client::Error) -> bool {
    matches!(error, kube_client::Error::Api(status) if status.code == 404)
}

fn holder(lease: &Lease) -> Option<Arc<str>> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    (!holder.is_empty()).then(|| holder.into())
}

/// Rounded up, so that others wait for at least this long.
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

impl fmt::Debug for LeaseHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseHolder")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("identity", &self.identity)
            .field("is_held", &self.written.is_some())
            .finish_non_exhaustive()
    }
}
