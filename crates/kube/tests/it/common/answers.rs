//! An HTTP/1.1 server with scripted responses, and its request log.

use std::net::SocketAddr;
use std::sync::Arc;

use kube_client::Config;
use parking_lot::Mutex;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::ring};

/// A received request.
#[derive(Clone, Debug)]
pub struct Request {
    pub target: String,
    /// Names are in lower case.
    headers: Vec<(String, String)>,
    pub body: String,
    /// The client certificate.
    pub certificate: Option<CertificateDer<'static>>,
    /// The number of its connection, from 1.
    pub connection: usize,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn token(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }

    pub fn is_watch(&self) -> bool {
        self.target.contains("watch=1")
    }
}

/// A scripted response. `Later` sends its body in pieces and leaves the connection open.
pub enum Answer {
    Now(Vec<u8>),
    Later(Vec<u8>, tokio::sync::mpsc::Receiver<Vec<u8>>),
}

/// A response with a body.
pub fn answer(status: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Now(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes())
}

/// An empty list.
pub fn empty_list() -> Answer {
    let body = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}"#;
    answer("200 OK", "content-type: application/json\r\n", body)
}

pub fn unauthorized() -> Answer {
    let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;
    answer("401 Unauthorized", "content-type: application/json\r\n", body)
}

type Script = dyn Fn(&Request) -> Answer + Send + Sync;

pub struct Scripted {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl Scripted {
    /// Starts a server of plain HTTP.
    pub async fn http(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::listen("127.0.0.1", None, script).await
    }

    pub async fn https(
        tls: ServerConfig,
        script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::listen("127.0.0.1", Some(tls), script).await
    }

    pub async fn listen(
        host: &str,
        tls: Option<ServerConfig>,
        script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::new(host, tls, Arc::new(script)).await
    }

    async fn new(host: &str, tls: Option<ServerConfig>, script: Arc<Script>) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let acceptor = tls.map(|tls| TlsAcceptor::from(Arc::new(tls)));
        let all = requests.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                number += 1;
                let (acceptor, script, all) = (acceptor.clone(), script.clone(), all.clone());
                connections.spawn(async move {
                    let Some(acceptor) = acceptor else {
                        return serve(stream, None, number, &*script, &all).await;
                    };
                    // A client that does not trust the certificate closes the connection.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let certificate =
                        stream.get_ref().1.peer_certificates().map(|c| c[0].clone().into_owned());
                    serve(stream, certificate, number, &*script, &all).await;
                });
            }
        });
        Self { address, requests, task }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().clone()
    }

    /// The tokens of all requests.
    pub fn tokens(&self) -> Vec<Option<String>> {
        self.requests().iter().map(|request| request.token().map(str::to_owned)).collect()
    }

    pub fn config(&self, scheme: &str) -> Config {
        Config::new(format!("{scheme}://{}", self.address).parse().unwrap())
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    certificate: Option<CertificateDer<'static>>,
    connection: usize,
    script: &Script,
    all: &Mutex<Vec<Request>>,
) {
    let mut read = Vec::new();
    loop {
        while !read.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read_buf(&mut read).await {
                Ok(1..) => {}
                _ => return,
            }
        }
        let head = String::from_utf8(std::mem::take(&mut read)).unwrap();
        let mut lines = head.lines().take_while(|line| !line.is_empty());
        let target = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        let headers: Vec<_> = headers;
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, length)| length.parse().unwrap());
        let mut body = head.split_once("\r\n\r\n").unwrap().1.to_owned().into_bytes();
        while body.len() < length {
            if !matches!(stream.read_buf(&mut body).await, Ok(1..)) {
                return;
            }
        }
        let body = String::from_utf8(body).unwrap();
        let request = Request { target, headers, body, certificate: certificate.clone(), connection };
        all.lock().push(request.clone());
        let written = match script(&request) {
            Answer::Now(bytes) => stream.write_all(&bytes).await,
            Answer::Later(head, mut pieces) => {
                let mut written = stream.write_all(&head).await;
                while let Some(piece) = pieces.recv().await {
                    written = stream.write_all(&piece).await;
                }
                written
            }
        };
        if written.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

pub type Authority = CertifiedIssuer<'static, KeyPair>;

pub fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    Authority::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key, in PEM.
pub struct Issued {
    pub certificate: String,
    pub key: String,
    pub der: CertificateDer<'static>,
}

/// Issues a certificate for 127.0.0.1, or for a client.
pub fn issue(authority: &Authority, name: &str) -> Issued {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    Issued { certificate: certificate.pem(), key: key.serialize_pem(), der: certificate.der().clone() }
}

/// The TLS configuration of a server that requests client certificates of an authority and works without one.
pub fn tls(
    certificate: CertificateDer<'static>,
    key_der: Vec<u8>,
    clients: Option<&Authority>,
) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(clients.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
        }
    };
    builder.with_single_cert(vec![certificate], PrivateKeyDer::try_from(key_der).unwrap()).unwrap()
}
