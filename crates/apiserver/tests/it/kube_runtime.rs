//! kube-rs' own watcher and reflector, unchanged, against the server and its faults.

use std::collections::BTreeMap;

use crate::common::{PATIENCE, config_map, server};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::{ApiServer, Fault, Verb};
use kube_client::{Api, Client};
use kube_runtime::watcher::{Config, DefaultBackoff, watcher};
use kube_runtime::{WatchStreamExt, reflector};

/// The config maps of the server: name and value.
fn truth(server: &ApiServer) -> BTreeMap<String, String> {
    let maps = server.list("v1", "ConfigMap", "default").unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    maps.iter().map(|map| (text(&map["metadata"]["name"]), text(&map["data"]["key"]))).collect()
}

fn seen(store: &reflector::Store<ConfigMap>) -> BTreeMap<String, String> {
    let entry = |map: &ConfigMap| Some((map.metadata.name.clone()?, map.data.as_ref()?.get("key")?.clone()));
    store.state().iter().filter_map(|map| entry(map)).collect()
}

async fn follows_the_server(config: Config) {
    let server = server().await;
    for name in ["a", "b", "c"] {
        server.create(config_map(name, "1")).unwrap();
    }
    let api: Api<ConfigMap> = Api::default_namespaced(Client::try_from(server.config().unwrap()).unwrap());
    let (store, writer) = reflector::store();
    let stream = reflector(writer, watcher(api, config)).backoff(DefaultBackoff::default());
    tokio::pin!(stream);
    let mut until = async |server: &ApiServer| {
        while seen(&store) != truth(server) {
            // Errors are expected; the watcher continues after them.
            let _ = tokio::time::timeout(PATIENCE, stream.next())
                .await
                .expect("an event in time")
                .expect("an open stream");
        }
    };
    until(&server).await;
    let faults = [
        Fault::truncate().on(Verb::Watch),
        Fault::expired_event(),
        Fault::duplicate_event(),
        Fault::internal_error().on(Verb::Watch),
        Fault::too_many_requests(1).on(Verb::Watch),
    ];
    for (n, fault) in faults.into_iter().enumerate() {
        server.faults().inject(fault);
        server.update(config_map("a", &format!("after fault {n}"))).unwrap();
        server.create(config_map(&format!("new-{n}"), "1")).unwrap();
        until(&server).await;
        server.drop_watches();
        let _ = server.delete("v1", "ConfigMap", "default", ["b", "c", "new-0", "new-1", "new-2"][n]);
        server.compact();
        until(&server).await;
    }
    assert_eq!(server.faults().fired(), 5);
    server.shutdown().await;
}

// contract: E-07, E-06c, E-06d, E-06h
#[tokio::test]
async fn kube_reflector_lists_and_watches() {
    follows_the_server(Config::default()).await;
}

// contract: E-07, E-06c, E-06d, E-06h, E-04d
#[tokio::test]
async fn kube_reflector_streams_its_list() {
    follows_the_server(Config::default().streaming_lists()).await;
}
