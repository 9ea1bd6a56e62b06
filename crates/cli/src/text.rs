//! Text output for people and programs, in which no foreign text can control a terminal.
//!
//! Names, labels, fields and messages come from anyone who can write an object or answer a request. A terminal
//! interprets some characters as commands, and a line feed in foreign text forges a line of output. All output of the
//! program is made of [`Line`]s, and everything that is formatted into a line is escaped. There is no other way to
//! build a line.

use std::fmt::{self, Write as _};

use anstyle::Style;
use serde::Serialize;

/// Whether a character is displayed as an escape: control characters, line separators, and characters that are
/// invisible or change the text direction.
fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            // soft hyphen, Arabic letter mark, Mongolian vowel separator
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            // zero-width characters and marks of direction
            | '\u{200b}'..='\u{200f}'
            // line and paragraph separators, embeddings and overrides of direction
            | '\u{2028}'..='\u{202e}'
            // invisible operators, isolates of direction, deprecated format characters
            | '\u{2060}'..='\u{206f}'
            // byte order mark, interlinear annotations
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            // tags
            | '\u{e0000}'..='\u{e007f}'
        )
}

/// Whether a text is printable ASCII, and so needs no check of its characters.
fn is_plain(text: &[u8]) -> bool {
    // Without an early return, so that many bytes are compared at once.
    text.iter().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'))
}

/// Writes text with `\n`, `\r`, `\t` and `\u{..}` in place of unsafe characters.
struct Escape<'a>(&'a mut dyn fmt::Write);

impl fmt::Write for Escape<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if is_plain(text.as_bytes()) {
            return self.0.write_str(text);
        }
        let mut rest = text;
        while let Some((index, char)) = rest.char_indices().find(|(_, char)| is_unsafe(*char)) {
            let (safe, from) = rest.split_at(index);
            self.0.write_str(safe)?;
            match char {
                '\n' => self.0.write_str("\\n")?,
                '\r' => self.0.write_str("\\r")?,
                '\t' => self.0.write_str("\\t")?,
                char => write!(self.0, "\\u{{{:x}}}", u32::from(char))?,
            }
            rest = from.get(char.len_utf8()..).unwrap_or("");
        }
        self.0.write_str(rest)
    }
}

/// Formats text with unsafe characters escaped.
///
/// # Errors
/// The errors of the writer.
pub(crate) fn write_escaped(to: &mut dyn fmt::Write, text: fmt::Arguments<'_>) -> fmt::Result {
    Escape(to).write_fmt(text)
}

/// Returns a text with unsafe characters escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    // Writing to a string cannot fail.
    let _ = Escape(&mut escaped).write_str(text);
    escaped
}

/// One line that is safe to print, without its line feed. Only this program's own colours are unescaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line(String);

impl Line {
    /// Creates a line from formatted text.
    pub(crate) fn new(text: fmt::Arguments<'_>) -> Self {
        Self::default().then(text)
    }

    /// Appends formatted text.
    pub(crate) fn then(mut self, text: fmt::Arguments<'_>) -> Self {
        // Writing to a string cannot fail; also below.
        let _ = write_escaped(&mut self.0, text);
        self
    }

    /// Appends text with its tabs, which control nothing, and all other unsafe characters escaped.
    pub(crate) fn then_with_tabs(mut self, text: &str) -> Self {
        for (index, part) in text.split('\t').enumerate() {
            if index > 0 {
                self.0.push('\t');
            }
            self = self.then(format_args!("{part}"));
        }
        self
    }

    /// Appends formatted text in a style.
    pub(crate) fn styled(mut self, style: Style, text: fmt::Arguments<'_>) -> Self {
        let _ = write!(self.0, "{style}");
        self = self.then(text);
        let _ = write!(self.0, "{style:#}");
        self
    }

    /// Removes trailing white space.
    pub(crate) fn trimmed(mut self) -> Self {
        self.0.truncate(self.0.trim_end().len());
        self
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Lines that are safe to print, each with its line feed, in UTF-8.
#[derive(Debug, Default)]
pub(crate) struct Text(Vec<u8>);

/// Appends text without escapes.
struct Unescaped<'a>(&'a mut Vec<u8>);

impl fmt::Write for Unescaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl Text {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a line of formatted text.
    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) {
        let _ = write_escaped(&mut Unescaped(&mut self.0), text);
        self.0.push(b'\n');
    }

