//! The end of a leadership by others, and by clocks.

use std::time::Duration;

use futures::FutureExt as _;
use kinformer_leader_election::{End, LeaderElector};
use serde_json::{Value, json};

use crate::common::{
    LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD, Response, Server, TestClock, after, candidate,
};

const S: Duration = Duration::from_secs(1);

async fn end_after(edit: impl FnOnce(&Server)) -> End {
    let server = Server::default();
    let leadership = candidate(&server.client(), "a").build().unwrap().acquire().await;
    after(S).await;
    edit(&server);
    let spec = server.lease();
    after(RETRY_PERIOD).await;
    let ended = leadership.ended().now_or_never().unwrap();
    assert!(leadership.check().is_err());
    assert!(!leadership.release().await.unwrap());
    assert_eq!(server.lease(), spec, "a leader that was replaced must not write the lease");
    ended.end
}

/// A leader ends its leadership when it finds another state in the Lease than its own: within a retry period.
// contract: N-03a, N-03b
#[tokio::test(start_paused = true)]
async fn lease_written_by_others() {
    let edit = |edit: fn(&mut Value)| move |server: &Server| server.edit_lease(edit);
    let held_by = |identity: &str| End::HeldBy(identity.into());
    assert_eq!(end_after(edit(|lease| lease["spec"]["holderIdentity"] = json!("b"))).await, held_by("b"));
    let renewed = json!("2020-01-01T00:00:00.000000Z");
    assert_eq!(
        end_after(move |server| server.edit_lease(|lease| lease["spec"]["renewTime"] = renewed)).await,
        held_by("a"),
        "another process with this identity"
    );
    assert_eq!(end_after(edit(|lease| lease["spec"]["holderIdentity"] = json!(""))).await, End::Removed);
    assert_eq!(end_after(edit(|lease| lease["spec"] = json!(null))).await, End::Removed);
    assert_eq!(end_after(Server::delete_lease).await, End::Removed);
}

/// A clock that jumps ahead, as after a suspend, ends the leadership at once, without another request.
// contract: N-07a
#[tokio::test(start_paused = true)]
async fn clock_jumps_ahead() {
    let server = Server::default();
    let clock = TestClock::new();
    let elector: LeaderElector = candidate(&server.client(), "a").clock(clock.clone()).build().unwrap();
    let leadership = elector.acquire().await;
    clock.jump(RENEW_DEADLINE - S);
    leadership.check().unwrap();
    after(RETRY_PERIOD).await;
    assert!(leadership.check().is_err());
    let leadership = elector.acquire().await;
    let before = server.requests().len();
    clock.jump(RENEW_DEADLINE);
    assert_eq!(leadership.check().unwrap_err().end, End::Expired(None));
    after(100 * S).await;
    assert_eq!(server.requests().len(), before);
}

/// Whatever first finds that the leadership has expired, the reason has the last error of a renewal, unless a later one has
/// succeeded.
// contract: N-02e
#[tokio::test(start_paused = true)]
async fn expiry_names_the_last_error() {
    for (jump, is_renewed) in [(RENEW_DEADLINE, false), (LEASE_DURATION, false), (RENEW_DEADLINE, true)] {
        let server = Server::default();
        let clock = TestClock::new();
        let elector: LeaderElector = candidate(&server.client(), "a").clock(clock.clone()).build().unwrap();
        let leadership = elector.acquire().await;
        let client = leadership.client(&server.client());
        server.always(Response { fails: true, ..Response::default() });
        after(RETRY_PERIOD + S).await;
        if is_renewed {
            server.always(Response::default());
            after(RETRY_PERIOD).await;
        }
        // Before the next renewal, a write in flight or the check finds it.
        server.always(Response { before: S / 2, ..Response::default() });
        let request = http::Request::delete("/api/v1/namespaces/default/pods").body(vec![]).unwrap();
        let write = tokio::spawn(async move { client.request_text(request).await });
        after(S / 4).await;
        clock.jump(jump);
        if jump == LEASE_DURATION {
            assert!(write.await.unwrap().is_err());
        }
        let reason = leadership.check().unwrap_err();
        match reason.end {
            End::Expired(Some(error)) => assert!(!is_renewed && error.contains("500"), "{error}"),
            end => assert_eq!((end, is_renewed), (End::Expired(None), true)),
        }
    }
}
