//! Selects the cluster and builds a client for it.

use std::future::Future;
use std::time::Duration;

use kinformer::{ClientError, Kubeconfig};
use kinformer_core::internal::with_causes;
use kube_client::config::AuthInfo;
use kube_client::{Client, Config};

use crate::args::{ClusterArgs, ScopeArgs};
use crate::embedded::Embedded;
use crate::exit::Error;
use crate::namespaces::Namespaces;
use crate::plain_http;
use crate::token::TokenSource;

/// A cluster to connect to.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The URL of the cluster, for messages.
    pub(crate) server: String,
    /// The namespace to use when none is given; `None` for all.
    default_namespace: Option<String>,
    /// How long a request may take; `None` for no limit.
    pub(crate) request_timeout: Option<Duration>,
    /// The embedded server, if any; kept alive with the connection.
    pub(crate) embedded: Option<Embedded>,
}

impl Connection {
    /// Selects the cluster as kubectl does, or starts the embedded one. Sends no request.
    ///
    /// # Errors
    /// [`Error::Usage`], [`Error::NoCluster`], [`Error::Config`], [`Error::NoCredentials`], [`Error::Embedded`].
    pub(crate) async fn open(args: &ClusterArgs) -> Result<Self, Error> {
        let embedded = if args.embedded { Some(Embedded::start(1).await?) } else { None };
        let config = match &embedded {
            Some(embedded) => embedded.server().config()?,
            None => config(args)?,
        };
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        // The `default` namespace of the embedded cluster is empty.
        let default_namespace = embedded.is_none().then(|| config.default_namespace.clone());
        let client =
            if without_http2() { kinformer::client_http1(config) } else { kinformer::client(config) };
        let client = client.map_err(|error| match error {
            error @ ClientError::ExecPlugin { .. } => Error::NoCredentials(error.to_string()),
            error => Error::Config { what: server.clone(), reason: with_causes(&error) },
        })?;
        let request_timeout = args.request_timeout.filter(|timeout| !timeout.is_zero());
        Ok(Self { client, server, default_namespace, request_timeout, embedded })
    }

    /// Returns the namespaces to read.
    pub(crate) fn namespaces(&self, scope: &ScopeArgs) -> Namespaces {
        Namespaces::of(scope, self.default_namespace.as_deref())
    }

    /// Waits for requests within the time that the command line allows, or else the given one.
    ///
    /// # Errors
    /// The error of the requests, or [`Error::Timeout`], which says what was requested.
    pub(crate) async fn in_time<T>(
        &self,
        otherwise: Option<Duration>,
        what: &str,
        requests: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(limit) = self.request_timeout.or(otherwise) else { return requests.await };
        tokio::time::timeout(limit, requests).await.unwrap_or_else(|_| {
            let limit = humantime::format_duration(limit);
            Err(Error::Timeout(format!("{} did not answer {what} in {limit}", self.server)))
        })
    }

    /// Shuts down the embedded server, if there is one.
    pub(crate) async fn close(self) {
        if let Some(embedded) = self.embedded {
            embedded.shutdown().await;
        }
    }
}

/// kubectl's switch for servers or proxies with broken HTTP/2 support.
fn without_http2() -> bool {
    std::env::var_os("DISABLE_HTTP2").is_some_and(|value| !value.is_empty())
}

fn config(args: &ClusterArgs) -> Result<Config, Error> {
    let mut config = match kubeconfig(args)? {
        Some(kubeconfig) => of_kubeconfig(&kubeconfig, args)?,
        None if args.server.is_some() => Config::new(http::Uri::default()),
        None => in_cluster()?,
    };
    if let Some(server) = &args.server {
        plain_http::use_server(&mut config, url(server)?);
    }
    plain_http::drop_credentials(&mut config);
    if let Some(given) = args.token.resolve()? {
        let (token, token_file) = readable(&given);
        // The given token replaces all credentials of the kubeconfig but the client certificate, as with kubectl. The
        // user to impersonate stays.
        let before = std::mem::take(&mut config.auth_info);
        config.auth_info = AuthInfo {
            token: token.map(Into::into),
            token_file,
            client_certificate: before.client_certificate,
            client_certificate_data: before.client_certificate_data,
            client_key: before.client_key,
            client_key_data: before.client_key_data,
            impersonate: before.impersonate,
            impersonate_uid: before.impersonate_uid,
            impersonate_groups: before.impersonate_groups,
            impersonate_user_extra: before.impersonate_user_extra,
            ..AuthInfo::default()
        };
    }
    impersonate(&mut config, args)?;
    verify_with(&mut config, args)?;
    if args.insecure_skip_tls_verify {
        config.accept_invalid_certs = true;
        config.root_cert = None;
        config.root_cert_file = None;
    }
    plain_http::check_token(&config)?;
    Ok(config)
}

/// Adds the user and groups to impersonate. Each flag replaces a field of the kubeconfig.
///
/// # Errors
/// [`Error::Usage`]: a group or a UID is given, and no user is.
fn impersonate(config: &mut Config, args: &ClusterArgs) -> Result<(), Error> {
    let auth = &mut config.auth_info;
    if let Some(user) = &args.impersonate {
        auth.impersonate = Some(user.clone());
    }
    if let Some(uid) = &args.impersonate_uid {
        auth.impersonate_uid = Some(uid.clone());
    }
    if !args.impersonate_groups.is_empty() {
        auth.impersonate_groups = Some(args.impersonate_groups.clone());
    }
    let given = args.impersonate_uid.is_some() || !args.impersonate_groups.is_empty();
    match given && auth.impersonate.is_none() {
        true => Err(Error::Usage("--as-group and --as-uid need a user: --as".into())),
        false => Ok(()),
    }
}

