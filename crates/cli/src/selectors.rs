//! Selectors, checked before any request is made.
//!
//! The server would refuse a bad one too, but only once per list, inside a reflector that retries.

use crate::exit::Error;

/// Checks a label selector. Follows Kubernetes 1.37 (`labels.Parse`).
///
/// # Errors
/// [`Error::Usage`]: what is wrong with it, and where.
pub(crate) fn check_labels(selector: &str) -> Result<(), Error> {
    labels(selector).map_err(|problem| Error::Usage(format!("label selector {selector:?}: {problem}")))
}

/// Checks a field selector. Follows Kubernetes 1.37 (`fields.ParseSelector`); which fields a resource has, only
/// the server knows.
///
/// # Errors
/// [`Error::Usage`]: what is wrong with it, and where.
pub(crate) fn check_fields(selector: &str) -> Result<(), Error> {
    fields(selector).map_err(|problem| Error::Usage(format!("field selector {selector:?}: {problem}")))
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", "<", ">"];

/// The words and symbols of a label selector, as a queue.
struct Tokens<'a>(&'a str);

impl<'a> Tokens<'a> {
    fn peek(&self) -> &'a str {
        let text = self.0.trim_start();
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| text.starts_with(**symbol)) {
            return text.get(..symbol.len()).unwrap_or(text);
        }
        let end = text.find(|char: char| char.is_whitespace() || "=!(),<>".contains(char));
        text.get(..end.unwrap_or(text.len())).unwrap_or(text)
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.0 = self.0.trim_start().get(token.len()..).unwrap_or("");
        token
    }
}

fn is_symbol(token: &str) -> bool {
    SYMBOLS.contains(&token)
}

fn shown(token: &str) -> String {
    if token.is_empty() { "the end".into() } else { format!("{token:?}") }
}

fn labels(selector: &str) -> Result<(), String> {
    let mut tokens = Tokens(selector);
    if tokens.peek().is_empty() {
        return Ok(());
    }
    loop {
        requirement(&mut tokens)?;
        match tokens.next() {
            "" => return Ok(()),
            "," => {}
            other => return Err(format!("found {}, expected ',' or the end", shown(other))),
        }
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<(), String> {
    let absent = tokens.peek() == "!";
    if absent {
        tokens.next();
    }
    let key = tokens.next();
    if key.is_empty() || is_symbol(key) {
        return Err(format!("found {}, expected a label key", shown(key)));
    }
    label_key(key)?;
    if absent || matches!(tokens.peek(), "" | ",") {
        return Ok(());
    }
    match tokens.next() {
        "=" | "==" | "!=" => label_value(value(tokens)),
        "in" | "notin" => values(tokens),
        "<" | ">" => {
            let bound = value(tokens);
            bound.parse::<i64>().map(drop).map_err(|_| format!("{} is no integer", shown(bound)))
        }
        other => {
            Err(format!("found {} after {key:?}, expected =, ==, !=, in, notin, <, > or ','", shown(other)))
        }
    }
}

/// A value, which may be empty.
fn value<'a>(tokens: &mut Tokens<'a>) -> &'a str {
    if is_symbol(tokens.peek()) { "" } else { tokens.next() }
}

fn values(tokens: &mut Tokens<'_>) -> Result<(), String> {
    match tokens.next() {
        "(" => {}
        other => return Err(format!("found {}, expected '('", shown(other))),
    }
    loop {
        label_value(value(tokens))?;
        match tokens.next() {
            ")" => return Ok(()),
            "," => {}
            other => return Err(format!("found {}, expected ',' or ')'", shown(other))),
        }
    }
}

fn label_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        return Err(format!("the part of the key {key:?} before '/' is no DNS subdomain"));
    }
    if name.is_empty() || !is_label_text(name) {
        return Err(format!(
            "{key:?} is no label key: at most 63 letters, digits, '-', '_' and '.', the first and the last a \
             letter or digit, and an optional DNS subdomain with '/' in front"
        ));
    }
    Ok(())
}

fn label_value(value: &str) -> Result<(), String> {
    if is_label_text(value) {
        return Ok(());
    }
    Err(format!(
        "{value:?} is no label value: at most 63 letters, digits, '-', '_' and '.', the first and the last a \
         letter or digit"
    ))
}

