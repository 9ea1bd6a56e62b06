//! Connections through proxies. The choice of the proxy has its tests in `client/proxy.rs`.

use std::time::Duration;

use crate::common::proxy::{self, Log};
use futures::future::join_all;
use http::Request;
use kinformer_apiserver::ApiServer;
use kinformer_kube::{Error, client};
use kube_client::Config;
use kube_client::error::Error as KubeError;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// Sends ten requests at the same time through a proxy, and returns what the proxy was asked for.
async fn ten_requests(server: &ApiServer, config: Config, log: &Log) -> Vec<String> {
    let client = client(config).unwrap();
    for version in join_all((0..10).map(|_| client.apiserver_version())).await {
        version.unwrap();
    }
    assert_eq!(server.metrics().open_connections, 1);
    std::mem::take(&mut *log.lock())
}

/// With HTTP/1.1, requests at the same time would have several connections.
// contract: L-32c, L-32d
#[tokio::test]
async fn http2_passes_through_every_kind_of_proxy() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let through = |url: String| {
        let mut config = server.config().unwrap();
        config.proxy_url = Some(url.parse().unwrap());
        config
    };
    // The authorization is `me:p@ss`.
    let connect = format!("CONNECT {} HTTP/1.1", server.address());
    let with_user = format!("{connect} Basic bWU6cEBzcw==");

    let (port, log, http) = proxy::listen(proxy::http).await;
    let config = through(format!("http://me:p%40ss@127.0.0.1:{port}"));
    assert_eq!(ten_requests(&server, config, &log).await, [&*with_user]);
    drop(http);

    let (https, log) = proxy::https().await;
    let mut config = through(format!("https://127.0.0.1:{}", https.address.port()));
    config.root_cert.as_mut().unwrap().push(https.certificate.clone());
    assert_eq!(ten_requests(&server, config, &log).await, [&*connect]);
    drop(https);

    let (port, log, _socks) = proxy::listen(proxy::socks).await;
    for (user, logged) in [("", ""), ("me:p%40ss@", " me:p@ss")] {
        let config = through(format!("socks5://{user}127.0.0.1:{port}"));
        let connect = format!("CONNECT {}{logged}", server.address());
        assert_eq!(ten_requests(&server, config, &log).await, [connect]);
    }
    server.shutdown().await;
}

/// A server without TLS needs no tunnel, which many proxies refuse to its port.
// contract: L-32d, L-32e
#[tokio::test]
async fn http_proxy_forwards_requests_to_servers_without_tls() {
    let (port, log, _proxy) = proxy::listen(proxy::http).await;
    let mut config = Config::new("http://kubernetes.example/prefix".parse().unwrap());
    config.proxy_url = Some(format!("http://me:p%40ss@127.0.0.1:{port}").parse().unwrap());
    let request = Request::get("/version").body(Vec::new()).unwrap();
    assert_eq!(client(config).unwrap().request_text(request).await.unwrap(), "forwarded");
    let logged = "GET http://kubernetes.example/prefix/version HTTP/1.1 Basic bWU6cEBzcw==";
    assert_eq!(*log.lock(), [logged]);
}

/// An error names the proxy, and not its user.
// contract: L-32f
#[tokio::test]
async fn errors_name_the_proxy() {
    let (refuses, _, _refusing) = proxy::listen(async |mut stream, _| {
        let head = crate::common::head(&mut stream).await;
        assert!(head.starts_with("CONNECT "));
        stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await.unwrap();
    })
    .await;
    let (silent, _, _waiting) = proxy::listen(async |_stream, _| std::future::pending().await).await;
    let (socks, log, _socks) = proxy::listen(proxy::socks).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for (server, scheme, port, cause) in [
        ("https://127.0.0.1:1", "http", refuses, "proxy authorization required"),
        ("https://127.0.0.1:1", "http", closed, "refused"),
        ("https://127.0.0.1:1", "socks5", closed, "refused"),
        ("https://127.0.0.1:1", "http", silent, "deadline has elapsed"),
        // Without a port, that of the scheme.
        ("http://kubernetes.invalid", "socks5", socks, "unreachable"),
    ] {
        let mut config = Config::new(server.parse().unwrap());
        config.root_cert = Some(Vec::new());
        config.proxy_url = Some(format!("{scheme}://me:secret@127.0.0.1:{port}").parse().unwrap());
        config.connect_timeout = Some(Duration::from_millis(if port == silent { 10 } else { 10_000 }));
        let error = client(config).unwrap().apiserver_version().await.unwrap_err();
        let KubeError::Service(error) = error else { panic!("{error:?}") };
        let Some(Error::Proxy { proxy, .. }) = error.downcast_ref() else { panic!("{error:?}") };
        assert_eq!(*proxy, format!("{scheme}://127.0.0.1:{port}"));
        let text = error.to_string();
        assert!(
            text.contains(proxy) && text.to_lowercase().contains(cause) && !text.contains("secret"),
            "{text}"
        );
    }
    assert_eq!(*log.lock(), ["CONNECT kubernetes.invalid:80 me:secret"]);
}
