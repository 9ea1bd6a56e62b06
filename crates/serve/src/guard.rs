//! Who may send requests.
//!
//! A server on a loopback address can be reached by every program of its machine, and by web pages in their browsers.
//! Requests of other pages are rejected: a browser sends the host name under which it found the server, which after DNS
//! rebinding is that of the page, and the origin of the page.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use http::uri::Authority;
use http::{HeaderMap, Method, Request, StatusCode, header};
use subtle::ConstantTimeEq;

use crate::assets;
use crate::checks::is_health;
use crate::reply::Failure;

/// The longest URL.
const URL_BYTES: usize = 8 * 1024;

/// A bearer token that requests must carry. Its `Debug` output does not contain it.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn new(token: String) -> Self {
        Self(token)
    }

    /// Whether the token is valid in an HTTP header.
    pub(crate) fn is_usable(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Compares all elements wherever the first difference is, so that the time depends only on the lengths.
fn is_equal<T: ConstantTimeEq>(expected: &[T], given: &[T]) -> bool {
    expected.ct_eq(given).into()
}

/// The local address of the connection of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalAddress(pub(crate) Option<SocketAddr>);

/// The access rules of a server.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) token: Option<Token>,
    /// Accepted host names besides loopback and the addresses of the server, in lower case.
    pub(crate) hosts: Vec<String>,
    /// The address on which the server listens.
    pub(crate) address: IpAddr,
    /// Whether requests for the health need no token.
    pub(crate) is_health_public: bool,
    /// Whether the host is not checked: other machines can reach the server, and it shows no object.
    pub(crate) any_host: bool,
}

impl Guard {
    /// Checks a request before it is handled.
    ///
    /// # Errors
    /// 414, 413: the request is too large. 400: there is not exactly one host. 421: the host is none of this server's.
    /// 403: the request is of another page. 401: the token is missing or wrong.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Failure> {
        check_size(request)?;
        let host = host(request)?;
        let local = request.extensions().get::<LocalAddress>().and_then(|LocalAddress(local)| *local);
        if !self.any_host && !self.is_ours(&host, local) {
            return Err(Failure::new(
                StatusCode::MISDIRECTED_REQUEST,
                "Misdirected",
                format!(
                    "the host {:?} is none of this server's; add it by --allowed-host (in a program: allowed_host())",
                    host.host()
                ),
            ));
        }
        check_page(request, &host)?;
        self.check_token(request)
    }

    fn check_token<B>(&self, request: &Request<B>) -> Result<(), Failure> {
        let Some(Token(token)) = &self.token else { return Ok(()) };
        if self.is_public(request.uri().path()) {
            return Ok(());
        }
        match bearer(request.headers()) {
            Some(given) if is_equal(token.as_bytes(), given.as_bytes()) => Ok(()),
            Some(_) => Err(unauthorized("the token is not the one of this server")),
            None => Err(unauthorized("this server requires the header Authorization: Bearer TOKEN")),
        }
    }

    /// Whether a path needs no token: the page, which asks for it, and the health, for probes that have no listener of their
    /// own.
    pub(crate) fn is_public(&self, path: &str) -> bool {
        (self.is_health_public && is_health(path)) || assets::find(path).is_some()
    }

    /// Whether a host is loopback, an address of the server, or an added name. The port may differ, as behind a tunnel.
    fn is_ours(&self, host: &Authority, local: Option<SocketAddr>) -> bool {
        let name = host.host();
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        if let Ok(address) = address.parse::<IpAddr>() {
            let address = address.to_canonical();
            return address.is_loopback()
                || address == self.address.to_canonical()
                || local.is_some_and(|local| local.ip().to_canonical() == address)
                || self.hosts.iter().any(|known| known.parse() == Ok(address));
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        name == "localhost" || self.hosts.contains(&name)
    }
}

pub(crate) fn unauthorized(message: &str) -> Failure {
    Failure::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
}

