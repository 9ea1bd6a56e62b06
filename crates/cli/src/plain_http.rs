//! Credentials without TLS, and those of one server at another.

use kube_client::Config;

use crate::exit::Error;

/// Talks to another server than the kubeconfig names. As with kubectl, the user stays and the name in the server's
/// certificate does not.
pub(crate) fn use_server(config: &mut Config, url: http::Uri) {
    config.cluster_url = url;
    config.tls_server_name = None;
    if let Some(cluster) = config.auth_info.exec.as_mut().and_then(|exec| exec.cluster.as_mut()) {
        cluster.server = Some(config.cluster_url.to_string());
        cluster.tls_server_name = None;
    }
}

/// Drops the credentials of a kubeconfig where there is no TLS, also on this machine. Follows client-go 1.37
/// (`clientcmd.DirectClientConfig.ClientConfig`).
pub(crate) fn drop_credentials(config: &mut Config) {
    if config.cluster_url.scheme_str() != Some("https") {
        kinformer::drop_credentials(config);
    }
}

/// A token given by hand may be sent without TLS within this machine.
///
/// # Errors
/// [`Error::Config`]: it would be sent in plain text to another machine.
pub(crate) fn check_token(config: &Config) -> Result<(), Error> {
    let has_token = config.auth_info.token.is_some() || config.auth_info.token_file.is_some();
    if has_token && !kinformer::sends_credentials(config) {
        let reason = format!("it is not sent without TLS to {}; use https", config.cluster_url);
        return Err(Error::Config { what: "the token".into(), reason });
    }
    Ok(())
}
