//! Sets of fields as text, without a value for each of their fields.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::fields::{FieldSet, Node};
use super::path::{PathElement, PathError};
use crate::order;

impl FieldSet {
    /// The value of `fieldsV1` as text, with sorted keys.
    pub(super) fn to_text(&self) -> String {
        let mut out = String::with_capacity(256);
        self.write(&mut out, false);
        out
    }

    fn write(&self, out: &mut String, with_self: bool) {
        out.push('{');
        let mut is_first = true;
        if with_self && self.nodes().next().is_some() {
            out.push_str("\".\":{}");
            is_first = false;
        }
        let mut member = |out: &mut String, element: &PathElement, node: &Node| {
            if !std::mem::take(&mut is_first) {
                out.push(',');
            }
            element.write_key(out);
            out.push(':');
            node.children.write(out, node.is_member);
        };
        let members = self.nodes().filter(|(_, node)| !node.is_empty());
        if self.nodes().all(|(element, _)| matches!(element, PathElement::Field(_))) {
            members.for_each(|(element, node)| member(out, element, node));
        } else {
            // the order of texts is another one than that of values
            let mut members: Vec<_> = members.collect();
            order::sort_by_key(&mut members, |(element, _)| element.to_key());
            members.into_iter().for_each(|(element, node)| member(out, element, node));
        }
        out.push('}');
    }

    /// Parses the text of a value of `fieldsV1`.
    ///
    /// # Errors
    /// A text that is no JSON object, a key that is no path element, or a value that is no object.
    pub(super) fn parse_text(text: &str) -> Result<Self, String> {
        let parsed = serde_json::from_str::<Parsed>(text).map_err(|error| {
            let error = error.to_string();
            error.rsplit_once(" at line ").map_or(error.clone(), |(error, _)| error.to_owned())
        })?;
        Ok(parsed.set)
    }
}

/// A set as it is read.
struct Parsed {
    set: FieldSet,
    /// Whether the field itself is in the set: its value has the key `.`.
    is_listed: bool,
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SetVisitor)
    }
}

struct SetVisitor;

impl<'de> Visitor<'de> for SetVisitor {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Parsed, E> {
        Ok(Parsed { set: FieldSet::default(), is_listed: false })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parsed, A::Error> {
        let (mut nodes, mut is_listed) = (Vec::new(), false);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Listed => {
                    map.next_value::<IgnoredAny>()?;
                    is_listed = true;
                }
                Key::Unknown => {
                    map.next_value::<IgnoredAny>()?;
                }
                Key::Element(element) => {
                    let below: Parsed = map.next_value()?;
                    let is_member = below.is_listed || below.set.nodes().next().is_none();
                    nodes.push((element, Node { is_member, children: below.set }));
                }
            }
        }
        Ok(Parsed { set: FieldSet::of_unsorted(nodes), is_listed })
    }
}

/// A key of a set.
enum Key {
    Listed,
    /// An element of a later version, which is dropped.
    Unknown,
    Element(PathElement),
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path element")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Key, E> {
        match PathElement::parse(key) {
            _ if key == "." => Ok(Key::Listed),
            Ok(element) => Ok(Key::Element(element)),
            Err(PathError::UnknownType) => Ok(Key::Unknown),
            Err(error) => Err(E::custom(error)),
        }
    }
}
