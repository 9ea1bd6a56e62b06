//! Regular expressions with Go's syntax (RE2).

use std::fmt::Write;

use regex::{Regex, RegexBuilder};

/// The most memory of a compiled expression.
const MOST_BYTES: usize = 64 << 20;

/// A `pattern`, compiled once.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(super) text: Box<str>,
    /// The expression, or why it is invalid.
    compiled: Result<Regex, Box<str>>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self::with_limit(text, MOST_BYTES)
    }

    /// Compiles an expression that may need some memory at most.
    pub(super) fn with_limit(text: &str, most_bytes: usize) -> Self {
        let compiled = translate(text).and_then(|translated| {
            let built = RegexBuilder::new(&translated).size_limit(most_bytes).build();
            built.map_err(|error| error.to_string())
        });
        Self { text: text.into(), compiled: compiled.map_err(Into::into) }
    }

    /// # Errors
    /// Why the expression is invalid.
    pub(super) fn is_match(&self, value: &str) -> Result<bool, &str> {
        self.compiled.as_ref().map(|regex| regex.is_match(value)).map_err(AsRef::as_ref)
    }

    /// # Errors
    /// Why the expression is invalid.
    #[cfg(feature = "cel")]
    pub(super) fn regex(&self) -> Result<&Regex, &str> {
        self.compiled.as_ref().map_err(AsRef::as_ref)
    }

    /// Returns why the expression is invalid. The wording is not that of Go.
    pub(super) fn fault(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(AsRef::as_ref)
    }
}

/// Translates Go's syntax to that of `regex`: the classes `\d`, `\w` and `\s` are ASCII in Go, `{` may be literal, classes
/// have no set operations, and repetitions cannot follow one another.
///
/// # Errors
/// Go does not know the syntax.
fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    let mut was_repeated = false;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or("");
        let operator = repetition(rest)?;
        if let Some(operator) = operator {
            if was_repeated {
                return Err(format!("invalid nested repetition operator: `{operator}`"));
            }
            out.push_str(operator);
            rest = rest.get(operator.len()..).unwrap_or("");
            was_repeated = true;
            continue;
        }
        was_repeated = false;
        rest = match c {
            '\\' => escape(&mut out, after),
            '[' => class(&mut out, after),
            '{' | '}' | ']' => {
                out.push('\\');
                out.push(c);
                after
            }
            '(' => {
                check_group(after)?;
                out.push(c);
                after
            }
            c => {
                out.push(c);
                after
            }
        };
    }
    Ok(out)
}

/// Returns the repetition operator that a text begins with, lazy or not.
///
/// # Errors
/// It repeats more often than Go allows.
fn repetition(text: &str) -> Result<Option<&str>, String> {
    let length = match text.chars().next() {
        Some('*' | '+' | '?') => 1,
        Some('{') => {
            let Some((inside, _)) = text.get(1..).unwrap_or("").split_once('}') else { return Ok(None) };
            let (low, high) = inside.split_once(',').unwrap_or((inside, ""));
            let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            if low.is_empty() || !is_number(low) || !is_number(high) {
                return Ok(None);
            }
            let is_much =
                |text: &str| !text.is_empty() && text.parse::<u32>().map_or(true, |count| count > 1000);
            if is_much(low) || is_much(high) {
                return Err(format!("invalid repeat count: `{{{inside}}}`"));
            }
            inside.len() + 2
        }
        _ => return Ok(None),
    };
    let is_lazy = text.get(length..).unwrap_or("").starts_with('?');
    Ok(text.get(..length + usize::from(is_lazy)))
}

/// # Errors
/// The text after `(` has flags that Go does not know.
fn check_group(text: &str) -> Result<(), String> {
    let Some(flags) = text.strip_prefix('?') else { return Ok(()) };
    let flags = flags.split(['<', 'P', ':', ')']).next().unwrap_or("");
    match flags.chars().find(|c| !"imsU-".contains(*c)) {
        Some(_) => Err(format!("invalid or unsupported Perl syntax: `(?{flags}`")),
        None => Ok(()),
    }
}

/// The ASCII class of an escape such as `\d`.
fn perl_class(c: char) -> Option<&'static str> {
    Some(match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => "[\\t\\n\\f\\r ]",
        'S' => "[^\\t\\n\\f\\r ]",
        _ => return None,
    })
}

/// Writes a character literally.
fn push_literal(out: &mut String, c: char) {
    let _ = write!(out, "\\x{{{:X}}}", u32::from(c));
}

