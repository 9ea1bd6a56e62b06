//! Codes, colours, names and numbers with check digits.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub(super) fn is_base64(text: &str) -> bool {
    // a canonical encoding is not required
    let lenient = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - lenient.len() <= 2
        && lenient.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
        && (STANDARD.decode(text).is_ok() || lenient.len() % 4 > 1)
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn is_rgb_color(text: &str) -> bool {
    let inside = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    let is_part = |part: &str| {
        let part = part.trim_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let is_number =
            part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
        is_number && part.parse::<u8>().is_ok()
    };
    inside.is_some_and(|inside| inside.split(',').count() == 3 && inside.split(',').all(is_part))
}

/// Eleven characters, with separators.
pub(super) fn is_ssn(text: &str) -> bool {
    let is_digit = |(index, byte): (usize, u8)| match index {
        3 | 6 => matches!(byte, b'-' | b' '),
        _ => byte.is_ascii_digit(),
    };
    text.len() == 11 && text.bytes().enumerate().all(is_digit)
}

pub(super) fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut digits = String::with_capacity(32);
    for c in text.chars() {
        match c {
            '-' if matches!(digits.len(), 8 | 12 | 16 | 20) && !digits.ends_with('-') => {}
            c if c.is_ascii_hexdigit() => digits.push(c.to_ascii_lowercase()),
            _ => return false,
        }
    }
    let has_twin = text.contains("--");
    let digit = |index: usize| digits.as_bytes().get(index).copied();
    let fits = match version {
        None => true,
        Some(version) => {
            digit(12) == Some(b'0' + version)
                && (version == 3 || matches!(digit(16), Some(b'8' | b'9' | b'a' | b'b')))
        }
    };
    digits.len() == 32 && !has_twin && !text.ends_with('-') && fits
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\u{c}' | '\r' | ' ' | '-')).collect()
}

/// Returns the digits of a text, each with its position from 1; `None` if there is another character.
fn digits(text: &str) -> Option<Vec<u32>> {
    text.chars().map(|c| c.to_digit(10)).collect()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let text = without_separators(text);
    let (body, last) = match text.strip_suffix('X') {
        Some(body) => (body.to_owned(), Some(10)),
        None => (text, None),
    };
    let Some(mut digits) = digits(&body) else { return false };
    digits.extend(last);
    if digits.len() != 10 {
        return false;
    }
    let sum: u32 = (1..).zip(&digits).map(|(weight, digit)| weight * digit).sum();
    sum.is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let Some(digits) = digits(&without_separators(text)).filter(|digits| digits.len() == 13) else {
        return false;
    };
    let sum: u32 = digits.iter().zip([1, 3].iter().cycle()).map(|(digit, factor)| digit * factor).sum();
    sum.is_multiple_of(10)
}

pub(super) fn is_credit_card(text: &str) -> bool {
    let text: String = text.chars().filter(char::is_ascii_digit).collect();
    let Some(digits) = digits(&text) else { return false };
    let head = |length: usize| text.get(..length).and_then(|head| head.parse::<u32>().ok()).unwrap_or(0);
    let is_known = match text.len() {
        13 => head(1) == 4,
        14 => matches!(head(3), 300..=305) || matches!(head(2), 36 | 38),
        15 => matches!(head(2), 34 | 37) || matches!(head(4), 2131 | 1800),
        16 => head(1) == 4 || matches!(head(2), 51..=55 | 65) || head(4) == 6011 || head(2) == 35,
        _ => false,
    };
    let luhn = digits.iter().rev().enumerate().map(|(index, digit)| match index % 2 {
        0 => *digit,
        _ if digit * 2 > 9 => digit * 2 - 9,
        _ => digit * 2,
    });
    is_known && luhn.sum::<u32>() % 10 == 0
}
