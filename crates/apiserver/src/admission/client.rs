//! HTTPS to webhooks.

use ::http::Uri;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::client_config::ClientConfig;
use super::services::Services;
#[cfg(feature = "tls")]
use tls::authorities_fault;

/// Where a webhook is, and whom it must be.
#[derive(Debug)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "webhooks are called over TLS"))]
pub(crate) struct Endpoint {
    /// The name in the certificate.
    host: String,
    port: u16,
    /// The host and the port as they are in the URL.
    authority: String,
    path: String,
    /// The namespace and the name of the service; `None` for a URL.
    service: Option<(String, String)>,
    /// Certificates in PEM.
    authorities: Vec<u8>,
}

/// An HTTP response.
pub(crate) struct Response {
    pub(crate) code: u16,
    pub(super) content_type: Option<String>,
    pub(crate) body: Bytes,
}

impl Endpoint {
    /// # Errors
    /// Why the configuration cannot be used.
    pub(crate) fn of(config: &ClientConfig) -> Result<Self, String> {
        let problem = |why: &str| format!("could not get REST client: {why}");
        let authorities = STANDARD
            .decode(&config.ca_bundle)
            .map_err(|_| problem("unable to load root certificates: unable to parse bytes as PEM block"))?;
        if let Some(why) = authorities_fault(&authorities) {
            return Err(problem(&format!("unable to load root certificates: {why}")));
        }
        if let Some(service) = &config.service {
            let (port, host) =
                (service.port.unwrap_or(443), format!("{}.{}.svc", service.name, service.namespace));
            return Ok(Self {
                authority: format!("{host}:{port}"),
                host,
                port,
                path: joined(&service.path),
                service: Some((service.namespace.clone(), service.name.clone())),
                authorities,
            });
        }
        let url = config.url.as_deref().unwrap_or("");
        let uri: Uri = url.parse().map_err(|_| problem(&format!("Unparsable URL: {url}")))?;
        let host =
            uri.host().ok_or_else(|| problem("webhook configuration must have either service or URL"))?;
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(443),
            authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
            path: joined(uri.path()),
            service: None,
            authorities,
        })
    }

    fn path_and_query(&self, seconds: u64) -> String {
        format!("{}?timeout={seconds}s", self.path)
    }

    /// Puts what was sent before an error.
    pub(super) fn posted(&self, seconds: u64, why: &str) -> String {
        let (authority, path) = (&self.authority, self.path_and_query(seconds));
        format!("Post \"https://{authority}{path}\": {why}")
    }
}

/// Returns a path as Go joins it with the root: without empty segments.
fn joined(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("/{}", parts.join("/"))
}

#[cfg(not(feature = "tls"))]
fn authorities_fault(_: &[u8]) -> Option<&'static str> {
    None
}

#[cfg(not(feature = "tls"))]
impl Endpoint {
    /// # Errors
    /// Always: webhooks are called over TLS.
    pub(crate) async fn post(&self, _: &Services, _: u64, _: Bytes) -> Result<Response, String> {
        Err("the feature `tls` of kinformer-apiserver is needed to call webhooks".into())
    }
}

#[cfg(feature = "tls")]
mod tls {
    use std::io;
    use std::net::SocketAddr;
    use std::sync::Arc;

    use ::http::{Request, header};
    use http_body_util::{BodyExt, Full, Limited};
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

    use super::super::verifier::{Verifier, message};
    use super::{Bytes, Endpoint, Response, Services};

    /// The limit of an answer.
    const MAX_BODY: usize = 8 << 20;

