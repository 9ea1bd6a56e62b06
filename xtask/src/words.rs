//! Words that the project does not use, in identifiers and in prose, since plain ones exist.

use std::collections::BTreeSet;

use crate::files::File;
use crate::source;

/// Words that may not be an identifier or a part of one: `told`, `has_told`, `HasTold`. Not `whole`: the facade has whole
/// objects besides their metadata.
const IDENTIFIERS: [&str; 15] = [
    "tell", "tells", "told", "hear", "hears", "heard", "look", "bury", "buried", "cut", "cutting", "keeping",
    "sharing", "story", "brief",
];

/// Terms that contain such a word.
const TERMS: [(&str, &str); 2] = [("look", "up"), ("look", "ups")];

/// Names that no function may have, although they can be called on types of other crates.
const FUNCTIONS: [&str; 1] = ["at"];

/// Words and phrases that may not occur in the comments and string literals of Rust, nor anywhere in other files.
const PHRASES: [&str; 16] = [
    "told",
    "tells",
    "tell",
    "hear",
    "hears",
    "heard",
    "bury",
    "whoever",
    "nobody",
    "for good",
    "of which",
    "comes of",
    "is had",
    "held up",
    "stands",
    "what it is about",
];

/// Returns the words in a file that are not used.
pub(crate) fn problems(file: &File) -> Vec<String> {
    if file.is_generated() {
        return Vec::new();
    }
    let found = if !file.path.ends_with(".rs") {
        phrases(file.text.lines().map(without_marks))
    } else {
        let lines = source::lines(&file.text);
        let mut found = identifiers(lines.iter().map(|line| line.code.as_str()));
        found.extend(phrases(lines.iter().map(|line| without_marks(&line.comment))));
        found.extend(phrases(lines.iter().map(|line| line.text.as_str())));
        found
    };
    found.into_iter().map(|(line, what)| format!("{}:{line}: {what}", file.path)).collect()
}

/// A line without the marks of a comment before it, so that a phrase continues on the next line.
fn without_marks(line: &str) -> &str {
    line.trim_start().trim_start_matches(['/', '!', '*', '#'])
}

/// A problem with its line number.
type Found = BTreeSet<(usize, String)>;

fn identifiers<'a>(code: impl Iterator<Item = &'a str>) -> Found {
    let mut found = Found::new();
    let mut previous = "";
    for (line, token) in tokens(code) {
        if previous == "fn" && FUNCTIONS.contains(&token) {
            found.insert((line, format!("a function has the name {token:?}; use a noun or a verb")));
        }
        if let Some(word) = IDENTIFIERS.into_iter().find(|word| has_part(token, word)) {
            found.insert((line, format!("the identifier {token} has the word {word:?}; use a plain one")));
        }
        previous = token;
    }
    found
}

/// Whether a word is a part of an identifier, which is separated by underscores or capital letters, and not of a term.
fn has_part(identifier: &str, word: &str) -> bool {
    let parts: Vec<&str> = identifier.split('_').flat_map(capitalized_parts).collect();
    let is_term =
        |next: &str| TERMS.iter().any(|(first, second)| *first == word && second.eq_ignore_ascii_case(next));
    parts.iter().enumerate().any(|(index, part)| {
        part.eq_ignore_ascii_case(word) && !parts.get(index + 1).is_some_and(|next| is_term(next))
    })
}

/// Splits before each capital letter that follows a small one: `HasTold` has the parts `Has` and `Told`.
fn capitalized_parts(mut text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let starts_part =
        |(before, (_, char)): &(char, (usize, char))| before.is_lowercase() && char.is_uppercase();
    while let Some((_, (start, _))) = text.chars().zip(text.char_indices().skip(1)).find(starts_part) {
        let (part, rest) = text.split_at(start);
        parts.push(part);
        text = rest;
    }
    parts.push(text);
    parts
}

fn phrases<'a>(prose: impl Iterator<Item = &'a str>) -> Found {
    let tokens = tokens(prose);
    let mut found = Found::new();
    for (index, (line, _)) in tokens.iter().enumerate() {
        for phrase in PHRASES {
            let mut next = tokens.iter().skip(index).map(|(_, token)| token);
            if phrase.split(' ').all(|word| next.next().is_some_and(|token| token.eq_ignore_ascii_case(word)))
            {
                found.insert((*line, format!("the text has {phrase:?}; say it in plain words")));
            }
        }
    }
    found
}

