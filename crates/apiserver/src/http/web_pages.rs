//! Protection from web pages.
//!
//! A server on a loopback address can be reached by every program of its machine, and by web pages in their browsers.
//! Requests of web pages are rejected: a browser sends the host name under which it found the server, which after DNS
//! rebinding is that of the page, and the origin of the page. If requests must carry a token, no page knows it.

use std::net::{IpAddr, SocketAddr};

use ::http::uri::Authority;
use ::http::{Method, Request, Version, header};

use crate::status::Status;

const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// The local end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalEnd {
    /// The local address of the connection, if it is known.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) tls: bool,
}

/// The hosts whose requests are served.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Accepted host names besides loopback, in lower case.
    pub(crate) accepted: Vec<String>,
}

/// Whether a request carries a token, or has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    Checked,
    None,
}

impl Hosts {
    /// Checks that a request without credentials is for this server.
    ///
    /// # Errors
    /// 403 for a host that is not this server.
    pub(crate) fn check(
        &self,
        host: Option<&Authority>,
        local_end: LocalEnd,
        credentials: Credentials,
    ) -> Result<(), Status> {
        match (credentials, host) {
            (Credentials::None, Some(host)) if !self.is_ours(host, local_end) => Err(denied(format!(
                "the host {:?} is none of this server's; it can be added to them, or a token required",
                host.host()
            ))),
            // HTTP/1.0 requests may have no host. Browsers do not send such requests.
            _ => Ok(()),
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
                || self.accepted.iter().any(|known| known.parse() == Ok(address));
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        name == "localhost" || self.accepted.contains(&name)
    }
}

/// Returns the host of a request: from its URI, or else from its header.
///
/// # Errors
/// 400 if there is no host although the HTTP version requires one, if there are several, if they differ, or if one has user
/// information.
pub(crate) fn host<B>(request: &Request<B>) -> Result<Option<Authority>, Status> {
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
///
/// # Errors
/// 403 for web pages. 415 for media types that a page can send without a preflight request.
pub(crate) fn check_page<B>(
    request: &Request<B>,
    host: Option<&Authority>,
    local_end: LocalEnd,
) -> Result<(), Status> {
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
    use super::*;

    // contract: E-09b
    #[test]
    fn address_of_the_connection_is_accepted() {
        let hosts = Hosts { accepted: Vec::new() };
        let local_end = |address: &str| LocalEnd { address: address.parse().ok(), tls: false };
        let check = |host: &str, local_end| {
            let request = Request::get("/api").header(header::HOST, host).body(()).unwrap();
            let host = super::host(&request).unwrap();
            hosts.check(host.as_ref(), local_end, Credentials::None).is_ok()
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
