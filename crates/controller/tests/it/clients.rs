//! Wrapped clients.

use std::num::NonZeroU32;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::TestCluster;
use kinformer_controller::client;
use kube_client::Api;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::Instant;

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some([("value".to_owned(), "0".to_owned())].into());
    map
}

fn managers(map: &ConfigMap) -> Vec<&str> {
    let managers = map.metadata.managed_fields.iter().flatten();
    managers.filter_map(|fields| fields.manager.as_deref()).collect()
}

/// Writes have the field manager, unless they name another one; reads are as before.
// contract: K-23a
#[tokio::test(start_paused = true)]
async fn writes_have_a_field_owner() {
    let cluster = TestCluster::start().await.unwrap();
    let owner = client::with_field_owner(&cluster.client(), "my controller/a&b");
    let maps: Api<ConfigMap> = Api::default_namespaced(owner);
    let created = maps.create(&PostParams::default(), &map("a")).await.unwrap();
    assert_eq!(managers(&created), ["my controller/a&b"]);
    let other = PatchParams { field_manager: Some("other".into()), ..PatchParams::default() };
    let data = Patch::Merge(json!({"data": {"a": "1"}}));
    let patched = maps.patch("a", &other, &data).await.unwrap();
    assert!(managers(&patched).contains(&"other"), "{patched:?}");
    maps.get("a").await.unwrap();
    let reads = cluster.requests().filter(|request| request.method == "GET");
    assert!(reads.iter().all(|request| request.field_manager.is_empty()), "{reads}");
    cluster.shutdown().await;
}

/// A dry run is answered, and stores nothing.
// contract: K-23b
#[tokio::test(start_paused = true)]
async fn dry_runs_store_nothing() {
    let cluster = TestCluster::start().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client::dry_run(&cluster.client()));
    let created = maps.create(&PostParams::default(), &map("a")).await.unwrap();
    assert_eq!(created.metadata.name.as_deref(), Some("a"));
    assert!(cluster.get_opt::<ConfigMap>("a").unwrap().is_none());
    cluster.shutdown().await;
}

/// A `DELETE` has its options in the body, and kube-apiserver then ignores those of the URL. One whose body cannot be read is not
/// sent.
// contract: K-23b
#[tokio::test(start_paused = true)]
async fn dry_runs_delete_nothing() {
    let cluster = TestCluster::start().await.unwrap();
    let all: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    all.create(&PostParams::default(), &map("a")).await.unwrap();
    let client = client::dry_run(&cluster.client());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for options in [DeleteParams::default(), DeleteParams::background()] {
        maps.delete("a", &options).await.unwrap();
        maps.delete_collection(&options, &ListParams::default()).await.unwrap();
    }
    let path = "/api/v1/namespaces/default/configmaps/a";
    let request = http::Request::delete(path).body(b"kind: DeleteOptions".to_vec()).unwrap();
    assert!(client.request_text(request).await.is_err());
    assert!(cluster.get_opt::<ConfigMap>("a").unwrap().is_some());
    cluster.shutdown().await;
}

/// Requests beyond the burst wait for their turn.
// contract: K-23c
#[tokio::test(start_paused = true)]
async fn requests_are_limited() {
    let cluster = TestCluster::start().await.unwrap();
    let (rate, burst) = (NonZeroU32::new(2).unwrap(), NonZeroU32::new(3).unwrap());
    let maps: Api<ConfigMap> = Api::default_namespaced(client::limited(&cluster.client(), rate, burst));
    let began = Instant::now();
    for number in 0..7_u64 {
        maps.list(&ListParams::default()).await.unwrap();
        let waited = Duration::from_millis(500 * (number + 1).saturating_sub(3));
        assert!(began.elapsed() >= waited, "request {number} after {:?}", began.elapsed());
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    cluster.shutdown().await;
}
