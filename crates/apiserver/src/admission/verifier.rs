//! Whether the server of a webhook has a certificate that its `caBundle` trusts.
//!
//! Follows Go's `x509.Certificate.Verify`, with its messages.

use jiff::Timestamp;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Accepts what the certificates of a bundle have signed, and these certificates themselves.
#[derive(Debug)]
pub(super) struct Verifier {
    bundle: Vec<CertificateDer<'static>>,
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn of(bundle: Vec<CertificateDer<'static>>, algorithms: WebPkiSupportedAlgorithms) -> Self {
        let mut roots = RootCertStore::empty();
        // as in Go, those that are no certificates are skipped
        roots.add_parsable_certificates(bundle.iter().cloned());
        Self { bundle, roots, algorithms }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let (roots, algorithms) = (&self.roots, self.algorithms.all);
        let signed =
            verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms);
        let signed = match signed {
            // webpki refuses authorities as servers, after it has checked their time
            Err(Error::InvalidCertificate(CertificateError::Other(why)))
                if why.to_string() == "CaUsedAsEndEntity" =>
            {
                let unknown = Error::from(CertificateError::UnknownIssuer);
                if self.bundle.contains(end_entity) { Ok(()) } else { Err(unknown) }
            }
            // of another authority with the same name
            Err(Error::InvalidCertificate(CertificateError::BadSignature)) => {
                Err(CertificateError::UnknownIssuer.into())
            }
            signed => signed,
        };
        // the name comes before the issuer
        if matches!(signed, Ok(()) | Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))) {
            verify_server_name(&parsed, server_name)?;
        }
        signed.map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Returns why a host does not have this certificate.
pub(super) fn message(error: &CertificateError, host: &str) -> String {
    let time = |time: &UnixTime| {
        let seconds = i64::try_from(time.as_secs()).ok();
        seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or_default()
    };
    let expired = "x509: certificate has expired or is not yet valid: current time";
    match error {
        CertificateError::UnknownIssuer => "x509: certificate signed by unknown authority".to_owned(),
        CertificateError::ExpiredContext { time: now, not_after } => {
            format!("{expired} {} is after {}", time(now), time(not_after))
        }
        CertificateError::NotValidYetContext { time: now, not_before } => {
            format!("{expired} {} is before {}", time(now), time(not_before))
        }
        CertificateError::NotValidForName => format!("x509: certificate is not valid for {host}"),
        CertificateError::NotValidForNameContext { presented, .. } => wrong_name(presented, host),
        other => format!("x509: {other}"),
    }
}

fn wrong_name(presented: &[String], host: &str) -> String {
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    // such as DnsName("localhost") and IpAddress(127.0.0.1)
    let form = if is_address { ("IpAddress(", ")") } else { ("DnsName(\"", "\")") };
    let names: Vec<&str> =
        presented.iter().filter_map(|name| name.strip_prefix(form.0)?.strip_suffix(form.1)).collect();
    if !names.is_empty() {
        return format!("x509: certificate is valid for {}, not {host}", names.join(", "));
    }
    if is_address {
        return format!(
            "x509: cannot validate certificate for {host} because it doesn't contain any IP SANs"
        );
    }
    format!("x509: certificate is not valid for any names, but wanted to match {host}")
}
