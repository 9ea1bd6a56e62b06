//! The path to one field.

use std::fmt;

use crate::codec::AnyResolved;
use crate::dropped;

/// The path to one field of objects, made of JSON field names and map keys: `["spec", "nodeName"]`,
/// `["metadata", "labels", "app"]`, `["kind"]`. An empty path is the whole object. A path has the same meaning in every
/// encoding, also within JSON in protobuf. Paths cannot lead into lists.
///
/// Create a path once and use it for all objects of a kind: it is resolved once in each encoding. A path can be used
/// for objects of several kinds, but is then resolved again for each object of all kinds but the first.
///
/// Two paths are equal if their names are equal.
#[derive(Clone)]
pub struct FieldPath {
    names: Box<[Box<str>]>,
    resolved: AnyResolved,
    /// The entry of the field in the record of an object from which it is dropped.
    entry: Box<str>,
}

impl FieldPath {
    /// Creates the path of these names.
    pub fn new(names: &[&str]) -> Self {
        Self::of(names.iter().map(|name| (*name).into()).collect())
    }

    pub(crate) fn of(names: Box<[Box<str>]>) -> Self {
        let entry = dropped::entry(&names);
        Self { names, resolved: AnyResolved::default(), entry }
    }

    /// The names of the path.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    pub(crate) fn parts(&self) -> (&[Box<str>], &AnyResolved) {
        (&self.names, &self.resolved)
    }

    pub(crate) fn entry(&self) -> &str {
        &self.entry
    }

    /// Whether the field identifies an object or contains such a field, and so is never dropped.
    pub fn identifies(&self) -> bool {
        let names: Vec<&str> = self.names().collect();
        matches!(
            names.as_slice(),
            [] | ["metadata"] | ["metadata", "name" | "namespace" | "uid" | "resourceVersion"]
        )
    }
}

impl PartialEq for FieldPath {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

impl Eq for FieldPath {}

/// Writes the names separated by dots.
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join("."))
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldPath({:?})", self.names.join("."))
    }
}
