//! Who may send requests, and how large they may be.

use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use kinformer_apiserver::{Fault, Verb};
use kinformer_serve::{Error, Limits, Server, ServerBuilder};
use kinformer_testing::wait::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::common::{PODS, World};

fn listen(address: &str) -> ServerBuilder {
    Server::builder().listen(address.parse().unwrap())
}

// contract: H-17a
#[tokio::test]
async fn token_is_required() {
    let world = World::with(1, |factory| factory, |server| server.token("s3cret")).await;
    let paths = ["/api/v1/informers", PODS, "/api/v1/events", "/metrics", "/openapi.json", "/none"];
    for path in paths {
        let refused = world.client.get(path).await;
        let message = refused.fails(401, "Unauthorized");
        assert!(message.contains("Authorization: Bearer TOKEN"), "{message}");
        assert_eq!(refused.header("www-authenticate"), "Bearer");
        for value in ["Bearer wrong", "Bearer s3cre", "Bearer s3cret1", "Bearer ", "Basic s3cret", "s3cret"] {
            let reply = world.client.request(Method::GET, path, &[("authorization", value)]).await;
            let message = reply.fails(401, "Unauthorized");
            assert!(!message.contains("s3cret"), "{message}");
        }
    }
    for value in ["Bearer s3cret", "bearer  s3cret"] {
        let reply = world.client.request(Method::GET, PODS, &[("authorization", value)]).await;
        assert_eq!(reply.status, StatusCode::OK, "{value}");
    }
    drop(world.client.stream("/api/v1/events", &[("authorization", "Bearer s3cret")]).await);
    for path in ["/", "/page.js", "/healthz", "/readyz"] {
        assert_eq!(world.client.get(path).await.status, StatusCode::OK, "{path}");
    }
    world.end().await;
}

// contract: H-17c
#[tokio::test]
async fn addresses_of_other_machines_need_a_token() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let error = listen(address).bind().await.unwrap_err();
        assert!(matches!(error, Error::TokenRequired { .. }), "{error}");
        assert!(error.to_string().contains("could read every object"), "{error}");
    }
    for token in ["", "a b", "a\n"] {
        let error = listen("127.0.0.1:0").token(token).bind().await.unwrap_err();
        assert!(matches!(error, Error::InvalidToken), "{error}");
    }
    let server = listen("0.0.0.0:0").token("s3cret").bind().await.unwrap();
    assert!(server.url().starts_with("http://127.0.0.1:"), "{}", server.url());
}

// contract: H-18a
#[tokio::test]
async fn host_must_be_that_of_the_server() {
    let world = World::with(1, |factory| factory, |server| server.allowed_host("Page.Example.")).await;
    let port = world.client.address.port();
    for path in ["/", PODS, "/healthz", "/metrics"] {
        for host in
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.0.2.1", "0.0.0.0"]
        {
            for host in [host.to_owned(), format!("{host}:{port}")] {
                let reply = world.client.request(Method::GET, path, &[("host", &host)]).await;
                let message = reply.fails(421, "Misdirected");
                assert!(message.contains("--allowed-host"), "{message}");
            }
        }
        for host in [
            "localhost",
            "LOCALHOST.:80",
            "127.0.0.1",
            "[::1]:4000",
            "127.9.9.9",
            "page.example",
            "page.example:80",
        ] {
            let reply = world.client.request(Method::GET, path, &[("host", host)]).await;
            assert_eq!(reply.status, StatusCode::OK, "{host}");
        }
        for malformed in ["a b", "evil.example@localhost", "user:password@127.0.0.1"] {
            world.client.request(Method::GET, path, &[("host", malformed)]).await.fails(400, "BadRequest");
        }
        world
            .client
            .request(Method::GET, path, &[("host", "localhost"), ("host", "localhost")])
            .await
            .fails(400, "BadRequest");
    }
    world.end().await;
}

/// Names that would match no request are refused when the server is built.
// contract: H-18a
#[tokio::test]
async fn added_hosts_are_names() {
    for host in ["", "page.example:80", "http://page.example", "*.example", "a b", "user@page.example"] {
        let error = listen("127.0.0.1:0").allowed_host(host).bind().await.unwrap_err();
        assert!(matches!(error, Error::InvalidHost { .. }), "{host}: {error}");
    }
    for host in ["page.example", "my_host", "192.0.2.1", "2001:db8::1"] {
        drop(listen("127.0.0.1:0").allowed_host(host).bind().await.unwrap());
    }
}

// contract: H-18b
#[tokio::test]
async fn requests_of_other_pages_are_refused() {
    let world = World::start(1).await;
    let host = world.client.address.to_string();
    let own = format!("http://{host}");
    for path in ["/", PODS, "/api/v1/events"] {
        let with = |name, value| {
            let client = world.client;
            async move {
                let response = client.open(Method::GET, path, &[(name, value)], "").await;
                assert!(!response.headers().contains_key("access-control-allow-origin"));
                response.status().as_u16()
            }
        };
        for origin in ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1"] {
            assert_eq!(with("origin", origin).await, 403, "{path} {origin}");
        }
        assert_eq!(with("origin", &own).await, 200, "{path}");
        for (site, code) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
            assert_eq!(with("sec-fetch-site", site).await, code, "{path} {site}");
        }
    }
    // A link to the page may be on any page.
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    assert_eq!(world.client.request(Method::GET, "/", &link).await.status, StatusCode::OK);
    world.client.request(Method::GET, PODS, &link).await.fails(403, "Forbidden");
    world.end().await;
}

