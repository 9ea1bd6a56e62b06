//! The way to one field.

use std::fmt;

use crate::codec::AnyResolved;

/// The way to one field of objects, by the names in JSON and keys of maps: `["spec", "nodeName"]`,
/// `["metadata", "labels", "app"]`, `["kind"]`; without names to all of it. It means the same in every encoding, also
/// where it leads into JSON that is in protobuf. It does not lead into lists.
///
/// Made once and used for all objects of one kind: what leads to the field is looked up once in each encoding. With
/// objects of several kinds it works too, and is looked up for each object of all kinds but the first.
///
/// Two paths are equal if their names are.
#[derive(Clone)]
pub struct FieldPath {
    names: Box<[Box<str>]>,
    resolved: AnyResolved,
}

impl FieldPath {
    /// The way by these names.
    pub fn new(names: &[&str]) -> Self {
        Self::of(names.iter().map(|name| (*name).into()).collect())
    }

    pub(crate) fn of(names: Box<[Box<str>]>) -> Self {
        Self { names, resolved: AnyResolved::default() }
    }

    /// Its names.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    pub(crate) fn parts(&self) -> (&[Box<str>], &AnyResolved) {
        (&self.names, &self.resolved)
    }

    /// Whether that field is never dropped: an object is identified by it, or is nothing without it.
    pub(crate) fn identifies(&self) -> bool {
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

/// The names with dots between them.
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
