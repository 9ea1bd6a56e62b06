//! Faults of the model API server.

use super::{chunks, cluster, events, get, put, send, server};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use kinformer_simulation::server::{Fault, Stop, Verb};
use kube_client::Client;
use tokio::time::{Duration, Instant, timeout};

const WATCH: &str = "watch=1&resourceVersion=0&timeoutSeconds=100&allowWatchBookmarks=true";

#[tokio::test(start_paused = true)]
async fn planned_faults_are_met_in_order() {
    let server = server(&cluster(&["a"]));
    server.plan(Verb::Watch, Fault::Status { code: 500, retry_after: None });
    server.plan(None, Fault::Status { code: 429, retry_after: Some(4) });
    server.plan(None, Fault::Delay(Duration::from_secs(8)));
    let client = Client::new(server.clone(), "default");
    let response = send(&client, "").await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"4".parse().unwrap())
    );
    assert_eq!(send(&client, WATCH).await.status(), 500);
    let start = Instant::now();
    assert_eq!(get(&server, "").await.0, 200);
    assert_eq!(start.elapsed().as_secs(), 8);
    server.plan(None, Fault::Refused);
    let request = http::Request::get(super::MAPS).body(kube_client::client::Body::empty()).unwrap();
    assert!(client.send(request).await.is_err());
}

/// A body stops after exactly this many bytes: it breaks, ends, or is silent until the connection breaks.
#[tokio::test(start_paused = true)]
async fn bodies_stop_early() {
    let server = server(&cluster(&["a", "b"]));
    for stop in [Stop::Broken, Stop::Ended, Stop::Silent] {
        server.plan(Verb::Watch, Fault::Stop { bytes: 50, stop });
        let mut body =
            send(&Client::new(server.clone(), "default"), WATCH).await.into_body().into_data_stream();
        let mut received = 0;
        let end = loop {
            match timeout(Duration::from_secs(1_000), body.next()).await {
                Ok(Some(Ok(chunk))) => received += chunk.len(),
                Ok(Some(Err(_))) => break Stop::Broken,
                Ok(None) => break Stop::Ended,
                Err(_) => break Stop::Silent,
            }
        };
        assert_eq!((received, end), (50, stop));
        if stop == Stop::Silent {
            server.break_watches();
            assert!(body.next().await.unwrap().is_err());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_can_be_missing() {
    let cluster = cluster(&["a"]);
    let server = server(&cluster);
    server.plan(None, Fault::NoBookmarks);
    for bookmarks in [0, 2] {
        let query = WATCH.replace("resourceVersion=0", &format!("resourceVersion={}", server.position()));
        put(&cluster, "a", "2");
        let events = events(&server, &query).await;
        assert_eq!(events.len(), 1 + bookmarks, "{events:?}");
    }
}

/// A run with random faults is the same for the same seed.
#[tokio::test(start_paused = true)]
async fn random_faults_depend_on_the_seed_only() {
    let run = async || {
        let server = server(&cluster(&["a", "b"]));
        server.set_fault_rate(700);
        let log = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        let lines = log.clone();
        server.observe(move |line| lines.lock().push(line.to_owned()));
        let client = Client::new(server.clone(), "default");
        for _ in 0..40 {
            let request = http::Request::get(super::MAPS).body(kube_client::client::Body::empty()).unwrap();
            if let Ok(Ok(response)) = timeout(Duration::from_secs(30), client.send(request)).await {
                let _ = timeout(Duration::from_secs(30), response.into_body().collect()).await;
            }
        }
        server.heal();
        assert!(!chunks(&server, "").await.is_empty());
        let log = log.lock();
        log.clone()
    };
    let first = run().await;
    assert!(first.iter().any(|line| line.contains("Stop")), "{first:?}");
    assert_eq!(first, run().await);
}
