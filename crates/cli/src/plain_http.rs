//! Credentials without TLS, and those of one server at another.

use kube_client::Config;
use kube_client::config::AuthInfo;

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

/// Drops what a kubeconfig says about the user where there is no TLS, also on this machine. For whom the user acts is no
/// secret, and stays. Follows client-go 1.37 (`clientcmd.DirectClientConfig.ClientConfig`).
pub(crate) fn drop_credentials(config: &mut Config) {
    if config.cluster_url.scheme_str() == Some("https") {
        return;
    }
    let before = std::mem::take(&mut config.auth_info);
    let secret = before.token.is_some()
        || before.token_file.is_some()
        || before.username.is_some()
        || before.client_certificate.is_some()
        || before.client_certificate_data.is_some()
        || before.auth_provider.is_some()
        || before.exec.is_some();
    if secret {
        tracing::warn!("the credentials of the kubeconfig are not sent without TLS");
    }
    config.auth_info = AuthInfo {
        impersonate: before.impersonate,
        impersonate_uid: before.impersonate_uid,
        impersonate_groups: before.impersonate_groups,
        impersonate_user_extra: before.impersonate_user_extra,
        ..AuthInfo::default()
    };
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
