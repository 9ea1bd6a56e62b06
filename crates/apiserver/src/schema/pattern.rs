//! Regular expressions with Go's syntax (RE2).

use std::fmt::Write;

use regex::Regex;

/// A `pattern`, compiled once.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(super) text: Box<str>,
    /// The expression, or why it is invalid.
    compiled: Result<Regex, Box<str>>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        let compiled = Regex::new(&translate(text)).map_err(|error| error.to_string().into());
        Self { text: text.into(), compiled }
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

/// Translates Go's syntax to that of `regex`: the classes `\d`, `\w` and `\s` are ASCII in Go, `{` may be literal, and
/// classes have no set operations.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars();
    let mut in_class = false;
    let mut class_start = false;
    while let Some(c) = rest.next() {
        let at_start = std::mem::take(&mut class_start);
        match c {
            '\\' => escape(&mut out, &mut rest, in_class),
            '[' if !in_class => {
                (in_class, class_start) = (true, true);
                out.push('[');
                if rest.as_str().starts_with('^') {
                    out.push('^');
                    rest.next();
                }
            }
            '[' if rest.as_str().starts_with(':') => {
                out.push('[');
                for c in rest.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            ']' if in_class && !at_start => {
                in_class = false;
                out.push(']');
            }
            '[' | ']' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '{' if !in_class && !is_repetition(rest.as_str()) => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    out
}

fn escape(out: &mut String, rest: &mut std::str::Chars<'_>, in_class: bool) {
    match rest.next() {
        Some('d') if in_class => out.push_str("0-9"),
        Some('w') if in_class => out.push_str("0-9A-Za-z_"),
        Some('s') if in_class => out.push_str("\\t\\n\\f\\r "),
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('w') => out.push_str("[0-9A-Za-z_]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some('s') => out.push_str("[\\t\\n\\f\\r ]"),
        Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
        Some(c @ ('b' | 'B')) if !in_class => {
            let _ = write!(out, "(?-u:\\{c})");
        }
        Some(c @ ('<' | '>')) => out.push(c),
        Some('Q') => {
            for c in rest.as_str().split("\\E").next().unwrap_or("").chars() {
                out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
            }
            let end = rest.as_str().find("\\E").map_or(rest.as_str().len(), |at| at + 2);
            *rest = rest.as_str().get(end..).unwrap_or("").chars();
        }
        Some(c) => {
            out.push('\\');
            out.push(c);
        }
        None => out.push('\\'),
    }
}

/// Whether the text after `{` makes it a repetition: `2}`, `2,}` or `2,3}`.
fn is_repetition(rest: &str) -> bool {
    let Some((inside, _)) = rest.split_once('}') else { return false };
    let (low, high) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
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
        ] {
            assert_eq!(Pattern::new(pattern).is_match(text), Ok(expected), "{pattern} {text:?}");
        }
        assert!(Pattern::new("(").fault().is_some());
        assert!(Pattern::new("a(?!b)").fault().is_some());
    }
}
