//! JSON values and containers.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::de::Expected;

use super::text::{JsonProblem, colon, literal, number, skip, space, string};
use crate::codec::{AnyContainer, AnyValue};
use crate::codec::{ReadContainer, ReadValue};
use crate::decode::{Fault, Position, Scratch, Text, Token};

/// The next value of the input.
pub(crate) struct Value<'a, 'de> {
    position: Position<'a, 'de>,
    /// Whether the value is the whole input.
    is_whole: bool,
}

impl<'a, 'de> Value<'a, 'de> {
    /// Creates the value of this input.
    pub(crate) fn of(position: Position<'a, 'de>, json: &'de [u8]) -> Self {
        position.run.begin(json);
        Self { position, is_whole: true }
    }

    /// Ends the value at the given rest.
    #[inline]
    fn end(&self, rest: &'de [u8]) -> Result<(), Fault> {
        self.position.run.set_rest(rest);
        if self.is_whole { end(self.position) } else { Ok(()) }
    }

    #[inline]
    fn scalar<T>(
        &self,
        mut rest: &'de [u8],
        read: impl FnOnce(&mut &'de [u8]) -> Result<T, JsonProblem>,
    ) -> Result<T, Fault> {
        let value = read(&mut rest)?;
        self.end(rest)?;
        Ok(value)
    }
}

/// Checks that the input has ended.
#[inline(never)]
fn end(position: Position<'_, '_>) -> Result<(), Fault> {
    let mut rest = position.run.rest();
    let next = space(&mut rest);
    position.run.set_rest(rest);
    match next {
        None => {
            // Later errors are not in this input, so they have no position in it.
            position.run.begin(&[]);
            Ok(())
        }
        Some(_) => Err(JsonProblem::Trailing.into()),
    }
}

impl<'a, 'de> ReadValue<'a, 'de> for Value<'a, 'de> {
    #[inline(never)]
    fn take_null(&self) -> Result<bool, Fault> {
        let mut rest = self.position.run.rest();
        let is_null = space(&mut rest) == Some(b'n');
        if is_null {
            self.scalar(rest, |rest| literal(rest, b"null"))?;
        }
        Ok(is_null)
    }

    #[inline(always)]
    fn open<R>(
        &self,
        size: usize,
        make: impl FnOnce(Position<'a, 'de>, AnyContainer<'a, 'de>) -> R,
    ) -> Result<Option<R>, Fault> {
        let mut rest = self.position.run.rest();
        let Some(open @ (b'{' | b'[')) = space(&mut rest) else { return Ok(None) };
        let position = self.position.enter(size)?;
        position.run.set_rest(rest.get(1..).unwrap_or_default());
        let state = State::Begun;
        let container = Container { is_list: open == b'[', state, is_whole: self.is_whole, run: PhantomData };
        Ok(Some(make(position, AnyContainer::Json(container))))
    }

    #[inline]
    fn token<'t>(&self, _: &'t mut Scratch) -> Result<Token<'t, 'de>, Fault> {
        let mut rest = self.position.run.rest();
        let next = space(&mut rest);
        self.position.run.set_rest(rest);
        match next {
            Some(b'{') => Ok(Token::Map),
            Some(b'[') => Ok(Token::List),
            Some(b'"') => {
                Ok(Token::Text(self.scalar(rest, |rest| string(rest, self.position.run.utf8()))?.into()))
            }
            Some(b't') => self.scalar(rest, |rest| literal(rest, b"true")).map(|()| Token::Bool(true)),
            Some(b'f') => self.scalar(rest, |rest| literal(rest, b"false")).map(|()| Token::Bool(false)),
            Some(b'n') => self.scalar(rest, |rest| literal(rest, b"null")).map(|()| Token::Null),
            Some(b'-' | b'0'..=b'9') => Ok(Token::Number(self.scalar(rest, number)?)),
            Some(_) => Err(JsonProblem::Value.into()),
            None => Err(JsonProblem::End.into()),
        }
    }

