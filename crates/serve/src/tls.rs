//! TLS, with a certificate that is read again when its files change.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::Error;
use crate::metrics::CertificateReads;

/// The names of Kubernetes secrets of the type `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
/// How often the files are read, as in controller-runtime.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The certificate of a folder.
pub(crate) struct Tls {
    folder: PathBuf,
    provider: Arc<CryptoProvider>,
    acceptor: TlsAcceptor,
    current: Arc<Current>,
    seen: Mutex<Seen>,
    reads: CertificateReads,
}

/// The certificate of new connections.
struct Current(RwLock<Arc<CertifiedKey>>);

/// What was read last, and whether it was of no use.
struct Seen {
    read: Result<Pair, Problem>,
    failed: bool,
}

/// The contents of both files.
#[derive(Clone, PartialEq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Why a file is of no use.
#[derive(Clone, PartialEq)]
struct Problem {
    file: PathBuf,
    reason: String,
}

impl Tls {
    /// Reads the certificate.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub(crate) async fn read(folder: PathBuf, reads: CertificateReads) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let error = |Problem { file, reason }| Error::Certificate { file, reason };
        let pair = read(folder.clone()).await.map_err(error)?;
        reads.total.inc();
        let key = pair.parse(&folder, &provider).map_err(error)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(key))));
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .map_err(|failed| error(Problem { file: folder.clone(), reason: failed.to_string() }))?;
        let mut config = config.with_no_client_auth().with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let seen = Mutex::new(Seen { read: Ok(pair), failed: false });
        Ok(Self { folder, provider, acceptor: Arc::new(config).into(), current, seen, reads })
    }

    /// # Errors
    /// The handshake has failed, or took too long.
    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        tokio::time::timeout(HANDSHAKE, self.acceptor.accept(stream)).await?
    }

    /// Reads the files again and again, without an end.
    pub(crate) async fn watch(&self) {
        let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + INTERVAL, INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            self.refresh().await;
        }
    }

    /// Reads the files, and replaces the certificate if they have changed and are a pair.
    async fn refresh(&self) {
        let read = read(self.folder.clone()).await;
        self.reads.total.inc();
        let mut seen = self.seen.lock();
        if read == seen.read {
            if seen.failed {
                self.reads.errors.inc();
            }
            return;
        }
        let parsed = match &read {
            Ok(pair) => pair.parse(&self.folder, &self.provider),
            Err(problem) => Err(problem.clone()),
        };
        *seen = Seen { read, failed: parsed.is_err() };
        drop(seen);
        match parsed {
            Ok(key) => {
                *self.current.0.write() = Arc::new(key);
                tracing::info!(folder = %self.folder.display(), "certificate replaced");
            }
            Err(Problem { file, reason }) => {
                self.reads.errors.inc();
                tracing::warn!(file = %file.display(), reason, "certificate not replaced; the old one stays in use");
            }
        }
    }
}

impl Pair {
    fn parse(&self, folder: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, Problem> {
        let problem = |file: &str, reason: String| Problem { file: folder.join(file), reason };
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|error| problem(CERTIFICATE, error.to_string()))?;
        if chain.is_empty() {
            return Err(problem(CERTIFICATE, "it has no certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        let key = key.map_err(|error| match error {
            pem::Error::NoItemsFound => {
                problem(KEY, "it has no private key that is not encrypted".to_owned())
            }
            error => problem(KEY, error.to_string()),
        })?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => problem(KEY, format!("it is not the key of {CERTIFICATE}")),
            rustls::Error::InvalidCertificate(reason) => problem(CERTIFICATE, reason.to_string()),
            error => problem(KEY, error.to_string()),
        })
    }
}

async fn read(folder: PathBuf) -> Result<Pair, Problem> {
    let failed = folder.clone();
    let read = move |file: &str| {
        let file = folder.join(file);
        std::fs::read(&file).map_err(|error| Problem { file, reason: error.to_string() })
    };
    let reading =
        tokio::task::spawn_blocking(move || Ok(Pair { certificate: read(CERTIFICATE)?, key: read(KEY)? }));
    reading.await.unwrap_or_else(|error| Err(Problem { file: failed, reason: error.to_string() }))
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().clone())
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// A certificate and its key.
    fn pair() -> Pair {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Pair { certificate: made.cert.pem().into_bytes(), key: made.signing_key.serialize_pem().into_bytes() }
    }

    fn write(folder: &Path, pair: &Pair) {
        std::fs::write(folder.join(CERTIFICATE), &pair.certificate).unwrap();
        std::fs::write(folder.join(KEY), &pair.key).unwrap();
    }

    async fn read_of(folder: &Path) -> Tls {
        Tls::read(folder.to_owned(), CertificateReads::default()).await.unwrap()
    }

    /// The certificate of new connections, in PEM.
    fn is_used(tls: &Tls, pair: &Pair) -> bool {
        let of = CertificateDer::from_pem_slice(&pair.certificate).unwrap();
        tls.current.0.read().cert == [of]
    }

    // contract: H-34c, H-34d
    #[tokio::test]
    async fn changed_pair_replaces_the_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (pair(), pair());
        write(folder.path(), &first);
        let tls = read_of(folder.path()).await;
        tls.refresh().await;
        assert!(is_used(&tls, &first));
        let half = Pair { certificate: first.certificate[..100].to_vec(), key: first.key.clone() };
        let empty = Pair { certificate: Vec::new(), key: Vec::new() };
        let mixed = Pair { certificate: second.certificate.clone(), key: first.key.clone() };
        for (number, broken) in [half, empty, mixed].iter().enumerate() {
            write(folder.path(), broken);
            tls.refresh().await;
            tls.refresh().await;
            assert!(is_used(&tls, &first));
            assert_eq!(tls.reads.errors.get(), 2 * (number as u64 + 1));
        }
        std::fs::remove_file(folder.path().join(KEY)).unwrap();
        tls.refresh().await;
        assert!(is_used(&tls, &first));
        assert_eq!((tls.reads.total.get(), tls.reads.errors.get()), (9, 7));
        write(folder.path(), &second);
        tls.refresh().await;
        assert!(is_used(&tls, &second));
        assert_eq!((tls.reads.total.get(), tls.reads.errors.get()), (10, 7));
    }

    // contract: H-34c
    #[tokio::test(start_paused = true)]
    async fn files_are_read_every_ten_seconds() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &pair());
        let tls = read_of(folder.path()).await;
        let reads = tokio::time::timeout(INTERVAL * 2 + INTERVAL / 2, tls.watch()).await;
        assert!(reads.is_err());
        assert_eq!(tls.reads.total.get(), 3);
    }

    // contract: H-34e
    #[tokio::test(start_paused = true)]
    async fn handshake_is_bounded_in_time() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &pair());
        let tls = read_of(folder.path()).await;
        let (ours, _peer) = tokio::io::duplex(1024);
        let start = Instant::now();
        let error = tls.accept(ours).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed()), (io::ErrorKind::TimedOut, HANDSHAKE));
    }
}
