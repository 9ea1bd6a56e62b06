//! Selects the cluster and builds a client for it.

use kinformer::{ClientError, Kubeconfig};
use kinformer_core::internal::with_causes;
use kube_client::config::AuthInfo;
use kube_client::{Client, Config};

use crate::args::{ConnectionArgs, ScopeArgs};
use crate::embedded::Embedded;
use crate::exit::Error;
use crate::plain_http;
use crate::token::TokenSource;

/// A cluster to connect to.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The URL of the cluster, for messages.
    pub(crate) server: String,
    /// The namespace to use when none is given; `None` for all.
    default_namespace: Option<String>,
    /// The embedded server, if any; kept alive with the connection.
    pub(crate) embedded: Option<Embedded>,
}

impl Connection {
    /// Selects the cluster as kubectl does, or starts the embedded one. Sends no request.
    ///
    /// # Errors
    /// [`Error::NoCluster`], [`Error::Config`], [`Error::Embedded`].
    pub(crate) async fn open(args: &ConnectionArgs) -> Result<Self, Error> {
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
        let client =
            client.map_err(|error| Error::Config { what: server.clone(), reason: with_causes(&error) })?;
        Ok(Self { client, server, default_namespace, embedded })
    }

    /// Returns the namespace to read; `None` for all.
    pub(crate) fn namespace(&self, scope: &ScopeArgs) -> Option<String> {
        if scope.all_namespaces {
            return None;
        }
        scope.namespace.clone().or_else(|| self.default_namespace.clone())
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

fn config(args: &ConnectionArgs) -> Result<Config, Error> {
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
        // The given token replaces all credentials of the kubeconfig but the client certificate, as with kubectl.
        let before = std::mem::take(&mut config.auth_info);
        config.auth_info = AuthInfo {
            token: token.map(Into::into),
            token_file,
            client_certificate: before.client_certificate,
            client_certificate_data: before.client_certificate_data,
            client_key: before.client_key,
            client_key_data: before.client_key_data,
            ..AuthInfo::default()
        };
    }
    if args.insecure_skip_tls_verify {
        config.accept_invalid_certs = true;
        config.root_cert = None;
        config.root_cert_file = None;
    }
    plain_http::check_token(&config)?;
    Ok(config)
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
fn kubeconfig(args: &ConnectionArgs) -> Result<Option<Kubeconfig>, Error> {
    let read = match &args.kubeconfig {
        Some(path) => Kubeconfig::read_from(path).map(Some),
        None => Kubeconfig::read(),
    };
    match read {
        Ok(kubeconfig) => {
            Ok(kubeconfig.filter(|kubeconfig| !kubeconfig.is_empty() || args.context.is_some()))
        }
        Err(ClientError::Kubeconfig { origin, reason }) => Err(Error::Config { what: origin, reason }),
        Err(error) => Err(Error::Config { what: "the kubeconfig".into(), reason: with_causes(&error) }),
    }
}

fn of_kubeconfig(kubeconfig: &Kubeconfig, args: &ConnectionArgs) -> Result<Config, Error> {
    let no_context = args.context.is_none() && kubeconfig.current_context().is_none();
    if no_context && args.server.is_some() {
        return Ok(Config::new(http::Uri::default()));
    }
    kubeconfig.config(args.context.as_deref()).map_err(|error| {
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