    #[inline]
    fn text<'t>(&self, scratch: &'t mut Scratch, expected: &dyn Expected) -> Result<Text<'t, 'de>, Fault> {
        let mut rest = self.position.run.rest();
        if space(&mut rest) == Some(b'"') {
            return Ok(self.scalar(rest, |rest| string(rest, self.position.run.utf8()))?.into());
        }
        Err(self.token(scratch)?.unexpected(expected))
    }

    #[inline]
    fn skip(&self) -> Result<(), Fault> {
        self.scalar(self.position.run.rest(), skip)
    }

    fn raw_json(&self) -> Result<Option<&'de str>, Fault> {
        let mut from = self.position.run.rest();
        space(&mut from);
        let mut rest = from;
        skip(&mut rest)?;
        let json = from.get(..from.len().saturating_sub(rest.len())).unwrap_or_default();
        let json = std::str::from_utf8(json).map_err(|_| JsonProblem::Utf8)?;
        self.end(rest)?;
        Ok(Some(json))
    }
}

/// The content of an object or array.
pub(crate) struct Container<'a, 'de> {
    is_list: bool,
    state: State,
    /// Whether the value is the whole input.
    is_whole: bool,
    run: PhantomData<Position<'a, 'de>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begun,
    Within,
    Ended,
}

/// Moves to the next entry. Returns `false` if there is none.
#[inline]
fn next(rest: &mut &[u8], state: &mut State, close: u8) -> Result<bool, JsonProblem> {
    let before = match *state {
        State::Ended => return Ok(false),
        before => before,
    };
    match space(rest) {
        Some(byte) if byte == close => {
            *rest = rest.get(1..).unwrap_or_default();
            *state = State::Ended;
            return Ok(false);
        }
        None => return Err(JsonProblem::End),
        Some(_) if before == State::Begun => {}
        Some(b',') => {
            *rest = rest.get(1..).unwrap_or_default();
            if space(rest) == Some(close) {
                return Err(JsonProblem::TrailingComma);
            }
        }
        Some(_) => return Err(JsonProblem::Comma),
    }
    *state = State::Within;
    Ok(true)
}

impl<'a, 'de> ReadContainer<'a, 'de> for Container<'a, 'de> {
    #[inline]
    fn is_list(&self) -> bool {
        self.is_list
    }

    #[inline]
    fn count(&self) -> Option<usize> {
        None
    }

    /// Moves back before the opening bracket.
    fn unread(&self, position: Position<'a, 'de>) {
        position.run.step_back();
    }

    #[inline]
    fn next_key(&mut self, position: Position<'a, 'de>) -> Result<Option<Cow<'de, str>>, Fault> {
        let mut rest = position.run.rest();
        let key = match next(&mut rest, &mut self.state, b'}') {
            Ok(true) if rest.first() == Some(&b'"') => {
                string(&mut rest, position.run.utf8()).and_then(|key| {
                    colon(&mut rest)?;
                    Ok(Some(key))
                })
            }
            Ok(true) => Err(JsonProblem::Key),
            Ok(false) => Ok(None),
            Err(problem) => Err(problem),
        };
        position.run.set_rest(rest);
        Ok(key?)
    }

    #[inline]
    fn value(
        &mut self,
        position: Position<'a, 'de>,
        value: &mut Option<AnyValue<'a, 'de>>,
    ) -> Result<(), Fault> {
        *value = Some(AnyValue::Json(Value { position: position.deeper(), is_whole: false }));
        Ok(())
    }

    #[inline]
    fn next_element(
        &mut self,
        position: Position<'a, 'de>,
        value: &mut Option<AnyValue<'a, 'de>>,
    ) -> Result<bool, Fault> {
        let mut rest = position.run.rest();
        let next = next(&mut rest, &mut self.state, b']');
        position.run.set_rest(rest);
        *value = Some(AnyValue::Json(Value { position: position.deeper(), is_whole: false }));
        Ok(next?)
    }

    #[inline]
    fn end(&mut self, position: Position<'a, 'de>) -> Result<(), Fault> {
        if self.state != State::Ended {
            let mut rest = position.run.rest();
            let more = next(&mut rest, &mut self.state, if self.is_list { b']' } else { b'}' })?;
            position.run.set_rest(rest);
            if more {
                return Err(JsonProblem::More.into());
            }
        }
        if self.is_whole { end(position) } else { Ok(()) }
    }
}
