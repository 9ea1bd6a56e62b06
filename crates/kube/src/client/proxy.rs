//! The choice of a proxy, by the rules of Go.

use std::net::IpAddr;

use http::Uri;
use kube_client::Config;

use super::normalize::with_scheme;
use crate::Error;

/// Returns the proxy for the server of a configuration: that of the kubeconfig, or else of the environment. Follows Go
/// 1.26 (`golang.org/x/net/http/httpproxy`) and client-go 0.37.
///
/// # Errors
/// [`Error::Config`] if the proxy is not the URL of one.
pub(super) fn of(config: &Config) -> Result<Option<Uri>, Error> {
    choose(config, |name| std::env::var(name).ok())
}

fn choose(config: &Config, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Uri>, Error> {
    let either =
        |upper, lower| [upper, lower].into_iter().filter_map(&variable).find(|value| !value.is_empty());
    let https = either("HTTPS_PROXY", "https_proxy");
    if let Some(url) = &config.proxy_url
        // kube-client takes it from there for every server.
        && https.as_ref().and_then(|https| https.parse().ok()).as_ref() != Some(url)
    {
        return proxy("proxy-url", &url.to_string()).map(Some);
    }
    let (name, chosen) = match config.cluster_url.scheme_str() {
        Some("https") => ("HTTPS_PROXY", https),
        // A header `Proxy` of a CGI request becomes `HTTP_PROXY`.
        _ if variable("REQUEST_METHOD").is_some() => return Ok(None),
        _ => ("HTTP_PROXY", either("HTTP_PROXY", "http_proxy")),
    };
    let exceptions = either("NO_PROXY", "no_proxy").unwrap_or_default();
    chosen
        .filter(|_| !is_direct(&config.cluster_url, &exceptions))
        .map(|chosen| proxy(name, &chosen))
        .transpose()
}

fn proxy(field: &'static str, text: &str) -> Result<Uri, Error> {
    let invalid = |problem: &str| Error::Config { field, problem: problem.to_owned() };
    let url: Uri = with_scheme(text).parse().map_err(|_| invalid("is not a URL"))?;
    match url.scheme_str() {
        Some("http" | "https" | "socks5" | "socks5h") if url.host().is_some_and(|host| !host.is_empty()) => {
            Ok(url)
        }
        _ => Err(invalid("is not the URL of a proxy with http, https or socks5")),
    }
}

/// Whether connections to a server use no proxy: it is a loopback address, or in the list of `NO_PROXY`.
fn is_direct(server: &Uri, exceptions: &str) -> bool {
    let host = server.host().unwrap_or_default().to_ascii_lowercase();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("https") { 443 } else { 80 });
    let ip = host.parse().ok().map(|ip: IpAddr| ip.to_canonical());
    if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return true;
    }
    exceptions.split(',').map(|exception| exception.trim().to_ascii_lowercase()).any(|exception| {
        if exception == "*" {
            return true;
        }
        if let Some(network) = network(&exception) {
            return ip.is_some_and(|ip| contains(network, ip));
        }
        // An IPv6 address has several colons and no port.
        let (name, only) = match exception.rsplit_once(':') {
            Some((name, port)) if name.ends_with(']') || !name.contains(':') => (name, Some(port)),
            _ => (exception.as_str(), None),
        };
        if only.is_some_and(|only| only.parse() != Ok(port)) {
            return false;
        }
        let name = if only.is_some() { name.trim_start_matches('[').trim_end_matches(']') } else { name };
        match (name.parse::<IpAddr>(), ip) {
            (Ok(address), Some(ip)) => address.to_canonical() == ip,
            (Ok(_), None) | (Err(_), Some(_)) => false,
            (Err(_), None) => is_domain(host, name),
        }
    })
}

/// Whether a host has this name, or one that ends with it. A name with a leading dot has only the latter.
fn is_domain(host: &str, name: &str) -> bool {
    let name = name.strip_prefix('*').filter(|name| name.starts_with('.')).unwrap_or(name);
    if name.is_empty() {
        return false;
    }
    if name.starts_with('.') {
        return host.ends_with(name);
    }
    host == name || host.strip_suffix(name).is_some_and(|front| front.ends_with('.'))
}

fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/')?;
    Some((address.parse().ok()?, bits.parse().ok()?))
}

