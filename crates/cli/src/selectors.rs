//! Selectors, validated before any request.
//!
//! The server rejects an invalid selector too, but only in a list request, which the reflector then retries.

use kinformer::LabelSelector;

use crate::args::SelectorArgs;
use crate::exit::Error;

/// Validates the selectors of the command line.
///
/// # Errors
/// [`Error::Usage`]: the problem and its position.
pub(crate) fn check(selectors: &SelectorArgs) -> Result<(), Error> {
    selectors.selector.as_deref().map_or(Ok(()), check_labels)?;
    selectors.field_selector.as_deref().map_or(Ok(()), check_fields)
}

/// Validates a label selector.
///
/// # Errors
/// [`Error::Usage`]: the problem and its position.
pub(crate) fn check_labels(selector: &str) -> Result<(), Error> {
    let parsed: Result<LabelSelector, _> = selector.parse();
    parsed.map(drop).map_err(|error| Error::Usage(error.to_string()))
}

/// Validates the syntax of a field selector. Follows Kubernetes 1.37 (`fields.ParseSelector`). Only the server knows
/// which fields a resource supports.
///
/// # Errors
/// [`Error::Usage`]: the problem and its position.
fn check_fields(selector: &str) -> Result<(), Error> {
    fields(selector).map_err(|problem| Error::Usage(format!("field selector {selector:?}: {problem}")))
}

fn fields(selector: &str) -> Result<(), String> {
    for term in split_unescaped(selector, ',') {
        if term.is_empty() {
            continue;
        }
        let index = unescaped(term).find(|(_, char)| *char == '=').map(|(index, _)| index);
        let Some(index) = index else {
            return Err(format!("{term:?} has no =, == or !="));
        };
        let (field, rest) = term.split_at(index);
        let field = field.strip_suffix('!').unwrap_or(field);
        if field.trim().is_empty() {
            return Err(format!("{term:?} names no field"));
        }
        let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')).unwrap_or(rest);
        if unescaped(value).any(|(_, char)| char == '=') {
            return Err(format!("in {term:?}, an '=' in the value must be written \\="));
        }
        let mut chars = value.chars();
        while let Some(char) = chars.next() {
            if char == '\\' && !chars.next().is_some_and(|next| "\\,=".contains(next)) {
                return Err(format!("in {term:?}, a \\ must be followed by \\ , or ="));
            }
        }
    }
    Ok(())
}

/// The characters that are not preceded by a backslash.
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
    let ends = unescaped(text).filter(move |(_, char)| *char == separator).map(|(index, _)| index);
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
    fn label_selectors_are_checked_like_kubernetes() {
        for selector in ["", "app = web , tier in (a, b),!legacy", "app notin ()", "cpu>3"] {
            assert!(check_labels(selector).is_ok(), "{selector}");
        }
        for selector in ["app=web,", "=web", "app in a", "app=-a", "cpu>x", "!"] {
            let error = check_labels(selector).expect_err(selector);
            assert_eq!(error.code(), 2);
            assert!(error.to_string().contains(&format!("label selector {selector:?}, at ")), "{error}");
        }
    }

    #[test]
    fn valid_field_selectors_are_accepted() {
        for selector in
            ["", "spec.nodeName=node-1", "a=1,b!=2,c==3", "a=", r"a=x\,y\=z\\", "metadata.name=é", "a=1,"]
        {
            assert_eq!(fields(selector), Ok(()), "{selector}");
        }
    }

    #[test]
    fn invalid_field_selectors_are_rejected() {
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
