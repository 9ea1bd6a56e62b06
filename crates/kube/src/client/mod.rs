//! Creates kube clients with shared connections and renewed credentials.

mod connecting;
mod copy;
mod credentials;
#[cfg(feature = "rustls-tls")]
mod dial;
mod exec;
mod normalize;
#[cfg(feature = "rustls-tls")]
mod outgoing;
pub(crate) mod pem;
#[cfg(feature = "rustls-tls")]
mod pool;
mod proxy;
pub(crate) mod redirect;
mod renewal;
#[cfg(feature = "rustls-tls")]
mod repeat;
mod requests;
pub(crate) mod span;
#[cfg(feature = "rustls-tls")]
mod tls;
mod transport;
#[cfg(feature = "rustls-tls")]
mod validity;
mod warnings;

use kube_client::client::ConfigExt;
use kube_client::{Client, Config};
use tower::Layer;

use crate::Error;
pub(crate) use connecting::is_refused;
use connecting::{CONNECT, Versions};
pub(crate) use copy::copy;
use credentials::Source;
pub use credentials::drop_credentials;
pub(crate) use normalize::normalize;
pub use normalize::parse_server;
use redirect::Redirects;
use renewal::Renewing;
pub use requests::{RequestCount, request_counts};

/// Creates a client for reflectors from a configuration.
///
/// # Connections
/// All watches share one connection if the server speaks HTTP/2 over TLS, as every kube-apiserver does; pings detect a
/// lost peer. Beyond 100 concurrent requests there is one connection for each hundred. Requests that start before there
/// is a connection wait for the first one to connect; if that fails, the next request connects. No request waits longer
/// than the connect timeout. Once the server is known to speak HTTP/1.1, connections are opened in parallel.
/// Without a connect timeout in the configuration, it is 10 s.
///
/// A request that the server certainly did not process is repeated, as in Go: the server closes a connection before it
/// (GOAWAY), or refuses its stream. kube-client's own retries, which would hide 429 and 503 responses from
/// the reflector for minutes, are disabled.
///
/// A request with the header `Upgrade`, such as those of `exec`, `attach` and `portforward`, has an HTTP/1.1 connection
/// of its own.
///
/// # Credentials
/// An exec plugin runs only if the configuration has no token, user name or client certificate, as in client-go. It runs
/// once in this call, on the calling thread, as in kube-client. After that, credentials are
/// renewed:
///
/// * On a 401, and when the plugin's `expirationTimestamp` has passed: the plugin runs again, the token file is read
///   again, the auth provider starts again, and the client certificate is read again. A request that failed with a 401
///   is then repeated once. A token or a password that is part of the configuration is not renewed.
/// * When a file with the client certificate, its key, or the CA bundle (`Config::root_cert_file`) has changed. This is
///   checked before a request, at most once per second.
///
/// A renewal starts at most once every 5 s. All requests that need it wait for the same renewal, for at most a minute,
/// and a plugin that runs for longer than five minutes is killed. If a renewal fails, a warning is logged, the old
/// credentials stay in use, and the caller receives the 401. New connections use a new client certificate or CA bundle;
/// open connections stay open until their watches have ended. Follows client-go 0.37 (`plugin/pkg/client/auth/exec`,
/// `transport/cert_rotation.go`), which closes open connections.
///
/// # Empty and incomplete fields
/// The configuration is read as client-go reads it: an empty text is an unset one, base64 may contain white space, and a
/// server without a scheme is one of plain HTTP. The user in its URL is preferred to other credentials. White space around a token from a file or a plugin is ignored. Of a
/// CA bundle, blocks that are not certificates are skipped. The token file is preferred to a token. Client
/// certificates of X.509 version 1 are sent.
///
/// # Plain HTTP
/// Without TLS, credentials are sent only to a loopback address (`127.0.0.0/8`, `::1`, `localhost`) and not through a
/// proxy. Otherwise they are dropped, and a warning is logged. client-go's clientcmd drops the credentials of a
/// kubeconfig for every address without TLS.
///
/// # Responses
/// A redirect of a GET within the same scheme, host and port is followed, up to 10 times; any other redirect is an
/// [`Error::Redirect`]. A server certificate is accepted without its CA if the CA bundle of the configuration contains
/// exactly that certificate, its name matches and it has not expired, as in Go.
///
/// A warning of the API server (header `Warning`), such as that about a deprecated version, is logged once for each text.
/// Follows controller-runtime 0.25 (`KubeAPIWarningLogger`).
///
/// # Proxies
/// Without a proxy in the configuration, `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` apply, in upper or lower case, by Go's
/// rules: `HTTP_PROXY` is for servers without TLS, and loopback addresses and those of `NO_PROXY` need no proxy. A
/// `Config` that kube-client has made of `HTTPS_PROXY` is read as one without a proxy.
///
/// The scheme of a proxy is `http`, `https` or `socks5`; the user in its URL is sent to it. Connections through a proxy are
/// like others. An HTTP proxy opens a tunnel to a server with TLS, and forwards the requests to a server without TLS. A
/// proxy with TLS is verified as the server is, by its own name, and receives the same client certificate. Follows Go
/// 1.26 (`net/http`).
///
/// Without the feature `rustls-tls`, connections are like those of [`client_http1`] and opened by kube-client, which does
/// not accept server certificates that are their own CA, and needs its own features for proxies.
///
/// # Spans
/// Each request is a span `request` (DEBUG) in the caller's span, from its call to the head of its response, with its
/// repetitions. So the requests of a reconciliation are in its trace. Without a subscriber it costs a comparison.
///
/// # Other clients
/// A [`Client`] from [`Client::try_from`] works with the sources and informers of this workspace, but has none of these
/// features: only requests of lists and watches are spans, an exec plugin that returns no expiry is never run again, client certificates are never read again, each
/// watch has a connection of its own without configured windows and pings, redirects are errors, and its retries hide a
/// busy server.
///
/// # Errors
/// [`Error::Config`] if a field of the configuration is invalid. [`Error::Client`] if certificates or credentials are
/// invalid for another reason. [`Error::ExecPlugin`] if the plugin failed.
///
/// # Panics
/// Panics outside a tokio runtime, as kube-client does.
pub fn client(config: Config) -> Result<Client, Error> {
    build(config, Versions::All)
}

/// As [`client`], with one HTTP/1.1 connection per watch, as in kube-client: for servers or proxies with broken HTTP/2
/// support.
///
/// # Errors
/// As [`client`].
///
/// # Panics
/// As [`client`].
pub fn client_http1(config: Config) -> Result<Client, Error> {
    build(config, Versions::Http1)
}

/// Whether a client of this configuration would send credentials: over TLS, or to a loopback address without a proxy.
/// See "Plain HTTP" at [`client`].
pub fn sends_credentials(config: &Config) -> bool {
    credentials::may_be_sent(config)
}

fn build(mut config: Config, versions: Versions) -> Result<Client, Error> {
    normalize(&mut config)?;
    config.proxy_url = proxy::of(&config)?;
    config.default_retry = false;
    config.connect_timeout.get_or_insert(CONNECT);
    credentials::drop_without_tls(&mut config);
    let base = config.base_uri_layer();
    let namespace = config.default_namespace.clone();
    let renewing = Renewing::new(Source::new(config, versions))?;
    Ok(Client::new(base.layer(Redirects::new(renewing)), namespace))
}
