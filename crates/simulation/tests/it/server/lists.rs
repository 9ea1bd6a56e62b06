//! Lists: versions, pages, compaction.

use super::{cluster, get, key, listed, put, server};
use kinformer_simulation::server::{Balancer, Lag, Options, Route, Server};
use serde_json::json;
use tokio::time::{Duration, Instant};

#[tokio::test(start_paused = true)]
async fn version_0_is_served_from_a_lagging_cache() {
    let cluster = cluster(&["a", "b"]);
    let server = server(&cluster);
    server.set_lag(Lag::Stopped);
    put(&cluster, "c", "1");
    assert_eq!(
        listed(&get(&server, "resourceVersion=0&limit=1").await.1),
        ("3".into(), vec!["a".into(), "b".into()])
    );
    assert_eq!(listed(&get(&server, "").await.1).0, "4");
    assert_eq!(listed(&get(&server, "resourceVersion=3").await.1).0, "3");
    assert_eq!(listed(&get(&server, "resourceVersion=4&resourceVersionMatch=Exact").await.1).0, "4");
}

/// A version that the cache does not reach is refused after 3 s, with the cause that clients look for.
#[tokio::test(start_paused = true)]
async fn future_versions_time_out() {
    let cluster = cluster(&["a"]);
    let server = server(&cluster);
    let start = Instant::now();
    let (status, body) = get(&server, "resourceVersion=9&resourceVersionMatch=NotOlderThan").await;
    assert_eq!((status, &body["reason"]), (504, &json!("Timeout")));
    assert_eq!(body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(start.elapsed().as_secs(), 3);
    assert_eq!(get(&server, "resourceVersion=9&resourceVersionMatch=Exact").await.0, 504);
}

#[tokio::test(start_paused = true)]
async fn lists_wait_for_the_cache() {
    let cluster = cluster(&["a"]);
    let server = server(&cluster);
    server.set_lag(Lag::After(Duration::from_secs(2)));
    put(&cluster, "b", "1");
    put(&cluster, "c", "1");
    assert_eq!(server.position(), 2);
    assert_eq!(listed(&get(&server, "resourceVersion=3").await.1).0, "4");
}

#[tokio::test(start_paused = true)]
async fn pages_have_one_version() {
    let cluster = cluster(&["a", "b", "c"]);
    let server = server(&cluster);
    let (_, first) = get(&server, "limit=2").await;
    assert_eq!(listed(&first), ("4".into(), vec!["a".into(), "b".into()]));
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    cluster.delete(key("c"));
    put(&cluster, "d", "1");
    let token = first["metadata"]["continue"].as_str().unwrap().replace(' ', "+");
    let (_, second) = get(&server, &format!("limit=2&continue={token}")).await;
    assert_eq!(listed(&second), ("4".into(), vec!["c".into()]));
    assert_eq!(second["metadata"].get("continue"), None);
    assert_eq!(get(&server, &format!("resourceVersion=4&continue={token}")).await.0, 422);
}

/// The error of an expired page has a token for the rest of the newest state.
#[tokio::test(start_paused = true)]
async fn compacted_versions_are_expired() {
    let cluster = cluster(&["a", "b", "c"]);
    let server = server(&cluster);
    let token = get(&server, "limit=1").await.1["metadata"]["continue"].as_str().unwrap().replace(' ', "+");
    put(&cluster, "d", "1");
    cluster.compact(5);
    let (status, body) = get(&server, &format!("limit=1&continue={token}")).await;
    assert_eq!((status, &body["reason"]), (410, &json!("Expired")));
    let token = body["metadata"]["continue"].as_str().unwrap().replace(' ', "+");
    let rest = get(&server, &format!("continue={token}")).await.1;
    assert_eq!(listed(&rest), ("5".into(), vec!["b".into(), "c".into(), "d".into()]));
    assert_eq!(get(&server, "resourceVersion=4&resourceVersionMatch=Exact").await.0, 410);
    assert_eq!(get(&server, "resourceVersion=4&limit=1").await.0, 410);
    assert_eq!(get(&server, "resourceVersion=4").await.0, 200);
}

/// A restored backup goes back; what was lost stays readable for checks.
#[tokio::test(start_paused = true)]
async fn restored_backups_go_back() {
    let cluster = cluster(&["a", "b", "c"]);
    let server = server(&cluster);
    cluster.restore(3);
    assert_eq!((server.position(), listed(&get(&server, "").await.1).0), (3, "3".into()));
    assert_eq!(put(&cluster, "d", "1"), 4);
    cluster.read(|history| {
        let changes: Vec<_> =
            history.changes().iter().map(|change| (change.version, change.key.clone())).collect();
        let expected = [(2, "a"), (3, "b"), (4, "c"), (3, "c"), (4, "d")];
        assert_eq!(changes, expected.map(|(version, name)| (version, key(name))));
        let at = |restores, version| {
            let objects = history.objects_after(history.position(restores, version));
            objects.into_keys().map(|key| key.name.clone()).collect::<String>()
        };
        let names: String = history.objects_at(4).into_keys().map(|key| key.name.clone()).collect();
        assert_eq!(names, "abd");
        assert_eq!([at(0, 2), at(0, 4), at(0, 9)], ["a", "abc", "abc"]);
        assert_eq!([at(1, 2), at(1, 3), at(1, 4)], ["a", "ab", "abd"]);
    });
}

/// A restored backup that continues ahead makes all earlier versions unreadable.
#[tokio::test(start_paused = true)]
async fn restored_backups_continue_ahead() {
    let cluster = cluster(&["a", "b"]);
    let server = server(&cluster);
    cluster.restore_ahead(2, 100);
    assert_eq!(listed(&get(&server, "").await.1), ("103".into(), vec!["a".into()]));
    assert_eq!(put(&cluster, "c", "1"), 104);
    assert_eq!(get(&server, "resourceVersion=3&resourceVersionMatch=Exact").await.0, 410);
    let expired = super::events(&server, "watch=1&resourceVersion=3&timeoutSeconds=30").await;
    assert_eq!(expired, ["ERROR 410"]);
    let watched = super::events(&server, "watch=1&resourceVersion=103&timeoutSeconds=30").await;
    assert_eq!(watched, ["ADDED c 104"]);
}

/// A client that reaches another server goes back in time.
#[tokio::test(start_paused = true)]
async fn balancer_has_servers_at_two_versions() {
    let cluster = cluster(&["a"]);
    let servers = [1, 2].map(|seed| Server::new(&cluster, seed, Options::default()));
    servers[1].set_lag(Lag::Stopped);
    put(&cluster, "b", "1");
    let balancer = Balancer::new(servers, 3);
    let client = kube_client::Client::new(balancer.clone(), "default");
    let mut versions = Vec::new();
    for route in [Route::To(0), Route::To(1), Route::To(0)] {
        balancer.route(route);
        let response = super::send(&client, "resourceVersion=0").await;
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        versions.push(listed(&serde_json::from_slice(&body).unwrap()).0);
    }
    assert_eq!(versions, ["3", "2", "3"]);
}
