//! Credentials and their sources.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Request, Response, Uri, header};
use jiff::Timestamp;
use kinformer_core::BoxError;
use kinformer_core::internal::contain;
use kube_client::Config;
use kube_client::client::{Body, ConfigExt};
use kube_client::config::{AuthInfo, ExecConfig};
use secrecy::ExposeSecret;
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, ServiceExt};

use super::connecting::Versions;
use super::exec::{self, Issued, Process};
use super::proxy;
use super::transport::{AnswerBody, Transport};
use crate::Error;

/// The time after which a token file is read again, as in client-go.
const TOKEN_FILE_INTERVAL: Duration = Duration::from_secs(50);

/// The source of credentials.
pub(super) struct Source {
    /// The configuration without the plugin.
    config: Config,
    plugin: Option<ExecConfig>,
    versions: Versions,
    /// Whether the configuration can result in other credentials later.
    pub(super) renewable: bool,
}

/// One generation of credentials, with the service that sends requests with them.
pub(super) struct Generation {
    token: Option<String>,
    service: BoxCloneSyncService<Request<Body>, Response<AnswerBody>, BoxError>,
    transport: Transport,
    identity: Identity,
    expires: Option<Instant>,
}

/// The identity of a connection: a change requires new connections.
#[derive(PartialEq, Eq)]
struct Identity {
    plugin: Option<(String, String)>,
    files: Files,
}

/// Modification times and sizes of files.
#[derive(PartialEq, Eq)]
struct Files(Vec<(PathBuf, Option<(SystemTime, u64)>)>);

impl Source {
    pub(super) fn new(mut config: Config, versions: Versions) -> Self {
        let plugin = config.auth_info.exec.take();
        let auth = &config.auth_info;
        // client-go prefers these credentials to a plugin.
        let fixed = auth.token.is_some()
            || auth.token_file.is_some()
            || auth.username.is_some()
            || auth.client_certificate.is_some()
            || auth.client_certificate_data.is_some();
        let plugin = plugin.filter(|_| !fixed && auth.auth_provider.is_none());
        let mut source = Self { config, plugin, versions, renewable: false };
        let auth = &source.config.auth_info;
        let changes =
            source.plugin.is_some() || auth.auth_provider.is_some() || source.token_file().is_some();
        source.renewable = changes || !source.files().0.is_empty();
        source
    }

    fn token_file(&self) -> Option<&str> {
        let auth = &self.config.auth_info;
        auth.token_file.as_deref().filter(|_| auth.username.is_none() && auth.auth_provider.is_none())
    }

    /// Creates new credentials. Reuses the connections of the previous ones if their identity is equal. Blocks while a
    /// plugin runs.
    ///
    /// # Errors
    /// [`Error::Client`] if credentials or certificates are invalid, [`Error::ExecPlugin`] if the plugin failed.
    pub(super) fn make(&self, before: Option<&Generation>, process: &Process) -> Result<Generation, Error> {
        let issued = match &self.plugin {
            Some(plugin) => exec::run(plugin, process)?,
            None => Issued::default(),
        };
        self.assemble(issued, before).map_err(|source| match source.downcast() {
            Ok(ours) => *ours,
            Err(source) => Error::Client { source },
        })
    }

    /// Returns the token of the plugin, of the token file, or of the configuration. If the file cannot be read, the
    /// last token stays in use.
    fn token(&self, issued: Option<String>, before: Option<&Generation>) -> Result<Option<String>, Error> {
        let (field, token) = match (issued, self.token_file()) {
            (Some(issued), _) => ("token of the exec plugin", issued),
            (None, Some(path)) => match (read_token(path), before.and_then(|before| before.token.clone())) {
                (Ok(token), _) | (Err(_), Some(token)) => ("tokenFile", token),
                (Err(problem), None) => match &self.config.auth_info.token {
                    Some(token) => ("token", token.expose_secret().to_owned()),
                    None => return Err(Error::Config { field: "tokenFile", problem }),
                },
            },
            (None, None) => match &self.config.auth_info.token {
                Some(token) => ("token", token.expose_secret().to_owned()),
                None => return Ok(None),
            },
        };
        // The check of kube-client, which panics.
        if HeaderValue::from_bytes(token.as_bytes()).is_err() {
            let problem = "has a character that is not allowed in an HTTP header".into();
            return Err(Error::Config { field, problem });
        }
        Ok(Some(token))
    }

