//! Requests of the clients: when the server closes connections, and when a request upgrades its connection.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use e2e::Options;
use futures::future::join_all;
use http::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, ServiceAccount};
use kinformer_cache::Cache;
use kinformer_leader_election::LeaderElector;
use kube_client::api::{ListParams, PostParams};
use kube_client::client::Body;
use kube_client::{Api, Client};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::planes;

/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The server closes a connection after every fiftieth request, in good order.
// contract: L-39a
#[tokio::test(flavor = "multi_thread")]
async fn closed_connections_fail_and_repeat_no_write() {
    const TASKS: usize = 8;
    const WRITES: usize = 150;
    let control_plane = planes::take(Options::new().apiserver_flag("--goaway-chance=0.02")).await;
    let client = kinformer::client(control_plane.config().await.unwrap()).unwrap();
    let namespace = planes::namespace(&client, "goaway").await;
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    // A write that is repeated makes another object.
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"generateName": "write-"}})).unwrap();
    let writes = (0..TASKS).map(|_| {
        let (maps, map) = (maps.clone(), map.clone());
        tokio::spawn(async move {
            let mut written = Vec::new();
            for _ in 0..WRITES {
                let params = PostParams::default();
                let created = timeout(PATIENCE, maps.create(&params, &map)).await;
                let created = created.unwrap_or_else(|_| panic!("write {} has no answer", written.len()));
                written.push(created.map(|map| map.metadata.name));
            }
            written
        })
    });
    let written = join_all(writes).await.into_iter().flat_map(Result::unwrap);
    let written: BTreeSet<_> = written.map(|name| name.unwrap()).collect();
    let listed = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.into_iter().map(|map| map.metadata.name).collect::<BTreeSet<_>>(), written);
    assert_eq!(written.len(), TASKS * WRITES);
    planes::keep(control_plane).await;
}

/// Starts a kubelet that upgrades each connection to one that returns what it receives, and returns its port.
async fn echoing_kubelet(connections: &mut JoinSet<()>) -> u16 {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    connections.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let answer =
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
                stream.write_all(answer).await.unwrap();
                let (mut read, mut write) = split(stream);
                let _ = copy(&mut read, &mut write).await;
            });
        }
    });
    port
}

/// Upgrades a request for a pod, and sends and receives bytes.
async fn echo(client: &Client, path: &str) {
    let request = Request::post(path)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "SPDY/3.1")
        .body(Body::empty())
        .unwrap();
    let answer = client.send(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS, "{path}");
    let mut stream = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    stream.write_all(b"hello").await.unwrap();
    let mut received = [0; 5];
    stream.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"hello", "{path}");
}

/// Requests for a pod reach its kubelet with every client.
// contract: L-40
#[tokio::test(flavor = "multi_thread")]
async fn upgraded_requests_reach_the_kubelet() {
    let control_plane = planes::take(Options::new()).await;
    let client = kinformer::client(control_plane.config().await.unwrap()).unwrap();
    let namespace = planes::namespace(&client, "upgrades").await;
    let mut kubelet = JoinSet::new();
    let port = echoing_kubelet(&mut kubelet).await;

    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({
        "metadata": {"name": namespace},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        },
    });
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pod = json!({
        "metadata": {"name": "echo"},
        "spec": {"nodeName": namespace, "containers": [{"name": "echo", "image": "echo"}]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();

    let cache = Cache::builder(client.clone()).build().await.unwrap();
    let elector = LeaderElector::builder(client.clone(), &namespace, "upgrades").build().unwrap();
    let leadership = elector.acquire().await;
    let clients =
        [client.clone(), cache.client(), leadership.client(&client), leadership.client(&cache.client())];
    for client in clients {
        for request in ["exec?command=sh&stdin=true", "attach?stdin=true", "portforward"] {
            echo(&client, &format!("/api/v1/namespaces/{namespace}/pods/echo/{request}")).await;
        }
    }
    leadership.release().await.unwrap();
    cache.shutdown().await.unwrap();
    planes::keep(control_plane).await;
}
