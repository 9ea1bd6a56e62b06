//! Splits Rust source into code, comments and string literals, so that a rule about one is not affected by the others.

/// One line of a Rust file.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Line {
    /// The code, with empty strings and without comments.
    pub(crate) code: String,
    /// The comment, including its slashes.
    pub(crate) comment: String,
    /// The contents of string literals, with a space for each escape and a quote at the end of each literal.
    pub(crate) text: String,
    /// Whether the line belongs to a test-only item.
    pub(crate) in_test: bool,
}

impl Line {
    /// Whether the line has only a comment or is empty.
    pub(crate) fn is_only_comment(&self) -> bool {
        self.code.trim().is_empty() && !self.comment.is_empty()
    }

    pub(crate) fn is_attribute(&self) -> bool {
        self.code.trim_start().starts_with("#[")
    }
}

/// The context of the next character.
enum Within {
    Code,
    LineComment,
    /// The nesting depth.
    BlockComment(usize),
    /// The number of `#` at the end; `None` for a string with escapes.
    Text(Option<usize>),
}

/// Splits a file into lines of code, comments and string literals.
#[expect(clippy::too_many_lines, reason = "one arm for each kind of token")]
pub(crate) fn lines(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let ahead = |index: usize, what: &str| chars.get(index..).is_some_and(|rest| starts_with(rest, what));
    let (mut lines, mut line, mut within, mut position) = (Vec::new(), Line::default(), Within::Code, 0);
    while let Some(&char) = chars.get(position) {
        position += 1;
        if char == '\n' {
            if matches!(within, Within::LineComment) {
                within = Within::Code;
            }
            lines.push(std::mem::take(&mut line));
            continue;
        }
        match within {
            Within::LineComment => line.comment.push(char),
            Within::BlockComment(depth) => {
                line.comment.push(char);
                if char == '*' && ahead(position, "/") {
                    position += 1;
                    within = if depth == 1 { Within::Code } else { Within::BlockComment(depth - 1) };
                } else if char == '/' && ahead(position, "*") {
                    position += 1;
                    within = Within::BlockComment(depth + 1);
                }
            }
            // Skips the escaped character, unless the backslash continues the string on the next line.
            Within::Text(None) if char == '\\' => {
                position += usize::from(!ahead(position, "\n"));
                line.text.push(' ');
            }
            Within::Text(hashes) => {
                if char == '"' && ahead(position, &"#".repeat(hashes.unwrap_or(0))) {
                    position += hashes.unwrap_or(0);
                    line.code.push('"');
                    line.text.push('"');
                    within = Within::Code;
                } else {
                    line.text.push(char);
                }
            }
            Within::Code if char == '/' && (ahead(position, "/") || ahead(position, "*")) => {
                line.comment.push(char);
                within = if ahead(position, "/") { Within::LineComment } else { Within::BlockComment(1) };
                line.comment.extend(chars.get(position));
                position += 1;
            }
            Within::Code if char == '"' => {
                within = Within::Text(raw(&line.code));
                line.code.push('"');
            }
            // A character literal, not a lifetime: it is closed after one character, or starts with a backslash.
            Within::Code if char == '\'' && (ahead(position, "\\") || ahead(position + 1, "'")) => {
                line.code.push_str("''");
                let escaped = usize::from(ahead(position, "\\"));
                position += escaped + 1;
                while chars.get(position).is_some_and(|&char| char != '\'' && char != '\n') {
                    position += 1;
                }
                position += usize::from(ahead(position, "'"));
            }
            Within::Code => line.code.push(char),
        }
    }
    lines.push(line);
    mark_tests(&mut lines);
    lines
}

fn starts_with(chars: &[char], what: &str) -> bool {
    let mut chars = chars.iter();
    what.chars().all(|char| chars.next() == Some(&char))
}

/// Returns the number of `#` of the raw string that a quote opens after this code; `None` for other strings.
fn raw(code: &str) -> Option<usize> {
    let prefix = code.trim_end_matches('#');
    let hashes = code.len() - prefix.len();
    let word = prefix.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
    matches!(word, Some("r" | "br" | "cr")).then_some(hashes)
}

