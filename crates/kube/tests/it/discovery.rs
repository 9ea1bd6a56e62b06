//! Discovery on a busy server.

use std::time::Duration;

use kinformer_kube::{KubeListerWatcher, discovery_client};
use kinformer_testing::scripted_http::{Answer, in_process_client};
use kube_core::{DynamicObject, GroupVersionKind};
use serde_json::json;
use tokio::time::Instant;

/// What a busy server answers.
fn busy(code: u16, retry_after: u64) -> Answer {
    Answer::failure(code, "TooManyRequests").header("retry-after", retry_after)
}

fn resources() -> Answer {
    let pods =
        json!({"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["list"]});
    Answer::json(
        &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [pods]}),
    )
}

// contract: L-41a
#[tokio::test(start_paused = true)]
async fn busy_server_is_asked_again() {
    let (client, requests) = in_process_client(|request| match request.number {
        0 => busy(429, 3),
        1 => busy(503, 7),
        _ => resources(),
    });
    let start = Instant::now();
    let pods = GroupVersionKind::gvk("", "v1", "Pod");
    KubeListerWatcher::<DynamicObject>::discover(client, &pods).await.unwrap();
    assert_eq!((start.elapsed().as_secs(), requests.all().len()), (10, 3));
}

/// Each request is repeated ten times, and not at all if that would take long.
// contract: L-41b
#[tokio::test(start_paused = true)]
async fn repetitions_of_discovery_have_a_bound() {
    for (retry_after, sent, waited) in [(2, 11, 20), (31, 1, 0)] {
        let (client, requests) = in_process_client(move |_| busy(429, retry_after));
        let start = Instant::now();
        let error = discovery_client(&client).list_core_api_versions().await.unwrap_err();
        assert!(matches!(&error, kube_client::Error::Api(status) if status.code == 429), "{error}");
        assert_eq!((requests.all().len(), start.elapsed()), (sent, Duration::from_secs(waited)));
    }
    // The server does not say when it expects the request again, or is not busy.
    for answer in [|| Answer::failure(503, "ServiceUnavailable"), || busy(403, 1)] {
        let (client, requests) = in_process_client(move |_| answer());
        discovery_client(&client).list_core_api_versions().await.unwrap_err();
        assert_eq!(requests.all().len(), 1);
    }
}
