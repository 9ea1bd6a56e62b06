//! The client of a leader.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_leader_election::{End, Leadership, NotLeader};
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use crate::common::{LEASE_DURATION, RENEW_DEADLINE, Response, Server, TestClock, after, candidate};

const S: Duration = Duration::from_secs(1);

fn config_map(name: &str, writer: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"writer": writer}})).unwrap()
}

async fn write(client: &Client, name: &str) -> Result<ConfigMap, kube_client::Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    api.create(&PostParams::default(), &config_map(name, "a")).await
}

async fn leader(server: &Server, clock: &TestClock) -> (Leadership, Client) {
    let elector = candidate(&server.client(), "a").clock(clock.clone()).build().unwrap();
    let leadership = elector.acquire().await;
    let client = leadership.client(&server.client());
    (leadership, client)
}

#[track_caller]
fn not_leader<T: std::fmt::Debug>(result: Result<T, kube_client::Error>) -> NotLeader {
    let error = result.unwrap_err();
    NotLeader::of(&error).unwrap_or_else(|| panic!("{error:?}")).clone()
}

/// Writes are sent while the leadership lasts, and no write is after it. Reads are sent always.
// contract: N-06a, N-06c
#[tokio::test(start_paused = true)]
async fn no_write_after_the_deadline() {
    let server = Server::default();
    let clock = TestClock::new();
    let (leadership, client) = leader(&server, &clock).await;
    write(&client, "one").await.unwrap();
    // The runtime does not run the renewals now: only the clock counts.
    clock.jump(RENEW_DEADLINE);
    let before = server.requests().len();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    assert_eq!(not_leader(write(&client, "two").await).end, End::Expired(None));
    not_leader(api.replace("one", &PostParams::default(), &config_map("one", "a")).await);
    not_leader(api.patch("one", &PatchParams::default(), &Patch::Merge(json!({}))).await);
    not_leader(api.delete("one", &DeleteParams::default()).await);
    assert_eq!(server.requests().len(), before);
    api.get("one").await.unwrap();
    assert_eq!(server.requests().len(), before + 1);
    drop(leadership);
    let reason = not_leader(write(&client, "two").await);
    assert_eq!(
        reason.to_string(),
        r#"not the leader: the hold of lease default/test by "a" has ended: it was not renewed in time"#
    );
}

/// A write in flight ends when the Lease does, on the client and on the server.
// contract: N-06b
#[tokio::test(start_paused = true)]
async fn write_in_flight_ends_with_the_lease() {
    let server = Server::default();
    let clock = TestClock::new();
    let began = Instant::now();
    let (leadership, client) = leader(&server, &clock).await;
    server.always(Response { before: 1000 * S, ..Response::default() });
    let writing = tokio::spawn(async move { write(&client, "one").await });
    assert!(matches!(leadership.ended().await.end, End::Expired(_)));
    assert_eq!(began.elapsed(), RENEW_DEADLINE);
    assert!(!writing.is_finished());
    not_leader(writing.await.unwrap());
    assert_eq!(began.elapsed(), LEASE_DURATION);
    after(2000 * S).await;
    assert!(server.writers().is_empty(), "the server has given it up too");
}

/// A write in flight continues while the Lease is renewed, and ends at once when another process has taken the Lease.
// contract: N-06b
#[tokio::test(start_paused = true)]
async fn write_in_flight_ends_when_the_lease_is_taken() {
    let server = Server::default();
    let (leadership, client) = leader(&server, &TestClock::new()).await;
    server.answer([Response { after: 100 * S, ..Response::default() }]);
    write(&client, "one").await.unwrap();
    leadership.check().unwrap();
    server.answer([Response { after: 100 * S, ..Response::default() }]);
    let writing = tokio::spawn(async move { write(&client, "two").await });
    after(S).await;
    server.edit_lease(|lease| lease["spec"]["holderIdentity"] = json!("b"));
    let began = Instant::now();
    assert_eq!(not_leader(writing.await.unwrap()).end, End::HeldBy("b".into()));
    assert!(began.elapsed() <= 2 * S);
}

/// A clock that jumps while a write is in flight, as after a suspend, ends the write when it is polled.
// contract: N-06b, N-07a
#[tokio::test(start_paused = true)]
async fn suspended_write_does_not_continue() {
    let server = Server::default();
    let clock = TestClock::new();
    let (_leadership, client) = leader(&server, &clock).await;
    server.answer([Response { after: S, ..Response::default() }]);
    let writing = tokio::spawn(async move { write(&client, "one").await });
    after(S / 2).await;
    clock.jump(LEASE_DURATION);
    not_leader(writing.await.unwrap());
}

