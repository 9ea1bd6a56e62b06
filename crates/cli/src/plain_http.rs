//! Rules for credentials without TLS and for a server other than the kubeconfig's.

use kube_client::Config;

use crate::exit::Error;

/// Connects to another server than the kubeconfig names. As with kubectl, the user's credentials are kept and the
/// expected name in the server's certificate is not.
pub(crate) fn use_server(config: &mut Config, url: http::Uri) {
    config.cluster_url = url;
    config.tls_server_name = None;
    if let Some(cluster) = config.auth_info.exec.as_mut().and_then(|exec| exec.cluster.as_mut()) {
        cluster.server = Some(config.cluster_url.to_string());
        cluster.tls_server_name = None;
    }
}

/// Drops kubeconfig credentials if the connection has no TLS, even on loopback. Follows client-go 0.37
/// (`clientcmd.DirectClientConfig.ClientConfig`).
pub(crate) fn drop_credentials(config: &mut Config) {
    if config.cluster_url.scheme_str() != Some("https") {
        kinformer::drop_credentials(config);
    }
}

/// Checks that a token from a flag, a file or the environment is sent without TLS only within this machine.
///
/// # Errors
/// [`Error::Config`]: the token would be sent to another machine in plain text.
pub(crate) fn check_token(config: &Config) -> Result<(), Error> {
    let has_token = config.auth_info.token.is_some() || config.auth_info.token_file.is_some();
    if has_token && !kinformer::sends_credentials(config) {
        let reason = format!("a token is not sent without TLS to {}; use https", config.cluster_url);
        return Err(Error::Config { what: "the token".into(), reason });
    }
    Ok(())
}
