//! Certificate authorities, certificates, and the TLS configuration of a server.

use std::sync::Arc;

use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
    crypto::ring,
};

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

/// The TLS configuration of a server that accepts every client certificate.
pub fn tls_for_any_client(certificate: CertificateDer<'static>, key_der: Vec<u8>) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_client_cert_verifier(Arc::new(AnyClient));
    builder.with_single_cert(vec![certificate], PrivateKeyDer::try_from(key_der).unwrap()).unwrap()
}

#[derive(Debug)]
struct AnyClient;

impl ClientCertVerifier for AnyClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The certificate as one of X.509 version 1, which has no version and no extensions. Its signature is invalid.
pub fn version_1(certificate: &[u8]) -> Vec<u8> {
    // Returns the start of the content and the end of the first element.
    let bounds = |der: &[u8]| match der[1] {
        short @ 0..0x80 => (2, 2 + usize::from(short)),
        long => {
            let start = 2 + usize::from(long & 0x7f);
            let length = der[2..start].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            (start, start + length)
        }
    };
    let sequence = |content: &[u8]| {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[0x30, 0x82], &length[..], content].concat()
    };
    let (start, end) = bounds(certificate);
    let certificate = &certificate[start..end];
    let (start, signed) = bounds(certificate);
    let mut rest = &certificate[start..signed];
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let (field, after) = rest.split_at(bounds(rest).1);
        // The tags of the version and the extensions.
        if !matches!(field[0], 0xa0 | 0xa3) {
            fields.extend_from_slice(field);
        }
        rest = after;
    }
    sequence(&[&sequence(&fields), &certificate[signed..]].concat())
}