    impl Endpoint {
        /// Sends a request, and reads its response.
        ///
        /// # Cancel safety
        /// If the future is dropped, the connection is closed.
        ///
        /// # Errors
        /// Why there is no response, in the words of Go where it has some.
        pub(crate) async fn post(
            &self,
            services: &Services,
            seconds: u64,
            body: Bytes,
        ) -> Result<Response, String> {
            let stream = self.connect(services).await?;
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(|error| text_of(&error))?;
            let request = Request::post(self.path_and_query(seconds))
                .header(header::HOST, &self.authority)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, */*")
                .header(header::USER_AGENT, "kube-apiserver-admission")
                .body(Full::new(body))
                .map_err(|error| error.to_string())?;
            let exchange = async {
                let response = sender.send_request(request).await.map_err(|error| text_of(&error))?;
                let (parts, body) = response.into_parts();
                let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| {
                    format!(
                        "unexpected error when reading response body. Please retry. Original error: {error}"
                    )
                })?;
                let content_type =
                    parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
                let content_type = content_type.map(str::to_owned);
                Ok(Response { code: parts.status.as_u16(), content_type, body: body.to_bytes() })
            };
            // The response may still be read when the connection has ended.
            let connection = async {
                _ = connection.await;
                std::future::pending().await
            };
            tokio::select! {
                response = exchange => response,
                response = connection => response,
            }
        }

        async fn connect(&self, services: &Services) -> Result<TlsStream<TcpStream>, String> {
            let name = ServerName::try_from(self.host.clone()).map_err(|error| error.to_string())?;
            let config = self.config()?;
            let stream = match &self.service {
                Some((namespace, service)) => {
                    let address = services.resolve(namespace, service, self.port)?;
                    dialed(address, TcpStream::connect(address).await)?
                }
                None => {
                    let (host, port) = (self.host.as_str(), self.port);
                    let found = tokio::net::lookup_host((host, port)).await;
                    let addresses = found.map(Iterator::collect::<Vec<_>>).unwrap_or_default();
                    let missing = || format!("dial tcp: lookup {host}: no such host");
                    dial(&addresses).await.ok_or_else(missing)??
                }
            };
            let connector = TlsConnector::from(Arc::new(config));
            connector.connect(name, stream).await.map_err(|error| self.tls_error(&error))
        }

        fn config(&self) -> Result<ClientConfig, String> {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let algorithms = provider.signature_verification_algorithms;
            let verifier = Verifier::of(certificates(&self.authorities).collect(), algorithms);
            let mut config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
                .with_no_client_auth();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(config)
        }

        fn tls_error(&self, error: &io::Error) -> String {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            match inner {
                Some(rustls::Error::InvalidCertificate(why)) => {
                    format!("tls: failed to verify certificate: {}", message(why, &self.host))
                }
                _ if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".into(),
                _ => error.to_string(),
            }
        }
    }

    /// Returns the certificates of a bundle, up to a block that cannot be decoded.
    fn certificates(pem: &[u8]) -> impl Iterator<Item = CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(pem).map_while(Result::ok)
    }

    /// Returns why a bundle has no certificate that can be used. Follows client-go 1.37 (`createErrorParsingCAData`).
    pub(super) fn authorities_fault(pem: &[u8]) -> Option<&'static str> {
        if pem.is_empty() {
            return None;
        }
        let (used, unused) = RootCertStore::empty().add_parsable_certificates(certificates(pem));
        match (used, unused) {
            (0, 0) => Some("unable to parse bytes as PEM block"),
            (0, _) => Some("failed to parse certificate: x509: malformed certificate"),
            _ => None,
        }
    }

    /// Connects to the first of these addresses that accepts, and fails as the first one; `None` if there is none.
    async fn dial(addresses: &[SocketAddr]) -> Option<Result<TcpStream, String>> {
        let mut first = None;
        for address in addresses {
            match dialed(*address, TcpStream::connect(address).await) {
                Ok(stream) => return Some(Ok(stream)),
                Err(why) if first.is_none() => first = Some(Err(why)),
                Err(_) => {}
            }
        }
        first
    }

    fn dialed(address: SocketAddr, stream: io::Result<TcpStream>) -> Result<TcpStream, String> {
        stream.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                format!("dial tcp {address}: connect: connection refused")
            }
            _ => format!("dial tcp {address}: {error}"),
        })
    }

    fn text_of(error: &hyper::Error) -> String {
        let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
        // TLS connections that end without a notice
        let has_ended = source.is_some_and(|source| source.kind() == io::ErrorKind::UnexpectedEof);
        if has_ended || error.is_incomplete_message() || error.is_canceled() {
            return "EOF".into();
        }
        error.to_string()
    }
}
