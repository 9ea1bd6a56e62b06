//! Verification of server certificates.

use std::fmt::Display;
use std::sync::Arc;

use kinformer_core::BoxError;
use kube_client::Config;
use kube_client::client::ConfigExt;
use kube_client::config::AuthInfo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, InconsistentKeys, OtherError,
    RootCertStore, SignatureScheme,
};
use secrecy::ExposeSecret;

use super::{pem, validity};

/// Returns kube-client's TLS configuration, with the client certificate and the CA bundle read as in Go.
pub(super) fn client_config(config: &Config) -> Result<ClientConfig, BoxError> {
    // kube-client refuses client certificates of X.509 version 1, and a CA bundle with one that is invalid.
    let mut without = config.clone();
    without.auth_info = AuthInfo::default();
    let bundle = config.root_cert.as_deref().filter(|_| !config.accept_invalid_certs);
    let roots = bundle.map(roots).transpose()?;
    without.root_cert = config.root_cert.as_ref().map(|_| Vec::new());
    let mut tls = without.rustls_client_config()?;
    if let (Some(roots), Some(bundle)) = (roots, bundle)
        // An empty bundle trusts nothing. The builder rejects it, so kube-client's verifier stays.
        && !roots.is_empty()
    {
        let provider = tls.crypto_provider().clone();
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        let bundle = bundle.iter().map(|der| CertificateDer::from(der.clone())).collect();
        tls.dangerous().set_certificate_verifier(Arc::new(Verifier { inner, bundle }));
    }
    if let Some(identity) = identity(&config.auth_info, tls.crypto_provider())? {
        tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
    }
    Ok(tls)
}

/// Returns the certificates of a bundle that can be trusted.
fn roots(bundle: &[Vec<u8>]) -> Result<RootCertStore, crate::Error> {
    let mut roots = RootCertStore::empty();
    let (_, invalid) = roots.add_parsable_certificates(bundle.iter().map(|der| CertificateDer::from(&**der)));
    if roots.is_empty() && invalid > 0 {
        return Err(invalid_field("certificate-authority", "has no valid certificate"));
    }
    Ok(roots)
}

/// Returns the client certificate with its key. A key without a certificate is ignored, as in client-go.
fn identity(auth: &AuthInfo, provider: &CryptoProvider) -> Result<Option<CertifiedKey>, BoxError> {
    let certificate =
        field("client-certificate", auth.client_certificate_data.as_deref(), &auth.client_certificate)?;
    let Some(certificate) = certificate else { return Ok(None) };
    let certificates =
        pem::certificates(&certificate).into_iter().map(CertificateDer::from).collect::<Vec<_>>();
    if certificates.is_empty() {
        return Err(invalid_field("client-certificate", "has no certificate").into());
    }
    let key = auth.client_key_data.as_ref().map(ExposeSecret::expose_secret);
    let Some(key) = field("client-key", key, &auth.client_key)? else {
        return Err(invalid_field("client-key", "is missing, and there is a client-certificate").into());
    };
    let invalid = |error: &dyn Display| invalid_field("client-key", &format!("is invalid: {error}"));
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| invalid(&error))?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| invalid(&error))?;
    let identity = CertifiedKey::new(certificates, key);
    // rustls cannot compare the key with a certificate of X.509 version 1, which it can send.
    if let Err(error @ Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) = identity.keys_match() {
        return Err(
            invalid_field("client-key", &format!("does not match the client-certificate: {error}")).into()
        );
    }
    Ok(Some(identity))
}

/// Returns the content of a field that is either base64 or the path of a file.
fn field(
    field: &'static str,
    data: Option<&str>,
    file: &Option<String>,
) -> Result<Option<Vec<u8>>, crate::Error> {
    match (data, file) {
        (Some(data), _) => {
            pem::base64(data).map(Some).ok_or_else(|| invalid_field(field, "has data that is not base64"))
        }
        (None, Some(path)) => match std::fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(invalid_field(field, &format!("{path:?} cannot be read: {error}"))),
        },
        (None, None) => Ok(None),
    }
}

fn invalid_field(field: &'static str, problem: &str) -> crate::Error {
    crate::Error::Config { field, problem: problem.to_owned() }
}

/// The verifier of rustls, extended by server certificates that the bundle contains byte for byte. rustls refuses these
/// and Go accepts them. They are common in small clusters: the certificate of the server is copied as the CA, or is its
/// own CA.
#[derive(Debug)]
struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    bundle: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(error) if lacks_issuer(&error) && self.bundle.contains(end_entity) => {
                // The certificate is trusted, since it is in the bundle. Its name and dates still have to match.
                validity::check(end_entity, now)?;
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Whether the only problem of a certificate is that no CA issued it.
fn lacks_issuer(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        Error::InvalidCertificate(CertificateError::Other(OtherError(error))) => {
            matches!(error.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}
