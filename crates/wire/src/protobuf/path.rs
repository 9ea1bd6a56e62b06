//! Paths to fields in protobuf, and the search for a field.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::access::{entries, map_entry};
use super::reader::{ProtobufProblem, Raw, field_if, is_zero, skip, tag, value};
use super::value::Value;
use crate::decode::{Fault, Position};
use crate::schema::{Card, Field, Kind, Rule, Schema, Shape, message};

/// The path to one field.
#[derive(Clone, Debug)]
pub(super) struct Path {
    root: Root,
    steps: Vec<Step>,
    /// The names after the steps: within JSON, or within a value without fields.
    within: Box<[Box<str>]>,
}

/// The start of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Root {
    Message,
    /// `apiVersion`, which is not in the message of an object.
    ApiVersion,
    Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Field(&'static Field),
    /// The key in a map, which is the previous field.
    Key(Box<str>),
}

impl Path {
    /// Resolves a path. Returns `None` if the kind has no such field. An empty path is the whole object.
    pub(super) fn new(schema: Schema, names: &[Box<str>]) -> Option<Self> {
        let root = match names.first().map(|name| &**name) {
            Some("apiVersion") => Root::ApiVersion,
            Some("kind") => Root::Kind,
            _ => Root::Message,
        };
        if root != Root::Message {
            return Some(Self { root, steps: Vec::new(), within: names.get(1..).unwrap_or_default().into() });
        }
        let mut steps = Vec::new();
        let rest = match names {
            [] => names,
            names => resolve(schema.message, names, &mut steps)?,
        };
        Some(Self { root, steps, within: rest.into() })
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(super) fn within(&self) -> &[Box<str>] {
        &self.within
    }

    /// Whether the path leads to `apiVersion` or `kind`, and objects of this schema have that field.
    pub(super) fn is_to_types_of(&self, schema: Schema) -> bool {
        self.within.is_empty()
            && match self.root {
                Root::Message => false,
                Root::ApiVersion => schema.types.api_version,
                Root::Kind => schema.types.kind,
            }
    }

    /// Whether the field is a scalar, in which errors need no path.
    pub(super) fn is_to_plain_value(&self) -> bool {
        use Kind::{Bool, Double, Int, Int32, Text};
        let plain = |field: &Field| {
            field.shape.card == Card::One && matches!(field.shape.kind, Text | Int | Int32 | Bool | Double)
        };
        self.within.is_empty() && matches!(self.steps.last(), Some(Step::Field(field)) if plain(field))
    }
}

/// A path that is resolved for the first object and cached for other objects of its kind.
#[derive(Clone, Default)]
pub(crate) struct Resolved(OnceLock<(u16, Option<Path>)>);

impl Resolved {
    /// Returns the path in objects of this kind, if they have such a field.
    #[inline]
    pub(super) fn of(&self, schema: Schema, names: &[Box<str>]) -> Option<Cow<'_, Path>> {
        let (message, path) = self.0.get_or_init(|| (schema.message, Path::new(schema, names)));
        match *message == schema.message {
            true => path.as_ref().map(Cow::Borrowed),
            false => Path::new(schema, names).map(Cow::Owned),
        }
    }
}

/// Adds the steps from a message to a field and returns the remaining names. Leaves the steps unchanged if there is no
/// such field.
fn resolve<'n>(index: u16, names: &'n [Box<str>], steps: &mut Vec<Step>) -> Option<&'n [Box<str>]> {
    let (name, rest) = names.split_first()?;
    let before = steps.len();
    for field in message(index) {
        let Shape { message, kind, card } = field.shape;
        steps.push(Step::Field(field));
        let found = match (field.rule, card, kind, rest) {
            (Rule::Inline, ..) => resolve(message, names, steps),
            _ if field.name.text() != &**name => None,
            (_, Card::One, Kind::Message, [_, ..]) => resolve(message, rest, steps),
            (_, Card::Map, kind, [key, rest @ ..]) => {
                steps.push(Step::Key(key.clone()));
                match (kind, rest) {
                    (Kind::Message, [_, ..]) => resolve(message, rest, steps),
                    _ => Some(rest),
                }
            }
            _ => Some(rest),
        };
        if found.is_some() {
            return found;
        }
        steps.truncate(before);
    }
    None
}

/// A found field of an object.
pub(crate) struct Found<'de> {
    value: FoundValue<'de>,
    /// The number of names that remain after this field.
    pub(super) names: usize,
    pub(super) is_plain: bool,
}

/// The value of a found field.
enum FoundValue<'de> {
    /// The object itself.
    Object(&'de [u8]),
    /// `apiVersion` or `kind`, which are not in the message.
    Text(&'static str),
    /// A value, with its other entries if it is a list or map.
    Field { shape: Shape, number: u8, raw: Raw<'de>, more: &'de [u8] },
}

impl<'de> Found<'de> {
    #[inline]
    pub(super) fn value<'a>(&self, position: Position<'a, 'de>, schema: &'a Schema) -> Value<'a, 'de> {
        match &self.value {
            FoundValue::Object(object) => Value::object(position, schema, object),
            FoundValue::Text(text) => Value::text(position, text),
            FoundValue::Field { shape, number, raw, more } => {
                Value { number: *number, more, ..Value::new(position, *shape, *raw) }
            }
        }
    }
}

