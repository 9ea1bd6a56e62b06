//! How many connections it takes.
#![cfg(feature = "rustls-tls")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::ops::RangeInclusive;
use std::time::Duration;

use common::{PATIENCE, config_map};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::ApiServer;
use kinformer_kube::{KubeListerWatcher, client, client_http1};
use kinformer_reflector::{ListerWatcher, WatchEvent, WatchOptions, WatchStream};
use kube_client::Client;

/// So many watches, each of which has been told of something.
async fn watches(server: &ApiServer, client: Client, count: usize) -> Vec<WatchStream<ConfigMap>> {
    let source = KubeListerWatcher::<ConfigMap>::new(client);
    let version = server.version();
    server.create(config_map(&format!("at-{version}"), "1")).unwrap();
    let begin = (0..count).map(async |_| {
        let mut watch = source.watch(WatchOptions::from(version.to_string(), PATIENCE)).await.unwrap();
        let first = watch.next().await.unwrap();
        assert!(matches!(first, Ok(WatchEvent::Added(_))), "{first:?}");
        watch
    });
    tokio::time::timeout(PATIENCE, futures::future::join_all(begin)).await.unwrap()
}

/// Connections that were begun at the same time may be one too many for a moment.
async fn open_connections(server: &ApiServer, expected: RangeInclusive<u64>) {
    let settled = async {
        while !expected.contains(&server.stats().open_connections) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, settled).await.is_err() {
        panic!("{} connections, not {expected:?}", server.stats().open_connections);
    }
}

// contract: L-12
#[tokio::test(flavor = "multi_thread")]
async fn watches_share_a_connection_by_the_hundred() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let client = client(server.config().unwrap()).unwrap();
    let first = watches(&server, client.clone(), 1).await;
    let more = watches(&server, client.clone(), 59).await;
    open_connections(&server, 1..=1).await;
    // More than a server may allow at a time on one connection: none of them waits for another to end. Of those that
    // begin together where there is no connection yet, some may keep one more.
    let others = watches(&server, client, 100).await;
    assert_eq!(server.stats().open_watches, 160);
    open_connections(&server, 2..=4).await;
    drop((first, more, others));
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_http2_each_watch_has_one_of_its_own() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let watches = watches(&server, client_http1(server.config().unwrap()).unwrap(), 10).await;
    open_connections(&server, 10..=10).await;
    drop(watches);
    server.shutdown().await;
}

// contract: L-12
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_not_read_does_not_stop_the_others() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let client = client(server.config().unwrap()).unwrap();
    let unread = watches(&server, client.clone(), 20).await;
    // Much more than such a watch may be sent.
    let long = "x".repeat(100_000);
    for number in 0..100 {
        server.create(config_map(&format!("long-{number}"), &long)).unwrap();
    }
    let read = tokio::time::timeout(PATIENCE, watches(&server, client, 1)).await.unwrap();
    drop((unread, read));
    server.shutdown().await;
}