/// Splits lines into words and other characters, with the line number of each. An empty line is a token of its own, so
/// that no phrase continues behind it.
fn tokens<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(usize, &'a str)> {
    let mut tokens = Vec::new();
    for (index, line) in lines.enumerate() {
        let number = index + 1;
        if line.trim().is_empty() {
            tokens.push((number, ""));
        }
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|char: char| !is_word(char)).unwrap_or(rest.len());
            let (token, next) = rest.split_at(if word == 0 { first.len_utf8() } else { word });
            tokens.push((number, token));
            rest = next.trim_start();
        }
    }
    tokens
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(path: &str, text: &str) -> String {
        problems(&File { path: path.into(), text: text.into() }).join("\n")
    }

    fn in_rust(text: &str) -> String {
        problems_of("crates/x/src/a.rs", text)
    }

    fn in_markdown(text: &str) -> String {
        problems_of("docs/a.md", text)
    }

    #[test]
    fn words_in_identifiers_are_reported() {
        for word in IDENTIFIERS {
            let (upper, capital) =
                (word.to_uppercase(), format!("{}{}", word[..1].to_uppercase(), &word[1..]));
            for name in [
                word.to_owned(),
                format!("has_{word}"),
                format!("{word}_x"),
                format!("a_{word}_b"),
                upper,
                format!("Has{capital}X"),
                capital,
            ] {
                let problem = in_rust(&format!("\nlet {name} = 1;"));
                let expected = format!("crates/x/src/a.rs:2: the identifier {name} has the word {word:?}");
                assert!(problem.starts_with(&expected), "{name}: {problem:?}");
            }
            assert_eq!(in_rust(&format!("let x{word} = {word}x;")), "", "{word}");
        }
    }

    #[test]
    fn functions_with_the_name_of_a_preposition_are_reported() {
        for name in FUNCTIONS {
            for text in [format!("fn {name}(&self) {{}}"), format!("pub fn {name}<T>() {{}}")] {
                assert!(in_rust(&text).starts_with("crates/x/src/a.rs:1: a function has the name"), "{text}");
            }
            assert_eq!(in_rust(&format!("mockito.{name}(\"/\"); let {name} = x::{name}(1);")), "");
        }
    }

    #[test]
    fn phrases_in_prose_are_reported() {
        for phrase in PHRASES {
            let expected = format!("the text has {phrase:?}");
            let capital = phrase.to_uppercase();
            let (first, rest) = phrase.split_once(' ').unwrap_or((phrase, ""));
            for text in [
                format!("// a {phrase} b"),
                format!("/// {phrase}."),
                format!("//! {capital}"),
                format!("/* ({phrase}) */"),
                format!("f(); // `{phrase}`"),
                format!("let a = \"{phrase}\";"),
                format!("let a = \"\\n{phrase}\\n\";"),
                format!("let a = r#\"x \"{phrase}\" \"#;"),
                format!("// a {first}\n// {rest} b"),
                format!("let a = \"a {first} \\\n    {rest} b\";"),
            ] {
                let problem = in_rust(&text);
                assert!(
                    problem.starts_with(&format!("crates/x/src/a.rs:1: {expected}")),
                    "{text}: {problem:?}"
                );
            }
            for text in
                [format!("a *{phrase}*"), format!("| {capital} |"), format!("* a {first}\n  {rest}, b")]
            {
                let problem = in_markdown(&text);
                assert!(problem.starts_with(&format!("docs/a.md:1: {expected}")), "{text}: {problem:?}");
            }
            assert_eq!(in_markdown(&format!("x{phrase} {phrase}x x_{phrase}_x")), "", "{phrase}");
            for (path, text) in [
                ("a.toml", format!("description = \"a {phrase} b\"")),
                (".github/a.yml", format!("a: b # a {first}\n    # {rest} b")),
                (".ci/run", format!("#!/bin/sh\n# {phrase}")),
                ("e2e/x/main.go", format!("// a {first}\n// {rest}")),
            ] {
                let problem = problems_of(path, &text);
                assert!(problem.contains(&expected), "{text}: {problem:?}");
            }
        }
    }

    #[test]
    fn phrases_end_with_their_sentence() {
        for text in ["A list of. Which one", "for\n\ngood", "is: had", "hold up", "of, which"] {
            assert_eq!(in_markdown(text), "", "{text}");
        }
        assert_eq!(in_rust("let a = (\"for\", \"good\");"), "");
        assert_eq!(in_rust("// for\nlet good = 1;\n// good"), "");
    }

    #[test]
    fn allowed_words_are_not_reported() {
        for text in
            ["at most", "look up", "whole", "a consistent cut", "a cut, in brief", "keeping", "sharing"]
        {
            assert_eq!(in_markdown(text), "", "{text}");
            assert_eq!(in_rust(&format!("// {text}\nlet a = \"{text}\";")), "", "{text}");
        }
        let names =
            "let at_most = whole.look_up(1); DuringLookUp(storyboard); shortcut(lookup, briefly, at);";
        assert_eq!(in_rust(names), "");
        assert!(in_rust("let look_in = up;").contains("the identifier look_in"));
    }

    #[test]
    fn code_is_not_prose_and_generated_files_are_skipped() {
        assert_eq!(in_rust("let nobody = stands;"), "");
        assert_eq!(in_rust("// @generated by x\n// told\nlet told = 1;"), "");
    }
}