// contract: H-19a, H-19c
#[tokio::test]
async fn requests_are_limited() {
    let world = World::start(1).await;
    let long = format!("{PODS}/objects?filter={}", "x".repeat(9000));
    world.client.get(&long).await.fails(414, "URITooLong");
    let body = world.client.open(Method::POST, &format!("{PODS}/objects/shop/web-0/ask"), &[], "{}").await;
    assert_eq!(body.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let text = body.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("BodyNotAllowed"));
    // Headers beyond the limit end the connection, with 431 if it can still be sent.
    let mut raw = TcpStream::connect(world.client.address).await.unwrap();
    let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(200_000));
    let _ = raw.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = within("an answer", raw.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert_eq!(world.client.get("/healthz").await.status, StatusCode::OK);
    world.end().await;

    let none = Limits::default().requests(0);
    let world = World::with(1, |factory| factory, |server| server.limits(none)).await;
    world.client.get(PODS).await.fails(503, "TooManyRequests");
    for path in ["/healthz", "/readyz"] {
        assert_eq!(world.client.get(path).await.status, StatusCode::OK, "{path}");
    }
    world.end().await;

    let short = Limits::default().request_timeout(std::time::Duration::from_millis(100));
    let world = World::with(1, |factory| factory, |server| server.limits(short)).await;
    world.cluster.faults().inject(Fault::delay(std::time::Duration::from_secs(9)).on(Verb::Get).always());
    let slow = format!("{PODS}/objects/shop/web-0/ask");
    world.client.request(Method::POST, &slow, &[]).await.fails(504, "Timeout");
    world.end().await;
}

/// Connections that send no request, only a part of one, or nothing after a refused one.
// contract: H-19b, H-19c
#[tokio::test]
async fn health_is_answered_beside_silent_connections() {
    let few = Limits::default().connections(1).requests(2).streams(0);
    let world = World::with(1, |factory| factory, |server| server.limits(few).token("s3cret")).await;
    let mut silent = Vec::new();
    for start in ["", "GET / HTTP/1.1\r\nhost: ", "GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
        for _ in 0..40 {
            let mut stream = TcpStream::connect(world.client.address).await.unwrap();
            // A connection that was closed for a newer one fails here.
            if stream.write_all(start.as_bytes()).await.is_ok() && start.ends_with("\r\n\r\n") {
                let _ = within("a refusal", stream.read(&mut [0; 512])).await;
            }
            silent.push(stream);
        }
        for path in ["/healthz", "/readyz"] {
            assert_eq!(world.client.get(path).await.status, StatusCode::OK, "{path} {start:?}");
        }
    }
    drop(silent);
    world.end().await;
}

/// The policy of the page, and headers that all responses have.
// contract: H-18c
#[tokio::test]
async fn page_may_load_nothing_else() {
    let world = World::start(1).await;
    let page = world.client.get("/").await;
    let policy = page.header("content-security-policy");
    for part in ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(world.client.get("/page.js").await.header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(world.client.get("/page.css").await.header("content-type"), "text/css; charset=utf-8");
    assert!(!page.text().contains("<style") && !page.text().contains("onclick"), "no inline code");
    for path in ["/", PODS, "/none"] {
        let reply = world.client.get(path).await;
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(reply.header("cross-origin-resource-policy"), "same-origin", "{path}");
    }
    assert_eq!(world.client.get(PODS).await.header("cache-control"), "no-store");
    world.end().await;
}

/// Taken ports.
// contract: H-26
#[tokio::test]
async fn taken_port_is_an_error_or_another_port() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = Server::builder().listen(address).bind().await.unwrap_err();
    let Error::Listen { address: failed, source } = &error else { panic!("{error}") };
    assert_eq!((*failed, source.kind()), (address, std::io::ErrorKind::AddrInUse));
    let server = Server::builder().listen(address).or_any_port().bind().await.unwrap();
    assert_ne!(server.local_addr().port(), address.port());
    assert_eq!(server.url(), format!("http://{}/", server.local_addr()));
}

#[test]
fn public_types_can_be_shared() {
    static_assertions::assert_impl_all!(Server: Send, Sync);
    static_assertions::assert_impl_all!(ServerBuilder: Send, Sync);
    static_assertions::assert_impl_all!(kinformer_serve::ServerHandle: Send, Sync);
    static_assertions::assert_impl_all!(kinformer_serve::FailureLog: Send, Sync, Clone);
    static_assertions::assert_impl_all!(Error: Send, Sync, std::error::Error);
}
