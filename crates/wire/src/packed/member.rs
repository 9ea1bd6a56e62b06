//! The way to one member.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use crate::object_decoder::is_kept;
use crate::{Encoding, FieldPath, ObjectDecoder};

/// The way to one member of objects, by the names in JSON: `["spec", "nodeName"]`. Made once, for objects of one kind;
/// what leads to it is looked up once for protobuf. With objects of another kind it works too, and is looked up for
/// each.
pub struct MemberPath {
    names: Box<[Box<str>]>,
    protobuf: OnceLock<Found>,
    json: OnceLock<Found>,
}

/// What was found for the first object that was asked.
struct Found {
    message: Option<u16>,
    path: Option<FieldPath>,
}

impl MemberPath {
    /// The way by these names.
    pub fn new(names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).into()).collect();
        Self { names, protobuf: OnceLock::new(), json: OnceLock::new() }
    }

    pub(super) fn of(&self, decoder: &ObjectDecoder) -> Option<Cow<'_, FieldPath>> {
        let known = match decoder.encoding() {
            Encoding::Json => &self.json,
            Encoding::Protobuf => &self.protobuf,
        };
        let look_up = || {
            let names: Vec<&str> = self.names.iter().map(|name| &**name).collect();
            decoder.field_path(&names)
        };
        let found = known.get_or_init(|| Found { message: decoder.message(), path: look_up() });
        match found.message == decoder.message() {
            true => found.path.as_ref().map(Cow::Borrowed),
            false => look_up().map(Cow::Owned),
        }
    }
}

impl MemberPath {
    /// Whether no object is without it.
    pub(super) fn is_kept(&self) -> bool {
        let names: Vec<&str> = self.names.iter().map(|name| &**name).collect();
        is_kept(&names)
    }

    pub(super) fn text(&self) -> String {
        self.names.join(".")
    }
}

impl fmt::Debug for MemberPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemberPath({:?})", self.names.join("."))
    }
}
