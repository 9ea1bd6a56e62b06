//! Drops fields from JSON without decoding the rest.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::types::OBJECT;
use crate::Error;
use crate::schema::JsonObject;

/// The remaining names of a path, and the number of the path.
#[derive(Clone, Copy)]
struct Suffix<'a> {
    names: &'a [Box<str>],
    number: usize,
}

/// Returns a value without the fields of these paths; `None` if it is not an object. The number of a path is added to
/// `dropped` if the value had such a field.
pub(crate) fn drop_fields_of_value<'a>(
    value: &[u8],
    object: JsonObject,
    paths: impl Iterator<Item = (usize, &'a [Box<str>])>,
    dropped: &mut Vec<usize>,
) -> serde_json::Result<Option<Vec<u8>>> {
    if value.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    let suffixes: Vec<Suffix<'_>> = paths.map(|(number, names)| Suffix { names, number }).collect();
    let mut out = Vec::with_capacity(value.len());
    put(&mut out, &serde_json::from_slice(value)?, object, &suffixes, dropped)?;
    Ok(Some(out))
}

/// Returns the object without the fields of these paths.
pub(super) fn drop_fields<'a>(
    object: &[u8],
    paths: impl Iterator<Item = &'a [Box<str>]>,
    dropped: &mut Vec<usize>,
) -> Result<Vec<u8>, Error> {
    let malformed = |error| Error::malformed(OBJECT, error, object);
    let suffixes: Vec<Suffix<'_>> =
        paths.enumerate().map(|(number, names)| Suffix { names, number }).collect();
    let mut out = Vec::with_capacity(object.len());
    let members = serde_json::from_slice(object).map_err(malformed)?;
    put(&mut out, &members, JsonObject::Kind, &suffixes, dropped).map_err(malformed)?;
    Ok(out)
}

/// Writes the members without the fields of these paths. Returns whether members are left. A map that loses its last
/// key is left out: protobuf has no empty maps.
fn put(
    out: &mut Vec<u8>,
    members: &Members<'_>,
    object: JsonObject,
    suffixes: &[Suffix<'_>],
    dropped: &mut Vec<usize>,
) -> serde_json::Result<bool> {
    let object = if object == JsonObject::Kind { members.object() } else { object };
    out.push(b'{');
    let mut is_empty = true;
    for (key, value) in &members.0 {
        let within = suffixes.iter().filter_map(|suffix| {
            let (name, names) = suffix.names.split_first()?;
            (**name == *key.0).then_some(Suffix { names, ..*suffix })
        });
        let within: Vec<Suffix<'_>> = within.collect();
        let ends = || within.iter().filter(|suffix| suffix.names.is_empty()).map(|suffix| suffix.number);
        if ends().next().is_some() {
            // A null counts as a missing field.
            if value.get() != "null" {
                dropped.extend(ends());
            }
            continue;
        }
        let before = out.len();
        if !is_empty {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, &key.0)?;
        out.push(b':');
        if !within.is_empty() && value.get().starts_with('{') {
            let (members, inner) = (serde_json::from_str::<Members<'_>>(value.get())?, object.member(&key.0));
            let is_left = put(out, &members, inner, &within, dropped)?;
            if inner.is_map() && !is_left && !members.0.is_empty() {
                out.truncate(before);
                continue;
            }
        } else {
            out.extend_from_slice(value.get().as_bytes());
        }
        is_empty = false;
    }
    out.push(b'}');
    Ok(!is_empty)
}

/// The members of an object in their order, with unparsed values.
struct Members<'a>(Vec<(Key<'a>, &'a RawValue)>);

impl Members<'_> {
    /// Returns the type of an object by its API version and kind.
    fn object(&self) -> JsonObject {
        let text = |name| {
            let member = self.0.iter().find(|(key, _)| key.0 == name);
            member.and_then(|(_, value)| serde_json::from_str::<Key<'_>>(value.get()).ok())
        };
        let text = |name| text(name).unwrap_or_default().0;
        JsonObject::of_kind(&text("apiVersion"), &text("kind"))
    }
}

#[derive(Default, Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;

        impl<'de> Visitor<'de> for Visit {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Visit)
    }
}
