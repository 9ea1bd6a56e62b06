//! Watches and watch-lists.

use super::{MAPS, chunks, cluster, events, key, put, server};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_kube::KubeListerWatcher;
use kinformer_reflector::{ListOptions, ListerWatcher, WatchEvent, WatchOptions};
use kinformer_simulation::server::{Lag, Options, Server, WatchErrors};
use kube_client::Client;
use serde_json::json;
use tokio::time::{Duration, Instant};

/// A watch ends after its time, with a bookmark shortly before.
#[tokio::test(start_paused = true)]
async fn watches_end_after_their_time() {
    let cluster = cluster(&["a", "b"]);
    let start = Instant::now();
    let server = server(&cluster);
    let query = "watch=1&resourceVersion=2&timeoutSeconds=30&allowWatchBookmarks=true";
    assert_eq!(events(&server, query).await, ["ERROR 410"], "the cache begins at version 3");
    put(&cluster, "a", "2");
    cluster.delete(key("b"));
    let query = query.replace("resourceVersion=2", "resourceVersion=3");
    assert_eq!(events(&server, &query).await, ["MODIFIED a 4", "DELETED b 5", "BOOKMARK - 5"]);
    assert_eq!(start.elapsed().as_secs(), 30);
}

/// Events up to the requested version are hidden, although the cache sees them after the request.
#[tokio::test(start_paused = true)]
async fn events_below_the_version_are_hidden() {
    let cluster = cluster(&["a"]);
    let server = server(&cluster);
    server.set_lag(Lag::After(Duration::from_secs(5)));
    for name in ["b", "c", "d"] {
        put(&cluster, name, "1");
    }
    let query = "watch=1&resourceVersion=4&timeoutSeconds=30&allowWatchBookmarks=true";
    assert_eq!(events(&server, query).await, ["ADDED d 5", "BOOKMARK - 5"]);
    cluster.restore(2);
    put(&cluster, "e", "1");
    assert_eq!(events(&server, query).await, [""; 0], "neither events nor bookmarks below the version");
}

#[tokio::test(start_paused = true)]
async fn dropped_events_are_expired() {
    let cluster = cluster(&["a"]);
    let settings = || Options::default();
    for (errors, expected) in [(WatchErrors::Events, 200), (WatchErrors::Statuses, 410)] {
        let mut options = settings();
        options.watch_errors = errors;
        let server = Server::new(&cluster, 1, options);
        let version = put(&cluster, "a", "2");
        server.drop_events(version);
        let query = format!("watch=1&resourceVersion={}", version - 1);
        let response = super::send(&Client::new(server.clone(), "default"), &query).await;
        assert_eq!(response.status().as_u16(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn watch_lists_end_with_a_bookmark() {
    let cluster = cluster(&["a", "b"]);
    let server = server(&cluster);
    server.set_lag(Lag::After(Duration::from_secs(1)));
    put(&cluster, "c", "1");
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
                 &timeoutSeconds=5";
    let expected = ["ADDED a 2", "ADDED b 3", "ADDED c 4", "BOOKMARK - 4 end"];
    assert_eq!(events(&server, query).await, expected, "a consistent read waits for the cache");
    server.set_lag(Lag::Stopped);
    put(&cluster, "d", "1");
    assert_eq!(events(&server, &format!("{query}&resourceVersion=0")).await, expected);
    assert_eq!(events(&server, query).await, ["ERROR 504"]);
}

/// The chunks of a body are the same for the same seed, and split lines.
#[tokio::test(start_paused = true)]
async fn chunks_depend_on_the_seed_only() {
    let of_seed = async |seed| {
        let cluster = cluster(&["a", "b", "c", "d"]);
        let server = Server::new(&cluster, seed, Options::default());
        chunks(&server, "watch=1&resourceVersion=0&timeoutSeconds=9").await
    };
    let first = of_seed(1).await;
    assert!(first.len() > 4 && first.iter().any(|chunk| !chunk.ends_with('\n')), "{first:?}");
    assert_eq!(first, of_seed(1).await);
    let other = of_seed(2).await;
    assert_ne!(first, other);
    assert_eq!(first.concat(), other.concat());
}

/// kinformer-kube reads lists, watches and watch-lists of the model.
#[tokio::test(start_paused = true)]
async fn lister_watcher_reads_the_model() {
    let cluster = cluster(&["a"]);
    let server = server(&cluster);
    cluster.put(key("b"), json!({"metadata": {"labels": {"app": "web"}}, "data": {"value": "1"}}));
    let maps = KubeListerWatcher::<ConfigMap>::new(Client::new(server, "default"));
    let list = maps.list(ListOptions::at_version("")).await.unwrap();
    assert_eq!((list.objects.len(), list.resource_version.to_string()), (2, "3".to_owned()), "{MAPS}");
    assert_eq!(maps.newest_version().await.unwrap().unwrap().to_string(), "3");

    let web = maps.clone().namespace("default").labels("app=web");
    let watch = WatchOptions::from("3", Duration::from_secs(20));
    let events = web.watch(watch.clone()).await.unwrap();
    put(&cluster, "b", "2");
    put(&cluster, "c", "1");
    let events: Vec<_> = events.map(Result::unwrap).collect().await;
    assert!(
        matches!(&events[..], [WatchEvent::Deleted(_), WatchEvent::Bookmark { .. }]),
        "the object has no labels any more: {events:?}"
    );

    let events: Vec<_> =
        maps.watch(watch.with_initial_events()).await.unwrap().map(Result::unwrap).collect().await;
    let end = events
        .iter()
        .position(|event| matches!(event, WatchEvent::Bookmark { initial_events_end: true, .. }));
    assert_eq!(end, Some(3), "{events:?}");
}
