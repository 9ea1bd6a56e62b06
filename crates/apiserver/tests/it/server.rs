//! Start, shutdown, tokens, TLS, and common clients.

use std::time::Duration;

use crate::common::{Client, PATIENCE, config_map, server};
use futures::FutureExt as _;
use http::Method;
use kinformer_apiserver::{ApiServer, Error, Fault, NamespaceLifecycle, Verb};
use kube_client::api::{Api, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube_client::discovery::{Discovery, Scope};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn only_loopback_by_default() {
    let outside = "0.0.0.0:0".parse().unwrap();
    let refused = ApiServer::builder().listen(outside).start().await.unwrap_err();
    assert!(matches!(refused, Error::NotLoopback { address } if address == outside));
    let meant = ApiServer::builder().listen_beyond_loopback(outside).start().await.unwrap();
    let taken = ApiServer::builder().listen(([127, 0, 0, 1], meant.address().port()).into()).start().await;
    assert!(matches!(taken, Err(Error::Listen { .. })));
    meant.shutdown().await;
    assert!(matches!(ApiServer::builder().token("a b").start().await, Err(Error::Token)));
}

#[tokio::test]
async fn token_is_required() {
    let server = ApiServer::builder().token("s3cret").start().await.unwrap();
    let client = Client::new(&server);
    client.get(MAPS).await.status(401, "Unauthorized");
    let with = |value: &'static str| {
        let client = client.clone();
        async move { client.send(Method::GET, MAPS, &[("authorization", value)], "").await }
    };
    with("Bearer wrong").await.status(401, "Unauthorized");
    with("Bearer s3cret").await.ok();
    client.get("/readyz").await.ok();
    assert!(server.kubeconfig().contains("token: \"s3cret\""));
    let kube = kube_client::Client::try_from(server.config().unwrap()).unwrap();
    let maps: Api<DynamicObject> = Api::default_namespaced_with(kube, &config_map_kind());
    assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
}

fn config_map_kind() -> kube_client::core::ApiResource {
    kube_client::core::ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"))
}

#[tokio::test]
async fn missing_namespaces_can_be_created() {
    let server =
        ApiServer::builder().namespace_lifecycle(NamespaceLifecycle::AutoCreate).start().await.unwrap();
    let client = Client::new(&server);
    client.post("/api/v1/namespaces/new/configmaps", &json!({"metadata": {"name": "a"}})).await.ok();
    assert_eq!(client.get("/api/v1/namespaces/new").await.ok()["status"]["phase"], "Active");
}

// contract: E-06e
#[tokio::test]
async fn shutdown_leaves_no_tasks() {
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let server = server().await;
    let client = Client::new(&server);
    let version = server.version();
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    let mut stalled = client.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    server.faults().inject(Fault::stall().on(Verb::Watch));
    server.create(config_map("a", "1")).unwrap();
    // A connection that sends nothing, and a request that gets no response.
    let _silent = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let other = client.clone();
    let hung = async move { other.raw(Method::GET, MAPS, &[("x-kinformer-fault", "stall")], "").await };
    let mut hung = Box::pin(hung);
    assert!(tokio::time::timeout(Duration::from_millis(20), hung.as_mut()).await.is_err());
    let address = server.address();
    tokio::time::timeout(PATIENCE, server.shutdown()).await.unwrap();
    while watch.next().await.is_ok() {}
    while stalled.next().await.is_ok() {}
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    // The remaining tasks belong to the client.
    assert!(hung.await.is_err());
    drop((watch, stalled, client));
    let gone = async {
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > before {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
}

#[tokio::test]
async fn dropped_server_shuts_down() {
    let server = server().await;
    let client = Client::new(&server);
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={}", server.version())).await;
    drop(server);
    assert!(watch.next().await.is_err());
}

// contract: E-07
#[tokio::test]
async fn kube_client_works() {
    let server = server().await;
    let client = kube_client::Client::try_from(server.config().unwrap()).unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().minor, "37");
    server.create(crate::common::widget_definition()).unwrap();
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let (widget, capabilities) =
        discovery.resolve_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget")).unwrap();
    assert_eq!(capabilities.scope, Scope::Namespaced);
    let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &widget);
    let object: DynamicObject = serde_json::from_value(crate::common::widget("w")).unwrap();
    let made = api.create(&PostParams::default(), &object).await.unwrap();
    let patch = json!({"spec": {"color": "blue"}});
    let patched = api.patch("w", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(patched.data["spec"]["color"], "blue");
    let stale = api.replace("w", &PostParams::default(), &made).await.unwrap_err();
    let kube_client::Error::Api(status) = stale else { panic!("{stale}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));

    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::default_namespaced(client.clone());
    server.create(crate::common::pod("p")).unwrap();
    let list = pods.list(&ListParams::default().limit(1)).await.unwrap();
    assert_eq!(list.items[0].metadata.name.as_deref(), Some("p"));
    let metadata = pods.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(metadata.items[0].metadata.name.as_deref(), Some("p"));
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::default_namespaced(client);
    let template = json!({"metadata": {"labels": {"app": "d"}}, "spec": crate::common::pod("d")["spec"]});
    server
        .create(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template}}))
        .unwrap();
    let scaled = deployments
        .patch_scale("d", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 3}})))
        .await
        .unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(3));
}

#[tokio::test]
async fn https_with_generated_certificate() {
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
    let server = ApiServer::builder().tls().start().await.unwrap();
    assert!(server.url().starts_with("https://127.0.0.1:"));
    assert!(server.kubeconfig().contains("certificate-authority-data: "));
    assert_eq!(server.config().unwrap().root_cert.map(|certificates| certificates.len()), Some(1));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.certificate_pem().unwrap().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(std::sync::Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok"), "{answer}");
    server.shutdown().await;
}

#[test]
fn handles_are_send_and_sync() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<ApiServer>();
    shared::<kinformer_apiserver::Builder>();
    shared::<kinformer_apiserver::Faults>();
    shared::<kinformer_apiserver::LoggedRequests>();
    shared::<kinformer_apiserver::NotReached>();
    shared::<kinformer_apiserver::ServerMetrics>();
    shared::<kinformer_apiserver::Snapshot>();
    shared::<kinformer_apiserver::TestCluster>();
    shared::<kinformer_apiserver::TestClusterBuilder>();
    shared::<Error>();
}

/// The first poll of a start binds the socket and completes. Without it, nothing was started.
// contract: E-12b
#[tokio::test]
async fn start_completes_in_one_poll() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    drop(ApiServer::builder().start());
    assert_eq!(alive(), before);
    let server = ApiServer::builder().start().now_or_never().unwrap().unwrap();
    Client::new(&server).get(MAPS).await.ok();
    server.shutdown().await;
}

/// A shutdown whose future is dropped continues.
// contract: E-12c
#[tokio::test]
async fn dropped_shutdown_continues() {
    for polls in [false, true] {
        let server = server().await;
        let client = Client::new(&server);
        let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={}", server.version())).await;
        let address = server.address();
        let mut shutdown = Box::pin(server.shutdown());
        assert!(!polls || (&mut shutdown).now_or_never().is_none());
        drop(shutdown);
        let ended = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap();
        assert!(ended.is_err());
        let refuses = async {
            while tokio::net::TcpStream::connect(address).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, refuses).await.unwrap();
    }
}