fn is_label_text(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let outer = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().all(|byte| inner(*byte)) && outer(bytes.first()) && outer(bytes.last())
}

fn is_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        let bytes = part.as_bytes();
        let outer =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        outer(bytes.first()) && outer(bytes.last()) && bytes.iter().all(inner)
    };
    text.len() <= 253 && text.split('.').all(part)
}

fn fields(selector: &str) -> Result<(), String> {
    for term in split_unescaped(selector, ',') {
        if term.is_empty() {
            continue;
        }
        let at = unescaped(term).find(|(_, char)| *char == '=').map(|(at, _)| at);
        let Some(at) = at else {
            return Err(format!("{term:?} has no =, == or !="));
        };
        let (field, rest) = term.split_at(at);
        let field = field.strip_suffix('!').unwrap_or(field);
        if field.trim().is_empty() {
            return Err(format!("{term:?} names no field"));
        }
        let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')).unwrap_or(rest);
        if unescaped(value).any(|(_, char)| char == '=') {
            return Err(format!("in {term:?} an '=' of the value must be written \\="));
        }
        let mut chars = value.chars();
        while let Some(char) = chars.next() {
            if char == '\\' && !chars.next().is_some_and(|next| "\\,=".contains(next)) {
                return Err(format!("in {term:?} a \\ must be followed by \\ , or ="));
            }
        }
    }
    Ok(())
}

/// The characters that no backslash precedes.
fn unescaped(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut escaped = false;
    text.char_indices().filter(move |(_, char)| {
        let counts = !escaped && *char != '\\';
        escaped = !escaped && *char == '\\';
        counts
    })
}

fn split_unescaped(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut begin = 0;
    let ends = unescaped(text).filter(move |(_, char)| *char == separator).map(|(at, _)| at);
    ends.chain([text.len()]).map(move |end| {
        let part = text.get(begin..end).unwrap_or("");
        begin = end + separator.len_utf8();
        part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_label_selectors_pass() {
        for selector in [
            "",
            "app=web",
            "app = web , tier in (a, b),!legacy",
            "app==web,app!=db",
            "app,example.com/team notin ()",
            "app=",
            "in=in,notin in (in)",
            "cpu>3,cpu<-1",
        ] {
            assert_eq!(labels(selector), Ok(()), "{selector}");
        }
    }

    #[test]
    fn bad_label_selectors_are_told() {
        for (selector, part) in [
            ("app=web,", "found the end, expected a label key"),
            ("=web", "found \"=\", expected a label key"),
            ("app in a", "found \"a\", expected '('"),
            ("app in (a", "found the end, expected ',' or ')'"),
            ("app web", "found \"web\" after \"app\""),
            ("app=a b", "found \"b\", expected ',' or the end"),
            ("app=-a", "\"-a\" is no label value"),
            ("-app", "\"-app\" is no label key"),
            ("Example/app", "no DNS subdomain"),
            ("/app", "no DNS subdomain"),
            ("a/b/c", "is no label key"),
            ("cpu>x", "\"x\" is no integer"),
            ("!", "found the end"),
            ("é", "is no label key"),
        ] {
            let problem = labels(selector).expect_err(selector);
            assert!(problem.contains(part), "{selector}: {problem}");
        }
    }

    #[test]
    fn good_field_selectors_pass() {
        for selector in
            ["", "spec.nodeName=node-1", "a=1,b!=2,c==3", "a=", r"a=x\,y\=z\\", "metadata.name=é", "a=1,"]
        {
            assert_eq!(fields(selector), Ok(()), "{selector}");
        }
    }

    #[test]
    fn bad_field_selectors_are_told() {
        for (selector, part) in [
            ("spec.nodeName", "has no =, == or !="),
            ("=x", "names no field"),
            ("!=x", "names no field"),
            ("a=b=c", "must be written"),
            (r"a=b\c", "must be followed"),
            (r"a=b\", "must be followed"),
        ] {
            let problem = fields(selector).expect_err(selector);
            assert!(problem.contains(part), "{selector}: {problem}");
        }
    }
}
