//! Access control.
//!
//! A server on a loopback address can be reached by every program of its machine, and by web pages in their browsers.
//! Requests of web pages are rejected: a browser sends the host name under which it found the server, which after DNS
//! rebinding is that of the page, and the origin of the page. If a token is set, requests must carry it, and no page
//! knows it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ::http::uri::Authority;
use ::http::{HeaderMap, Method, Request, Version, header};
use subtle::ConstantTimeEq;

use crate::status::Status;

const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// A bearer token that requests must carry. Its `Debug` output does not contain it.
#[derive(Clone)]
pub(crate) struct Token(Arc<str>);

impl Token {
    pub(crate) fn new(token: String) -> Self {
        Self(token.into())
    }

    /// Returns the token for headers and kubeconfigs.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }

    /// Whether the token is valid in an HTTP header.
    pub(crate) fn is_usable(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }

    fn is(&self, given: &str) -> bool {
        is_equal(self.0.as_bytes(), given.as_bytes())
    }
}

/// Compares all elements wherever the first difference is, so that the time depends only on the lengths.
fn is_equal<T: ConstantTimeEq>(expected: &[T], given: &[T]) -> bool {
    expected.ct_eq(given).into()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The local end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalEnd {
    /// The local address of the connection, if it is known.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) tls: bool,
}

/// The access rules of a server.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) token: Option<Token>,
    /// Accepted host names besides loopback, in lower case.
    pub(crate) hosts: Vec<String>,
}

impl Access {
    /// Checks a request before it is handled.
    ///
    /// # Errors
    /// 400 unless there is exactly one host. 401 for a missing or wrong token; without a token, requests for public
    /// information are allowed, as in Kubernetes. 403 for a host that is not this server, and for web pages. 415 for
    /// media types that a page can send without a preflight request.
    pub(crate) fn check<B>(&self, request: &Request<B>, local_end: LocalEnd) -> Result<(), Status> {
        let host = host(request)?;
        match &self.token {
            Some(token) => self.check_token(token, request)?,
            None => match &host {
                Some(host) if !self.is_ours(host, local_end) => {
                    return Err(denied(format!(
                        "the host {:?} is none of this server's; it can be added to them, or a token required",
                        host.host()
                    )));
                }
                // HTTP/1.0 requests may have no host. Browsers do not send such requests.
                Some(_) | None => {}
            },
        }
        check_page(request, host.as_ref(), local_end)
    }

    fn check_token<B>(&self, token: &Token, request: &Request<B>) -> Result<(), Status> {
        match bearer(request.headers()) {
            Some(given) if token.is(given) => Ok(()),
            Some(_) => Err(Status::unauthorized()),
            None if is_public(request.uri().path()) => Ok(()),
            None => Err(Status::unauthorized()),
        }
    }

    /// Whether a host is loopback, the local address of the connection, or an added name.
    fn is_ours(&self, host: &Authority, local_end: LocalEnd) -> bool {
        let name = host.host();
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        if let Ok(address) = address.parse::<IpAddr>() {
            let address = address.to_canonical();
            return address.is_loopback()
                || local_end.address.is_some_and(|local| local.ip().to_canonical() == address)
                || self.hosts.iter().any(|known| known.parse() == Ok(address));
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        name == "localhost" || self.hosts.contains(&name)
    }
}

/// Whether a path is public. Follows Kubernetes 1.37 (`system:public-info-viewer`).
fn is_public(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next();
    matches!(first, Some("healthz" | "livez" | "readyz" | "version"))
}

/// Returns the token of a request. Follows Kubernetes 1.37 (`bearertoken.Authenticator`).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.split(' ').next().filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// Returns the host of a request: from its URI, or else from its header.
///
/// # Errors
/// 400 if there is no host although the HTTP version requires one, if there are several, if they differ, or if one has user
/// information.
fn host<B>(request: &Request<B>) -> Result<Option<Authority>, Status> {
    let mut headers = request.headers().get_all(header::HOST).iter();
    let named = match (headers.next(), headers.next()) {
        (None, _) => None,
        (Some(host), None) => {
            let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
            Some(host.ok_or_else(|| Status::bad_request("malformed Host header"))?)
        }
        (Some(_), Some(_)) => return Err(Status::bad_request("too many Host headers")),
    };
    let has_user = |host: &Authority| host.as_str().contains('@');
    if request.uri().authority().is_some_and(has_user) || named.as_ref().is_some_and(has_user) {
        return Err(Status::bad_request("the host has user information"));
    }
    match (request.uri().authority(), named) {
        (Some(target), Some(named)) if *target != named => {
            Err(Status::bad_request("the Host header does not match the request"))
        }
        (Some(target), _) => Ok(Some(target.clone())),
        (None, Some(named)) => Ok(Some(named)),
        (None, None) if request.version() < Version::HTTP_11 => Ok(None),
        (None, None) => Err(Status::bad_request("missing required Host header")),
    }
}

/// Rejects requests from pages that this server has not served.
fn check_page<B>(request: &Request<B>, host: Option<&Authority>, local_end: LocalEnd) -> Result<(), Status> {
    let headers = request.headers();
    let site = headers.get_all(SEC_FETCH_SITE).iter();
    if site.into_iter().any(|site| !matches!(site.as_bytes(), b"none" | b"same-origin")) {
        return Err(denied("requests from pages of other sites are not allowed".to_owned()));
    }
    let mut origins = headers.get_all(header::ORIGIN).iter().peekable();
    if origins.peek().is_none() {
        return Ok(());
    }
    let scheme = if local_end.tls { "https" } else { "http" };
    let own = host.map(|host| format!("{scheme}://{host}"));
    if !origins
        .all(|origin| own.as_ref().is_some_and(|own| own.as_bytes().eq_ignore_ascii_case(origin.as_bytes())))
    {
        return Err(denied("requests from pages of other origins are not allowed".to_owned()));
    }
    let writes = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    if writes && !headers.contains_key(header::CONTENT_TYPE) {
        return Err(Status::unsupported_media_type("application/json"));
    }
    Ok(())
}

fn denied(message: String) -> Status {
    Status::new(403, "Forbidden", message)
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

    // contract: E-11c
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

    // contract: E-09b
    #[test]
    fn address_of_the_connection_is_accepted() {
        let access = Access { token: None, hosts: Vec::new() };
        let local_end = |address: &str| LocalEnd { address: address.parse().ok(), tls: false };
        let check = |host: &str, local_end| {
            let request = Request::get("/api").header(header::HOST, host).body(()).unwrap();
            access.check(&request, local_end).is_ok()
        };
        for (local, ours, another) in [
            ("192.0.2.7:443", "192.0.2.7", "192.0.2.8"),
            ("[2001:db8::7]:443", "[2001:db8::7]", "[2001:db8::8]"),
            // An IPv4 client of a socket that also accepts IPv6.
            ("[::ffff:192.0.2.7]:443", "192.0.2.7", "192.0.2.8"),
        ] {
            for port in ["", ":443", ":1"] {
                assert!(check(&format!("{ours}{port}"), local_end(local)), "{ours}{port} at {local}");
                assert!(!check(&format!("{another}{port}"), local_end(local)), "{another}{port} at {local}");
            }
        }
        assert!(!check("192.0.2.7", local_end("")), "the address is not known");
    }
}
