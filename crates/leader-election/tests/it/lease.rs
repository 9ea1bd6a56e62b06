//! Attempts to hold a Lease.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use kinformer_leader_election::{Attempt, Error, LeaseHolder};
use kube_client::Client;
use serde_json::json;

use crate::common::{LEASE_DURATION, Response, Server, TestClock, after};

const S: Duration = Duration::from_secs(1);

fn holder(client: &Client, identity: &str) -> LeaseHolder {
    let clock = Arc::new(TestClock::new());
    LeaseHolder::new(client.clone(), "default", "test", identity, LEASE_DURATION, clock).unwrap()
}

fn other(identity: &str) -> Attempt {
    not_held(Some(identity))
}

fn not_held(holder: Option<&str>) -> Attempt {
    Attempt::NotHeld { holder: holder.map(Arc::from) }
}

#[track_caller]
fn transitions(attempt: Attempt) -> i32 {
    match attempt {
        Attempt::Held(hold) => hold.transitions,
        other => panic!("{other:?}"),
    }
}

fn fails() -> Response {
    Response { fails: true, ..Response::default() }
}

/// A request that takes effect, and whose response arrives when the client has given up.
fn is_lost() -> Response {
    Response { after: 60 * S, ..Response::default() }
}

/// A candidate waits until the other's Lease has not changed for its duration, by the candidate's clock.
// contract: N-01a, N-01b, N-01d
#[tokio::test(start_paused = true)]
async fn lease_of_another_holder_expires() {
    let server = Server::default();
    let (mut a, mut b) = (holder(&server.client(), "a"), holder(&server.client(), "b"));
    assert_eq!(transitions(a.try_hold().await.unwrap()), 0);
    let first = server.spec();
    assert_eq!(first["holderIdentity"], "a");
    assert_eq!(first["leaseDurationSeconds"], 15);
    assert_eq!(first["acquireTime"], first["renewTime"]);

    after(100 * S).await; // b has not seen it yet
    assert_eq!(b.try_hold().await.unwrap(), other("a"));
    after(14 * S).await;
    assert_eq!(b.try_hold().await.unwrap(), other("a"));
    assert_eq!(transitions(a.try_hold().await.unwrap()), 0);
    assert_eq!(server.spec()["acquireTime"], first["acquireTime"]);
    after(14 * S).await;
    assert_eq!(b.try_hold().await.unwrap(), other("a"));
    after(14 * S).await;
    assert_eq!(b.try_hold().await.unwrap(), other("a"));
    after(S).await;
    assert_eq!(transitions(b.try_hold().await.unwrap()), 1);
    assert_eq!(server.spec()["holderIdentity"], "b");
    assert_eq!(server.spec()["leaseTransitions"], 1);
    assert_eq!(a.try_hold().await.unwrap(), other("b"));
}

/// The namespace of the Lease does not exist, or the server does not serve Leases.
// contract: N-09d
#[tokio::test(start_paused = true)]
async fn create_that_is_not_found_fails() {
    let (client, clock) = (Server::default().client(), Arc::new(TestClock::new()));
    let mut holder = LeaseHolder::new(client, "no-such", "test", "a", LEASE_DURATION, clock).unwrap();
    for _ in 0..2 {
        let error = holder.try_hold().await.unwrap_err();
        assert!(matches!(&error, Error::Request { .. }), "{error}");
        assert!(error.to_string().starts_with("lease no-such/test: "), "{error}");
    }
}

/// The other holder's duration counts, and the wall-clock times in a Lease do not.
// contract: N-01b
#[tokio::test(start_paused = true)]
async fn duration_of_the_other_holder_counts() {
    let server = Server::default();
    let (mut a, mut b) = (holder(&server.client(), "a"), holder(&server.client(), "b"));
    a.try_hold().await.unwrap();
    server.edit_lease(|lease| {
        lease["spec"]["leaseDurationSeconds"] = json!(40);
        lease["spec"]["renewTime"] = json!("1970-01-01T00:00:00.000000Z");
    });
    assert_eq!(b.try_hold().await.unwrap(), other("a"));
    after(39 * S).await;
    assert_eq!(b.try_hold().await.unwrap(), other("a"));
    after(S).await;
    assert_eq!(transitions(b.try_hold().await.unwrap()), 1);
}

