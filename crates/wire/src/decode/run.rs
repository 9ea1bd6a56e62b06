//! The state of decoding one object: depth, path, and skipped fields.

use std::cell::Cell;

use super::Fault;
use crate::limits::{Exceeded, Limits, Place};
use crate::schema::{Field, Name};

/// The maximum number of levels.
const DEPTH: u8 = 127;

/// The state of decoding one object.
pub(crate) struct Run<'a, 'de> {
    /// The number of fields that are not in the tables.
    unknown: Cell<u64>,
    /// The number of current steps in the trail.
    level: Cell<u8>,
    trail: &'a [Cell<Step>],
    pub(crate) limits: &'a Limits,
    /// The input, and its unread rest, in an encoding that is read sequentially.
    text: Cell<&'de [u8]>,
    rest: Cell<&'de [u8]>,
    /// The input, if it is UTF-8.
    utf8: Cell<Option<&'de str>>,
}

/// The position of a value.
#[derive(Clone, Copy)]
pub(crate) struct Position<'a, 'de> {
    pub(crate) run: &'a Run<'a, 'de>,
    /// The number of messages and maps around the value.
    pub(crate) level: u8,
    pub(crate) place: Place,
}

impl<'a, 'de> Position<'a, 'de> {
    /// The position of an outermost value, from which a value of this size is built.
    pub(crate) fn outermost(run: &'a Run<'a, 'de>, size: usize) -> Self {
        Self { run, level: 0, place: Place::outermost(size) }
    }

    /// Enters a container, from which a value of this size is built.
    #[inline]
    pub(crate) fn enter(self, size: usize) -> Result<Self, Fault> {
        let place = self.place.enter(self.run.limits, size)?;
        if self.level >= DEPTH {
            return Ok(self.run.limits.exceeded(Exceeded::Depth)?);
        }
        Ok(Self { place, ..self })
    }

    /// The position of a value of this size within this one.
    #[inline]
    pub(crate) fn within(self, size: usize) -> Self {
        Self { place: self.place.within(size), ..self }
    }

    /// The position one level deeper.
    #[inline]
    pub(crate) fn deeper(self) -> Self {
        Self { level: self.level + 1, ..self }
    }
}

/// The current field on each level.
pub(crate) struct Trail([Cell<Step>; DEPTH as usize]);

impl Trail {
    pub(crate) fn new() -> Self {
        Self([const { Cell::new(Step { name: Name::NONE, place: 0 }) }; DEPTH as usize])
    }
}

/// A field, and for a list the position in it, from 1.
#[derive(Clone, Copy)]
struct Step {
    name: Name,
    place: u32,
}

impl<'a, 'de> Run<'a, 'de> {
    /// Without a trail, errors have no path.
    pub(crate) fn new(trail: Option<&'a Trail>, limits: &'a Limits) -> Self {
        Self::with(trail.map_or(&[], |trail| &trail.0), limits)
    }

    /// For scalar values: errors have no path.
    pub(crate) fn without_trail(limits: &'a Limits) -> Self {
        Self::with(&[], limits)
    }

    fn with(trail: &'a [Cell<Step>], limits: &'a Limits) -> Self {
        let empty: &[u8] = &[];
        let (text, rest) = (Cell::new(empty), Cell::new(empty));
        let (unknown, level, utf8) = (Cell::new(0), Cell::new(0), Cell::new(None));
        Self { unknown, level, trail, limits, text, rest, utf8 }
    }

    /// Starts to read an input.
    pub(crate) fn begin(&self, text: &'de [u8]) {
        self.text.set(text);
        self.rest.set(text);
        // One check of the whole input is faster than one for each string.
        self.utf8.set(std::str::from_utf8(text).ok());
    }

    /// The input, if all of it is UTF-8.
    #[inline]
    pub(crate) fn utf8(&self) -> Option<&'de str> {
        self.utf8.get()
    }

    /// The unread rest of the input.
    #[inline]
    pub(crate) fn rest(&self) -> &'de [u8] {
        self.rest.get()
    }

    #[inline]
    pub(crate) fn set_rest(&self, rest: &'de [u8]) {
        self.rest.set(rest);
    }

    /// Moves back by one byte in the input.
    pub(crate) fn step_back(&self) {
        let (text, rest) = (self.text.get(), self.rest.get());
        let before = text.len().checked_sub(rest.len() + 1).and_then(|start| text.get(start..));
        self.rest.set(before.unwrap_or(rest));
    }

    /// Returns the error with the position in the input, if one is being read.
    pub(crate) fn with_position(&self, fault: &Fault) -> String {
        let (text, rest) = (self.text.get(), self.rest.get());
        let read = text.len().checked_sub(rest.len()).and_then(|read| text.get(..read));
        let Some(read) = read.filter(|_| !text.is_empty()) else { return fault.to_string() };
        let line = read.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = read.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        format!("{fault}, at line {line} column {column}")
    }

    /// Records that the reader is between two fields of this level.
    #[inline]
    pub(crate) fn between(&self, level: u8) {
        self.level.set(level);
    }

    /// Records that the reader is in this field of a message of this level.
    #[inline]
    pub(crate) fn within(&self, level: u8, field: &Field) {
        if let Some(step) = self.trail.get(usize::from(level)) {
            step.set(Step { name: field.name, place: 0 });
        }
        self.level.set(level + 1);
    }

    /// Records that the reader is in an entry of a map of this level.
    #[inline]
    pub(crate) fn within_entry(&self, level: u8) {
        if let Some(step) = self.trail.get(usize::from(level)) {
            step.set(Step { name: Name::NONE, place: 0 });
        }
        self.level.set(level + 1);
    }

    /// Records that the reader is at the next element of a list, which is a field of a message of the previous level.
    #[inline]
    pub(crate) fn next_place(&self, level: u8) {
        if let Some(step) = level.checked_sub(1).and_then(|level| self.trail.get(usize::from(level))) {
            let Step { name, place } = step.get();
            step.set(Step { name, place: place + 1 });
        }
        self.level.set(level);
    }

    #[cold]
    pub(crate) fn skipped(&self) {
        self.unknown.set(self.unknown.get() + 1);
    }

    pub(crate) fn unknown(&self) -> u64 {
        self.unknown.get()
    }

    /// Returns the path of the reader, such as `spec.containers[2].image`.
    pub(crate) fn path(&self) -> String {
        let mut path = String::new();
        for step in self.trail.iter().take(usize::from(self.level.get())) {
            let Step { name, place } = step.get();
            if !path.is_empty() && name != Name::NONE {
                path.push('.');
            }
            path.push_str(name.text());
            if let Some(place) = place.checked_sub(1) {
                path.push_str(&format!("[{place}]"));
            }
        }
        path
    }
}
