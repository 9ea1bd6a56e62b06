//! A leadership, from its acquisition to its end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::client::LeaderClient;
use crate::error::{End, Error, NotLeader};
use crate::lease::{Attempt, LeaseHolder};
use crate::term::Term;
use crate::timing::{ObservedLeader, Timing};

/// This process is the leader, until the leadership ends or this value is released or dropped.
///
/// It ends at the latest when the renew deadline has passed since the last renewal was sent, by a clock that counts the
/// time during which the computer is suspended. [Wrapped clients](Self::client) read this clock for each write.
///
/// Dropping it ends the leadership, but does not free the Lease: other candidates wait until it has expired.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
/// # let client = kube_client::Client::try_from(server.config()?)?;
/// use kinformer_leader_election::LeaderElector;
///
/// let one = LeaderElector::builder(client.clone(), "default", "my-controller").identity("one").build()?;
/// let leadership = one.acquire().await;
/// assert!(one.is_leader() && leadership.check()?.as_secs() <= 15);
/// assert!(leadership.release().await?); // another candidate need not wait until the Lease expires
/// let other = LeaderElector::builder(client, "default", "my-controller").identity("other").build()?;
/// let leadership = other.acquire().await;
/// assert_eq!(leadership.transitions(), 1, "a number that grows with each leader");
/// # Ok(())
/// # }
/// ```
#[must_use = "the leadership ends when this value is dropped"]
pub struct Leadership {
    term: Arc<Term>,
    transitions: i32,
    /// Ends the renewals.
    stop: CancellationToken,
    /// Renews the Lease, and returns its holder at the end.
    renewals: Option<JoinHandle<LeaseHolder>>,
    timing: Timing,
    leader: ObservedLeader,
}

impl Leadership {
    pub(crate) fn begin(
        term: Arc<Term>,
        transitions: i32,
        holder: LeaseHolder,
        timing: Timing,
        leader: ObservedLeader,
    ) -> Self {
        let stop = CancellationToken::new();
        let renewals = tokio::spawn(renew(holder, term.clone(), timing, leader.clone(), stop.clone()));
        Self { term, transitions, stop, renewals: Some(renewals), timing, leader }
    }

    /// How often the Lease has changed its holder. A later leader has a greater number, unless the Lease was deleted in
    /// between, so it can serve as a fencing token for systems that are not the API server.
    #[doc(alias = "LeaderElectionRecord")]
    pub fn transitions(&self) -> i32 {
        self.transitions
    }

    /// Returns for how long no other process can become the leader.
    ///
    /// # Errors
    /// The leadership has ended.
    pub fn check(&self) -> Result<Duration, NotLeader> {
        self.term.check()
    }

    /// Waits until the leadership has ended, and returns why.
    ///
    /// After the computer was suspended, this may be a retry period late. [`Self::check`] and wrapped clients are not.
    ///
    /// ```
    /// # async fn work() {}
    /// # async fn example(leadership: kinformer_leader_election::Leadership) {
    /// tokio::select! {
    ///     () = work() => println!("the work has ended"),
    ///     not_leader = leadership.ended() => {
    ///         eprintln!("{not_leader}"); // the usual end of such a process; its next start is a candidate
    ///         std::process::exit(1);
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Nothing is lost: a later call returns at once.
    #[doc(alias = "OnStoppedLeading")]
    pub async fn ended(&self) -> NotLeader {
        self.term.ended.cancelled().await;
        self.term.reason()
    }

    /// Runs a future while the leadership lasts. Drops it when the leadership ends.
    ///
    /// # Cancel safety
    /// That of the future. The leadership goes on.
    ///
    /// # Errors
    /// The leadership ended before the future.
    #[doc(alias("LeaderCallbacks", "OnStartedLeading", "RunOrDie"))]
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, NotLeader> {
        tokio::select! {
            biased;
            reason = self.ended() => Err(reason),
            result = work => Ok(result),
        }
    }

