//! TLS with a certificate of a folder.

use std::path::Path;
use std::sync::Arc;

use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use kinformer_serve::{Error, Limits, Server, ServerBuilder};
use kinformer_testing::wait::within;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, crypto::ring};

use crate::common::Client;

/// Writes a certificate for `localhost` and its key.
fn write(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

fn listen(folder: &Path) -> ServerBuilder {
    Server::builder().listen("127.0.0.1:0".parse().unwrap()).tls(folder)
}

/// Sends a request over TLS, and returns the body and the protocol that was agreed on.
async fn get(
    address: std::net::SocketAddr,
    certificate: &CertificateDer<'static>,
    version: &'static SupportedProtocolVersion,
    path: &str,
) -> (String, Option<Vec<u8>>) {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_protocol_versions(&[version]).unwrap().with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream =
        within("a handshake", TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap();
    let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "localhost").body(Empty::<Bytes>::new()).unwrap();
    let response = within(path, sender.send_request(request)).await.unwrap();
    let body = within(path, response.into_body().collect()).await.unwrap().to_bytes();
    (String::from_utf8_lossy(&body).into_owned(), agreed)
}

// contract: H-34a, H-29a
#[tokio::test]
async fn page_and_metrics_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = write(folder.path());
    let server =
        listen(folder.path()).probes_on("127.0.0.1:0".parse().unwrap()).bind().await.unwrap().spawn();
    assert_eq!(server.url(), format!("https://{}/", server.local_addr()));
    for version in [&TLS12, &TLS13] {
        let (text, agreed) = get(server.local_addr(), &certificate, version, "/metrics").await;
        assert!(text.contains("certwatcher_read_certificate_total 1\n"), "{text}");
        assert!(text.contains("certwatcher_read_certificate_errors_total 0\n"), "{text}");
        assert_eq!(agreed.as_deref(), Some(&b"http/1.1"[..]));
    }
    let probes = Client { address: server.probes_addr().unwrap() };
    assert_eq!(probes.get("/healthz").await.text(), "ok\n");
    server.shutdown().await;
}

// contract: H-34b
#[tokio::test]
async fn files_that_are_no_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let fails = async |file: &str, reason: &str| {
        let error = listen(folder.path()).bind().await.unwrap_err();
        let Error::Certificate { file: named, .. } = &error else { panic!("{error}") };
        assert_eq!(*named, folder.path().join(file), "{error}");
        assert!(error.to_string().contains(file) && error.to_string().contains(reason), "{error}");
    };
    fails("tls.crt", "").await;
    write(folder.path());
    std::fs::remove_file(folder.path().join("tls.key")).unwrap();
    fails("tls.key", "").await;
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (file, text, reason) in [
        ("tls.crt", "", "it has no certificate"),
        ("tls.crt", "-----BEGIN CERTIFICATE-----\nMIIB", ""),
        ("tls.crt", no_certificate, ": BadEncoding"),
        ("tls.key", "none", "no private key"),
        ("tls.key", encrypted, "no private key that is not encrypted"),
    ] {
        write(folder.path());
        std::fs::write(folder.path().join(file), text).unwrap();
        fails(file, reason).await;
    }
    write(folder.path());
    let key = std::fs::read(folder.path().join("tls.key")).unwrap();
    write(folder.path());
    std::fs::write(folder.path().join("tls.key"), key).unwrap();
    fails("tls.key", "it is not the key of tls.crt").await;
}

/// More connections than there are places wait in their handshake, and another one is served.
// contract: H-34e
#[tokio::test]
async fn handshakes_keep_no_one_out() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = write(folder.path());
    let limits = Limits::default().requests(4).streams(0).connections(0);
    let server = listen(folder.path()).limits(limits).bind().await.unwrap().spawn();
    let mut silent = Vec::new();
    for _ in 0..30 {
        silent.push(TcpStream::connect(server.local_addr()).await.unwrap());
    }
    let (text, _) = get(server.local_addr(), &certificate, &TLS13, "/healthz").await;
    assert_eq!(text, "ok\n");
    server.shutdown().await;
    drop(silent);
}
