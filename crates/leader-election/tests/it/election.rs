//! Electors: waiting for the leadership and renewing it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use http::Method;
use kinformer_leader_election::{End, LeaderElector};
use serde_json::json;
use tokio::time::Instant;

use crate::common::{
    LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD, Response, Server, TestClock, after, candidate,
};

const S: Duration = Duration::from_secs(1);

fn fails() -> Response {
    Response { fails: true, ..Response::default() }
}

fn hangs() -> Response {
    Response { before: 1000 * S, ..Response::default() }
}

fn elector(server: &Server, identity: &str) -> LeaderElector {
    candidate(&server.client(), identity).build().unwrap()
}

/// The leader renews the Lease every retry period, for as long as it wants.
// contract: N-02a
#[tokio::test(start_paused = true)]
async fn leader_renews_the_lease() {
    let server = Server::default();
    let (a, b) = (elector(&server, "a"), elector(&server, "b"));
    let leadership = a.acquire().await;
    let waiting = tokio::spawn(async move { b.acquire().await.transitions() });
    let before = server.requests().len();
    after(1000 * S).await;
    leadership.check().unwrap();
    assert!(!waiting.is_finished());
    let renewals = server.requests()[before..].iter().filter(|(method, _)| *method == Method::PUT).count();
    assert!((499..=500).contains(&renewals), "{renewals}");
    assert_eq!(server.spec()["holderIdentity"], "a");
    waiting.abort();
}

