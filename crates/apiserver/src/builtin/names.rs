//! The rules for names, labels and other texts, with the messages of Kubernetes 1.37 (`util/validation`).

use crate::dns::has_label_form;
use std::net::IpAddr;

const LABEL_FORM: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

fn is_lower(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn has_ends(text: &str, is_end: impl Fn(char) -> bool) -> bool {
    text.chars().next().is_some_and(&is_end) && text.chars().next_back().is_some_and(&is_end)
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(has_label_form)
}

fn max_length(text: &str, max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} characters"))
}

/// As [`max_length`], in the words of the rules of labels.
fn max_bytes(text: &str, max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} bytes"))
}

fn rule(sentence: &str, form: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{sentence} (e.g. {}regex used for validation is '{form}')", examples.join(" or "))
}

pub(crate) fn label(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = max_length(text, 63).into_iter().collect();
    if !has_label_form(text) {
        broken.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            let sentence = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                and must start and end with an alphanumeric character";
            rule(sentence, LABEL_FORM, &["my-name", "123-abc"])
        });
    }
    broken
}

pub(crate) fn subdomain(text: &str) -> Vec<String> {
    max_length(text, 253).into_iter().chain(subdomain_fault(text)).collect()
}

fn subdomain_fault(text: &str) -> Option<String> {
    (!is_subdomain(text)).then(|| {
        let sentence = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
            and must start and end with an alphanumeric character";
        rule(sentence, &format!("{LABEL_FORM}(\\.{LABEL_FORM})*"), &["example.com"])
    })
}

pub(super) fn subdomain_of_any_case(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = max_length(text, 253).into_iter().collect();
    if !is_subdomain(&text.to_ascii_lowercase()) {
        let sentence = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end \
            with an alphanumeric character";
        broken.push(rule(sentence, &format!("{LABEL_FORM}(\\.{LABEL_FORM})*"), &["Example.com"]));
    }
    broken
}

pub(crate) fn lowercase_identifier(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = max_length(text, 63).into_iter().collect();
    if !has_label_form(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        let sentence = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
            alphabetic character, and end with an alphanumeric character";
        broken.push(rule(sentence, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    broken
}

pub(super) fn subdomain_with_underscores(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = max_length(text, 253).into_iter().collect();
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        has_ends(part, is_lower) && part.chars().all(|c| is_lower(c) || c == '-' || c == '_')
    };
    if !text.split('.').all(is_part) {
        let sentence = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
            and must start and end with an alphanumeric character";
        let form = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
        broken.push(rule(sentence, &format!("{form}(\\.{form})*"), &["example.com"]));
    }
    broken
}

pub(super) fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = max_length(text, 253).into_iter().collect();
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        let sentence = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
            consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        broken.push(rule(sentence, &format!("\\*\\.{LABEL_FORM}(\\.{LABEL_FORM})*"), &["*.example.com"]));
    }
    broken
}

fn is_key_part(text: &str) -> bool {
    has_ends(text, |c| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// The key of a label or an annotation, or another qualified name.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let sentence = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
        alphanumeric character";
    let form = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
    let form = || rule(sentence, form, &["MyName", "my.name", "123-abc"]);
    let mut parts = text.split('/');
    let (prefix, name) = match (parts.next(), parts.next(), parts.next()) {
        (Some(prefix), Some(name), None) => (Some(prefix), name),
        (Some(name), None, _) => (None, name),
        _ => {
            let optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {} {optional}", form())];
        }
    };
    let mut broken = Vec::new();
    match prefix {
        Some("") => broken.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            let rules = max_bytes(prefix, 253).into_iter().chain(subdomain_fault(prefix));
            broken.extend(rules.map(|rule| format!("prefix part {rule}")));
        }
        None => {}
    }
    match name.len() {
        0 => broken.push("name part must be non-empty".to_owned()),
        64.. => broken.push("name part must be no more than 63 bytes".to_owned()),
        _ => {}
    }
    if !is_key_part(name) {
        broken.push(format!("name part {}", form()));
    }
    broken
}

pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = max_bytes(text, 63).into_iter().collect();
    if !text.is_empty() && !is_key_part(text) {
        let sentence = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
            and must start and end with an alphanumeric character";
        let form = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
        broken.push(rule(sentence, form, &["MyValue", "my_value", "12345"]));
    }
    broken
}

pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = max_length(text, 15).into_iter().collect();
    let mut broke = |is_broken: bool, rule: &str| {
        if is_broken {
            broken.push(rule.to_owned());
        }
    };
    let charset = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
    broke(text.is_empty() || !text.chars().all(|c| is_lower(c) || c == '-'), charset);
    broke(!text.contains(|c: char| c.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    broke(text.contains("--"), "must not contain consecutive hyphens");
    broke(text.starts_with('-') || text.ends_with('-'), "must not begin or end with a hyphen");
    broken
}

pub(super) fn percent(text: &str) -> Option<String> {
    let digits = text.strip_suffix('%').unwrap_or("");
    let is_percent = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let sentence = "a valid percent string must be a numeric string followed by an ending '%'";
    (!is_percent).then(|| rule(sentence, "[0-9]+%", &["1%", "93%"]))
}

pub(super) fn header_name(text: &str) -> Option<String> {
    let is_name = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let sentence = "a valid HTTP header must consist of alphanumeric characters or '-'";
    (!is_name).then(|| rule(sentence, "[-A-Za-z0-9]+", &["X-Header-Name"]))
}

/// The name of a variable of an environment.
pub(super) fn variable(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    let is_good = text.chars().all(|c| c.is_ascii_graphic() && c != '=' || c == ' ');
    let rule =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    if is_good { Vec::new() } else { vec![rule.to_owned()] }
}

/// The key of a ConfigMap or a Secret.
pub(super) fn data_key(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = max_length(text, 253).into_iter().collect();
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        let sentence = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        broken.push(rule(sentence, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    match text {
        "." => broken.push("must not be '.'".to_owned()),
        ".." => broken.push("must not be '..'".to_owned()),
        text if text.starts_with("..") => broken.push("must not start with '..'".to_owned()),
        _ => {}
    }
    broken
}

pub(super) fn path_segment(text: &str) -> Option<String> {
    match text {
        "." | ".." => Some(format!("may not be '{text}'")),
        text => ["/", "%"]
            .into_iter()
            .find(|part| text.contains(part))
            .map(|part| format!("may not contain '{part}'")),
    }
}

/// A domain, a slash and a path. The text that breaks a rule, and the rule; no text for one that is missing.
pub(super) fn domain_prefixed_path(text: &str) -> Vec<(&str, String)> {
    let (host, path) = match text.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => (host, path),
        _ => return vec![(text, "must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned())],
    };
    let mut broken: Vec<(&str, String)> = subdomain(host).into_iter().map(|rule| (host, rule)).collect();
    let is_path_char = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    if !path.chars().all(is_path_char) {
        let form = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
        broken.push((path, format!("Invalid path (regex used for validation is '{form}')")));
    }
    broken
}

/// An address. Kubernetes 1.37 accepts no leading zeros and no IPv4 addresses in IPv6 form.
pub(super) fn address(text: &str) -> Option<String> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Some("must not be an IPv4-mapped IPv6 address".to_owned())
        }
        Ok(_) => None,
        Err(_) => Some(if without_zeros(text).parse::<IpAddr>().is_ok() {
            "must not have leading 0s".to_owned()
        } else {
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()
        }),
    }
}

fn without_zeros(text: &str) -> String {
    let part = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        part => part.to_owned(),
    };
    text.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// What Kubernetes does not accept as an address of an endpoint.
pub(super) fn endpoint_address(text: &str) -> Option<String> {
    let Ok(address) = text.parse::<IpAddr>() else { return Some("must be a valid IP address".to_owned()) };
    let (is_local, is_local_multicast) = match address {
        IpAddr::V4(address) => (address.is_link_local(), matches!(address.octets(), [224, 0, 0, _])),
        IpAddr::V6(address) => match address.segments() {
            [first, ..] => (first & 0xffc0 == 0xfe80, first & 0xff0f == 0xff02),
        },
    };
    if address.is_unspecified() {
        Some(format!("may not be unspecified ({text})"))
    } else if address.is_loopback() {
        Some("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned())
    } else if is_local {
        Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned())
    } else if is_local_multicast {
        Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned())
    } else {
        None
    }
}

/// The address and the length of the prefix of a CIDR.
pub(super) fn cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length) = (address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?);
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

/// The bits of an address, from the first on.
pub(super) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}
