//! Access that the API server decides.

use http::{Method, StatusCode};
use kinformer_apiserver::{Access, AccessUser, ApiServer, Fault};
use kinformer_serve::{Error, Limits, Server, ServerBuilder, ServerHandle};
use kinformer_testing::wait::within;
use serde_json::json;

use crate::common::{Client, Reply, client_of};

/// An API server with the users Alice, who may read the metrics and the controllers, and Bob.
async fn cluster() -> ApiServer {
    let alice = AccessUser::new("alice-token", "alice").groups(["dev"]);
    let access = Access::rbac().user(alice).user(AccessUser::new("bob-token", "bob"));
    let server = ApiServer::builder().token("root-token").access(access).request_log(100);
    let server = server.start().await.unwrap();
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let urls = ["/metrics", "/kinformer/api/v1/controllers", "/kinformer/api/v1/controllers/a b"];
    let role = json!({
        "apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"nonResourceURLs": urls, "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
        "subjects": [{"kind": "Group", "apiGroup": group, "name": "dev"}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
    });
    server.create(role).unwrap();
    server.create(binding).unwrap();
    server
}

fn builder(cluster: &ApiServer) -> ServerBuilder {
    Server::builder().listen("0.0.0.0:0".parse().unwrap()).delegate_access(client_of(cluster))
}

async fn start(builder: ServerBuilder) -> (ServerHandle, Client) {
    let server = builder.bind().await.unwrap().spawn();
    let client = Client { address: ([127, 0, 0, 1], server.local_addr().port()).into() };
    (server, client)
}

async fn send(client: &Client, method: Method, path: &str, token: &str) -> Reply {
    client.request(method, path, &[("authorization", &format!("Bearer {token}"))]).await
}

/// The number of reviews that the API server has received.
fn reviews(cluster: &ApiServer) -> (usize, usize) {
    let of = |plural| cluster.requests().resource(plural).len();
    (of("tokenreviews"), of("subjectaccessreviews"))
}

// contract: H-33a, H-33c, H-33e
#[tokio::test]
async fn api_server_decides() {
    let cluster = cluster().await;
    let (server, client) = start(builder(&cluster)).await;
    for path in ["/", "/page.js", "/healthz", "/readyz"] {
        assert_eq!(client.get(path).await.status, StatusCode::OK, "{path}");
    }
    let message = client.get("/metrics").await.fails(401, "Unauthorized");
    assert!(message.contains("Authorization: Bearer TOKEN"), "{message}");
    assert_eq!(reviews(&cluster), (0, 0));
    for _ in 0..2 {
        send(&client, Method::GET, "/metrics", "other").await.fails(401, "Unauthorized");
    }
    assert_eq!(reviews(&cluster), (1, 0), "an answer is kept");
    for _ in 0..2 {
        assert_eq!(send(&client, Method::GET, "/metrics", "alice-token").await.status, StatusCode::OK);
    }
    assert_eq!(reviews(&cluster), (2, 1));
    for _ in 0..2 {
        let reply = send(&client, Method::GET, "/metrics", "bob-token").await;
        let message = reply.fails(403, "Forbidden");
        assert!(message.contains("\"bob\"") && message.contains("get the path \"/metrics\""), "{message}");
    }
    assert_eq!(reviews(&cluster), (3, 2));
    // Another path, an encoded one, and another method are other questions.
    for path in ["/api/v1/informers", "/api/v1/events", "/none", "/openapi.json"] {
        send(&client, Method::GET, path, "alice-token").await.fails(403, "Forbidden");
    }
    // All users may read /api/* of kube-apiserver: the role system:discovery.
    let message = send(&client, Method::GET, "/api/v1/informers", "bob-token").await.fails(403, "Forbidden");
    assert!(message.contains("\"/kinformer/api/v1/informers\""), "{message}");
    assert_eq!(send(&client, Method::GET, "/api/v1/controllers", "alice-token").await.status, StatusCode::OK);
    send(&client, Method::GET, "/api/v1/controllers/a%20b", "alice-token").await.fails(404, "NotFound");
    let head = send(&client, Method::HEAD, "/metrics", "alice-token").await;
    assert_eq!(head.status, StatusCode::FORBIDDEN);
    server.shutdown().await;
    cluster.shutdown().await;
}

// contract: H-33b
#[tokio::test]
async fn failed_review_allows_nothing() {
    let cluster = cluster().await;
    let (server, client) = start(builder(&cluster)).await;
    for resource in ["tokenreviews", "subjectaccessreviews"] {
        let fault = cluster.faults().inject(Fault::forbidden().resource(resource).always());
        let reply = send(&client, Method::GET, "/metrics", "alice-token").await;
        let message = reply.fails(500, "InternalError");
        assert!(message.contains("has not decided"), "{message}");
        cluster.faults().remove(fault);
    }
    assert_eq!(send(&client, Method::GET, "/metrics", "alice-token").await.status, StatusCode::OK);
    server.shutdown().await;
    cluster.shutdown().await;
}

// contract: H-33d
#[tokio::test]
async fn concurrent_requests_share_a_review() {
    let cluster = cluster().await;
    let (server, client) = start(builder(&cluster)).await;
    let requests = (0..8).map(|_| send(&client, Method::GET, "/metrics", "alice-token"));
    for reply in within("the replies", futures::future::join_all(requests)).await {
        assert_eq!(reply.status, StatusCode::OK);
    }
    assert_eq!(reviews(&cluster), (1, 1));
    server.shutdown().await;
    cluster.shutdown().await;
}

/// Requests that wait for a review count, also those for streams and for the health, which are not limited after it.
// contract: H-19a, H-33f
#[tokio::test]
async fn reviews_are_limited_as_requests() {
    let cluster = cluster().await;
    let limits = Limits::default().requests(1);
    let server = builder(&cluster).limits(limits).probes_on("127.0.0.1:0".parse().unwrap());
    let (server, client) = start(server).await;
    cluster.faults().inject(Fault::stall().resource("tokenreviews").always());
    let waits = tokio::spawn(async move { send(&client, Method::GET, "/metrics", "first").await });
    within("the review", async {
        while reviews(&cluster).0 == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for path in ["/metrics", "/api/v1/events", "/healthz"] {
        send(&client, Method::GET, path, "second").await.fails(503, "TooManyRequests");
    }
    let probes = Client { address: server.probes_addr().unwrap() };
    assert_eq!(probes.get("/healthz").await.status, StatusCode::OK);
    waits.abort();
    server.shutdown().await;
    cluster.shutdown().await;
}

/// With a listener for probes, the health of the main one is as any other path.
// contract: H-29a, H-33a
#[tokio::test]
async fn health_with_a_listener_for_probes() {
    let cluster = cluster().await;
    let (server, client) = start(builder(&cluster).probes_on("127.0.0.1:0".parse().unwrap())).await;
    client.get("/healthz").await.fails(401, "Unauthorized");
    send(&client, Method::GET, "/healthz", "root-token").await.text();
    let probes = Client { address: server.probes_addr().unwrap() };
    assert_eq!(probes.get("/healthz").await.status, StatusCode::OK);
    server.shutdown().await;
    let error = builder(&cluster).token("s3cret").bind().await.unwrap_err();
    assert!(matches!(error, Error::TokenAndAccess), "{error}");
    cluster.shutdown().await;
}