/// Marks the lines of each test-only item, from its attribute to its closing brace.
fn mark_tests(lines: &mut [Line]) {
    let whole_file = lines.iter().any(|line| line.code.trim().starts_with("#![cfg(test)]"));
    let (mut depth, mut until) = (0_usize, None);
    for line in lines {
        let code = line.code.trim();
        if until.is_none() && is_for_tests(code) {
            until = Some((depth, false));
        }
        line.in_test = whole_file || until.is_some();
        for char in line.code.chars() {
            match char {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if let Some((outside, opened)) = &mut until {
                *opened |= char == '{';
                if depth == *outside && (char == '}' && *opened || char == ';' && !*opened) {
                    until = None;
                }
            }
        }
    }
}

fn is_for_tests(code: &str) -> bool {
    code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(all(test") || is_test_attribute(code)
}

/// Whether the attribute makes a function a test: `#[test]`, `#[tokio::test(…)]`.
pub(crate) fn is_test_attribute(code: &str) -> bool {
    let path = code.trim_start().strip_prefix("#[").and_then(|code| code.split([']', '(']).next());
    path.is_some_and(|path| path == "test" || path.ends_with("::test"))
}

/// Returns the name of the test that starts on these lines, after only attributes and comments, including a test
/// attribute.
pub(crate) fn test_below(lines: &[Line]) -> Result<String, &'static str> {
    let (mut is_test, mut within_attribute) = (false, false);
    for line in lines {
        let code = line.code.trim();
        if code.starts_with("#[ignore") {
            return Err("the test below is ignored, so it proves nothing");
        }
        if line.is_attribute() || within_attribute {
            is_test |= is_test_attribute(code);
            within_attribute = !code.ends_with(']');
        } else if !line.is_only_comment() {
            let signature = code.trim_start_matches("pub ").trim_start_matches("async ");
            let name = signature.strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next());
            return name.filter(|_| is_test).map(str::to_owned).ok_or("no test follows directly");
        }
    }
    Err("no test follows")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        lines(text).into_iter().map(|line| line.code + "\n").collect::<String>().trim_end().to_owned()
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        assert_eq!(code("a(\"b\\\"c\", 'd', '\\'', '\\u{7d}') // e"), "a(\"\", '', '', '')");
        assert_eq!(code("fn f<'a>(x: &'a str) {} /* } /* } */ */ g"), "fn f<'a>(x: &'a str) {}  g");
        assert_eq!(code("r#\"a\"b\"# br\"\\\" r#type \"c\nd\" e"), "r#\"\" br\"\" r#type \"\n\" e");
        assert_eq!(code("\"a \\\n b\" c"), "\"\n\" c");
        let line = &lines("let x = 1; // why // not")[0];
        assert_eq!(line.comment, "// why // not");
        assert!(!line.is_only_comment() && lines("    /// doc")[0].is_only_comment());
        assert_eq!(lines("/* a */ b")[0].comment, "/* a *");
    }

    #[test]
    fn string_literals_are_texts() {
        let text = |text: &str| lines(text).into_iter().map(|line| line.text + "|").collect::<String>();
        assert_eq!(text("a(\"b c\", \"d\") // \"e\""), "b c\"d\"|");
        assert_eq!(text("\"a\\nb \\\n c\"; 'x'"), "a b  | c\"|");
        assert_eq!(text("r#\"a \"b\" c\"# + \"\""), "a \"b\" c\"\"|");
    }

    #[test]
    fn test_attributes_mark_only_their_item() {
        let text = "#[cfg(test)]\nuse a;\nfn b() {}\n#[cfg(test)]\nmod c {\n fn d() {}\n}\nfn e() {}\n";
        let marks: Vec<bool> = lines(text).iter().map(|line| line.in_test).collect();
        assert_eq!(marks, [true, true, false, true, true, true, true, false, false]);
        let text = "mod a {\n #[tokio::test(start_paused = true)]\n async fn b() { '{'; }\n fn c() {}\n}";
        let marks: Vec<bool> = lines(text).iter().map(|line| line.in_test).collect();
        assert_eq!(marks, [false, true, true, false, false]);
        assert!(lines("#![cfg(test)]\nfn a() {}").iter().all(|line| line.in_test));
        assert!(!lines("#[cfg(not(test))]\nfn a() {}").iter().any(|line| line.in_test));
    }

    #[test]
    fn test_attributes_are_recognized() {
        for yes in ["#[test]", "  #[tokio::test]", "#[tokio::test(start_paused = true)]"] {
            assert!(is_test_attribute(yes), "{yes}");
        }
        for no in ["#[cfg(test)]", "#[cfg(not(test))]", "#[latest]", "test", "#[must_use]"] {
            assert!(!is_test_attribute(no), "{no}");
        }
    }
}
