//! Output with wildcards, and the difference of two texts.

use snapbox::Data;
use snapbox::filter::NormalizeToExpected;
use snapbox::report::{Palette, write_diff};

/// Returns a text with the wildcards of an expected text wherever they match.
pub(super) fn with_wildcards(actual: &str, expected: &str) -> String {
    let normalized = NormalizeToExpected::new().redact().normalize(Data::text(actual), &Data::text(expected));
    normalized.render().unwrap_or_default()
}

/// Returns the difference of two texts, which must differ.
pub(super) fn difference(expected: &str, actual: &str, names: [&str; 2]) -> String {
    let [expected_name, actual_name] = names;
    let mut text = String::new();
    let written = write_diff(
        &mut text,
        &Data::text(expected),
        &Data::text(actual),
        Some(&expected_name),
        Some(&actual_name),
        Palette::plain(),
    );
    written.map_or_else(|error| error.to_string(), |()| text.trim_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_that_match_stay() {
        let expected = "at http://127.0.0.1:[..]/x\nfirst\n...\nlast\n";
        let actual = "at http://127.0.0.1:4711/x\nfirst\na\nb\nlast\n";
        assert_eq!(with_wildcards(actual, expected), expected);
        assert_eq!(with_wildcards("at nothing\n", expected), "at nothing\n");
        let changed = actual.replace("first", "second");
        assert!(with_wildcards(&changed, expected).starts_with("at http://127.0.0.1:[..]/x\nsecond\n"));
    }

    #[test]
    fn differences_have_both_lines() {
        let text = difference("one\ntwo\n", "one\nthree\n", ["page", "program"]);
        for part in ["page", "program", "- two", "+ three"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
