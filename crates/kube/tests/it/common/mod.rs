//! A server, and a reflector that keeps a store equal to it.

#[cfg(feature = "rustls-tls")]
pub mod certificates;
#[cfg(feature = "rustls-tls")]
pub mod http2;
#[cfg(feature = "rustls-tls")]
pub mod proxy;
#[cfg(feature = "rustls-tls")]
pub mod tls_server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::{ApiServer, ProtobufAnswers};
use kinformer_core::{Object, PartId, ResourceVersion};
use kinformer_kube::{KubeObject, client};
use kinformer_reflector::{
    Backoff, ListerWatcher, Reflector, ReflectorHandle, ReflectorOptions, RequestLimit, StopReason,
    WatchListMode,
};
use kinformer_store::Indexer;
use kinformer_testing::scripted_http::Answer;
pub use kinformer_testing::wait::PATIENCE;
use kube_client::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Reads the head of a request of HTTP/1.1.
pub async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// A list without config maps.
pub fn empty_list() -> Answer {
    Answer::json(
        &json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": []}),
    )
}

pub async fn server() -> ApiServer {
    server_that(ProtobufAnswers::Offered).await
}

pub async fn server_that(protobuf: ProtobufAnswers) -> ApiServer {
    ApiServer::builder()
        .protobuf(protobuf)
        .bookmark_interval(Duration::from_millis(200))
        .start()
        .await
        .unwrap()
}

pub fn kube(server: &ApiServer) -> Client {
    client(server.config().unwrap()).unwrap()
}

pub fn config_map(name: &str, value: &str) -> Value {
    labelled(name, value, "x")
}

pub fn labelled(name: &str, value: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "data": {"key": value},
    })
}

/// The config maps of the server: name and value.
pub fn truth(server: &ApiServer) -> BTreeMap<String, String> {
    let maps = server.list("v1", "ConfigMap", "default").unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    maps.iter().map(|map| (text(&map["metadata"]["name"]), text(&map["data"]["key"]))).collect()
}

pub fn stored(store: &Indexer<KubeObject<ConfigMap>>) -> BTreeMap<String, String> {
    let entry = |map: &Arc<KubeObject<ConfigMap>>| {
        (map.metadata.name.clone().unwrap(), map.data.as_ref().unwrap()["key"].clone())
    };
    store.list().iter().map(entry).collect()
}

/// Options with short retries and a short stall timeout.
pub fn options(mode: WatchListMode) -> ReflectorOptions {
    ReflectorOptions::new()
        .watch_list(mode)
        .backoff(Backoff::from_delays(|| std::iter::repeat(Duration::from_millis(20))))
        .request_limit(RequestLimit::Off)
        .watch_list_deadline(Duration::from_secs(2))
        .list_timeout(Duration::from_secs(2))
        .min_watch_timeout_unbounded(Duration::from_secs(2))
        .stall_margin(Duration::from_millis(500))
}

/// A running reflector and its store.
pub struct Follower<K: Object> {
    pub store: Arc<Indexer<K>>,
    pub handle: ReflectorHandle,
    cancel: CancellationToken,
    task: JoinHandle<StopReason>,
}

pub fn follow<T: Object>(source: impl ListerWatcher<T> + 'static, options: ReflectorOptions) -> Follower<T> {
    let store = Arc::new(Indexer::<T>::new());
    let reflector = Reflector::with_options("test", source, store.clone(), options);
    let (handle, cancel) = (reflector.handle(), CancellationToken::new());
    let task = tokio::spawn(reflector.run(cancel.clone()));
    Follower { store, handle, cancel, task }
}

impl<K: Object> Follower<K> {
    /// Waits until the store reflects the server's newest version.
    pub async fn caught_up(&self, server: &ApiServer) {
        let version = ResourceVersion::number(server.version());
        let waited = tokio::time::timeout(PATIENCE, self.store.wait_for(PartId::ONLY, &version)).await;
        match waited {
            Ok(result) => result.unwrap(),
            Err(_) => panic!(
                "the store is at {} and not at {version}; {:?}, last error {:?}, statistics {:?}",
                self.store.resource_versions().lowest(),
                self.handle.state(),
                self.handle.last_error(),
                self.handle.metrics()
            ),
        }
    }

    pub async fn stop(self) {
        self.cancel.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}
