//! The syntax of JSON, independent of types.
//!
//! Each function consumes its input from the front of the bytes. After an error the consumed length is undefined.

use std::borrow::Cow;

use crate::decode::{Fault, Number};

/// The problem of malformed JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum JsonProblem {
    #[error("it ends too early")]
    End,
    #[error("a value is expected")]
    Value,
    #[error("a string is expected as a key")]
    Key,
    #[error("a colon is expected")]
    Colon,
    #[error("a comma or the end is expected")]
    Comma,
    #[error("nothing is expected after the last comma")]
    TrailingComma,
    #[error("there are more elements than the type accepts")]
    More,
    #[error("there are characters after the value")]
    Trailing,
    #[error("a control character in a string")]
    Control,
    #[error("an invalid escape in a string")]
    Escape,
    #[error("a string is not UTF-8")]
    Utf8,
    #[error("an invalid number")]
    Number,
    #[error("a number is out of range")]
    Range,
}

impl From<JsonProblem> for Fault {
    #[cold]
    #[inline(never)]
    fn from(problem: JsonProblem) -> Self {
        Self::new(&problem.to_string())
    }
}

type Result<T> = std::result::Result<T, JsonProblem>;

/// Skips white space and returns the next byte without consuming it.
#[inline]
pub(super) fn space(rest: &mut &[u8]) -> Option<u8> {
    while let [b' ' | b'\n' | b'\t' | b'\r', tail @ ..] = *rest {
        *rest = tail;
    }
    rest.first().copied()
}

pub(super) fn colon(rest: &mut &[u8]) -> Result<()> {
    match space(rest) {
        Some(b':') => {
            *rest = rest.get(1..).unwrap_or_default();
            Ok(())
        }
        Some(_) => Err(JsonProblem::Colon),
        None => Err(JsonProblem::End),
    }
}

pub(super) fn literal(rest: &mut &[u8], literal: &[u8]) -> Result<()> {
    match rest.strip_prefix(literal) {
        Some(tail) => {
            *rest = tail;
            Ok(())
        }
        None if literal.starts_with(rest) => Err(JsonProblem::End),
        None => Err(JsonProblem::Value),
    }
}

/// Returns the number of bytes before the first quote, backslash or control character.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let is_zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let (words, tail) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // There may be false positives, but only after a true one.
        let found = is_zero(word ^ (ONES * b'"' as u64))
            | is_zero(word ^ (ONES * b'\\' as u64))
            | word.wrapping_sub(ONES * 0x20) & !word;
        if found & HIGH != 0 {
            return number * 8 + (found & HIGH).trailing_zeros() as usize / 8;
        }
    }
    let in_tail = tail.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
    bytes.len() - tail.len() + in_tail.unwrap_or(tail.len())
}

/// Reads a string, which begins with its quote; borrowed if it has no escapes. `utf8` is the entire input, whose end is
/// `rest`, if the input is known to be UTF-8.
#[inline]
pub(super) fn string<'de>(rest: &mut &'de [u8], utf8: Option<&'de str>) -> Result<Cow<'de, str>> {
    let inner = rest.get(1..).unwrap_or_default();
    if let Some((text, [b'"', tail @ ..])) = inner.split_at_checked(plain(inner)) {
        *rest = tail;
        let text = match utf8 {
            Some(utf8) => {
                let from = utf8.len().saturating_sub(inner.len());
                utf8.get(from..from.saturating_add(text.len()))
            }
            None => std::str::from_utf8(text).ok(),
        };
        return text.map(Cow::Borrowed).ok_or(JsonProblem::Utf8);
    }
    escaped(rest)
}

#[cold]
#[inline(never)]
fn escaped<'de>(rest: &mut &'de [u8]) -> Result<Cow<'de, str>> {
    let from = *rest;
    *rest = from.get(1..).unwrap_or_default();
    skip_escaped(rest)?;
    let quoted = from.get(..from.len().saturating_sub(rest.len())).unwrap_or_default();
    match serde_json::from_slice(quoted) {
        Ok(text) => Ok(Cow::Owned(text)),
        Err(_) if std::str::from_utf8(quoted).is_err() => Err(JsonProblem::Utf8),
        Err(_) => Err(JsonProblem::Escape),
    }
}

/// Skips a string, which begins with its quote.
#[inline]
fn skip_string(rest: &mut &[u8]) -> Result<()> {
    let inner = rest.get(1..).unwrap_or_default();
    if let Some((_, [b'"', tail @ ..])) = inner.split_at_checked(plain(inner)) {
        *rest = tail;
        return Ok(());
    }
    *rest = inner;
    skip_escaped(rest)
}

