//! URLs as Go parses them. Follows Go 1.26 (`net/url`), with its messages.

use std::net::Ipv6Addr;

use crate::apply::quoted;

/// The parts of a URL, as they are written.
#[derive(Default)]
pub(crate) struct Url<'a> {
    /// In lower case.
    pub(crate) scheme: String,
    pub(crate) user: Option<&'a str>,
    pub(crate) host: &'a str,
    #[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "only functions in CEL read it"))]
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) fragment: &'a str,
}

impl<'a> Url<'a> {
    /// # Errors
    /// Why the text is no URL.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let failed = |part: &str, why: String| format!("parse {}: {why}", quoted(part));
        let url = Self::without_fragment(before, false).map_err(|why| failed(before, why))?;
        check_escapes(fragment).map_err(|why| failed(text, why))?;
        Ok(Self { fragment, ..url })
    }

    /// Parses an absolute URL or path, as those of requests, which have no fragment.
    ///
    /// # Errors
    /// Why the text is none.
    pub(crate) fn parse_request(text: &'a str) -> Result<Self, String> {
        Self::without_fragment(text, true).map_err(|why| format!("parse {}: {why}", quoted(text)))
    }

    fn without_fragment(text: &'a str, is_request: bool) -> Result<Self, String> {
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".into());
        }
        if text.is_empty() && is_request {
            return Err("empty url".into());
        }
        if text == "*" {
            return Ok(Self { path: text, ..Self::default() });
        }
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let url = Self { scheme: scheme.to_ascii_lowercase(), query, ..Self::default() };
        if !rest.starts_with('/') && !scheme.is_empty() {
            return Ok(url);
        }
        if !rest.starts_with('/') && is_request {
            return Err("invalid URI for request".into());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".into());
        }
        let has_authority = |rest: &&str| !scheme.is_empty() || !is_request && !rest.starts_with('/');
        let Some(authority) = rest.strip_prefix("//").filter(has_authority) else {
            return check_escapes(rest).map(|()| Self { path: rest, ..url });
        };
        let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        check_host(&url.scheme, host)?;
        if let Some(user) = user {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(is_allowed) {
                return Err("net/url: invalid userinfo".into());
            }
            check_escapes(user)?;
        }
        check_escapes(path)?;
        Ok(Self { user, host, path, ..url })
    }
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    match text.split_once(':') {
        Some(("", _)) => Err("missing protocol scheme".into()),
        Some((scheme, rest))
            if scheme.chars().all(is_part) && scheme.starts_with(|c: char| c.is_ascii_alphabetic()) =>
        {
            Ok((scheme, rest))
        }
        _ => Ok(("", text)),
    }
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let escape = text.get(at + 1..at + 3).unwrap_or("");
        if escape.len() != 2 || !escape.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let shown: String = text.get(at..).unwrap_or("").chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quoted(&shown)));
        }
    }
    Ok(())
}

fn check_host(scheme: &str, host: &str) -> Result<(), String> {
    let port = match host.rfind('[') {
        Some(0) => {
            let (address, port) = host.rsplit_once(']').ok_or_else(|| "missing ']' in host".to_owned())?;
            check_port(port)?;
            let address = address.strip_prefix('[').unwrap_or(address);
            let (plain, _) = address.split_once("%25").unwrap_or((address, ""));
            return match plain.parse::<Ipv6Addr>() {
                Ok(_) => Ok(()),
                Err(_) => Err(format!("invalid host: ParseAddr({}): unable to parse IP", quoted(address))),
            };
        }
        Some(_) => return Err("invalid IP-literal".into()),
        None if matches!(scheme, "http" | "https") => host.find(':'),
        None => host.rfind(':'),
    };
    check_port(port.and_then(|at| host.get(at..)).unwrap_or(""))?;
    check_escapes(host)?;
    let is_allowed =
        |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    match host.chars().find(|c| !is_allowed(*c)) {
        Some(c) => Err(format!("invalid character {} in host name", quoted(&c.to_string()))),
        None => Ok(()),
    }
}

fn check_port(port: &str) -> Result<(), String> {
    let is_valid = port.is_empty()
        || port.strip_prefix(':').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    if is_valid { Ok(()) } else { Err(format!("invalid port {} after host", quoted(port))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages are those of Go 1.26.
    // contract: E-23k, E-27l
    #[test]
    fn urls_are_parsed_as_by_go() {
        for (text, expected) in [
            ("://x", "parse \"://x\": missing protocol scheme"),
            ("a b:c", "parse \"a b:c\": first path segment in URL cannot contain colon"),
            ("https://a:b#c", "parse \"https://a:b\": invalid port \":b\" after host"),
            ("https://a:1:2", "parse \"https://a:1:2\": invalid port \":1:2\" after host"),
            ("https://a b", "parse \"https://a b\": invalid character \" \" in host name"),
            ("https://a/%zz", "parse \"https://a/%zz\": invalid URL escape \"%zz\""),
            ("https://a#%z", "parse \"https://a#%z\": invalid URL escape \"%z\""),
            ("https://[::1", "parse \"https://[::1\": missing ']' in host"),
            ("https://a[::1]", "parse \"https://a[::1]\": invalid IP-literal"),
            ("https://a^b@c", "parse \"https://a^b@c\": net/url: invalid userinfo"),
            ("https://a\n", "parse \"https://a\\n\": net/url: invalid control character in URL"),
        ] {
            assert_eq!(Url::parse(text).err().as_deref(), Some(expected));
        }
        for (text, expected) in [
            ("", Some("parse \"\": empty url")),
            ("x/y", Some("parse \"x/y\": invalid URI for request")),
            ("x:y", None),
            ("//x:y", None),
            ("*", None),
        ] {
            assert_eq!(Url::parse_request(text).err().as_deref(), expected);
        }
        for (text, scheme, host) in [
            ("", "", ""),
            ("//x/y", "", "x"),
            ("///x", "", ""),
            ("x", "", ""),
            ("HTTPS://u:p@[::1]:4/x?y", "https", "[::1]:4"),
            ("https:x", "https", ""),
            ("https:///x", "https", ""),
        ] {
            let url = Url::parse(text).unwrap_or_default();
            assert_eq!((url.scheme.as_str(), url.host), (scheme, host), "{text}");
        }
    }
}