/// Sets what the server's certificate is verified with.
///
/// # Errors
/// [`Error::Config`]: the file cannot be read, or has no certificate.
fn verify_with(config: &mut Config, args: &ClusterArgs) -> Result<(), Error> {
    if let Some(name) = &args.tls_server_name {
        config.tls_server_name = Some(name.clone());
    }
    if let Some(timeout) = args.request_timeout.filter(|timeout| !timeout.is_zero()) {
        config.connect_timeout = Some(timeout);
    }
    let Some(path) = &args.certificate_authority else { return Ok(()) };
    let what = || format!("--certificate-authority {}", path.display());
    let failed = |reason: String| Error::Config { what: what(), reason };
    let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let certificates = kinformer::certificates(&text);
    if certificates.is_empty() {
        return Err(failed("it has no certificate".into()));
    }
    config.root_cert = Some(certificates);
    config.root_cert_file = Some(path.clone());
    config.accept_invalid_certs = false;
    Ok(())
}

/// Returns the token, or the path of the token file, which the client rereads. A path that is not UTF-8 is read once.
fn readable(given: &TokenSource) -> (Option<String>, Option<String>) {
    if let TokenSource::File(path, _) = given
        && let Some(file) = path.to_str()
    {
        return (None, Some(file.to_owned()));
    }
    (Some(given.token().secret().to_owned()), None)
}

fn url(server: &str) -> Result<http::Uri, Error> {
    kinformer::parse_server(server).map_err(|error| Error::Config {
        what: format!("--server {server}"),
        reason: match error {
            ClientError::Config { problem, .. } => problem,
            error => error.to_string(),
        },
    })
}

/// Reads the kubeconfig that is given or found in its usual places. An empty file, which some tools leave behind, names
/// no cluster.
///
/// # Errors
/// [`Error::Usage`], [`Error::Config`].
pub(crate) fn kubeconfig(args: &ClusterArgs) -> Result<Option<Kubeconfig>, Error> {
    let read = match &args.kubeconfig {
        Some(path) if !path.exists() => {
            return Err(Error::Usage(format!("--kubeconfig {}: there is no such file", path.display())));
        }
        Some(path) => Kubeconfig::read_from(path).map(Some),
        None => Kubeconfig::read(),
    };
    let names_an_entry = args.context.is_some() || args.cluster.is_some() || args.user.is_some();
    match read {
        Ok(kubeconfig) => Ok(kubeconfig.filter(|kubeconfig| !kubeconfig.is_empty() || names_an_entry)),
        Err(ClientError::Kubeconfig { origin, reason }) => Err(Error::Config { what: origin, reason }),
        Err(error) => Err(Error::Config { what: "the kubeconfig".into(), reason: with_causes(&error) }),
    }
}

fn of_kubeconfig(kubeconfig: &Kubeconfig, args: &ClusterArgs) -> Result<Config, Error> {
    check_names(kubeconfig, args)?;
    let no_context = args.context.is_none() && kubeconfig.current_context().is_none();
    if no_context && args.server.is_some() && args.cluster.is_none() {
        return Ok(Config::new(http::Uri::default()));
    }
    let mut chosen = kubeconfig.clone();
    if let Some(cluster) = &args.cluster {
        chosen = chosen.with_cluster(cluster);
    }
    if let Some(user) = &args.user {
        chosen = chosen.with_user(user);
    }
    chosen.config(args.context.as_deref()).map_err(|error| {
        let reason = match error {
            ClientError::Kubeconfig { reason, .. } if no_context => {
                format!("{reason}; name one by --context")
            }
            ClientError::Kubeconfig { reason, .. } => reason,
            error => error.to_string(),
        };
        Error::Config { what: kubeconfig.origin().to_owned(), reason }
    })
}

/// Checks that the kubeconfig has the entries that the command line names.
///
/// # Errors
/// [`Error::Usage`].
fn check_names(kubeconfig: &Kubeconfig, args: &ClusterArgs) -> Result<(), Error> {
    let known: [(&str, &Option<String>, Vec<&str>); 3] = [
        ("context", &args.context, kubeconfig.contexts().collect()),
        ("cluster", &args.cluster, kubeconfig.clusters().collect()),
        ("user", &args.user, kubeconfig.users().collect()),
    ];
    for (what, given, known) in known {
        let Some(name) = given.as_deref().filter(|name| !known.contains(name)) else { continue };
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let origin = kubeconfig.origin();
        return Err(Error::Usage(format!("{origin}: it has no {what} {name:?}, only {known}")));
    }
    Ok(())
}

fn in_cluster() -> Result<Config, Error> {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none_or(|host| host.is_empty()) {
        return Err(Error::NoCluster);
    }
    Config::incluster().map_err(|error| Error::Config {
        what: "the in-cluster configuration".into(),
        reason: with_causes(&error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_urls_need_no_scheme() {
        assert_eq!(url("localhost:8080").expect("good").to_string(), "http://localhost:8080/");
        assert_eq!(url("https://a.example").expect("good").scheme_str(), Some("https"));
        for bad in ["ftp://a", "http://", "a b", ""] {
            assert_eq!(url(bad).expect_err(bad).code(), 1, "{bad}");
        }
    }
}
