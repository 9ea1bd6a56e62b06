//! Every public type is Send and Sync, and the futures can be spawned.

use kinformer_leader_election::*;
use static_assertions::{assert_impl_all, assert_obj_safe};

assert_impl_all!(LeaderElector: Send, Sync, Clone, Unpin, std::fmt::Debug);
assert_impl_all!(LeaderElectorBuilder: Send, Sync, std::fmt::Debug);
assert_impl_all!(Leadership: Send, Sync, Unpin, std::fmt::Debug);
assert_impl_all!(LeaseHolder: Send, Sync, std::fmt::Debug);
assert_impl_all!(Hold: Send, Sync, Copy);
assert_impl_all!(Attempt: Send, Sync, Clone);
assert_impl_all!(BootClock: Send, Sync, Clock);
assert_impl_all!(Error: Send, Sync, std::error::Error);
assert_impl_all!(NotLeader: Send, Sync, Clone, std::error::Error);
assert_obj_safe!(Clock);

/// All futures of the crate can be spawned.
#[tokio::test(start_paused = true)]
async fn futures_are_send() {
    fn spawnable<F: Future + Send>(future: F) -> F {
        future
    }
    let server = crate::common::Server::default();
    let elector = crate::common::candidate(&server.client(), "a").build().unwrap();
    let leadership = spawnable(elector.acquire()).await;
    spawnable(leadership.run(async {})).await.unwrap();
    drop(spawnable(leadership.ended()));
    assert!(spawnable(leadership.release()).await.unwrap());
}