/// A Lease without a holder, or without a specification, is free.
// contract: N-01a
#[tokio::test(start_paused = true)]
async fn lease_without_a_holder_is_free() {
    let server = Server::default();
    let mut a = holder(&server.client(), "a");
    a.try_hold().await.unwrap();
    server.edit_lease(|lease| lease["spec"]["holderIdentity"] = json!(""));
    assert_eq!(transitions(holder(&server.client(), "b").try_hold().await.unwrap()), 1);
    server.edit_lease(|lease| lease["spec"] = json!(null));
    assert_eq!(transitions(holder(&server.client(), "c").try_hold().await.unwrap()), 1);
}

/// A renewal is one request, and an acquisition two.
// contract: N-02a
#[tokio::test(start_paused = true)]
async fn requests_of_an_attempt() {
    let server = Server::default();
    let mut a = holder(&server.client(), "a");
    for _ in 0..3 {
        a.try_hold().await.unwrap();
    }
    let methods: Vec<_> = server.requests().into_iter().map(|(method, _)| method).collect();
    assert_eq!(methods, [Method::GET, Method::POST, Method::PUT, Method::PUT]);
}

/// Of two candidates that have read the same state, one acquires the Lease.
// contract: N-01c
#[tokio::test(start_paused = true)]
async fn one_of_two_acquires() {
    let server = Server::default();
    server.always(Response { before: S, ..Response::default() });
    let (mut a, mut b) = (holder(&server.client(), "a"), holder(&server.client(), "b"));
    let both = tokio::join!(a.try_hold(), b.try_hold());
    let held =
        [both.0.unwrap(), both.1.unwrap()].iter().filter(|one| matches!(one, Attempt::Held(_))).count();
    assert_eq!(held, 1, "a new lease");
    server.edit_lease(|lease| lease["spec"]["holderIdentity"] = json!(""));
    let (mut c, mut d) = (holder(&server.client(), "c"), holder(&server.client(), "d"));
    let both = tokio::join!(c.try_hold(), d.try_hold());
    let held =
        [both.0.unwrap(), both.1.unwrap()].iter().filter(|one| matches!(one, Attempt::Held(_))).count();
    assert_eq!(held, 1, "a free lease");
}

/// Labels, annotations and other fields of the Lease are kept, and do not end its hold.
// contract: N-01e, N-03c
#[tokio::test(start_paused = true)]
async fn changes_of_the_metadata_are_kept() {
    let server = Server::default();
    let mut a = holder(&server.client(), "a");
    a.try_hold().await.unwrap();
    server.edit_lease(|lease| lease["metadata"]["labels"] = json!({"app": "test"}));
    assert_eq!(transitions(a.try_hold().await.unwrap()), 0);
    assert_eq!(server.lease().unwrap()["metadata"]["labels"]["app"], "test");
    a.release().await.unwrap();
    server.edit_lease(|lease| lease["spec"]["preferredHolder"] = json!("z"));
    holder(&server.client(), "b").try_hold().await.unwrap();
    assert_eq!(server.lease().unwrap()["metadata"]["labels"]["app"], "test");
    assert_eq!(server.spec()["preferredHolder"], "z");
}

/// The metadata may change again between a read and the write that follows.
// contract: N-03c
#[tokio::test(start_paused = true)]
async fn changes_of_the_metadata_during_a_renewal() {
    let server = Server::default();
    let mut a = holder(&server.client(), "a");
    a.try_hold().await.unwrap();
    let change = || server.edit_lease(|lease| lease["metadata"]["annotations"] = json!({"x": "y"}));
    change();
    let late = Response { before: S, ..Response::default() };
    server.answer([Response::default(), Response::default(), late]); // write, read, write
    let renewal = async { a.try_hold().await.unwrap_err() };
    let (error, ()) = futures::join!(renewal, async {
        after(S / 2).await;
        change();
    });
    let text = "lease default/test was changed while it was renewed; the next attempt reads it again";
    assert_eq!(error.to_string(), text);
    assert_eq!(transitions(a.try_hold().await.unwrap()), 0);
}