/// A release refuses new writes at once, waits for those in flight, and frees the Lease then.
// contract: N-05b
#[tokio::test(start_paused = true)]
async fn release_waits_for_writes() {
    let server = Server::default();
    let (leadership, client) = leader(&server, &TestClock::new()).await;
    server.answer([Response { before: 3 * S, ..Response::default() }]);
    let writing = tokio::spawn({
        let client = client.clone();
        async move { write(&client, "one").await }
    });
    after(S).await;
    let releasing = tokio::spawn(leadership.release());
    after(S).await;
    assert_eq!(not_leader(write(&client, "two").await).end, End::Released);
    assert_eq!(server.spec()["holderIdentity"], "a");
    assert!(releasing.await.unwrap().unwrap());
    writing.await.unwrap().unwrap();
    assert_eq!(server.spec()["holderIdentity"], "");
}

/// A release does not wait for ever for a write that nothing polls.
// contract: N-05b
#[tokio::test(start_paused = true)]
async fn release_with_a_write_that_is_not_polled() {
    let server = Server::default();
    let (leadership, client) = leader(&server, &TestClock::new()).await;
    server.answer([Response { before: 3 * S, ..Response::default() }]);
    let mut writing = Box::pin(write(&client, "one"));
    tokio::select! {
        _ = &mut writing => panic!("it has ended"),
        () = after(S) => {}
    }
    let began = Instant::now();
    assert!(leadership.release().await.unwrap());
    assert!(began.elapsed() <= LEASE_DURATION);
    assert_eq!(server.spec()["holderIdentity"], "");
    not_leader(writing.await);
}

/// A write whose future is dropped may still take effect: a release waits for that.
// contract: N-05b, N-07b
#[tokio::test(start_paused = true)]
async fn release_waits_for_dropped_writes() {
    let server = Server::default();
    let (leadership, client) = leader(&server, &TestClock::new()).await;
    server.answer([Response { before: 3 * S, ..Response::default() }]);
    tokio::time::timeout(S, write(&client, "one")).await.unwrap_err();
    let began = Instant::now();
    leadership.release().await.unwrap();
    assert_eq!(server.writers(), ["a"]);
    assert!(began.elapsed() <= LEASE_DURATION);
    assert_eq!(server.spec()["holderIdentity"], "");

    // A write with a response delays nothing.
    let (leadership, client) = leader(&server, &TestClock::new()).await;
    write(&client, "two").await.unwrap();
    let began = Instant::now();
    leadership.release().await.unwrap();
    assert!(began.elapsed() < S, "{:?}", began.elapsed());
}

/// A time limit of the request that is longer than the lease is replaced, in all notations.
// contract: N-06b
#[tokio::test(start_paused = true)]
async fn longer_time_limits_are_replaced() {
    for query in [
        "timeout=1000000ms",
        "a=b&timeout=1h",
        "%74imeout=50%73",
        "timeout=1.5h0.5m",
        "timeout=2s&timeout=1h",
    ] {
        let server = Server::default();
        let (leadership, client) = leader(&server, &TestClock::new()).await;
        server.always(Response { before: 100 * S, ..Response::default() });
        let uri = format!("/api/v1/namespaces/default/configmaps?{query}");
        let body = serde_json::to_vec(&config_map("one", "a")).unwrap();
        let request = http::Request::post(uri).body(body).unwrap();
        client.request_text(request).await.unwrap_err();
        server.always(Response::default());
        drop(leadership);
        let next = candidate(&server.client(), "b").build().unwrap().acquire().await;
        after(1000 * S).await;
        assert_eq!(server.writers(), [""; 0], "{query}: a write took effect after its leadership");
        drop(next);
    }
}

/// The time limit of a request is in its query, unless it has a shorter one.
// contract: N-06b
#[tokio::test(start_paused = true)]
async fn requests_have_a_time_limit() {
    let server = kinformer_apiserver::ApiServer::builder().start().await.unwrap();
    tokio::time::resume();
    let client = Client::try_from(server.config().unwrap()).unwrap();
    let elector = candidate(&client, "a").build().unwrap();
    let leadership = elector.acquire().await;
    write(&leadership.client(&client), "one").await.unwrap();
    let body = http::Request::builder()
        .method(Method::DELETE)
        .uri("/api/v1/namespaces/default/configmaps/one?timeout=5s")
        .body(vec![])
        .unwrap();
    leadership.client(&client).request_text(body).await.unwrap();
    leadership.release().await.unwrap();
    server.shutdown().await;
}

/// The client of an elector refuses writes before the first leadership, sends them during each one, and not in between.
// contract: N-06e
#[tokio::test(start_paused = true)]
async fn client_of_an_elector() {
    let server = Server::default();
    let elector = candidate(&server.client(), "a").build().unwrap();
    let client = elector.client(&server.client());
    let reason = not_leader(write(&client, "one").await);
    assert_eq!(reason.to_string(), r#"not the leader: the hold of lease default/test by "a" has not begun"#);
    let leadership = elector.acquire().await;
    write(&client, "one").await.unwrap();
    leadership.release().await.unwrap();
    assert_eq!(not_leader(write(&client, "two").await).end, End::Released);
    let _leadership = elector.acquire().await;
    write(&client, "two").await.unwrap();
}
