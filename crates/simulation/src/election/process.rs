//! A process: a candidate that writes all the time, by a client that refuses its writes while it is not the leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures::FutureExt as _;
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_controller::kinformer_leader_election::{Clock as _, LeaderElector, Leadership, NotLeader};
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::host::Host;
use super::judge::{Judge, LEASE, SHARED, Term, Timing};
use super::network::Network;
use crate::clock::ProcessClock;
use crate::random::pick;

/// The longest time for which a process waits for the response of a write, in milliseconds.
const LONGEST_WRITE: u64 = 30_000;

/// A process. Clones share it.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) identity: Arc<str>,
    clock: ProcessClock,
    network: Network,
    timing: Timing,
    judge: Judge,
    terms: Arc<AtomicU64>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The leadership, and until when it lasted.
    term: Option<Term>,
    ended: Option<Duration>,
    /// When the last write of the Lease that succeeded was sent.
    renewed: Option<Duration>,
    /// Whether it waits for the leadership, and when it has read the Lease in this wait.
    is_candidate: bool,
    read: Option<Duration>,
}

impl Process {
    pub(crate) fn new(
        identity: &str,
        host: &Host,
        network: &Network,
        timing: Timing,
        judge: &Judge,
        terms: &Arc<AtomicU64>,
    ) -> Self {
        Self {
            identity: identity.into(),
            clock: host.clock.clone(),
            network: network.clone(),
            timing,
            judge: judge.clone(),
            terms: terms.clone(),
            state: Arc::default(),
        }
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.judge.recorder.note(&self.identity, what);
    }

    fn violation(&self, what: impl std::fmt::Display) {
        self.judge.recorder.violation(format_args!("{}: {what}", self.identity));
    }

    /// Returns a client whose requests are checked when they are sent.
    fn client(&self) -> Client {
        let this = self.clone();
        Network::client(move |request| {
            let sent = this.clock.now();
            let is_lease = request.uri().path().contains("/leases");
            let is_read = request.method() == Method::GET;
            match (is_lease, is_read) {
                (true, true) => this.check_read(sent),
                (false, false) => this.check_write(sent, request.uri().query().unwrap_or_default()),
                _ => {}
            }
            let response = this.network.send(request, this.judge.now());
            let this = this.clone();
            async move {
                let response = response.await?;
                if is_lease && !is_read && response.status().is_success() {
                    this.state.lock().renewed = Some(sent);
                }
                Ok(response)
            }
            .boxed()
        })
    }

    /// A candidate reads the Lease at most once in a retry period (N-09c).
    fn check_read(&self, sent: Duration) {
        let mut state = self.state.lock();
        if !state.is_candidate {
            return;
        }
        let last = state.read.replace(sent);
        drop(state);
        if last.is_some_and(|last| sent < last + self.timing.retry_period) {
            self.violation("reads the Lease again before the retry period is over");
        }
    }

    /// No write is sent after the renew deadline, or after the end of the leadership (N-06a, N-06e).
    fn check_write(&self, sent: Duration, query: &str) {
        let state = self.state.lock();
        let (term, ended, renewed) = (state.term, state.ended, state.renewed);
        drop(state);
        if term.is_none() && ended.is_none_or(|ended| sent > ended) {
            self.violation("writes without the leadership");
        }
        let deadline = renewed.unwrap_or_default() + self.timing.renew_deadline;
        if sent >= deadline {
            self.violation(format_args!("writes {:?} after the renew deadline", sent - deadline));
        }
        if !query.contains("timeout=") {
            self.violation("writes without a time limit");
        }
    }

    /// Runs the process.
    pub(crate) async fn run(self, mut rng: Rng) {
        let timing = self.timing;
        let elector = LeaderElector::builder(self.client(), "default", LEASE)
            .identity(&*self.identity)
            .lease_duration(timing.lease_duration)
            .renew_deadline(timing.renew_deadline)
            .retry_period(timing.retry_period)
            .clock(self.clock.clone());
        let elector = match elector.build() {
            Ok(elector) => elector,
            Err(error) => return self.violation(error),
        };
        for _ in 0..2 {
            let client = elector.client(&self.client());
            tokio::spawn(self.clone().write(rng.fork(), client));
        }
        loop {
            {
                let mut state = self.state.lock();
                (state.is_candidate, state.read) = (true, None);
            }
            let leadership = elector.acquire().await;
            self.begin(&leadership);
            // In most terms the process leads until it is stopped.
            let longest = pick(&mut rng, [2_000, 60_000, 1_000_000]);
            let work = sleep(Duration::from_millis(rng.u64(..longest)));
            match leadership.run(work).await {
                Err(reason) => {
                    self.end();
                    self.note(format_args!("leads no more: {reason}"));
                }
                Ok(()) if rng.bool() => {
                    self.end();
                    let released = leadership.release().await;
                    self.note(format_args!("releases: {}", matches!(released, Ok(true))));
                }
                Ok(()) => {
                    self.end();
                    drop(leadership);
                    self.note("drops its leadership");
                }
            }
            sleep(Duration::from_millis(rng.u64(..2_000))).await;
        }
    }

    fn begin(&self, leadership: &Leadership) {
        let term = (self.terms.fetch_add(1, Ordering::Relaxed), leadership.transitions());
        self.note(format_args!("leads, term {}, transitions {}", term.0, term.1));
        self.judge.begins(&self.identity, term);
        let mut state = self.state.lock();
        (state.term, state.ended, state.is_candidate) = (Some(term), None, false);
    }

    fn end(&self) {
        let mut state = self.state.lock();
        (state.term, state.ended) = (None, Some(self.clock.now()));
    }

    /// Writes all the time. Some of the writes are dropped.
    async fn write(self, mut rng: Rng, client: Client) {
        let api: Api<ConfigMap> = Api::namespaced(client, "default");
        let longest = pick(&mut rng, [200, 1_000, 3_000]);
        for number in 0_u64.. {
            sleep(Duration::from_millis(rng.u64(..longest))).await;
            let term = self.state.lock().term;
            let writer = match term {
                Some((number, transitions)) => format!("{}/{number}/{transitions}", self.identity),
                None => format!("{}/unknown", self.identity),
            };
            let patch = Patch::Merge(json!({"data": {"writer": writer, "number": number.to_string()}}));
            let params = PatchParams::default();
            let write = api.patch(SHARED, &params, &patch);
            let limit =
                Duration::from_millis(if rng.u8(..4) == 0 { rng.u64(..1_000) } else { LONGEST_WRITE });
            let written = timeout(limit, write).await;
            if let Ok(Err(error)) = &written
                && term.is_none()
                && NotLeader::of(error).is_none()
                && self.state.lock().term.is_none()
            {
                self.violation(format_args!("a write without the leadership ends with {error}"));
            }
        }
    }
}