fn contains((network, bits): (IpAddr, u32), ip: IpAddr) -> bool {
    let prefix =
        |value: u128, width: u32| width.checked_sub(bits).map(|rest| value.checked_shr(rest).unwrap_or(0));
    let prefixes = match (network, ip) {
        (IpAddr::V4(network), IpAddr::V4(ip)) => {
            [network, ip].map(|address| prefix(u128::from(address.to_bits()), 32))
        }
        (IpAddr::V6(network), IpAddr::V6(ip)) => [network, ip].map(|address| prefix(address.to_bits(), 128)),
        _ => return false,
    };
    prefixes[0].is_some() && prefixes[0] == prefixes[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let config = Config::new(server.parse().unwrap());
        choose(&config, environment(variables)).unwrap().map(|proxy| proxy.to_string())
    }

    fn environment(variables: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    /// The tests of Go's `httpproxy`, and addresses of API servers.
    // contract: L-32a
    #[test]
    fn exceptions_follow_go() {
        for (server, exceptions, direct) in [
            ("https://localhost", "", true),
            ("https://127.0.0.1:6443", "", true),
            ("https://127.0.0.2", "", true),
            ("https://[::1]:6443", "", true),
            ("https://[::2]", "", false),
            ("https://10.0.0.1:6443", "", false),
            ("https://10.0.0.1:6443", "*", true),
            ("https://10.0.0.1:6443", "10.0.0.1", true),
            ("https://10.0.0.1:6443", "10.0.0.1:6443", true),
            ("https://10.0.0.1:6443", "10.0.0.1:443", false),
            ("https://10.0.0.1:6443", "10.0.0.0/8", true),
            ("https://10.0.0.1:6443", "10.0.0.0/33", false),
            ("https://11.0.0.1:6443", "10.0.0.0/8", false),
            ("https://11.0.0.1:6443", "0.0.0.0/0", true),
            ("https://[2001:db8::1]:6443", "2001:db8::/32", true),
            ("https://[2001:db9::1]:6443", "2001:db8::/32", false),
            ("https://[2001:db8::1]:6443", "2001:db8::1", true),
            ("https://[2001:db8::1]:6443", "[2001:db8::1]:6443", true),
            ("https://[2001:db8::1]:6443", "[2001:db8::1]:443", false),
            ("https://10.0.0.1", "0.0.1", false),
            ("https://example.com", "example.com", true),
            ("https://a.example.com", "example.com", true),
            ("https://a.example.com", ".example.com", true),
            ("https://a.example.com", "*.example.com", true),
            ("https://example.com", ".example.com", false),
            ("https://example.com", "*.example.com", false),
            ("https://barexample.com", "example.com", false),
            ("https://EXAMPLE.com", "other, Example.COM", true),
            ("https://example.com", "example.com:443", true),
            ("https://example.com", "example.com:80", false),
            ("http://example.com", "example.com:80", true),
            ("https://example.com", ",  ,:1", false),
        ] {
            assert_eq!(is_direct(&server.parse().unwrap(), exceptions), direct, "{server} {exceptions}");
        }
    }

    // contract: L-32a
    #[test]
    fn environment_follows_go() {
        let (https, http) = (("HTTPS_PROXY", "http://one:1"), ("http_proxy", "two:2"));
        assert_eq!(chosen("https://a", &[https, http]).as_deref(), Some("http://one:1/"));
        assert_eq!(chosen("http://a", &[https, http]).as_deref(), Some("http://two:2/"));
        assert_eq!(chosen("http://a", &[https]), None);
        assert_eq!(chosen("http://a", &[http, ("REQUEST_METHOD", "GET")]), None);
        assert_eq!(chosen("https://a", &[https, ("no_proxy", "a")]), None);
        assert_eq!(
            chosen("https://a", &[("HTTPS_PROXY", ""), ("https_proxy", "socks5://s")]).as_deref(),
            Some("socks5://s/")
        );
        assert_eq!(chosen("https://a", &[]), None);
    }

    /// The proxy of a kubeconfig has no exceptions, and kube-client's copy of the environment is not one of them.
    // contract: L-32b
    #[test]
    fn proxy_of_kubeconfig_has_no_exceptions() {
        let mut config = Config::new("https://127.0.0.1".parse().unwrap());
        config.proxy_url = Some("http://one:1".parse().unwrap());
        let exceptions = ("NO_PROXY", "*");
        let proxy = choose(&config, environment(&[exceptions])).unwrap();
        assert_eq!(proxy.unwrap(), "http://one:1/");
        for same in ["http://one:1", "http://one:1/"] {
            assert_eq!(choose(&config, environment(&[exceptions, ("https_proxy", same)])).unwrap(), None);
        }
        for invalid in ["ftp://one", "http://", "/one"] {
            config.proxy_url = Some(match invalid.parse() {
                Ok(url) => url,
                Err(_) => continue,
            });
            let error = choose(&config, environment(&[])).unwrap_err();
            assert!(matches!(error, Error::Config { field: "proxy-url", .. }), "{error}");
        }
    }
}