/// Finds the field, if the object has it.
pub(super) fn find<'de>(schema: Schema, path: &Path, object: &'de [u8]) -> Result<Option<Found<'de>>, Fault> {
    let value = match path.root {
        Root::ApiVersion if schema.types.api_version => Some(FoundValue::Text(schema.api_version)),
        Root::Kind if schema.types.kind => Some(FoundValue::Text(schema.kind)),
        Root::ApiVersion | Root::Kind => None,
        Root::Message if path.steps.is_empty() => Some(FoundValue::Object(object)),
        Root::Message => find_value(path, object)?,
    };
    Ok(value.map(|value| Found { value, names: path.within.len(), is_plain: path.is_to_plain_value() }))
}

fn find_value<'de>(path: &Path, object: &'de [u8]) -> Result<Option<FoundValue<'de>>, Fault> {
    let mut rest = object;
    let mut found: Option<(&'static Field, Raw<'de>)> = None;
    let mut shape = None;
    for step in &path.steps {
        match (step, found) {
            (Step::Field(field), within) => {
                if let Some((_, raw)) = within {
                    rest = raw.bytes()?;
                }
                let Some(raw) = find_field(&mut rest, field)? else { return Ok(None) };
                found = Some((field, raw));
                shape = Some(field.shape);
            }
            (Step::Key(key), Some((map, first))) => {
                let Some(raw) = find_entry(&mut rest, map, first, key)? else { return Ok(None) };
                found = Some((map, raw));
                shape = Some(Shape { card: Card::One, ..map.shape });
            }
            (Step::Key(_), None) => return Ok(None),
        }
    }
    let (Some((field, raw)), Some(shape)) = (found, shape) else { return Ok(None) };
    let more = if shape.card == Card::One { &[] } else { entries(&mut rest, field.number) };
    Ok(Some(FoundValue::Field { shape, number: field.number, raw, more }))
}

/// Returns the first value of a field, unless JSON omits it, and moves `rest` after it. Reads the whole message,
/// because an object with disordered or duplicate fields is an error everywhere.
fn find_field<'de>(
    rest: &mut &'de [u8],
    field: &Field,
) -> Result<Option<Raw<'de>>, &'static ProtobufProblem> {
    let wanted = u32::from(field.number);
    let (mut bytes, mut last, mut found) = (*rest, 0, None);
    while !bytes.is_empty() {
        let (number, wire_type) = tag(&mut bytes)?;
        if number < last {
            return Err(&ProtobufProblem::Disordered);
        }
        last = number;
        if number != wanted {
            skip(&mut bytes, wire_type)?;
            continue;
        }
        match found {
            None => {
                let zero = field.rule == Rule::OmitZero && is_zero(bytes, wire_type);
                let raw = value(&mut bytes, wire_type)?;
                *rest = bytes;
                found = Some((!zero).then_some(raw));
            }
            Some(_) if field.shape.card == Card::One => return Err(&ProtobufProblem::Disordered),
            Some(_) => skip(&mut bytes, wire_type)?,
        }
    }
    Ok(found.flatten())
}

/// Returns the last value of a key. `rest` is after the first entry.
fn find_entry<'de>(
    rest: &mut &'de [u8],
    map: &Field,
    first: Raw<'de>,
    wanted: &str,
) -> Result<Option<Raw<'de>>, Fault> {
    let (mut next, mut found) = (Some(first), None);
    while let Some(entry) = next {
        let (key, raw) = map_entry(entry, map.shape.kind)?;
        if key == wanted {
            found = Some(raw);
        }
        next = field_if(rest, u32::from(map.number))?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_exist_only_for_fields_of_the_kind() {
        let pod = Schema::of("v1", "Pod").unwrap();
        let owned = |names: &[&str]| names.iter().map(|name| (*name).into()).collect::<Vec<Box<str>>>();
        let steps = |names: &[&str]| Path::new(pod, &owned(names)).map(|path| path.steps.len());
        assert_eq!(steps(&["spec", "nodeName"]), Some(2));
        assert_eq!(steps(&["spec", "containers"]), Some(2));
        assert_eq!(steps(&["metadata", "labels", "a.b/c"]), Some(3));
        // Names after the value are an error of objects that have such a value, as in JSON.
        assert_eq!(steps(&["spec", "containers", "name"]), Some(2));
        assert_eq!(steps(&["metadata", "labels", "a", "b"]), Some(3));
        assert_eq!((steps(&[]), steps(&["kind"])), (Some(0), Some(0)));
        for none in [["spec", "nodename"], ["no", "such"]] {
            assert_eq!(steps(&none), None, "{none:?}");
        }
        let policy = Schema::of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy").unwrap();
        assert!(Path::new(policy, &owned(&["spec", "matchConstraints", "resourceRules"])).is_some());
    }
}
