//! The literals and comments of an expression, which the parser of the crate `cel` does not read as cel-go does.

/// Writes the texts and bytes of an expression in a form that the parser reads, and leaves out comments.
///
/// # Errors
/// A literal that is not valid.
pub(super) fn normalized(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.get(rest.find('\n').unwrap_or(rest.len())..).unwrap_or("");
        } else if let Some((prefix, quote)) = opening(rest) {
            let is_raw = prefix.contains(['r', 'R']);
            let body = rest.get(prefix.len() + quote.len()..).unwrap_or("");
            let (content, after) = closed(body, quote, is_raw).ok_or_else(|| invalid(rest))?;
            let is_bytes = prefix.contains(['b', 'B']);
            push_literal(&mut out, content, is_raw, is_bytes).ok_or_else(|| invalid(rest))?;
            rest = after;
        } else {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len()).max(first.len_utf8());
            out.push_str(rest.get(..word).unwrap_or(""));
            rest = rest.get(word..).unwrap_or("");
        }
    }
    Ok(out)
}

fn invalid(rest: &str) -> String {
    let start: String = rest.chars().take(20).collect();
    format!("ERROR: <input>: Syntax error: token recognition error at: '{start}'")
}

/// Returns the prefix and the quotes of a literal that a text begins with.
fn opening(text: &str) -> Option<(&str, &'static str)> {
    const PREFIXES: [&str; 9] = ["", "r", "R", "b", "B", "br", "bR", "Br", "BR"];
    const QUOTES: [&str; 4] = ["\"\"\"", "'''", "\"", "'"];
    PREFIXES.into_iter().find_map(|prefix| {
        let rest = text.strip_prefix(prefix)?;
        let quote = QUOTES.into_iter().find(|quote| rest.starts_with(quote))?;
        Some((text.get(..prefix.len())?, quote))
    })
}

/// Returns what is before the closing quotes, and what is after them.
fn closed<'a>(text: &'a str, quote: &str, is_raw: bool) -> Option<(&'a str, &'a str)> {
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' if !is_raw => drop(characters.next()?),
            '\n' | '\r' if quote.len() == 1 => return None,
            _ => {
                let here = text.get(at..)?;
                if let Some(after) = here.strip_prefix(quote) {
                    return Some((text.get(..at)?, after));
                }
            }
        }
    }
    None
}

/// Writes a literal; `None` if it has an escape that is not valid.
fn push_literal(out: &mut String, content: &str, is_raw: bool, is_bytes: bool) -> Option<()> {
    out.push_str(if is_bytes { "b'" } else { "'" });
    let mut rest = content;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..)?;
        rest = if c == '\\' && !is_raw {
            let (code, after) = escape(after, is_bytes)?;
            match (is_bytes, char::from_u32(code)?) {
                (true, _) if code > 255 => return None,
                (true, _) => out.push_str(&format!("\\x{code:02x}")),
                (false, c) => push_char(out, c),
            }
            after
        } else {
            if is_bytes {
                let mut buffer = [0; 4];
                c.encode_utf8(&mut buffer).bytes().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
            } else {
                push_char(out, c);
            }
            after
        };
    }
    out.push('\'');
    Some(())
}

fn push_char(out: &mut String, c: char) {
    match c {
        '\'' | '"' | '\\' | '`' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c if c.is_control() => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        c => out.push(c),
    }
}

/// Reads an escape without its backslash. Returns the code of the character, and what is after it.
fn escape(text: &str, is_bytes: bool) -> Option<(u32, &str)> {
    let c = text.chars().next()?;
    let after = text.get(c.len_utf8()..)?;
    let code = match c {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        '\\' | '?' | '"' | '\'' | '`' => u32::from(c),
        'x' | 'X' => return number(2, after, 16),
        'u' if !is_bytes => return number(4, after, 16),
        'U' if !is_bytes => return number(8, after, 16),
        '0'..='3' => return number(3, text, 8),
        _ => return None,
    };
    Some((code, after))
}

/// Reads the digits of an escape. Returns the code of the character, and what is after it.
fn number(length: usize, text: &str, radix: u32) -> Option<(u32, &str)> {
    let digits = text.get(..length).filter(|digits| !digits.starts_with('+'))?;
    Some((u32::from_str_radix(digits, radix).ok()?, text.get(length..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_normalized() {
        for (text, expected) in [
            (r#""a\"b" + 'a"b'"#, Some(r"'a\u0022b' + 'a\u0022b'")),
            (r"b'\n\x41é' r'\d' R'''a'b'''", Some(r"b'\x0a\x41\xc3\xa9' '\u005cd' 'a\u0027b'")),
            ("'''a\nb''' == \"\"\"a\\nb\"\"\"", Some("'a\\U0000000ab' == 'a\\U0000000ab'")),
            ("a // it's\n!!b", Some("a \n!!b")),
            ("'//' + bar'x'", Some("'//' + bar'x'")),
            (r"'\101\u0041\U00000041'", Some("'AAA'")),
            ("'a", None),
            (r"'\q'", None),
            (r"b'\u0041'", None),
            (r"'\ud800'", None),
            ("'a\nb'", None),
        ] {
            assert_eq!(normalized(text).ok().as_deref(), expected, "{text}");
        }
    }
}