/// A write whose response is lost, but which took effect, is recognised by the next attempt.
// contract: N-02d
#[tokio::test(start_paused = true)]
async fn write_with_a_lost_response_is_own() {
    let server = Server::default();
    let mut a = holder(&server.client(), "a");
    for _ in 0..3 {
        // the acquisition first, then renewals
        let before = if server.lease().is_none() { vec![Response::default()] } else { vec![] };
        server.answer(before.into_iter().chain([is_lost()]));
        tokio::time::timeout(5 * S, a.try_hold()).await.unwrap_err();
        assert_eq!(transitions(a.try_hold().await.unwrap()), 0);
    }
    assert_eq!(server.spec()["holderIdentity"], "a");
}

/// An attempt that fails leaves the state as it was.
#[tokio::test(start_paused = true)]
async fn failed_attempts() {
    let server = Server::default();
    let mut a = holder(&server.client(), "a");
    server.answer([fails()]);
    let error = a.try_hold().await.unwrap_err();
    assert!(matches!(&error, Error::Request { lease, .. } if &**lease == "default/test"), "{error}");
    a.try_hold().await.unwrap();
    server.answer([fails()]);
    a.try_hold().await.unwrap_err();
    assert_eq!(transitions(a.try_hold().await.unwrap()), 0);
}

/// A Lease that was deleted or freed by somebody else, or that has another holder, is held no more. It can be acquired again.
// contract: N-03a, N-03b
#[tokio::test(start_paused = true)]
async fn lost_lease_can_be_acquired_again() {
    let server = Server::default();
    let mut a = holder(&server.client(), "a");
    a.try_hold().await.unwrap();
    server.delete_lease();
    assert_eq!(a.try_hold().await.unwrap(), not_held(None));
    assert_eq!(transitions(a.try_hold().await.unwrap()), 0);
    server.edit_lease(|lease| lease["spec"]["holderIdentity"] = json!(""));
    assert_eq!(a.try_hold().await.unwrap(), not_held(None));
    assert_eq!(transitions(a.try_hold().await.unwrap()), 1);
    server.edit_lease(|lease| lease["spec"]["holderIdentity"] = json!("b"));
    assert_eq!(a.try_hold().await.unwrap(), other("b"));
    assert_eq!(a.try_hold().await.unwrap(), other("b"));
    after(LEASE_DURATION).await;
    assert_eq!(transitions(a.try_hold().await.unwrap()), 2);
}

/// Two holders with one identity: the Lease belongs to the one that wrote it.
// contract: N-03b, N-04
#[tokio::test(start_paused = true)]
async fn equal_identities_are_two_holders() {
    let server = Server::default();
    let (mut one, mut two) = (holder(&server.client(), "a"), holder(&server.client(), "a"));
    one.try_hold().await.unwrap();
    assert_eq!(two.try_hold().await.unwrap(), other("a"));
    after(LEASE_DURATION).await;
    assert_eq!(transitions(two.try_hold().await.unwrap()), 1);
    assert_eq!(one.try_hold().await.unwrap(), other("a"));
}

/// A released Lease is free at once. A Lease that another holder has taken is not released.
// contract: N-05a
#[tokio::test(start_paused = true)]
async fn release_frees_the_lease() {
    let server = Server::default();
    let (mut a, mut b) = (holder(&server.client(), "a"), holder(&server.client(), "b"));
    assert!(!a.release().await.unwrap());
    a.try_hold().await.unwrap();
    server.edit_lease(|lease| lease["metadata"]["labels"] = json!({"app": "test"}));
    assert!(a.release().await.unwrap());
    assert_eq!(server.spec()["holderIdentity"], "");
    assert_eq!(server.spec()["leaseDurationSeconds"], 1);
    assert_eq!(transitions(b.try_hold().await.unwrap()), 1);
    server.edit_lease(|lease| lease["spec"]["holderIdentity"] = json!("c"));
    assert!(!b.release().await.unwrap());
    assert_eq!(server.spec()["holderIdentity"], "c");
}
