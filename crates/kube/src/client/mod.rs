//! The client.

mod connecting;
mod credentials;
mod exec;
#[cfg(feature = "rustls-tls")]
mod pool;
pub(crate) mod redirect;
mod renewal;
#[cfg(feature = "rustls-tls")]
mod tls;
mod transport;
#[cfg(feature = "rustls-tls")]
mod validity;

use kube_client::client::ConfigExt;
use kube_client::{Client, Config};
use tower::Layer;

use crate::Error;
use connecting::{CONNECT, Versions};
use credentials::Source;
pub use credentials::drop_credentials;
use redirect::Redirects;
use renewal::Renewing;

/// A client for reflectors, of any configuration.
///
/// # Connections
/// All its watches share one connection where the server speaks HTTP/2 over TLS, as every kube-apiserver does; pings
/// notice a peer that is gone. Beyond 100 requests at a time there is one connection for each hundred. Requests that
/// begin where there is no connection yet wait for the first of them to connect; where it fails, the next one tries.
/// None waits for longer than connecting may take, and with HTTP/1.1 they connect side by side once that is known.
/// kube-client's own retries are switched off, which would hide 429 and 503 answers from the reflector for minutes, and
/// connecting takes 10 s at most where the configuration has no limit.
///
/// # Credentials
/// An exec plugin runs once here, on the calling thread, as in kube-client. From then on credentials are renewed:
///
/// * On a 401, and when the plugin's `expirationTimestamp` has passed, the plugin runs again, the token file is read
///   again, the auth provider starts again, and the client certificate is read again. A request that was answered
///   with a 401 is then repeated once. A token or a password that is part of the configuration is not renewed.
/// * When a file with the client certificate, its key, or the CA bundle (`Config::root_cert_file`) has changed, which
///   is checked at most once in a second, before a request.
///
/// A renewal starts at most once in 5 s. All requests that need it wait for the same one, for at most a minute, and a
/// plugin that runs for longer than five minutes is killed. Where it fails, a warning is logged, the old credentials
/// stay, and the caller receives the 401. New connections use a new client certificate or CA bundle; those that are open
/// stay open until their watches have ended. Follows client-go 1.37 (`plugin/pkg/client/auth/exec`,
/// `transport/cert_rotation.go`), which closes them.
///
/// # Plain HTTP
/// Without TLS, credentials are sent to a loopback address only (`127.0.0.0/8`, `::1`, `localhost`), and not through a
/// proxy. Others are dropped, and a warning is logged. client-go's clientcmd drops those of a kubeconfig for every
/// address without TLS.
///
/// # Answers
/// A redirect is followed for a GET within the same scheme, host and port, up to 10 times; any other is an
/// [`Error::Redirect`]. A server certificate that is its own CA is accepted where the CA bundle of the configuration
/// contains exactly that certificate, its name matches and it has not expired, as Go does.
///
/// # Proxies
/// With a proxy in the configuration, or without the feature `rustls-tls`, connections are those of [`client_http1`]
/// and made by kube-client, which does not accept server certificates that are their own CA.
///
/// # A client of your own
/// A [`Client`] from [`Client::try_from`] works with the sources and informers of this workspace, but has none of the
/// above: an exec plugin that returns no expiry is never run again, client certificates are never read again,
/// each watch has a connection of its own, windows and pings are not set for it, redirects are errors, and
/// its retries hide a busy server.
///
/// # Errors
/// [`Error::Client`]: certificates or credentials of the configuration do not work. [`Error::ExecPlugin`]: the plugin
/// failed.
///
/// # Panics
/// Outside a tokio runtime, as kube-client does.
pub fn client(config: Config) -> Result<Client, Error> {
    build(config, Versions::All)
}

/// As [`client`], with a connection of HTTP/1.1 for each watch, as kube-client has it: for a server or proxy with broken
/// HTTP/2 support.
///
/// # Errors
/// As [`client`].
///
/// # Panics
/// As [`client`].
pub fn client_http1(config: Config) -> Result<Client, Error> {
    build(config, Versions::Http1)
}

/// Whether a client of this configuration would send its credentials, if it has any: over TLS, or to a loopback address
/// without a proxy. See "Plain HTTP" at [`client`].
pub fn sends_credentials(config: &Config) -> bool {
    credentials::may_be_sent(config)
}

fn build(mut config: Config, versions: Versions) -> Result<Client, Error> {
    config.default_retry = false;
    config.connect_timeout.get_or_insert(CONNECT);
    credentials::drop_without_tls(&mut config);
    let base = config.base_uri_layer();
    let namespace = config.default_namespace.clone();
    let renewing = Renewing::new(Source::new(config, versions))?;
    Ok(Client::new(base.layer(Redirects::new(renewing)), namespace))
}