#[inline(never)]
fn skip_escaped(rest: &mut &[u8]) -> Result<()> {
    loop {
        match rest.get(plain(rest)..).unwrap_or_default() {
            [] => return Err(JsonProblem::End),
            [b'"', tail @ ..] => {
                *rest = tail;
                return Ok(());
            }
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', tail @ ..] => *rest = tail,
            [b'\\', b'u', a, b, c, d, tail @ ..]
                if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) =>
            {
                *rest = tail;
            }
            [b'\\', ..] => return Err(JsonProblem::Escape),
            _ => return Err(JsonProblem::Control),
        }
    }
}

/// Returns the number of leading digits.
#[inline]
fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Returns the text of a number, and whether it is an integer.
fn number_text<'de>(rest: &mut &'de [u8]) -> Result<(&'de [u8], bool)> {
    let from = *rest;
    let mut length = usize::from(from.first() == Some(&b'-'));
    let tail = |length: usize| from.get(length..).unwrap_or_default();
    let integer_digits = digits(tail(length));
    if integer_digits == 0 || integer_digits > 1 && tail(length).first() == Some(&b'0') {
        return Err(JsonProblem::Number);
    }
    length += integer_digits;
    let integer = length;
    if let [b'.', fraction @ ..] = tail(length) {
        match digits(fraction) {
            0 => return Err(JsonProblem::Number),
            fraction => length += 1 + fraction,
        }
    }
    if let [b'e' | b'E', exponent @ ..] = tail(length) {
        let sign = usize::from(matches!(exponent, [b'+' | b'-', ..]));
        match digits(exponent.get(sign..).unwrap_or_default()) {
            0 => return Err(JsonProblem::Number),
            exponent => length += 1 + sign + exponent,
        }
    }
    *rest = tail(length);
    Ok((from.get(..length).unwrap_or_default(), length == integer))
}

pub(super) fn number<'de>(rest: &mut &'de [u8]) -> Result<Number<'de>> {
    let (text, is_integer) = number_text(rest)?;
    let text = std::str::from_utf8(text).map_err(|_| JsonProblem::Number)?;
    if is_integer {
        // Minus zero is a float.
        if let Ok(number) = text.parse() {
            return Ok(Number::Unsigned(number));
        }
        if let Ok(number) = text.parse()
            && text != "-0"
        {
            return Ok(Number::Signed(number));
        }
    }
    let float = serde_json::from_str(text).map_err(|_| JsonProblem::Range)?;
    Ok(if is_integer { Number::Large(text, float) } else { Number::Float(float) })
}

/// Skips a value, whose strings need not be UTF-8. The stack use does not grow with the nesting.
pub(super) fn skip(from: &mut &[u8]) -> Result<()> {
    // A copy, which the compiler keeps in registers.
    let mut left = *from;
    let rest = &mut left;
    let mut levels = Levels::default();
    let mut has_begun = false;
    loop {
        // Before a value, or at the end of an empty container.
        let next = space(rest).ok_or(JsonProblem::End)?;
        let is_list = levels.is_list();
        let mut ended = true;
        match next {
            b']' | b'}' if has_begun && is_list == (next == b']') => {
                *rest = rest.get(1..).unwrap_or_default();
                levels.close();
            }
            _ => {
                if levels.depth > 0 && !is_list {
                    skip_key(rest)?;
                }
                ended = skip_scalar(rest, &mut levels)?;
            }
        }
        has_begun = !ended;
        if !ended {
            continue;
        }
        // After a value.
        loop {
            if levels.depth == 0 {
                *from = left;
                return Ok(());
            }
            let close = if levels.is_list() { b']' } else { b'}' };
            match space(rest) {
                Some(b',') => {
                    *rest = rest.get(1..).unwrap_or_default();
                    if space(rest) == Some(close) {
                        return Err(JsonProblem::TrailingComma);
                    }
                    break;
                }
                Some(byte) if byte == close => {
                    *rest = rest.get(1..).unwrap_or_default();
                    levels.close();
                }
                Some(_) => return Err(JsonProblem::Comma),
                None => return Err(JsonProblem::End),
            }
        }
    }
}

fn skip_key(rest: &mut &[u8]) -> Result<()> {
    match space(rest) {
        Some(b'"') => skip_string(rest)?,
        Some(_) => return Err(JsonProblem::Key),
        None => return Err(JsonProblem::End),
    }
    colon(rest)
}

/// Skips a scalar, or opens a container. Returns whether the value has ended.
fn skip_scalar(rest: &mut &[u8], levels: &mut Levels) -> Result<bool> {
    match space(rest).ok_or(JsonProblem::End)? {
        b'"' => skip_string(rest)?,
        open @ (b'{' | b'[') => {
            *rest = rest.get(1..).unwrap_or_default();
            levels.open(open == b'[');
            return Ok(false);
        }
        b't' => literal(rest, b"true")?,
        b'f' => literal(rest, b"false")?,
        b'n' => literal(rest, b"null")?,
        b'-' | b'0'..=b'9' => _ = number_text(rest)?,
        _ => return Err(JsonProblem::Value),
    }
    Ok(true)
}

