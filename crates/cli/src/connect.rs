//! Which cluster is meant, and a client for it.

use std::path::{Path, PathBuf};

use kinformer_core::internal::with_causes;
use kube_client::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube_client::{Client, Config};

use crate::args::{ConnectionArgs, ScopeArgs};
use crate::embedded::Embedded;
use crate::exit::Error;
use crate::plain_http;
use crate::token::Given;

/// A cluster to talk to.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// Its URL, for messages.
    pub(crate) server: String,
    /// The namespace that is meant when none is named; `None` for all.
    default_namespace: Option<String>,
    /// Kept alive as long as it is used.
    pub(crate) embedded: Option<Embedded>,
}

impl Connection {
    /// Finds the cluster as kubectl does, or starts one. Sends no request.
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
        // Nothing lives in the embedded cluster's `default`.
        let default_namespace = embedded.is_none().then(|| config.default_namespace.clone());
        let client =
            if without_http2() { kinformer::client_http1(config) } else { kinformer::client(config) };
        let client =
            client.map_err(|error| Error::Config { what: server.clone(), reason: with_causes(&error) })?;
        Ok(Self { client, server, default_namespace, embedded })
    }

    /// The namespace that is meant; `None` for all.
    pub(crate) fn namespace(&self, scope: &ScopeArgs) -> Option<String> {
        if scope.all_namespaces {
            return None;
        }
        scope.namespace.clone().or_else(|| self.default_namespace.clone())
    }

    /// Ends the embedded server, if there is one.
    pub(crate) async fn close(self) {
        if let Some(embedded) = self.embedded {
            embedded.shutdown().await;
        }
    }
}

/// As kubectl is told: for a server, or something before it, whose HTTP/2 is no good.
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
    if let Some(given) = args.token.given()? {
        let (token, token_file) = readable(&given);
        // Nothing else of the kubeconfig may speak for the user now; its certificate stays, as with kubectl.
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

/// A token, or the file that it is read from again and again. kube-client takes such a file only if there is nothing
/// around the token and its path is text; any other is read once.
fn readable(given: &Given) -> (Option<String>, Option<String>) {
    let token = given.token().secret();
    if let Given::File(path, _) = given
        && let Some(file) = path.to_str()
        && std::fs::read(path).is_ok_and(|bytes| bytes == token.as_bytes())
    {
        return (None, Some(file.to_owned()));
    }
    (Some(token.to_owned()), None)
}

/// `localhost:8080` is a URL to kubectl, and so it is here.
fn url(server: &str) -> Result<http::Uri, Error> {
    let whole = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let failed = |reason: String| Error::Config { what: format!("--server {server}"), reason };
    let url: http::Uri = whole.parse().map_err(|error: http::uri::InvalidUri| failed(error.to_string()))?;
    match url.scheme_str() {
        Some("http" | "https") if url.host().is_some_and(|host| !host.is_empty()) => Ok(url),
        _ => Err(failed("expected http:// or https:// and a host".into())),
    }
}

/// The kubeconfig that is named, or found in its usual places, and where it comes from. Files that `KUBECONFIG`
/// names and that do not exist are passed over, as by kubectl.
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
    // An empty file, which some tools leave, names no cluster.
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

/// The file with the CA bundle of a context's cluster, which is read again when it changes.
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
    // The first line says what is wrong and where; what follows quotes the file, with the credentials in it.
    let reason = with_causes(error).lines().next().unwrap_or_default().to_owned();
    Error::Config { what: what.to_owned(), reason }
}

fn in_cluster() -> Result<Config, Error> {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none_or(|host| host.is_empty()) {
        return Err(Error::NoCluster);
    }
    Config::incluster().map_err(|error| Error::Config {
        what: "the cluster this runs in".into(),
        reason: with_causes(&error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_may_be_named_without_a_scheme() {
        assert_eq!(url("localhost:8080").expect("good").to_string(), "http://localhost:8080/");
        assert_eq!(url("https://a.example").expect("good").scheme_str(), Some("https"));
        for bad in ["ftp://a", "http://", "a b", ""] {
            assert_eq!(url(bad).expect_err(bad).code(), 1, "{bad}");
        }
    }
}
