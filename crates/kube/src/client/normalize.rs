//! The rules by which client-go reads a configuration.

use std::collections::HashMap;
use std::fmt::Display;

use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use kube_client::Config;
use kube_client::config::AuthInfo;
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};

use super::pem::without_white_space;
use crate::Error;

/// Unsets empty fields, removes white space from base64, and completes the URL of the server. Follows client-go 0.37
/// (`tools/clientcmd`, `rest.DefaultServerURL`, `transport.Config`).
///
/// # Errors
/// [`Error::Config`] if the URL is not one of a server, or if a user is to be impersonated without a name: a request
/// without the impersonation might be granted more.
pub(crate) fn normalize(config: &mut Config) -> Result<(), Error> {
    let user = user(&config.cluster_url);
    config.cluster_url = server_url(std::mem::take(&mut config.cluster_url))?;
    if config.default_namespace.is_empty() {
        "default".clone_into(&mut config.default_namespace);
    }
    let auth = &mut config.auth_info;
    // Preferred to other credentials, as in Go.
    if let Some((name, password)) = user {
        (auth.username, auth.password) = (Some(name), Some(password.into()));
    }
    if let Some(data) = &mut auth.client_certificate_data {
        *data = without_white_space(data);
    }
    if let Some(data) = &mut auth.client_key_data {
        *data = without_white_space(data.expose_secret()).into();
    }
    let hint = auth.exec.as_mut().map(|exec| &mut exec.install_hint);
    let texts = [
        &mut config.tls_server_name,
        &mut auth.username,
        &mut auth.token_file,
        &mut auth.client_certificate,
        &mut auth.client_certificate_data,
        &mut auth.client_key,
        &mut auth.impersonate,
        &mut auth.impersonate_uid,
    ];
    for text in texts.into_iter().chain(hint) {
        text.take_if(|text| text.is_empty());
    }
    for secret in [&mut auth.password, &mut auth.token, &mut auth.client_key_data] {
        secret.take_if(|secret| secret.expose_secret().is_empty());
    }
    auth.impersonate_groups.take_if(|groups| groups.is_empty());
    auth.impersonate_user_extra.take_if(|extra| extra.is_empty());
    match auth.username {
        // kube-client requires both for basic authentication.
        Some(_) => _ = auth.password.get_or_insert_with(SecretString::default),
        None => auth.password = None,
    }
    check_impersonation(auth)
}

fn check_impersonation(auth: &AuthInfo) -> Result<(), Error> {
    let more = auth.impersonate_uid.is_some()
        || auth.impersonate_groups.is_some()
        || auth.impersonate_user_extra.is_some();
    if more && auth.impersonate.is_none() {
        let problem = "is missing, and a UID, groups or extra fields to impersonate are set".into();
        return Err(Error::Config { field: "as", problem });
    }
    for (field, texts) in [
        ("as", auth.impersonate.iter().collect::<Vec<_>>()),
        ("as-uid", auth.impersonate_uid.iter().collect()),
        ("as-groups", auth.impersonate_groups.iter().flatten().collect()),
        ("as-user-extra", auth.impersonate_user_extra.iter().flat_map(HashMap::values).flatten().collect()),
    ] {
        if texts.into_iter().any(|text| HeaderValue::from_str(text).is_err()) {
            let problem = "has a character that is not allowed in an HTTP header".into();
            return Err(Error::Config { field, problem });
        }
    }
    Ok(())
}

/// Parses the URL of a server, or its host and port, which are those of a server without TLS.
///
/// # Errors
/// [`Error::Config`] if the text is neither. Its message does not repeat the text.
pub fn parse_server(server: &str) -> Result<Uri, Error> {
    let url: Uri = with_scheme(server).parse().map_err(is_no_url)?;
    if !server.contains("://") && url.path() != "/" {
        return Err(invalid("is neither a URL nor a host and a port"));
    }
    // The user is kept for the configuration.
    server_url(url.clone())?;
    Ok(url)
}

/// Returns the name and the password in a URL.
pub(super) fn user(url: &Uri) -> Option<(String, String)> {
    let (user, _) = url.authority()?.as_str().rsplit_once('@')?;
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let decode = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decode(name), decode(password)))
}

/// Returns a URL, or the plain HTTP one of a host.
pub(super) fn with_scheme(text: &str) -> String {
    if text.contains("://") { text.to_owned() } else { format!("http://{text}") }
}

/// Completes the URL of a server: a host without a scheme is one of plain HTTP. Removes the user, who is a secret, and
/// empty segments of the path.
fn server_url(url: Uri) -> Result<Uri, Error> {
    let mut parts = url.into_parts();
    let scheme = parts.scheme.get_or_insert(Scheme::HTTP);
    if *scheme != Scheme::HTTP && *scheme != Scheme::HTTPS {
        return Err(invalid("has a scheme that is neither http nor https"));
    }
    if parts.authority.as_ref().is_none_or(|authority| authority.host().is_empty()) {
        return Err(invalid("has no host"));
    }
    if let Some((_, server)) = parts.authority.as_ref().and_then(|all| all.as_str().rsplit_once('@')) {
        parts.authority = Some(server.parse().map_err(is_no_url)?);
    }
    let path = parts.path_and_query.as_ref().map_or("/", PathAndQuery::path);
    let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    parts.path_and_query = Some(format!("/{}", segments.join("/")).parse().map_err(is_no_url)?);
    Uri::from_parts(parts).map_err(is_no_url)
}

fn is_no_url(error: impl Display) -> Error {
    invalid(&format!("is not a URL: {error}"))
}

fn invalid(problem: &str) -> Error {
    Error::Config { field: "server", problem: problem.to_owned() }
}