/// Writes an escape, whose text follows the backslash. Returns the rest.
fn escape<'a>(out: &mut String, text: &'a str) -> &'a str {
    let Some(c) = text.chars().next() else {
        out.push('\\');
        return text;
    };
    let rest = text.get(c.len_utf8()..).unwrap_or("");
    match c {
        'b' | 'B' => {
            let _ = write!(out, "(?-u:\\{c})");
        }
        'Q' => {
            let (quoted, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
            quoted.chars().for_each(|c| push_literal(out, c));
            return rest;
        }
        c if c.is_ascii_punctuation() => push_literal(out, c),
        c => match perl_class(c) {
            Some(class) => out.push_str(class),
            None => return other_escape(out, text),
        },
    }
    rest
}

/// Writes an escape that both syntaxes have, and makes others invalid. Returns the rest.
fn other_escape<'a>(out: &mut String, text: &'a str) -> &'a str {
    out.push('\\');
    // `regex` has these, and Go has not
    if text.starts_with(['u', 'U']) {
        out.push('j');
    }
    let length = match text.strip_prefix(['p', 'P', 'x']) {
        Some(inner) if inner.starts_with('{') => text.find('}').map_or(text.len(), |at| at + 1),
        Some(_) if text.starts_with('x') => 3.min(text.len()),
        Some(inner) => 1 + inner.chars().next().map_or(0, char::len_utf8),
        _ => text.chars().next().map_or(0, char::len_utf8),
    };
    out.push_str(text.get(..length).unwrap_or(""));
    text.get(length..).unwrap_or("")
}

/// Writes a class, whose text follows the bracket. Returns the rest.
///
/// A hyphen is literal where it makes no range: at the ends, and after a class.
fn class<'a>(out: &mut String, mut text: &'a str) -> &'a str {
    out.push('[');
    if let Some(rest) = text.strip_prefix('^') {
        out.push('^');
        text = rest;
    }
    let mut is_first = true;
    loop {
        let Some(c) = text.chars().next() else { return text };
        let rest = text.get(c.len_utf8()..).unwrap_or("");
        if c == ']' && !is_first {
            out.push(']');
            return rest;
        }
        is_first = false;
        let perl = rest.chars().next().filter(|_| c == '\\').and_then(perl_class);
        if let Some(perl) = perl {
            out.push_str(perl);
            text = rest.get(1..).unwrap_or("");
        } else if let Some(end) = text.strip_prefix("[:").and_then(|inner| inner.find(":]")) {
            out.push_str(text.get(..end + 4).unwrap_or(""));
            text = text.get(end + 4..).unwrap_or("");
        } else {
            text = class_char(out, text);
            if let Some(high) = text.strip_prefix('-').filter(|high| !high.starts_with(']')) {
                out.push('-');
                text = class_char(out, high);
            }
        }
    }
}

/// Writes a character of a class. Returns the rest.
fn class_char<'a>(out: &mut String, text: &'a str) -> &'a str {
    match text.strip_prefix('\\') {
        Some(escaped) if escaped.starts_with(|c: char| c.is_ascii_punctuation()) => {
            escaped.chars().take(1).for_each(|c| push_literal(out, c));
            escaped.get(1..).unwrap_or("")
        }
        Some(escaped) => other_escape(out, escaped),
        None => {
            let mut chars = text.chars();
            chars.by_ref().take(1).for_each(|c| push_literal(out, c));
            chars.as_str()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_the_syntax_of_go() {
        for (pattern, text, expected) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^[\w.-]+$", "a.b-c", true),
            (r"^\w+$", "é", false),
            (r"^a{,2}$", "a{,2}", true),
            (r"^a{1,2}$", "aa", true),
            (r"^[[&]+$", "[&", true),
            (r"^[]a]+$", "]a", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^(a|b)$", "a\n", false),
            (r"\bfoo\b", "a foo b", true),
            (r"^[\w-.]+$", "a-b.c", true),
            (r"^[\s-a]+$", " -a", true),
            (r"^[\s-a]+$", "A", false),
            (r"^[\s\S]*$", "\u{a0}\u{b}", true),
            (r"^[\W]$", "é", true),
            (r"^[+--]+$", "+,-", true),
            (r"^[a\-z]+$", "a-z", true),
            (r"^[a\-z]+$", "b", false),
            (r"^[a-z&&b]+$", "a&b", true),
            (r"^[\]\n]+$", "]\n", true),
            (r"^[\x41\p{Greek}]+$", "Aα", true),
            (r"^\pL{1,253}$", "éa", true),
            (r"^a{1,2}?\_$", "aa_", true),
            (r"^(?i)A(?P<n>b)$", "aB", true),
        ] {
            assert_eq!(Pattern::new(pattern).is_match(text), Ok(expected), "{pattern} {text:?}");
        }
        for unknown in
            ["(", "a(?!b)", "a{1001}", "a**", "a{2}{3}", "a+?*", "(?x)a", r"\u{41}", r"[\u{41}]", "[z-a]"]
        {
            assert!(Pattern::new(unknown).fault().is_some(), "{unknown}");
        }
    }
}