/// A bit for each level: whether it is a list. Beyond 64 levels the bits are allocated, at most one bit per byte of the
/// input.
#[derive(Debug, Default)]
pub(super) struct Levels {
    depth: usize,
    innermost: u64,
    outer: Vec<u64>,
}

impl Levels {
    pub(super) fn is_empty(&self) -> bool {
        self.depth == 0
    }

    pub(super) fn is_list(&self) -> bool {
        self.depth > 0 && self.innermost & 1 == 1
    }

    pub(super) fn open(&mut self, is_list: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.innermost);
        }
        self.innermost = self.innermost << 1 | u64::from(is_list);
        self.depth += 1;
    }

    pub(super) fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.innermost >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.innermost = self.outer.pop().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    /// Whether serde_json accepts the same bytes.
    fn is_json(bytes: &[u8]) -> bool {
        serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
    }

    fn is_skipped(bytes: &[u8]) -> bool {
        let mut rest = bytes;
        skip(&mut rest).is_ok() && space(&mut rest).is_none()
    }

    /// Pieces of JSON. Some combinations form a value.
    const PIECES: [&str; 30] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"\\n\"",
        "\"\\ud800\"",
        "\"\\ud83d\\ude00\"",
        "\"é\"",
        "1",
        "-0",
        "01",
        "1.5",
        "1e9",
        "-",
        "2.",
        "1e",
        "true",
        "false",
        "null",
        "nul",
        " ",
        "\n",
        "\t",
        "\"",
        "\\u00",
        "\u{1}",
        "18446744073709551616",
    ];

    proptest! {
        #[test]
        fn accepts_the_same_json_as_serde_json(pieces in prop::collection::vec(0..PIECES.len(), 0..12)) {
            let text: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
            prop_assert_eq!(is_skipped(text.as_bytes()), is_json(text.as_bytes()), "{}", text);
        }

        #[test]
        fn strings_end_as_in_serde_json(text: String, suffix in "[a\"\\\\]{0,12}") {
            for json in [serde_json::to_string(&text).unwrap(), format!("\"{text}\"")] {
                let all = json.clone() + &suffix;
                let expected = serde_json::Deserializer::from_str(&all).into_iter::<String>().next();
                let mut skipped = all.as_bytes();
                let is_skipped = skip(&mut skipped).is_ok();
                for utf8 in [None, Some(&*all)] {
                    let mut rest = all.as_bytes();
                    let read = string(&mut rest, utf8).map(Cow::into_owned);
                    match &expected {
                        Some(Ok(expected)) => {
                            prop_assert_eq!(read.as_ref(), Ok(expected));
                            prop_assert!(is_skipped);
                            prop_assert_eq!(rest, skipped);
                        }
                        _ => prop_assert!(read.is_err()),
                    }
                }
            }
        }

        #[test]
        fn end_of_plain_text_is_found(length in 0_usize..40, end in 0_usize..40, byte in 0_u8..0x25) {
            let mut text = vec![b'a' | 0x80; length];
            if let Some(found) = text.get_mut(end) {
                *found = byte;
            }
            let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            prop_assert_eq!(plain(&text), text.iter().position(ends).unwrap_or(length));
        }

        #[test]
        fn numbers_parse_as_in_serde_json(number in "-?[0-9]{1,25}(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?") {
            let read = super::number(&mut number.as_bytes());
            let expected = serde_json::from_str::<serde_json::Number>(&number).ok();
            let read = read.ok().map(|read| match read {
                Number::Unsigned(number) => number.into(),
                Number::Signed(number) => number.into(),
                Number::Float(number) | Number::Large(_, number) => serde_json::Number::from_f64(number).unwrap(),
            });
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn brackets_match_at_any_depth() {
        for depth in [1, 63, 64, 65, 128, 129, 1_000] {
            let open: String = (0..depth).map(|level| if level % 3 == 0 { "[" } else { "{\"a\":" }).collect();
            let close: String =
                (0..depth).rev().map(|level| if level % 3 == 0 { "]" } else { "}" }).collect();
            for (inner, is_sound) in [("1", true), ("[]", true), ("}", false), ("1,]", false)] {
                assert_eq!(
                    is_skipped((open.clone() + inner + &close).as_bytes()),
                    is_sound,
                    "{depth} {inner}"
                );
            }
            assert!(!is_skipped((open.clone() + "1" + &close[1..]).as_bytes()), "{depth}");
        }
    }
}
