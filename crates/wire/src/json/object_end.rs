//! Finds the end of a JSON object that arrives in pieces.

use memchr::memchr3;

use super::text::{JsonProblem, Levels};

/// The read part of an object. Its structure is checked; its strings and scalars are left to serde.
#[derive(Debug, Default)]
pub(super) struct ObjectEnd {
    read: usize,
    levels: Levels,
    expected: Expected,
    in_string: bool,
    escaped: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Expected {
    #[default]
    Object,
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    /// As `CommaOrEnd`, or more of a number, `true`, `false` or `null`.
    RestOfScalar,
}

impl ObjectEnd {
    /// The number of read bytes, at an error those before it.
    pub(super) fn read(&self) -> usize {
        self.read
    }

    /// Reads on and returns the length of the object; `None` if it has not ended. The bytes begin with those of the calls
    /// before.
    pub(super) fn find(&mut self, object: &[u8]) -> Result<Option<usize>, JsonProblem> {
        while let Some(rest) = object.get(self.read..)
            && let Some(&byte) = rest.first()
        {
            if self.in_string {
                self.string(rest)?;
                continue;
            }
            self.expected = self.after(byte)?;
            self.read += 1;
            if self.levels.is_empty() && !matches!(self.expected, Expected::Object) {
                return Ok(Some(self.read));
            }
        }
        Ok(None)
    }

    /// Reads a string up to its end, or to a byte that needs attention.
    fn string(&mut self, rest: &[u8]) -> Result<(), JsonProblem> {
        let plain = if self.escaped { 0 } else { memchr3(b'"', b'\\', b'\n', rest).unwrap_or(rest.len()) };
        self.read += plain;
        match rest.get(plain) {
            None => return Ok(()),
            Some(b'\n') => return Err(JsonProblem::Control),
            Some(b'\\') => self.escaped = !self.escaped,
            Some(_) if self.escaped => self.escaped = false,
            Some(_) => self.in_string = false,
        }
        self.read += 1;
        Ok(())
    }

    fn after(&mut self, byte: u8) -> Result<Expected, JsonProblem> {
        use Expected::*;
        Ok(match (self.expected, byte) {
            (RestOfScalar, b' ' | b'\n' | b'\r' | b'\t') => CommaOrEnd,
            (expected, b' ' | b'\n' | b'\r' | b'\t') => expected,
            (Object | Value | ValueOrEnd, b'{') => {
                self.levels.open(false);
                KeyOrEnd
            }
            (Value | ValueOrEnd, b'[') => {
                self.levels.open(true);
                ValueOrEnd
            }
            (Value | ValueOrEnd, b'"') => {
                self.in_string = true;
                CommaOrEnd
            }
            (Key | KeyOrEnd, b'"') => {
                self.in_string = true;
                Colon
            }
            (Value | ValueOrEnd | RestOfScalar, b'+' | b'-' | b'.') => RestOfScalar,
            (Value | ValueOrEnd | RestOfScalar, byte) if byte.is_ascii_alphanumeric() => RestOfScalar,
            (Colon, b':') => Value,
            (CommaOrEnd | RestOfScalar, b',') if self.levels.is_list() => Value,
            (CommaOrEnd | RestOfScalar, b',') => Key,
            (CommaOrEnd | RestOfScalar | ValueOrEnd, b']') if self.levels.is_list() => {
                self.levels.close();
                CommaOrEnd
            }
            (CommaOrEnd | RestOfScalar | KeyOrEnd, b'}') if !self.levels.is_list() => {
                self.levels.close();
                CommaOrEnd
            }
            (Object | Value | ValueOrEnd, _) => return Err(JsonProblem::Value),
            (Key | KeyOrEnd, _) => return Err(JsonProblem::Key),
            (Colon, _) => return Err(JsonProblem::Colon),
            (CommaOrEnd | RestOfScalar, _) => return Err(JsonProblem::Comma),
        })
    }
}