    fn assemble(&self, issued: Issued, before: Option<&Generation>) -> Result<Generation, BoxError> {
        let token = self.token(issued.token, before)?;
        let mut config = self.config.clone();
        config.auth_info.token = token.clone().map(Into::into);
        config.auth_info.token_file = None;
        if let Some((certificate, key)) = &issued.certificate {
            config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
            config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
        }
        // Taken before the files are read, so that a change during the read is detected later.
        let identity = Identity { plugin: issued.certificate, files: self.files() };
        #[cfg(feature = "rustls-tls")]
        if let Some(path) = config.root_cert_file.take() {
            let pem = std::fs::read(&path);
            let pem =
                pem.map_err(|error| format!("cannot read the CA bundle {}: {error}", path.display()))?;
            let certificates = super::pem::certificates(&pem);
            // A file that is being written: the last credentials stay in use.
            if certificates.is_empty() {
                return Err(format!("the CA bundle {} has no certificate", path.display()).into());
            }
            config.root_cert = Some(certificates);
        }
        let transport = match before {
            Some(before) if before.identity == identity => before.transport.clone(),
            _ => Transport::new(&config, self.versions)?,
        };
        // kube-client panics if the token of an auth provider is not valid in a header.
        let authorization = contain(|| config.auth_layer()).map_err(|panic| {
            let problem = format!("issued a token that cannot be sent: {panic}");
            Error::Config { field: "auth-provider", problem }
        })??;
        let stack = ServiceBuilder::new()
            .option_layer(authorization)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(transport.clone());
        let left = match issued.expires {
            Some(at) => Some(Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default()),
            None => self.token_file().map(|_| TOKEN_FILE_INTERVAL),
        };
        // An expiry beyond the range of `Instant` never comes.
        let expires = left.map(|left| Instant::now().checked_add(left));
        Ok(Generation {
            token,
            service: BoxCloneSyncService::new(stack),
            transport,
            identity,
            expires: expires.flatten(),
        })
    }

    /// Returns the state of the files that connections depend on.
    fn files(&self) -> Files {
        let auth = &self.config.auth_info;
        let file = |data: bool, path: &Option<String>| path.clone().filter(|_| !data).map(PathBuf::from);
        let paths = [
            file(auth.client_certificate_data.is_some(), &auth.client_certificate),
            file(auth.client_key_data.is_some(), &auth.client_key),
            self.config.root_cert_file.clone().filter(|_| cfg!(feature = "rustls-tls")),
        ];
        let states = paths.into_iter().flatten().map(|path| {
            let found = std::fs::metadata(&path).and_then(|found| Ok((found.modified()?, found.len())));
            (path, found.ok())
        });
        Files(states.collect())
    }

    /// Whether a file has changed since these credentials were created.
    pub(super) fn has_changed(&self, since: &Generation) -> bool {
        !since.identity.files.0.is_empty() && self.files() != since.identity.files
    }
}

impl Generation {
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        self.service.clone().oneshot(request).await
    }

    pub(super) fn has_expired(&self) -> bool {
        self.expires.is_some_and(|at| at <= Instant::now())
    }
}

/// Reads a token file. White space around the token is ignored.
///
/// # Errors
/// The problem; completes a sentence about the file.
fn read_token(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path:?} cannot be read: {error}"))?;
    match text.trim() {
        "" => Err(format!("{path:?} is empty")),
        token => Ok(token.to_owned()),
    }
}

/// Whether credentials stay secret in transit: over TLS, or to a loopback address without a proxy.
pub(super) fn may_be_sent(config: &Config) -> bool {
    let is_direct = || matches!(proxy::of(config), Ok(None));
    config.cluster_url.scheme_str() == Some("https") || is_loopback(&config.cluster_url) && is_direct()
}

/// Drops credentials that would be sent in plain text to another machine.
pub(super) fn drop_without_tls(config: &mut Config) {
    if !may_be_sent(config) {
        drop_credentials(config);
    }
}

/// Drops the credentials of a configuration, and logs a warning if there were any. Impersonation is kept: it is not
/// secret, and requests without it might be granted more.
pub fn drop_credentials(config: &mut Config) {
    let before = std::mem::take(&mut config.auth_info);
    let secret = before.username.is_some()
        || before.password.is_some()
        || before.token.is_some()
        || before.token_file.is_some()
        || before.client_certificate.is_some()
        || before.client_certificate_data.is_some()
        || before.auth_provider.is_some()
        || before.exec.is_some();
    config.auth_info = AuthInfo {
        impersonate: before.impersonate,
        impersonate_uid: before.impersonate_uid,
        impersonate_groups: before.impersonate_groups,
        impersonate_user_extra: before.impersonate_user_extra,
        ..AuthInfo::default()
    };
    let headers = config.headers.len();
    config.headers.retain(|(name, _)| name != header::AUTHORIZATION && name != header::COOKIE);
    if secret || config.headers.len() < headers {
        let server = config.cluster_url.host().unwrap_or_default();
        tracing::warn!(server, "credentials are not sent without TLS; use https");
    }
}

/// Whether the host of a URL is a loopback address.
fn is_loopback(url: &Uri) -> bool {
    let Some(host) = url.host() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host.eq_ignore_ascii_case("localhost"), |address| address.to_canonical().is_loopback())
}
