//! Access control: web pages, host names, tokens.

use crate::common::{Client, PATIENCE, config_map};
use http::Method;
use kinformer_apiserver::{ApiServer, Builder, Error};
use kube_client::api::{Api, DynamicObject, GroupVersionKind, ListParams};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Sends these bytes and the end of the head, and returns the status code of the response.
async fn code(server: &ApiServer, head: &str) -> u16 {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", server.address().port())).await.unwrap();
        stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        answer.split(' ').nth(1).unwrap_or_else(|| panic!("{head:?}: {answer:?}")).parse().unwrap()
    };
    tokio::time::timeout(PATIENCE, exchange).await.unwrap()
}

// contract: E-09a, E-09c, E-09d, E-09e, E-09f
#[tokio::test]
async fn only_accepted_hosts_are_served() {
    let server =
        ApiServer::builder().accept_host("Dev.Example").accept_host("192.0.2.7").start().await.unwrap();
    let port = server.address().port();
    for host in [
        "localhost",
        "LOCALHOST.",
        "127.0.0.1",
        "127.9.9.9",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "dev.example",
        "dev.EXAMPLE.",
        "192.0.2.7",
    ] {
        for host in [host.to_owned(), format!("{host}:{port}"), format!("{host}:1")] {
            assert_eq!(code(&server, &format!("GET {MAPS} HTTP/1.1\r\nHost: {host}")).await, 200, "{host}");
            let absolute = format!("GET http://{host}{MAPS} HTTP/1.1\r\nHost: {host}");
            assert_eq!(code(&server, &absolute).await, 200, "{host}");
        }
    }
    for host in [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.0.2.8",
        "0.0.0.0",
        "[::2]",
        "evil.localhost",
    ] {
        for path in [MAPS, "/", "/api", "/apis/apps/v1", "/healthz", "/version", "/openapi/v3", "/nonsense"] {
            assert_eq!(
                code(&server, &format!("GET {path} HTTP/1.1\r\nHost: {host}")).await,
                403,
                "{host} {path}"
            );
        }
        // The host of the URI is checked, and a header with another host is an error.
        let absolute = format!("GET http://{host}{MAPS} HTTP/1.1");
        assert_eq!(code(&server, &absolute).await, 403, "{host}");
        assert_eq!(code(&server, &format!("{absolute}\r\nHost: localhost")).await, 400, "{host}");
        assert_eq!(code(&server, &format!("GET {MAPS} HTTP/1.0\r\nHost: {host}")).await, 403, "{host}");
    }
    for head in [
        "GET / HTTP/1.1",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost",
        "GET / HTTP/1.1\r\nHost: a b",
        "GET / HTTP/1.1\r\nHost: evil.example@localhost",
        "GET / HTTP/1.1\r\nHost: localhost@evil.example",
        "GET http://evil.example@localhost/ HTTP/1.1",
    ] {
        assert_eq!(code(&server, head).await, 400, "{head}");
    }
    // HTTP/1.0 requests may have no host, and browsers do not send them.
    assert_eq!(code(&server, &format!("GET {MAPS} HTTP/1.0")).await, 200);
    server.shutdown().await;
}

// contract: E-09a, E-09e
#[tokio::test]
async fn hosts_are_checked_over_http2() {
    let server = ApiServer::builder().start().await.unwrap();
    let port = server.address().port();
    let client = Client::over_http2(&server);
    client.get(MAPS).await.ok();
    client.with_base(&format!("http://localhost:{port}")).get(MAPS).await.ok();
    let answer = client.send(Method::GET, MAPS, &[("host", "evil.example")], "").await;
    assert_ne!(answer.code, 200, "{}", answer.body);
    // HTTP does not allow user information before the address.
    let with_user = client.with_base(&format!("http://user@127.0.0.1:{port}"));
    with_user.get(MAPS).await.status(400, "BadRequest");
    server.shutdown().await;
}

/// The local address of a connection is an accepted host.
// contract: E-09a
#[tokio::test]
async fn local_address_is_an_accepted_host() {
    let outside = "0.0.0.0:0".parse().unwrap();
    let server = ApiServer::builder().listen_beyond_loopback(outside).start().await.unwrap();
    assert_eq!(code(&server, &format!("GET {MAPS} HTTP/1.1\r\nHost: 127.0.0.1")).await, 200);
    assert_eq!(code(&server, &format!("GET {MAPS} HTTP/1.1\r\nHost: 192.0.2.7")).await, 403);
    server.shutdown().await;
}