    /// Returns a client that sends writes only while the leadership lasts. Reads and watches are not restricted.
    ///
    /// * No write is started after the renew deadline, or after the leadership has ended otherwise. It fails with
    ///   [`NotLeader`], inside `kube_client::Error::Service` ([`NotLeader::of`]).
    /// * A write in flight ends when the Lease expires, or when another process has taken it. It may have taken effect. Its
    ///   request has the query parameter `timeout`, so that kube-apiserver gives it up then too.
    ///
    /// A write is any request but `GET`, `HEAD` and `OPTIONS`.
    pub fn client(&self, client: &Client) -> Client {
        let term = self.term.clone();
        LeaderClient::wrap(client, move || Ok(term.clone()))
    }

    /// Ends the leadership and frees the Lease, so that another candidate can become the leader at once. Waits for the
    /// writes of [wrapped clients](Self::client) that are in flight, at most until the Lease has expired; end all other work
    /// before. A write that failed without a response, or whose future was dropped, is in flight until its time limit: the
    /// server may still do it.
    ///
    /// Returns whether the Lease was still held.
    ///
    /// # Cancel safety
    /// The first poll ends the leadership. If the future is dropped, the Lease may stay held until it expires.
    ///
    /// # Errors
    /// The request failed, or did not end in time. The Lease expires by itself.
    #[doc(alias("LeaderElectionReleaseOnCancel", "ReleaseOnCancel"))]
    pub async fn release(mut self) -> Result<bool, Error> {
        let lease = self.term.lease.clone();
        self.term.end(End::Released);
        self.term.writes.close();
        tokio::select! {
            biased;
            () = self.term.settled() => {}
            // A write whose future is not polled does not end, but it is refused from then on.
            () = self.term.over() => {}
        }
        self.stop.cancel();
        // A task that has panicked or was aborted has no holder to release.
        let Some(Ok(mut holder)) = wait(self.renewals.take()).await else { return Ok(false) };
        let released = timeout(self.timing.attempt(), holder.release());
        let released = released.await.map_err(|_| Error::ReleaseTimedOut { lease: lease.clone() })??;
        self.leader.set(None);
        tracing::info!(%lease, identity = %self.term.identity, "released leadership");
        Ok(released)
    }
}

async fn wait<T>(task: Option<JoinHandle<T>>) -> Option<Result<T, tokio::task::JoinError>> {
    Some(task?.await)
}

/// Renews the Lease until the leadership has ended.
async fn renew(
    mut holder: LeaseHolder,
    term: Arc<Term>,
    timing: Timing,
    leader: ObservedLeader,
    stop: CancellationToken,
) -> LeaseHolder {
    loop {
        let pause = sleep(timing.retry_period.min(term.until_deadline()));
        if stop.run_until_cancelled(pause).await.is_none() {
            return holder;
        }
        if term.check().is_err() {
            break;
        }
        let limit = timing.attempt().min(term.until_deadline());
        let Some(attempt) = stop.run_until_cancelled(timeout(limit, holder.try_hold())).await else {
            return holder;
        };
        match attempt {
            Ok(Ok(Attempt::Held(hold))) => term.renewed(hold.since),
            Ok(Ok(Attempt::NotHeld { holder })) => {
                leader.set(holder.clone());
                term.end(holder.map_or(End::Removed, End::HeldBy));
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "could not renew the lease");
                *term.last_error.lock() = Some(error.to_string().into());
            }
            Err(_) => {
                tracing::warn!(lease = %term.lease, "could not renew the lease: no response in time");
                *term.last_error.lock() = Some("no response in time".into());
            }
        }
    }
    let reason = term.reason();
    if reason.end != End::Released {
        tracing::warn!(error = %reason, "leadership ended");
    }
    holder
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.term.end(End::Released);
        self.stop.cancel();
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("term", &self.term)
            .field("transitions", &self.transitions)
            .finish_non_exhaustive()
    }
}
