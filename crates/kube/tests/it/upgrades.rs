//! Requests that upgrade their connection, such as `exec`, `attach` and `portforward`.

use crate::common::http2::Http2;
use crate::common::tls_server::TlsServer;
use crate::common::{head, proxy};
use http::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use kinformer_kube::client;
use kube_client::client::Body;
use kube_client::{Client, Config};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::TcpListener;

/// Upgrades a connection to one that returns what it receives, if the credentials are right.
async fn upgrade(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let head = head(&mut stream).await;
    assert!(
        head.starts_with("POST /api/v1/namespaces/default/pods/a/exec?command=sh HTTP/1.1\r\n"),
        "{head}"
    );
    for header in ["authorization: Bearer secret", "connection: Upgrade", "upgrade: SPDY/3.1"] {
        assert!(head.lines().any(|line| line == header), "{head}");
    }
    stream
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n")
        .await
        .unwrap();
    let (mut read, mut write) = split(stream);
    let _ = copy(&mut read, &mut write).await;
}

fn with_token(mut config: Config) -> Client {
    config.auth_info.token = Some("secret".to_owned().into());
    client(config).unwrap()
}

async fn echoes(client: &Client) {
    let request = Request::post("/api/v1/namespaces/default/pods/a/exec?command=sh")
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "SPDY/3.1")
        .body(Body::empty())
        .unwrap();
    let answer = client.send(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut stream = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    stream.write_all(b"hello").await.unwrap();
    let mut received = [0; 5];
    stream.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"hello");
}

/// Other requests of the same client use HTTP/2.
// contract: L-40
#[tokio::test]
async fn upgrades_use_http1_beside_http2() {
    let server = TlsServer::new(&["h2", "http/1.1"], |_, stream| async {
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return upgrade(stream).await;
        }
        let mut http2 = Http2::accept(stream).await;
        while let Some((stream, _)) = http2.request().await {
            http2.respond(stream, "2").await;
        }
    })
    .await;
    let client = with_token(server.config());
    for opened in [2, 3] {
        let answer = client.request_text(Request::get("/version").body(Vec::new()).unwrap()).await.unwrap();
        assert_eq!(answer, "2");
        echoes(&client).await;
        assert_eq!(server.opened(), opened);
    }
}

// contract: L-40
#[tokio::test]
async fn upgrades_work_without_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client =
        with_token(Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap()));
    let server = tokio::spawn(async move { upgrade(listener.accept().await.unwrap().0).await });
    echoes(&client).await;
    server.await.unwrap();
}

// contract: L-40
#[tokio::test]
async fn upgrades_use_the_proxy() {
    let server = TlsServer::new(&["h2", "http/1.1"], |_, stream| upgrade(stream)).await;
    let (port, log, _proxy) = proxy::listen(proxy::http).await;
    let mut config = server.config();
    config.proxy_url = Some(format!("http://127.0.0.1:{port}").parse().unwrap());
    echoes(&with_token(config)).await;
    assert_eq!(*log.lock(), [format!("CONNECT {} HTTP/1.1", server.address)]);
}