// contract: E-10a
#[tokio::test]
async fn pages_of_other_origins_are_rejected() {
    for builder in [ApiServer::builder(), ApiServer::builder().token("right")] {
        let server = builder.start().await.unwrap();
        let port = server.address().port();
        let version = server.version();
        let with = |method: &str, headers: &str| {
            let body = config_map("a", "1").to_string();
            format!(
                "{method} {MAPS} HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer right\r\n{headers}\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            )
        };
        for headers in [
            "Origin: http://evil.example\r\n".to_owned(),
            "Origin: null\r\n".to_owned(),
            format!("Origin: http://localhost:{}\r\n", port ^ 1),
            format!("Origin: https://localhost:{port}\r\n"),
            format!("Origin: http://localhost:{port}\r\nOrigin: http://evil.example\r\n"),
            "Sec-Fetch-Site: cross-site\r\n".to_owned(),
            "Sec-Fetch-Site: same-site\r\n".to_owned(),
        ] {
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
                let head = with(method, &format!("Content-Type: application/json\r\n{headers}"));
                assert_eq!(code(&server, &head).await, 403, "{method} {headers}");
            }
        }
        let own = format!("Origin: http://LOCALHOST:{port}\r\nSec-Fetch-Site: same-origin\r\n");
        for method in ["POST", "PUT", "PATCH"] {
            assert_eq!(
                code(&server, &with(method, &own)).await,
                415,
                "{method}: a page cannot write without a media type"
            );
        }
        assert_eq!(server.version(), version, "nothing was written");
        let form = with("POST", "Content-Type: application/x-www-form-urlencoded\r\n");
        assert_eq!(code(&server, &form).await, 415);
        assert_eq!(
            code(&server, &with("POST", &format!("{own}Content-Type: application/json\r\n"))).await,
            201
        );
        // Not a page: as in Kubernetes, a body without a media type is JSON.
        let other = with("POST", "Sec-Fetch-Site: none\r\n").replace("\"a\"", "\"b\"");
        assert_eq!(code(&server, &other).await, 201);
        server.shutdown().await;
    }
}

// contract: E-11a
#[tokio::test]
async fn every_route_requires_the_token() {
    let server = ApiServer::builder().token("s3cret").start().await.unwrap();
    let get = async |path: &str, authorization: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: anything.example{authorization}");
        code(&server, &head).await
    };
    let right = "\r\nAuthorization: Bearer s3cret";
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/nonsense",
        "/metrics",
        MAPS,
        "/api/v1/watch/pods",
        "/api/v1/pods?watch=1",
        "/healthzz",
        "/api/v1/namespaces/default/pods/a/log",
    ] {
        assert_eq!(get(path, "").await, 401, "{path}");
        for wrong in [
            "Bearer wrong",
            "Bearer s3cre",
            "Bearer s3cret2",
            "Bearer S3CRET",
            "Bearer",
            "s3cret",
            "Basic s3cret",
        ] {
            assert_eq!(get(path, &format!("\r\nAuthorization: {wrong}")).await, 401, "{path} {wrong}");
        }
        // A watch does not end.
        if !path.contains("watch") {
            assert_ne!(get(path, right).await, 401, "{path}");
        }
    }
    assert_eq!(get(MAPS, "\r\nAuthorization: bearer  s3cret").await, 401, "two blanks: the token is empty");
    assert_eq!(get(MAPS, "\r\nAuthorization: bearer s3cret more").await, 200);
    let upgrade = format!("{right}x\r\nUpgrade: websocket\r\nConnection: Upgrade");
    assert_eq!(get(MAPS, &upgrade).await, 401);
    // Public paths need no token, but a wrong token is rejected.
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping", "/version"] {
        assert_eq!(get(path, "").await, 200, "{path}");
        assert_eq!(get(path, "\r\nAuthorization: Bearer wrong").await, 401, "{path}");
        assert_eq!(get(path, right).await, 200, "{path}");
    }
    server.shutdown().await;
}

// contract: E-11d
#[tokio::test]
async fn token_is_only_in_the_kubeconfig() {
    let builder = ApiServer::builder().token("s3cret");
    assert!(!format!("{builder:?}").contains("s3cret"));
    let server = builder.start().await.unwrap();
    assert!(!format!("{server:?}").contains("s3cret"));
    assert!(server.kubeconfig().contains("s3cret"));
    assert!(!format!("{:?}", server.config().unwrap()).contains("s3cret"));
    let refused = ApiServer::builder().token("s3cret\n").start().await.unwrap_err();
    assert!(matches!(refused, Error::Token));
    assert!(!format!("{refused} {refused:?}").contains("s3cret"));
    server.shutdown().await;
}

// contract: E-09a
#[tokio::test]
async fn in_process_clients_are_accepted() {
    for builder in [ApiServer::builder(), ApiServer::builder().tls(), ApiServer::builder().token("t").tls()] {
        let v6: Builder = builder.clone().listen("[::1]:0".parse().unwrap());
        for builder in [builder, v6] {
            // A machine may have no IPv6.
            let Ok(server) = builder.start().await else { continue };
            let client = kube_client::Client::try_from(server.config().unwrap()).unwrap();
            let resource =
                kube_client::core::ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
            let maps: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
            assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
            server.shutdown().await;
        }
    }
}