    /// Appends a line.
    pub(crate) fn push(&mut self, line: &Line) {
        self.0.extend_from_slice(line.0.as_bytes());
        self.0.push(b'\n');
    }

    /// Appends YAML or a script, with its line feeds and tabs. Other unsafe characters become the escapes of a quoted
    /// text.
    pub(crate) fn document(&mut self, text: &str) {
        let mut to = Unescaped(&mut self.0);
        for char in text.chars() {
            let _ = match (char, u32::from(char)) {
                ('\n' | '\t', _) => to.write_char(char),
                (char, _) if !is_unsafe(char) => to.write_char(char),
                (_, code @ ..=0xffff) => write!(to, "\\u{code:04x}"),
                (_, code) => write!(to, "\\U{code:08x}"),
            };
        }
    }

    /// Appends the lines of another text.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Appends a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) {
        let begin = self.0.len();
        // Strings and numbers always serialize.
        let written = serde_json::to_writer(&mut self.0, value);
        if self.0.get(begin..).is_some_and(|json| written.is_ok() && is_plain(json)) {
            self.0.push(b'\n');
        } else if let Ok(json) = String::from_utf8(self.0.split_off(begin))
            && written.is_ok()
        {
            self.json_text(&json);
        }
    }

    /// Appends existing JSON text as one line of the same value. Unsafe characters become `\uXXXX` in strings, and
    /// are removed between values, where valid JSON has them only as white space.
    pub(crate) fn json_text(&mut self, json: &str) {
        if is_plain(json.as_bytes()) {
            self.0.extend_from_slice(json.as_bytes());
        } else {
            self.escape_json(json);
        }
        self.0.push(b'\n');
    }

    fn escape_json(&mut self, json: &str) {
        let mut to = Unescaped(&mut self.0);
        let (mut in_string, mut after_backslash) = (false, false);
        for char in json.chars() {
            if is_unsafe(char) {
                if in_string {
                    for unit in char.encode_utf16(&mut [0; 2]) {
                        let _ = write!(to, "\\u{unit:04x}");
                    }
                }
                after_backslash = false;
                continue;
            }
            let _ = to.write_char(char);
            match char {
                '"' if !after_backslash => in_string = !in_string,
                '\\' if in_string && !after_backslash => {
                    after_backslash = true;
                    continue;
                }
                _ => {}
            }
            after_backslash = false;
        }
    }

    #[cfg(test)]
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("text")
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Prints a line to standard error, with colours if it is a terminal that supports them.
pub(crate) fn to_stderr(line: &Line) {
    anstream::eprintln!("{line}");
}

/// Installs a panic hook that reports panics as escaped lines, like all other output.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        to_stderr(&panicked(thread.name().unwrap_or("<unnamed>"), panic));
        let backtrace = std::backtrace::Backtrace::capture();
        if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
            backtrace.to_string().lines().for_each(|line| to_stderr(&Line::new(format_args!("{line}"))));
        }
    }));
}

