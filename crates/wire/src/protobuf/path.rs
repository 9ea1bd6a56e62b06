//! One member of an object, without the rest of it.

use serde::Deserialize;

use super::access::map_entry;
use super::reader::{ProtobufProblem, Raw, field_if, is_zero, skip, tag, value};
use super::run::{Fault, Run};
use super::schema::{Card, Field, Kind, Rule, Schema, Shape, message};
use super::value::Value;

/// The fields to go through.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Field(&'static Field),
    /// Of a map, which is the field before.
    Key(Box<str>),
}

impl Path {
    /// Nothing if the kind has no such member.
    pub(crate) fn new(schema: Schema, names: &[&str]) -> Option<Self> {
        let mut steps = Vec::new();
        resolve(schema.message, names, &mut steps).then_some(Self { steps })
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether there is nothing in the member that could have a place of its own.
    pub(super) fn is_to_plain_value(&self) -> bool {
        use Kind::{Bool, Double, Int, Text};
        let plain = |field: &Field| {
            field.shape.card == Card::One && matches!(field.shape.kind, Text | Int | Bool | Double)
        };
        matches!(self.steps.last(), Some(Step::Field(field)) if plain(field))
    }
}

/// Adds what leads from a message to a member; leaves the steps as they are if there is none.
fn resolve(index: u16, names: &[&str], steps: &mut Vec<Step>) -> bool {
    let Some((name, rest)) = names.split_first() else { return false };
    let before = steps.len();
    for field in message(index) {
        let Shape { message, kind, card } = field.shape;
        steps.push(Step::Field(field));
        let found = match (field.rule, card, kind, rest) {
            (Rule::Inline, ..) => resolve(message, names, steps),
            _ if field.name.text() != *name => false,
            (_, _, _, []) => true,
            (_, Card::One, Kind::Message, rest) => resolve(message, rest, steps),
            (_, Card::Map, kind, [key, rest @ ..]) => {
                steps.push(Step::Key((*key).into()));
                rest.is_empty() || kind == Kind::Message && resolve(message, rest, steps)
            }
            _ => false,
        };
        if found {
            return true;
        }
        steps.truncate(before);
    }
    false
}

/// Decodes the member, if the object has it.
pub(super) fn decode<'de, K: Deserialize<'de>>(
    run: &Run<'_>,
    path: &Path,
    object: &'de [u8],
) -> Result<Option<K>, Fault> {
    let mut rest = object;
    let Some(value) = find(run, path, &mut rest)? else { return Ok(None) };
    Option::deserialize(value)
}

/// Goes to the member; `rest` is the object, and then what follows in the message that has the member.
fn find<'a, 'de>(
    run: &'a Run<'a>,
    path: &Path,
    rest: &'a mut &'de [u8],
) -> Result<Option<Value<'a, 'de>>, Fault> {
    let mut found: Option<(&'static Field, Raw<'de>)> = None;
    let mut shape = None;
    for step in &path.steps {
        match (step, found) {
            (Step::Field(field), within) => {
                if let Some((_, raw)) = within {
                    *rest = raw.bytes()?;
                }
                let Some(raw) = find_field(rest, field)? else { return Ok(None) };
                found = Some((field, raw));
                shape = Some(field.shape);
            }
            (Step::Key(key), Some((map, first))) => {
                let Some(raw) = find_entry(rest, map, first, key)? else { return Ok(None) };
                found = Some((map, raw));
                shape = Some(Shape { card: Card::One, ..map.shape });
            }
            (Step::Key(_), None) => return Ok(None),
        }
    }
    let (Some((field, raw)), Some(shape)) = (found, shape) else { return Ok(None) };
    let more = (shape.card != Card::One).then_some(rest);
    Ok(Some(Value { run, level: 0, shape, raw, number: field.number, more }))
}

/// The first value of a field, unless JSON leaves it out. `rest` goes behind it.
fn find_field<'de>(
    rest: &mut &'de [u8],
    field: &Field,
) -> Result<Option<Raw<'de>>, &'static ProtobufProblem> {
    let wanted = u32::from(field.number);
    let mut bytes = *rest;
    while !bytes.is_empty() {
        let (number, wire_type) = tag(&mut bytes)?;
        if number < wanted {
            skip(&mut bytes, wire_type)?;
            continue;
        }
        if number > wanted {
            return Ok(None);
        }
        let zero = field.rule == Rule::OmitZero && is_zero(bytes, wire_type);
        let raw = value(&mut bytes, wire_type)?;
        *rest = bytes;
        return Ok((!zero).then_some(raw));
    }
    Ok(None)
}

/// The value of a key. `rest` is behind the first entry.
fn find_entry<'de>(
    rest: &mut &'de [u8],
    map: &Field,
    first: Raw<'de>,
    wanted: &str,
) -> Result<Option<Raw<'de>>, Fault> {
    let mut next = Some(first);
    while let Some(entry) = next {
        let (key, raw) = map_entry(entry, map.shape.kind)?;
        if key == wanted {
            return Ok(Some(raw));
        }
        next = field_if(rest, u32::from(map.number))?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_kind_has_is_a_path() {
        let pod = Schema::of("v1", "Pod").unwrap();
        let steps = |names: &[&str]| Path::new(pod, names).map(|path| path.steps.len());
        assert_eq!(steps(&["spec", "nodeName"]), Some(2));
        assert_eq!(steps(&["spec", "containers"]), Some(2));
        assert_eq!(steps(&["metadata", "labels", "a.b/c"]), Some(3));
        for none in [
            ["spec", "nodename"].as_slice(),
            &[],
            &["spec", "containers", "name"],
            &["metadata", "labels", "a", "b"],
            &["metadata", "name", "first"],
            &["kind"],
        ] {
            assert_eq!(steps(none), None, "{none:?}");
        }
        let policy = Schema::of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy").unwrap();
        assert!(Path::new(policy, &["spec", "matchConstraints", "resourceRules"]).is_some());
    }
}
