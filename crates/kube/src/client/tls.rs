//! How a server proves who it is.

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

/// kube-client's, which trusts a bundle of certificates as Go does where there is one.
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
        // An empty bundle trusts nothing, which this builder does not express.
        if !roots.is_empty() {
            let provider = tls.crypto_provider().clone();
            let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            tls.dangerous().set_certificate_verifier(Arc::new(Verifier { inner, bundle }));
        }
    }
    Ok(tls)
}

/// The certificates of a file.
pub(super) fn bundle(pem: &[u8]) -> Result<Vec<Vec<u8>>, BoxError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    Ok(certificates?.into_iter().map(|certificate| certificate.to_vec()).collect())
}

/// The verifier of rustls, which refuses a CA as the server's own certificate. Go does not, and such certificates are
/// common in small clusters: so it is accepted if the bundle contains it byte for byte.
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
                // What is in the bundle is trusted. Its name and its dates say for what and until when.
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
