//! Verification of server certificates.

use std::sync::Arc;

use kinformer_core::BoxError;
use kube_client::Config;
use kube_client::client::ConfigExt;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use super::validity;

/// Returns kube-client's TLS configuration. If there is a CA bundle, it is trusted as in Go.
pub(super) fn client_config(config: &Config) -> Result<ClientConfig, BoxError> {
    let mut tls = config.rustls_client_config()?;
    if config.accept_invalid_certs {
        return Ok(tls);
    }
    if let Some(bundle) = &config.root_cert {
        let bundle: Vec<_> = bundle.iter().map(|der| CertificateDer::from(der.clone())).collect();
        let mut roots = RootCertStore::empty();
        for certificate in &bundle {
            roots.add(certificate.clone())?;
        }
        // An empty bundle trusts nothing. The builder rejects it, so kube-client's verifier stays.
        if !roots.is_empty() {
            let provider = tls.crypto_provider().clone();
            let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            tls.dangerous().set_certificate_verifier(Arc::new(Verifier { inner, bundle }));
        }
    }
    Ok(tls)
}

/// Parses the certificates of a PEM file.
pub(super) fn bundle(pem: &[u8]) -> Result<Vec<Vec<u8>>, BoxError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    Ok(certificates?.into_iter().map(|certificate| certificate.to_vec()).collect())
}

/// The verifier of rustls, extended by server certificates that are their own CA. rustls refuses these and Go accepts
/// them. They are common in small clusters, so such a certificate is accepted if the bundle contains it byte for byte.
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
            Err(error) if is_ca(&error) && self.bundle.contains(end_entity) => {
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

fn is_ca(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(error))) = error else { return false };
    matches!(error.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}