fn panicked(thread: &str, panic: &std::panic::PanicHookInfo<'_>) -> Line {
    let line = Line::new(format_args!("thread '{thread}' panicked"));
    let line = match panic.location() {
        Some(location) => line.then(format_args!(" at {location}")),
        None => line,
    };
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref().map(String::as_str));
    line.then(format_args!(": {}", text.unwrap_or("the payload is no text")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, mpsc};

    use anstyle::AnsiColor;
    use serde_json::{Value, json};

    use super::*;

    /// Unsafe characters are escaped, all others are unchanged.
    // contract: T-01a
    #[test]
    fn controls_and_invisible_characters_are_escaped() {
        for (text, shown) in [
            ("plain ~ text", "plain ~ text"),
            ("größe 日本 🦀\u{fe0f}", "größe 日本 🦀\u{fe0f}"),
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\r\n\tb\0", "a\\r\\n\\tb\\u{0}"),
            ("\u{7f}\u{80}\u{9b}\u{9f}\u{a0}", "\\u{7f}\\u{80}\\u{9b}\\u{9f}\u{a0}"),
            ("\u{202a}\u{202e}\u{2066}\u{2069}", "\\u{202a}\\u{202e}\\u{2066}\\u{2069}"),
            ("\u{200e}\u{200f}\u{61c}\u{2028}\u{2029}", "\\u{200e}\\u{200f}\\u{61c}\\u{2028}\\u{2029}"),
            ("\u{200b}\u{200d}\u{2060}\u{feff}\u{e0041}", "\\u{200b}\\u{200d}\\u{2060}\\u{feff}\\u{e0041}"),
        ] {
            assert_eq!(escaped(text), shown);
            assert_eq!(Line::new(format_args!("{text}")).as_str(), shown);
        }
    }

    // contract: T-01g
    #[test]
    fn only_our_own_colours_are_unescaped() {
        let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
        let line = Line::default().styled(red, format_args!("a\u{1b}[0m")).then(format_args!(" b  "));
        assert_eq!(line.trimmed().as_str(), "\u{1b}[31ma\\u{1b}[0m\u{1b}[0m b");
    }

    // contract: T-02a
    #[test]
    fn json_is_the_same_value_in_one_line() {
        let hostile = "\u{1b}\n\u{7f}\u{9b}\u{202e}\u{e0041}\\\"\u{2028}é";
        let value = json!({hostile: [hostile, "a\\", {"b\\\"\u{85}": 1}]});
        for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("JSON")] {
            let mut lines = Text::default();
            lines.json_text(&text);
            let line = lines.as_str().strip_suffix('\n').expect("a line");
            assert!(!line.contains(is_unsafe), "{line:?}");
            assert_eq!(serde_json::from_str::<Value>(line).expect("JSON"), value);
        }
    }

    // contract: T-01f
    #[test]
    fn a_panic_is_one_line() {
        let (send, lines) = mpsc::channel();
        let before = std::panic::take_hook();
        let before = Arc::new(before);
        let others = before.clone();
        std::panic::set_hook(Box::new(move |panic| match std::thread::current().name() {
            Some("to panic") => drop(send.send(panicked("to panic", panic))),
            _ => others(panic),
        }));
        let panicking = std::thread::Builder::new().name("to panic".into());
        let ended = panicking.spawn(|| panic!("a\nb\u{1b}[2J")).expect("a thread").join();
        std::panic::set_hook(Box::new(move |panic| before(panic)));
        assert!(ended.is_err());
        let line = lines.recv().expect("a report");
        assert!(line.as_str().starts_with("thread 'to panic' panicked at "), "{line}");
        assert!(line.as_str().ends_with(": a\\nb\\u{1b}[2J"), "{line}");
    }

    /// Code that prints by itself could print unescaped text.
    #[test]
    fn no_other_file_writes_to_the_terminal() {
        const ONLY_HERE: [&str; 8] = [
            "print!(",
            "println!(",
            "io::stdout",
            "io::stderr",
            "comfy_table",
            "Cli::parse()",
            ".println(",
            "set_message(",
        ];
        // The exceptions, each with its reason.
        let may = |file: &str, what: &str| {
            matches!(
                (file, what),
                ("text.rs", _)
                    // takes `Text`, whose lines are safe
                    | ("output.rs", "io::stdout")
                    // escapes fields as they are formatted
                    | ("logs.rs", "io::stderr")
                    // escapes cells
                    | ("table.rs", "comfy_table")
                    // takes `Line`s
                    | ("screen.rs", "io::stdout" | ".println(" | "println!(" | "print!(" | "set_message(")
            )
        };
        let mut files = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(path) = files.pop() {
            if path.is_dir() {
                let entries = std::fs::read_dir(&path).expect("readable");
                files.extend(entries.map(|entry| entry.expect("readable").path()));
                continue;
            }
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let source = std::fs::read_to_string(&path).expect("readable");
            for what in ONLY_HERE {
                assert!(
                    !source.contains(what) || may(&name, what),
                    "{name} has {what}: print a Line or Text"
                );
            }
        }
    }
}
