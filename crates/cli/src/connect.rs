//! Selects the cluster and builds a client for it.

use std::path::{Path, PathBuf};

use kinformer_core::internal::with_causes;
use kube_client::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
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
            None => config(args).await?,
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

async fn config(args: &ConnectionArgs) -> Result<Config, Error> {
    let mut config = match kubeconfig(args)? {
        Some((kubeconfig, from)) => of_kubeconfig(kubeconfig, &from, args).await?,
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

/// Returns the token, or a token file that the client rereads. kube-client rereads a file only if it holds nothing
/// but the token and its path is valid UTF-8; any other file is read once.
fn readable(given: &TokenSource) -> (Option<String>, Option<String>) {
    let token = given.token().secret();
    if let TokenSource::File(path, _) = given
        && let Some(file) = path.to_str()
        && std::fs::read(path).is_ok_and(|bytes| bytes == token.as_bytes())
    {
        return (None, Some(file.to_owned()));
    }
    (Some(token.to_owned()), None)
}

/// Completes a URL without a scheme, such as `localhost:8080`, as kubectl does.
fn url(server: &str) -> Result<http::Uri, Error> {
    let absolute = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let failed = |reason: String| Error::Config { what: format!("--server {server}"), reason };
    let url: http::Uri =
        absolute.parse().map_err(|error: http::uri::InvalidUri| failed(error.to_string()))?;
    match url.scheme_str() {
        Some("http" | "https") if url.host().is_some_and(|host| !host.is_empty()) => Ok(url),
        _ => Err(failed("expected http:// or https:// and a host".into())),
    }
}

/// Loads the kubeconfig that is given or found in its usual places, and returns it with its origin. Files of
/// `KUBECONFIG` that do not exist are skipped, as by kubectl.
fn kubeconfig(args: &ConnectionArgs) -> Result<Option<(Kubeconfig, String)>, Error> {
    if let Some(path) = &args.kubeconfig {
        return read(path).map(Some);
    }
    let named = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let paths: Vec<_> = match &named {
        Some(value) => std::env::split_paths(value).collect(),
        None => std::env::home_dir().map(|home| home.join(".kube").join("config")).into_iter().collect(),
    };
    let mut merged: Option<(Kubeconfig, String)> = None;
    for path in paths.iter().filter(|path| path.is_file()) {
        let (next, from) = read(path)?;
        merged = Some(match merged {
            None => (next, from),
            Some((before, _)) => {
                let both = before.merge(next).map_err(|error| unusable("KUBECONFIG", &error))?;
                (both, "KUBECONFIG".to_owned())
            }
        });
    }
    // An empty file, which some tools leave behind, names no cluster.
    let names_none = |config: &Kubeconfig| {
        config.current_context.is_none() && config.contexts.is_empty() && args.context.is_none()
    };
    Ok(merged.filter(|(config, _)| !names_none(config)))
}

fn read(path: &Path) -> Result<(Kubeconfig, String), Error> {
    let from = path.display().to_string();
    let config = Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::ReadConfig(source, _) => {
            Error::Config { what: format!("kubeconfig {from}"), reason: source.to_string() }
        }
        error => unusable(&format!("kubeconfig {from}"), &error),
    })?;
    Ok((config, format!("kubeconfig {from}")))
}

async fn of_kubeconfig(kubeconfig: Kubeconfig, from: &str, args: &ConnectionArgs) -> Result<Config, Error> {
    let known: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let current = kubeconfig.current_context.as_deref().filter(|name| !name.is_empty());
    match args.context.as_deref().or(current) {
        None if args.server.is_some() => return Ok(Config::new(http::Uri::default())),
        None => {
            let reason = format!("it has no current context; name one of {} by --context", listed(&known));
            return Err(Error::Config { what: from.to_owned(), reason });
        }
        Some(name) if !known.iter().any(|known| known == name) => {
            let reason = format!("it has no context {name:?}, only {}", listed(&known));
            return Err(Error::Config { what: from.to_owned(), reason });
        }
        Some(_) => {}
    }
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let ca_file = ca_file(&kubeconfig, args.context.as_deref().or(current));
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| unusable(from, &error))?;
    config.root_cert_file = ca_file;
    Ok(config)
}

/// The CA file of a context's cluster; the client rereads it when it changes.
fn ca_file(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<PathBuf> {
    let context = kubeconfig.contexts.iter().find(|named| Some(named.name.as_str()) == context)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == *name)?.cluster.as_ref()?;
    let inline = cluster.certificate_authority_data.as_ref().is_some_and(|data| !data.is_empty());
    cluster.certificate_authority.as_ref().filter(|file| !inline && !file.is_empty()).map(PathBuf::from)
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn unusable(what: &str, error: &KubeconfigError) -> Error {
    // The first line has the error and its position. The following lines quote the file, including its credentials.
    let reason = with_causes(error).lines().next().unwrap_or_default().to_owned();
    Error::Config { what: what.to_owned(), reason }
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
