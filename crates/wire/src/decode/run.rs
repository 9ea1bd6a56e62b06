//! What is known while one object is decoded: how deep it is, where, and what was skipped.

use std::cell::Cell;

use super::Fault;
use crate::limits::{Exceeded, Limits, Place};
use crate::protobuf::{Field, Name};

/// How many levels are read.
const DEPTH: u8 = 127;

/// The decoding of one object.
pub(crate) struct Run<'a, 'de> {
    /// Fields that the tables do not have.
    unknown: Cell<u64>,
    /// How many steps of the trail are of now.
    level: Cell<u8>,
    trail: &'a [Cell<Step>],
    pub(crate) limits: &'a Limits,
    /// The text that is being read, and what is left of it, in an encoding that is read from the front to the end.
    text: Cell<&'de [u8]>,
    rest: Cell<&'de [u8]>,
    /// The text, if it is UTF-8.
    utf8: Cell<Option<&'de str>>,
}

/// Where a value is.
#[derive(Clone, Copy)]
pub(crate) struct At<'a, 'de> {
    pub(crate) run: &'a Run<'a, 'de>,
    /// How many messages and maps are around it.
    pub(crate) level: u8,
    pub(crate) place: Place,
}

impl<'a, 'de> At<'a, 'de> {
    /// In no other value; what is built of it has that size.
    pub(crate) fn outermost(run: &'a Run<'a, 'de>, size: usize) -> Self {
        Self { run, level: 0, place: Place::outermost(size) }
    }

    /// Into a value that has others in it, of which one of that size is built.
    #[inline]
    pub(crate) fn enter(self, size: usize) -> Result<Self, Fault> {
        let place = self.place.enter(self.run.limits, size)?;
        if self.level >= DEPTH {
            return Ok(self.run.limits.exceeded(Exceeded::Depth)?);
        }
        Ok(Self { place, ..self })
    }

    /// Where something of that size is, within.
    #[inline]
    pub(crate) fn within(self, size: usize) -> Self {
        Self { place: self.place.within(size), ..self }
    }

    /// One level deeper.
    #[inline]
    pub(crate) fn deeper(self) -> Self {
        Self { level: self.level + 1, ..self }
    }
}

/// Where it is kept what is being read on each level.
pub(crate) struct Trail([Cell<Step>; DEPTH as usize]);

impl Trail {
    pub(crate) fn new() -> Self {
        Self([const { Cell::new(Step { name: Name::NONE, place: 0 }) }; DEPTH as usize])
    }
}

/// A field, and the place in it where it is a list, from 1.
#[derive(Clone, Copy)]
struct Step {
    name: Name,
    place: u32,
}

impl<'a, 'de> Run<'a, 'de> {
    /// Without a trail it does not say where it was.
    pub(crate) fn new(trail: Option<&'a Trail>, limits: &'a Limits) -> Self {
        Self::with(trail.map_or(&[], |trail| &trail.0), limits)
    }

    /// For a value that has nothing in it: it does not say where it was.
    pub(crate) fn without_trail(limits: &'a Limits) -> Self {
        Self::with(&[], limits)
    }

    fn with(trail: &'a [Cell<Step>], limits: &'a Limits) -> Self {
        let empty: &[u8] = &[];
        let (text, rest) = (Cell::new(empty), Cell::new(empty));
        let (unknown, level, utf8) = (Cell::new(0), Cell::new(0), Cell::new(None));
        Self { unknown, level, trail, limits, text, rest, utf8 }
    }

    /// Begins to read a text.
    pub(crate) fn begin(&self, text: &'de [u8]) {
        self.text.set(text);
        self.rest.set(text);
        // Asked once of all of it, which is faster than of each text in it.
        self.utf8.set(std::str::from_utf8(text).ok());
    }

    /// The text that is being read, if all of it is UTF-8.
    #[inline]
    pub(crate) fn utf8(&self) -> Option<&'de str> {
        self.utf8.get()
    }

    /// What is left of the text.
    #[inline]
    pub(crate) fn rest(&self) -> &'de [u8] {
        self.rest.get()
    }

    #[inline]
    pub(crate) fn set_rest(&self, rest: &'de [u8]) {
        self.rest.set(rest);
    }

    /// One byte back in the text.
    pub(crate) fn step_back(&self) {
        let (text, rest) = (self.text.get(), self.rest.get());
        let before = text.len().checked_sub(rest.len() + 1).and_then(|at| text.get(at..));
        self.rest.set(before.unwrap_or(rest));
    }

    /// What is wrong, and up to where the text was read if one is being read.
    pub(crate) fn with_position(&self, fault: &Fault) -> String {
        let (text, rest) = (self.text.get(), self.rest.get());
        let read = text.len().checked_sub(rest.len()).and_then(|read| text.get(..read));
        let Some(read) = read.filter(|_| !text.is_empty()) else { return fault.to_string() };
        let line = read.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = read.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        format!("{fault}, at line {line} column {column}")
    }

    /// On this level, between two fields.
    #[inline]
    pub(crate) fn between(&self, level: u8) {
        self.level.set(level);
    }

    /// In that field of a message on this level.
    #[inline]
    pub(crate) fn within(&self, level: u8, field: &Field) {
        if let Some(step) = self.trail.get(usize::from(level)) {
            step.set(Step { name: field.name, place: 0 });
        }
        self.level.set(level + 1);
    }

    /// In an entry of a map on this level.
    #[inline]
    pub(crate) fn within_entry(&self, level: u8) {
        if let Some(step) = self.trail.get(usize::from(level)) {
            step.set(Step { name: Name::NONE, place: 0 });
        }
        self.level.set(level + 1);
    }

    /// In the next place of a list, which is a field of a message on the level before this.
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

    /// Where it was last, as `spec.containers[2].image`.
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
