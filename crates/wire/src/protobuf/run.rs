//! What is known while one object is decoded: how deep it is, where, and what was skipped.

use std::cell::Cell;
use std::fmt;

use serde::de;

use super::reader::ProtobufProblem;
use super::schema::{Field, Name};
use crate::limits::{Exceeded, Limits, Place};

/// How many levels are read: as many as serde_json reads.
pub(super) const DEPTH: u8 = 128;

/// The decoding of one object.
pub(crate) struct Run<'a> {
    /// Fields that the tables do not have.
    unknown: Cell<u64>,
    /// How many steps of the trail are of now.
    level: Cell<u8>,
    trail: &'a [Cell<Step>],
    pub(super) limits: &'a Limits,
}

/// Where a value is.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) run: &'a Run<'a>,
    /// How many messages and maps are around it.
    pub(super) level: u8,
    pub(super) place: Place,
}

impl<'a> At<'a> {
    /// In no other value; what is built of it has that size.
    pub(super) fn outermost(run: &'a Run<'a>, size: usize) -> Self {
        Self { run, level: 0, place: Place::outermost(size) }
    }

    /// Into a value that has others in it, of which one of that size is built.
    #[inline]
    pub(super) fn enter(self, size: usize) -> Result<Self, Fault> {
        let place = self.place.enter(self.run.limits, size)?;
        if self.level >= DEPTH {
            return Ok(self.run.limits.exceeded(Exceeded::Depth)?);
        }
        Ok(Self { place, ..self })
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

impl<'a> Run<'a> {
    pub(crate) fn new(trail: &'a Trail, limits: &'a Limits) -> Self {
        Self { unknown: Cell::new(0), level: Cell::new(0), trail: &trail.0, limits }
    }

    /// For a value that has nothing in it: it does not say where it was.
    pub(crate) fn without_trail(limits: &'a Limits) -> Self {
        Self { unknown: Cell::new(0), level: Cell::new(0), trail: &[], limits }
    }

    /// On this level, between two fields.
    #[inline]
    pub(super) fn between(&self, level: u8) {
        self.level.set(level);
    }

    /// In that field of a message on this level.
    #[inline]
    pub(super) fn within(&self, level: u8, field: &Field) {
        if let Some(step) = self.trail.get(usize::from(level)) {
            step.set(Step { name: field.name, place: 0 });
        }
        self.level.set(level + 1);
    }

    /// In an entry of a map on this level.
    #[inline]
    pub(super) fn within_entry(&self, level: u8) {
        if let Some(step) = self.trail.get(usize::from(level)) {
            step.set(Step { name: Name::NONE, place: 0 });
        }
        self.level.set(level + 1);
    }

    /// In the next place of a list, which is a field of a message on the level before this.
    #[inline]
    pub(super) fn next_place(&self, level: u8) {
        if let Some(step) = level.checked_sub(1).and_then(|level| self.trail.get(usize::from(level))) {
            let Step { name, place } = step.get();
            step.set(Step { name, place: place + 1 });
        }
        self.level.set(level);
    }

    #[cold]
    pub(super) fn skipped(&self) {
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

/// Why an object does not decode. One word, because every result of decoding holds one.
#[derive(Debug)]
pub(crate) struct Fault(Box<Why>);

#[derive(Debug)]
pub(crate) enum Why {
    Bytes(ProtobufProblem),
    /// The bytes are sound, and the type does not take them.
    Type(String),
}

impl Fault {
    pub(crate) fn into_why(self) -> Why {
        *self.0
    }
}

/// Bytes in the place of what the type wants.
#[cold]
pub(super) fn expected(what: &str) -> Fault {
    Fault(Box::new(Why::Type(format!("the type wants {what} here, and the field is none"))))
}

impl From<&'static ProtobufProblem> for Fault {
    #[cold]
    fn from(problem: &'static ProtobufProblem) -> Self {
        Self(Box::new(Why::Bytes(*problem)))
    }
}

/// What was exceeded is in the limits, from where it gets into the error.
impl From<Exceeded> for Fault {
    #[cold]
    fn from(exceeded: Exceeded) -> Self {
        Self(Box::new(Why::Type(exceeded.text().to_owned())))
    }
}

impl From<serde_json::Error> for Fault {
    #[cold]
    fn from(error: serde_json::Error) -> Self {
        de::Error::custom(error)
    }
}

impl de::Error for Fault {
    #[cold]
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self(Box::new(Why::Type(problem.to_string())))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Why::Bytes(problem) => problem.fmt(f),
            Why::Type(problem) => f.write_str(problem),
        }
    }
}

impl std::error::Error for Fault {}
