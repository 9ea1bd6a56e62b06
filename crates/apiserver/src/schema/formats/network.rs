//! Addresses and host names.

use std::net::Ipv6Addr;

/// Leading zeros in IPv4 are accepted, as by Kubernetes (`ParseIPSloppy`).
pub(super) fn is_ip(text: &str) -> bool {
    if text.contains(':') { text.parse::<Ipv6Addr>().is_ok() } else { is_ipv4(text) }
}

fn is_ipv4(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.parse::<u32>().is_ok_and(|number| number <= 255)
    };
    text.split('.').count() == 4 && text.split('.').all(is_part)
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let max = if address.contains(':') { 128 } else { 32 };
    let is_length = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    is_ip(address) && is_length && length.parse::<u32>().is_ok_and(|length| length <= max)
}

/// EUI-48, EUI-64 or an InfiniBand address, with colons, hyphens, or dots after four digits.
pub(super) fn is_mac(text: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let groups = |separator: char, digits: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| part.len() == digits && is_hex(part))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

/// Letters and symbols of all languages, but letters only in the last of several labels.
pub(super) fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let is_inner = |c: char| c.is_ascii_alphanumeric() || is_letter_or_symbol(c);
    if text.len() > 255 || labels.iter().any(|label| label.len() > 63) {
        return false;
    }
    match labels.as_slice() {
        [] => false,
        [one] => is_single_label(one, is_inner),
        [first @ .., last] => {
            let fits = |label: &&str| {
                let (start, end) = (label.chars().next(), label.chars().next_back());
                start.is_some_and(is_inner)
                    && end.is_some_and(is_inner)
                    && label.chars().all(|c| is_inner(c) || c == '-')
            };
            let letters = last.chars().count();
            first.iter().all(fits)
                && (2..=63).contains(&letters)
                && last.chars().all(|c| c.is_alphabetic() || c.is_ascii_alphabetic())
        }
    }
}

/// One hyphen at most, after the first character.
fn is_single_label(label: &str, is_inner: impl Fn(char) -> bool) -> bool {
    let mut chars = label.chars();
    let starts = chars.next().is_some_and(&is_inner);
    let rest = chars.as_str();
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    starts && rest.chars().all(is_inner)
}

/// An approximation of the categories L and S of Unicode.
fn is_letter_or_symbol(c: char) -> bool {
    c.is_alphabetic()
        || matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~')
        || !c.is_ascii() && !c.is_control() && !c.is_whitespace() && !c.is_numeric()
}

/// An address of RFC 5322, with or without a name: `a@b`, `Name <a@b>`.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let (name, address) = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((name, address)) => (name.trim_matches([' ', '\t']), address),
        None => ("", text),
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_quoted = |text: &str| {
        let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        inside.is_some_and(|inside| !inside.is_empty() && !inside.contains(['"', '\\', '\n', '\r']))
    };
    let is_phrase = name.is_empty()
        || is_quoted(name)
        || name.split([' ', '\t']).all(|word| word.is_empty() || is_dot_atom(word));
    let is_literal = domain.starts_with('[')
        && domain.ends_with(']')
        && domain.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    is_phrase && (is_dot_atom(local) || is_quoted(local)) && (is_dot_atom(domain) || is_literal)
}

fn is_dot_atom(text: &str) -> bool {
    let is_text = |c: char| {
        c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii() && !c.is_control()
    };
    text.split('.').all(|part| !part.is_empty() && part.chars().all(is_text))
}
