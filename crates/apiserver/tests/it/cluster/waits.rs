//! Waits: their wake-ups, their limits, and how they fail.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kinformer_apiserver::{Fault, TestCluster};
use kube_client::Api;
use tokio::time::Instant;

use super::{cluster, config_map};

/// A check runs after each write, not only every 100 ms.
// contract: E-16d
#[tokio::test(start_paused = true)]
async fn writes_wake_a_wait() {
    let (cluster, began) = (std::sync::Arc::new(cluster().await), Instant::now());
    let server = cluster.clone();
    let writer = tokio::spawn(async move {
        for name in ["a", "b"] {
            tokio::time::sleep(Duration::from_millis(1_025)).await;
            server.create(&config_map(name)).unwrap();
        }
    });
    let mut checks = 0;
    let found = cluster
        .eventually(|| {
            checks += 1;
            cluster.get::<ConfigMap>("b")
        })
        .await
        .unwrap();
    assert_eq!(found.metadata.name.as_deref(), Some("b"));
    assert_eq!(began.elapsed(), Duration::from_millis(2_050));
    // One at once, one for each 100 ms and each write.
    assert_eq!(checks, 23);
    writer.await.unwrap();
}

/// A state that is not on the server is found within 100 ms.
// contract: E-16d
#[tokio::test(start_paused = true)]
async fn other_states_are_found() {
    let (cluster, began) = (cluster().await, Instant::now());
    let is_late = || if began.elapsed() >= Duration::from_millis(250) { Ok(7) } else { Err("early") };
    assert_eq!(cluster.eventually(is_late).await.unwrap(), 7);
    assert_eq!(began.elapsed(), Duration::from_millis(300));
    // A long wait checks less often.
    let mut checks = 0;
    let count = || {
        checks += 1;
        Err::<(), _>("never")
    };
    cluster.within(Duration::from_secs(3_000)).eventually(count).await.unwrap_err();
    assert_eq!(checks, 301);
}

/// The limit is exact, and a check that does not finish ends with it.
// contract: E-16e
#[tokio::test(start_paused = true)]
async fn waits_are_bounded() {
    let cluster = TestCluster::builder().limit(Duration::from_secs(7)).start().await.unwrap();
    let began = Instant::now();
    let failure = cluster.eventually(|| Err::<(), _>("never")).await.unwrap_err();
    assert_eq!((failure.reason(), failure.waited()), ("never", Duration::from_secs(7)));
    assert!(failure.to_string().contains("no requests are logged"), "{failure}");
    let short = cluster.within(Duration::from_millis(30));
    let failure = short.eventually(|| Err::<(), _>("never")).await.unwrap_err();
    assert_eq!(failure.waited(), Duration::from_millis(30));
    assert_eq!(began.elapsed(), Duration::from_millis(7_030));

    cluster.faults().inject(Fault::stall().always());
    let namespaces = Api::<Namespace>::all(cluster.client());
    let failure = cluster.eventually_async(async || namespaces.get("default").await).await.unwrap_err();
    assert_eq!(failure.reason(), "the first check did not finish; a check was running at the time limit");
    assert_eq!(failure.waited(), Duration::from_secs(7));
    assert!(failure.to_string().contains("GET /api/v1/namespaces/default"), "{failure}");
    let always = cluster.within(Duration::MAX).eventually_async(async || Ok::<_, String>(1)).await;
    assert_eq!(always.unwrap(), 1);
}

/// A check that sends requests does not lead to its own repetition.
// contract: E-16d
#[tokio::test(start_paused = true)]
async fn checks_may_send_requests() {
    let cluster = cluster().await;
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    let failure = cluster.within(Duration::from_secs(1)).eventually_async(async || maps.get("a").await);
    let failure = failure.await.unwrap_err();
    assert_eq!(failure.waited(), Duration::from_secs(1));
    assert!(!failure.reason().contains("a check was running"), "{failure}");
    // Every 100 ms; the one at the limit was not sent.
    assert_eq!(cluster.requests().len(), 10, "{failure}");
}

/// With a paused clock, endless writes would never let the limit come.
// contract: E-16e
#[tokio::test(start_paused = true)]
async fn endless_writes_end_a_wait() {
    let cluster = cluster().await;
    cluster.create(&config_map("a")).unwrap();
    let mut number = 0;
    let write = || {
        number += 1;
        let change =
            |map: &mut ConfigMap| map.data = Some([("number".to_owned(), number.to_string())].into());
        cluster.modify("a", change).unwrap();
        Err::<(), _>("never")
    };
    let failure = cluster.eventually(write).await.unwrap_err();
    assert_eq!(failure.waited(), Duration::ZERO);
    assert!(failure.reason().contains("the paused clock does not advance"), "{failure}");
}

/// A wait is a task of its own.
// contract: E-16f
#[tokio::test(start_paused = true)]
async fn waits_can_be_spawned() {
    let cluster = std::sync::Arc::new(cluster().await);
    let waiting = cluster.clone();
    let wait = tokio::spawn(async move { waiting.eventually(|| waiting.get::<ConfigMap>("a")).await });
    tokio::task::yield_now().await;
    cluster.create(&config_map("a")).unwrap();
    assert_eq!(wait.await.unwrap().unwrap().metadata.name.as_deref(), Some("a"));
}
