//! An API server, informers, the server over them, and a client.

use std::net::SocketAddr;

use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kinformer::{Informer, SharedInformerFactory, SharedInformerFactoryBuilder};
use kinformer_apiserver::{ApiServer, Kubelets, NamespaceLifecycle, Validation};
use kinformer_serve::{FailureLog, Server, ServerBuilder, ServerHandle};
use kinformer_testing::wait::within;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// A cluster with informers of pods and nodes that have synced, and the server.
pub struct World {
    pub cluster: ApiServer,
    pub factory: SharedInformerFactory,
    pub pods: Informer<Pod>,
    pub server: ServerHandle,
    pub client: Client,
}

pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"nodeName": "node-1", "restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1"}]},
        "status": {"phase": "Running"},
    })
}

pub fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

pub async fn cluster(pods: usize) -> ApiServer {
    cluster_with(pods, Validation::On).await
}

async fn cluster_with(pods: usize, validation: Validation) -> ApiServer {
    let builder =
        ApiServer::builder().namespace_lifecycle(NamespaceLifecycle::AutoCreate).validation(validation);
    let cluster = builder.kubelets(Kubelets::Skipped).start().await.unwrap();
    for number in 0..pods {
        cluster.create(pod(&format!("web-{number}"))).unwrap();
    }
    cluster.create(node("node-1")).unwrap();
    cluster
}

pub fn client_of(cluster: &ApiServer) -> kinformer::kube_client::Client {
    kinformer::client(cluster.config().unwrap()).unwrap()
}

impl World {
    /// Starts everything, with an index of pods by node.
    pub async fn start(pods: usize) -> Self {
        Self::with(pods, |factory| factory, |server| server).await
    }

    /// Starts everything, with options of the factory and of the server.
    pub async fn with(
        pods: usize,
        factory: impl FnOnce(SharedInformerFactoryBuilder) -> SharedInformerFactoryBuilder,
        server: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        Self::of(cluster(pods).await, factory, server).await
    }

    /// Starts everything with a cluster that takes many objects quickly.
    pub async fn start_large() -> Self {
        Self::of(cluster_with(0, Validation::Off).await, |factory| factory, |server| server).await
    }

    async fn of(
        cluster: ApiServer,
        factory: impl FnOnce(SharedInformerFactoryBuilder) -> SharedInformerFactoryBuilder,
        server: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let client = client_of(&cluster);
        let failures = FailureLog::new();
        let log = failures.clone();
        let builder =
            SharedInformerFactory::builder(client.clone()).on_error(move |failure| log.record(failure));
        let factory = factory(builder).build();
        let (pods, nodes) = (factory.core().v1().pods(), factory.core().v1().nodes());
        pods.index_by_field("node", &["spec", "nodeName"]).unwrap();
        let builder =
            Server::builder().listen("127.0.0.1:0".parse().unwrap()).client(client).failures(failures);
        let server = server(builder.informer(&pods).informer(&nodes)).bind().await.unwrap().spawn();
        factory.start().unwrap();
        within("the informers", factory.wait_for_cache_sync()).await.into_result().unwrap();
        let client = Client { address: server.local_addr() };
        Self { cluster, factory, pods, server, client }
    }

    pub async fn end(self) {
        within("the server", self.server.shutdown()).await;
        within("the factory", self.factory.shutdown()).await.unwrap();
        self.cluster.shutdown().await;
    }

    /// Writes a pod and waits until the store has it.
    pub async fn put(&self, pod: Value) -> Value {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let exists = self.cluster.get("v1", "Pod", "shop", &name).is_ok_and(|found| found.is_some());
        let written = if exists { self.cluster.update(pod) } else { self.cluster.create(pod) }.unwrap();
        let version = written["metadata"]["resourceVersion"].as_str().unwrap();
        within("the pod", self.pods.wait_for(("shop", &*name), &version.into())).await.unwrap();
        written
    }

    /// Deletes a pod and waits until the store and the server have seen it.
    pub async fn delete(&self, name: &str) {
        self.cluster.delete("v1", "Pod", "shop", name).unwrap();
        let path = format!("{PODS}/objects/shop/{name}/explain");
        self.until(&path, |reply| reply.json()["reason"] == "Deleted").await;
    }

    /// Repeats a request until its reply is the wanted one.
    pub async fn until(&self, path: &str, is_wanted: impl Fn(&Reply) -> bool) -> Reply {
        let wait = async {
            loop {
                let reply = self.client.get(path).await;
                if is_wanted(&reply) {
                    return reply;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        within(path, wait).await
    }
}

pub const PODS: &str = "/api/v1/informers/pods";

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts the status code and the reason of a failure, and returns its message.
    #[track_caller]
    pub fn fails(&self, code: u16, reason: &str) -> String {
        let status = self.json();
        assert_eq!(self.status.as_u16(), code, "{status}");
        assert_eq!(status["kind"], "Status", "{status}");
        assert_eq!(
            (status["code"].as_u64(), status["reason"].as_str()),
            (Some(code.into()), Some(reason)),
            "{status}"
        );
        status["message"].as_str().unwrap().to_owned()
    }
}

/// A client that opens a connection for each request.
#[derive(Clone, Copy)]
pub struct Client {
    pub address: SocketAddr,
}

impl Client {
    pub async fn get(&self, path: &str) -> Reply {
        self.request(Method::GET, path, &[]).await
    }

    #[track_caller]
    pub fn ok(&self, path: &str) -> impl Future<Output = Value> + use<'_> {
        let path = path.to_owned();
        async move {
            let reply = self.get(&path).await;
            assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.text());
            reply.json()
        }
    }

    pub async fn request(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Reply {
        let response = self.open(method, path, headers, "").await;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = within(path, response.into_body().collect()).await.unwrap().to_bytes();
        Reply { status, headers, body }
    }

    /// Sends a request with a body, and returns the response without its body. A header replaces the one of its name.
    pub async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> http::Response<Incoming> {
        let stream = within("a connection", TcpStream::connect(self.address)).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
        let response = within(path, sender.send_request(request)).await.unwrap();
        // The connection ends with the response, whose body the task reads.
        response
    }

    /// Opens a stream of events.
    pub async fn stream(&self, path: &str, headers: &[(&str, &str)]) -> Stream {
        let response = self.open(Method::GET, path, headers, "").await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert!(!response.headers().contains_key("content-encoding"));
        Stream { body: response.into_body(), text: String::new() }
    }
}

/// An event of a stream.
#[derive(Clone, Debug)]
pub struct Event {
    pub id: Option<u64>,
    pub name: String,
    pub data: Value,
}

/// A stream of events.
pub struct Stream {
    body: Incoming,
    text: String,
}

impl Stream {
    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| {
                    block
                        .lines()
                        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                        .map(str::to_owned)
                };
                if let (Some(name), Some(data)) = (field("event"), field("data")) {
                    let id = field("id").map(|id| id.parse().unwrap());
                    return Some(Event { id, name, data: serde_json::from_str(&data).unwrap() });
                }
            }
            let frame = within("an event", self.body.frame()).await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.text.push_str(std::str::from_utf8(&data).unwrap());
            }
        }
    }

    /// The next event with one of these names.
    pub async fn next_of(&mut self, names: &[&str]) -> Event {
        loop {
            let event = self.next().await.expect("an event before the end of the stream");
            if names.contains(&event.name.as_str()) {
                return event;
            }
        }
    }
}