/// When all renewals fail, the leadership ends at the renew deadline after the last renewal that succeeded was sent.
// contract: N-02b, N-02c
#[tokio::test(start_paused = true)]
async fn failing_renewals_end_the_leadership() {
    let server = Server::default();
    server.always(Response { before: S, ..Response::default() });
    let began = Instant::now();
    let leadership = elector(&server, "a").acquire().await; // the Lease is created after 1 s, answered after 2 s
    assert_eq!(began.elapsed(), 2 * S);
    let before = server.requests().len();
    server.always(fails());
    let reason = leadership.ended().await;
    assert_eq!(began.elapsed(), S + RENEW_DEADLINE);
    assert!(matches!(&reason.end, End::Expired(Some(error)) if error.contains("500")), "{reason}");
    let text = reason.to_string();
    assert!(
        text.starts_with(r#"not the leader: the hold of lease default/test by "a" has ended: "#),
        "{text}"
    );
    let requests = server.requests().len() - before;
    assert_eq!(requests, 4, "after 2, 4, 6 and 8 s");
}

/// A failure does not end the leadership while a later renewal succeeds in time.
// contract: N-02c
#[tokio::test(start_paused = true)]
async fn renewal_after_failures() {
    let server = Server::default();
    let leadership = elector(&server, "a").acquire().await;
    after(S).await; // between two renewals
    for _ in 0..20 {
        server.answer([fails(), fails(), fails()]);
        after(4 * RETRY_PERIOD).await;
        leadership.check().unwrap();
    }
    assert_eq!(server.spec()["leaseTransitions"], 0);
}

/// A renewal that hangs is given up after half of the renew deadline, so that another one can succeed.
// contract: N-02c
#[tokio::test(start_paused = true)]
async fn hanging_renewal_is_given_up() {
    let server = Server::default();
    let leadership = elector(&server, "a").acquire().await;
    server.answer([hangs()]);
    after(100 * S).await;
    leadership.check().unwrap();
    server.always(hangs());
    let reason = leadership.ended().await;
    assert_eq!(reason.end, End::Expired(Some("no response in time".into())));
}

/// A renewal that took effect without a response does not end the leadership.
// contract: N-02d
#[tokio::test(start_paused = true)]
async fn lost_responses_do_not_end_the_leadership() {
    let server = Server::default();
    let leadership = elector(&server, "a").acquire().await;
    for _ in 0..10 {
        server.answer([Response { after: 1000 * S, ..Response::default() }]);
        after(2 * RENEW_DEADLINE).await;
        leadership.check().unwrap();
    }
    assert_eq!(server.spec()["leaseTransitions"], 0);
}

/// When the leader stops, a candidate takes over after the lease duration and at most a jittered retry period.
// contract: N-05c
#[tokio::test(start_paused = true)]
async fn candidate_takes_over() {
    let server = Server::default();
    let leadership = elector(&server, "a").acquire().await;
    let b = elector(&server, "b");
    let waiting = tokio::spawn(async move { b.acquire().await });
    after(100 * S).await;
    drop(leadership);
    let dropped = Instant::now();
    let next = waiting.await.unwrap();
    assert_eq!(next.transitions(), 1);
    let wait = dropped.elapsed();
    let longest = LEASE_DURATION + RETRY_PERIOD.mul_f64(2.2) + RETRY_PERIOD.mul_f64(2.2);
    assert!(wait > LEASE_DURATION - 2 * RETRY_PERIOD && wait < longest, "{wait:?}");
}

/// After a release a candidate takes over at its next attempt.
// contract: N-05a
#[tokio::test(start_paused = true)]
async fn candidate_takes_over_after_a_release() {
    let server = Server::default();
    let leadership = elector(&server, "a").acquire().await;
    let b = elector(&server, "b");
    let waiting = tokio::spawn(async move { b.acquire().await });
    after(S).await;
    assert!(leadership.release().await.unwrap());
    let released = Instant::now();
    waiting.await.unwrap().check().unwrap();
    assert!(released.elapsed() <= RETRY_PERIOD.mul_f64(2.2), "{:?}", released.elapsed());
}

/// Requests that fail are repeated at most once a retry period.
// contract: N-09c
#[tokio::test(start_paused = true)]
async fn candidate_retries_failed_requests() {
    let server = Server::default();
    server.always(fails());
    let a = elector(&server, "a");
    let waiting = tokio::spawn(async move { a.acquire().await });
    after(1000 * S).await;
    let requests = server.requests().len();
    assert!((200..=501).contains(&requests), "{requests}");
    server.always(Response::default());
    waiting.await.unwrap().check().unwrap();
}

/// The identity of the leader is visible to all electors.
// contract: N-09a
#[tokio::test(start_paused = true)]
async fn identity_of_the_leader() {
    let server = Server::default();
    let (a, b) = (elector(&server, "a"), elector(&server, "b"));
    assert_eq!(a.leader(), None);
    let mut leaders = b.leaders();
    let leadership = a.acquire().await;
    assert_eq!(a.leader().as_deref(), Some("a"));
    let waiting = tokio::spawn({
        let b = b.clone();
        async move { b.acquire().await }
    });
    leaders.changed().await.unwrap();
    assert_eq!(b.leader().as_deref(), Some("a"));
    leadership.release().await.unwrap();
    assert_eq!(a.leader(), None);
    let leadership = waiting.await.unwrap();
    assert_eq!(b.leader().as_deref(), Some("b"));
    server.edit_lease(|lease| lease["spec"]["holderIdentity"] = json!("c"));
    leadership.ended().await;
    assert_eq!(b.leader().as_deref(), Some("c"));
}

/// A future that is dropped while it waits does not become the leader.
// contract: N-09b
#[tokio::test(start_paused = true)]
async fn dropped_wait_is_not_leader() {
    let server = Server::default();
    server.always(Response { before: S, ..Response::default() });
    let (a, b) = (elector(&server, "a"), elector(&server, "b"));
    assert!(tokio::time::timeout(S / 2, a.acquire()).await.is_err());
    after(100 * S).await;
    assert_eq!(server.lease(), None);
    // During the write that acquires the lease: it is held without a leader until it expires.
    assert!(tokio::time::timeout(S + S / 2, a.acquire()).await.is_err());
    after(S).await;
    assert_eq!(server.spec()["holderIdentity"], "a");
    let began = Instant::now();
    let leadership = b.acquire().await;
    assert!(began.elapsed() >= LEASE_DURATION && leadership.transitions() == 1);
}

/// An acquisition whose response arrives after the renew deadline is no leadership, but the next renewal makes it one.
// contract: N-02b
#[tokio::test(start_paused = true)]
async fn late_acquisition() {
    let server = Server::default();
    let clock = TestClock::new();
    let a = candidate(&server.client(), "a").clock(clock.clone()).build().unwrap();
    server.always(Response { after: S, ..Response::default() });
    let waiting = tokio::spawn(async move { a.acquire().await });
    after(S + S / 2).await;
    clock.jump(RENEW_DEADLINE);
    after(S).await;
    assert!(!waiting.is_finished(), "the response has arrived too late");
    waiting.await.unwrap().check().unwrap();
}

/// `run` ends with its future, or with the leadership.
#[tokio::test(start_paused = true)]
async fn run_ends_with_the_leadership() {
    let server = Server::default();
    let leadership = elector(&server, "a").acquire().await;
    assert_eq!(leadership.run(async { 7 }).await.unwrap(), 7);
    let dropped = Arc::new(());
    let held = dropped.clone();
    let work = leadership.run(async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    server.always(fails());
    let error = work.await.unwrap_err();
    assert!(matches!(error.end, End::Expired(Some(_))));
    assert_eq!(Arc::strong_count(&dropped), 1);
    assert!(leadership.run(async {}).now_or_never().unwrap().is_err(), "work after the end does not begin");
}

/// An elector says since when it waits, when the server last answered, and the last error.
// contract: N-09e
#[tokio::test(start_paused = true)]
async fn candidacy_of_an_elector() {
    let server = Server::default();
    let (a, b) = (elector(&server, "a"), elector(&server, "b"));
    assert_eq!(b.candidacy(), None);
    let leadership = a.acquire().await;
    assert_eq!(a.candidacy(), None);
    let began = Instant::now();
    let waiting = tokio::spawn({
        let b = b.clone();
        async move { b.acquire().await }
    });
    after(100 * S).await;
    let candidacy = b.candidacy().unwrap();
    assert_eq!((candidacy.waiting, candidacy.error), (began.elapsed(), None));
    assert!(candidacy.answered.unwrap() < 5 * S);
    server.always(fails());
    after(100 * S).await;
    let candidacy = b.candidacy().unwrap();
    assert_eq!(candidacy.waiting, began.elapsed());
    assert!(candidacy.answered.unwrap() < 5 * S && candidacy.error.unwrap().contains("default/test"));
    server.always(hangs());
    after(100 * S).await;
    let candidacy = b.candidacy().unwrap();
    assert!(candidacy.answered.unwrap() > 90 * S);
    assert_eq!(candidacy.error.as_deref(), Some("no response in time"));
    drop(leadership);
    server.always(Response::default());
    drop(waiting.await.unwrap());
    assert_eq!(b.candidacy(), None);
}

/// An election in a namespace that does not exist is logged, and the wait says so.
// contract: N-09d, N-09e
#[tokio::test(start_paused = true)]
async fn election_in_a_missing_namespace() {
    let (_guard, lines) = kinformer_testing::logs::of_this_thread();
    let elector =
        LeaderElector::builder(Server::default().client(), "no-such", "test").clock(TestClock::new());
    let elector = elector.build().unwrap();
    let waiting = tokio::spawn({
        let elector = elector.clone();
        async move { elector.acquire().await }
    });
    after(10 * S).await;
    let candidacy = elector.candidacy().unwrap();
    assert!(candidacy.answered.is_some() && candidacy.error.unwrap().contains("lease no-such/test: "));
    assert!(lines.having(&["WARN", "could not acquire the lease", "no-such/test"]).len() > 1);
    waiting.abort();
}

/// A Lease has the labels of the elector, beside its others.
// contract: N-01f
#[tokio::test(start_paused = true)]
async fn labels_of_the_lease() {
    let server = Server::default();
    let labelled =
        |identity, value| candidate(&server.client(), identity).label("app", value).build().unwrap();
    let leadership = labelled("a", "one").acquire().await;
    assert_eq!(server.lease().unwrap()["metadata"]["labels"], json!({"app": "one"}));
    leadership.release().await.unwrap();
    server.edit_lease(|lease| lease["metadata"]["labels"]["other"] = json!("kept"));
    drop(labelled("b", "two").acquire().await);
    assert_eq!(server.lease().unwrap()["metadata"]["labels"], json!({"app": "two", "other": "kept"}));
}