/// Returns the token of a request. Follows Kubernetes 1.37 (`bearertoken.Authenticator`).
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// # Errors
/// 414, 413.
pub(crate) fn check_size<B>(request: &Request<B>) -> Result<(), Failure> {
    let uri = request.uri();
    let length = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    if length > URL_BYTES {
        let message = format!("the URL has {length} bytes, and may have {URL_BYTES}");
        return Err(Failure::new(StatusCode::URI_TOO_LONG, "URITooLong", message));
    }
    let headers = request.headers();
    let is_empty = |value: &http::HeaderValue| value.as_bytes() == b"0";
    let has_body = headers.get(header::CONTENT_LENGTH).is_some_and(|value| !is_empty(value))
        || headers.contains_key(header::TRANSFER_ENCODING);
    if has_body {
        return Err(Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "BodyNotAllowed",
            "requests have no body here",
        ));
    }
    Ok(())
}

/// Returns the host of a request: from its URI, or else from its header.
///
/// # Errors
/// 400 if there is none, if there are several, if they differ, or if one has user information.
fn host<B>(request: &Request<B>) -> Result<Authority, Failure> {
    let mut headers = request.headers().get_all(header::HOST).iter();
    let named = match (headers.next(), headers.next()) {
        (None, _) => None,
        (Some(host), None) => {
            let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
            Some(host.ok_or_else(|| Failure::bad_request("malformed Host header"))?)
        }
        (Some(_), Some(_)) => return Err(Failure::bad_request("too many Host headers")),
    };
    let has_user = |host: &Authority| host.as_str().contains('@');
    if request.uri().authority().is_some_and(has_user) || named.as_ref().is_some_and(has_user) {
        return Err(Failure::bad_request("the host has user information"));
    }
    match (request.uri().authority(), named) {
        (Some(target), Some(named)) if *target != named => {
            Err(Failure::bad_request("the Host header does not match the request"))
        }
        (Some(target), _) => Ok(target.clone()),
        (None, Some(named)) => Ok(named),
        (None, None) => Err(Failure::bad_request("missing required Host header")),
    }
}

/// Rejects requests from pages that this server has not served. A link to the page itself may be anywhere.
fn check_page<B>(request: &Request<B>, host: &Authority) -> Result<(), Failure> {
    let headers = request.headers();
    let refused = |what: &str| {
        let message = format!("requests from pages of other {what} are not allowed");
        Err(Failure::new(StatusCode::FORBIDDEN, "Forbidden", message))
    };
    let is_link = *request.method() == Method::GET
        && assets::find(request.uri().path()).is_some()
        && headers.get("sec-fetch-mode").is_some_and(|mode| mode.as_bytes() == b"navigate");
    let mut sites = headers.get_all("sec-fetch-site").iter();
    if !is_link && sites.any(|site| !matches!(site.as_bytes(), b"none" | b"same-origin")) {
        return refused("sites");
    }
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().ok();
        let own = origin
            .and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
        if !own.is_some_and(|own| own.eq_ignore_ascii_case(host.as_str())) {
            return refused("origins");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use subtle::Choice;

    use super::*;

    /// A byte that counts the comparisons.
    struct Counted<'c>(u8, &'c Cell<usize>);

    impl ConstantTimeEq for Counted<'_> {
        fn ct_eq(&self, other: &Self) -> Choice {
            self.1.set(self.1.get() + 1);
            self.0.ct_eq(&other.0)
        }
    }

    // contract: H-17b
    #[test]
    fn comparison_reads_all_bytes_of_a_token() {
        const TOKEN: &[u8] = b"s3cret";
        for different in [None, Some(0), Some(3), Some(5)] {
            let compared = Cell::new(0);
            let bytes = |flipped: Option<usize>| {
                let byte = |(i, byte): (usize, &u8)| Counted(byte ^ u8::from(Some(i) == flipped), &compared);
                TOKEN.iter().enumerate().map(byte).collect::<Vec<_>>()
            };
            assert_eq!(is_equal(&bytes(None), &bytes(different)), different.is_none());
            assert_eq!(compared.get(), TOKEN.len(), "a difference at {different:?}");
        }
    }

    #[test]
    fn token_is_never_printed() {
        assert_eq!(format!("{:?}", Token::new("s3cret".into())), "Token(..)");
    }
}
