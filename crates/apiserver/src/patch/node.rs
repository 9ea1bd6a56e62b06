//! The document of a JSON patch: parsed where an operation reaches it.
//!
//! Follows Kubernetes 1.37 (`lazyNode` of `gopkg.in/evanphx/json-patch.v4`). Plain values are compared as texts, so the
//! texts of the patch are kept, and those of the object are as Go writes them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::order;

/// How deep the values that are compared may be. No object is deeper.
const MAX_DEPTH: usize = 128;

/// A value of the document.
#[derive(Debug)]
pub(super) enum Node {
    /// A null of the object, or a value that does not exist.
    Missing,
    /// A null of the patch.
    Null,
    /// A value of the object, other than null.
    Stored(Value),
    /// A value of the patch, other than null.
    Given(Box<RawValue>),
    Map(BTreeMap<String, Node>),
    List(Vec<Node>),
}

impl Node {
    pub(super) fn of(object: Map<String, Value>) -> Self {
        Self::Map(order::map(object.into_iter().map(|(name, value)| (name, Self::stored(value)))))
    }

    fn stored(value: Value) -> Self {
        if value.is_null() { Self::Missing } else { Self::Stored(value) }
    }

    /// Returns the value of an operation.
    pub(super) fn given(text: &RawValue) -> Self {
        if is_null(text) { Self::Null } else { Self::Given(text.to_owned()) }
    }

    /// A member or an item of a value of the patch.
    fn part(text: &RawValue) -> Self {
        if is_null(text) { Self::Missing } else { Self::Given(text.to_owned()) }
    }

    /// Parses the members or the items of a value.
    pub(super) fn open(&mut self) {
        match self {
            Self::Stored(Value::Object(members)) => {
                let members = std::mem::take(members).into_iter();
                *self = Self::Map(order::map(members.map(|(name, value)| (name, Self::stored(value)))));
            }
            Self::Stored(Value::Array(items)) => {
                *self = Self::List(std::mem::take(items).into_iter().map(Self::stored).collect());
            }
            Self::Given(text) => {
                let opened = match Parts::of(text) {
                    Parts::Map(members) => Self::Map(order::map(
                        members.into_iter().map(|(name, text)| (name, Self::part(text))),
                    )),
                    Parts::List(items) => Self::List(items.into_iter().map(Self::part).collect()),
                    Parts::None => return,
                };
                *self = opened;
            }
            _ => {}
        }
    }

    /// Returns the JSON of the value as Go writes it.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Missing | Self::Null => out.push_str("null"),
            Self::Stored(value) => out.push_str(&text_of(value)),
            Self::Given(text) => out.push_str(&escaped(text.get().to_owned())),
            Self::Map(members) => {
                out.push('{');
                for (number, (name, node)) in members.iter().enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    out.push_str(&text_of(&Value::from(name.as_str())));
                    out.push(':');
                    node.write(out);
                }
                out.push('}');
            }
            Self::List(items) => {
                out.push('[');
                for (number, node) in items.iter().enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    node.write(out);
                }
                out.push(']');
            }
        }
    }

    /// # Errors
    /// A value of the patch is too deep.
    pub(super) fn into_value(self) -> Result<Value, serde_json::Error> {
        Ok(match self {
            Self::Missing | Self::Null => Value::Null,
            Self::Stored(value) => value,
            Self::Given(text) => serde_json::from_str(text.get())?,
            Self::Map(members) => {
                let mut object = Map::new();
                for (name, node) in members {
                    object.insert(name, node.into_value()?);
                }
                Value::Object(object)
            }
            Self::List(items) => {
                Value::Array(items.into_iter().map(Self::into_value).collect::<Result<_, _>>()?)
            }
        })
    }

    /// How many maps and lists are within each other, without those that are not parsed.
    pub(super) fn depth(&self) -> usize {
        let parts: &mut dyn Iterator<Item = &Self> = match self {
            Self::Map(members) => &mut members.values(),
            Self::List(items) => &mut items.iter(),
            _ => return 0,
        };
        1 + parts.map(Self::depth).max().unwrap_or(0)
    }

    /// Whether a test of this value for another one passes.
    pub(super) fn equals(&self, other: &Self) -> bool {
        equal(&View::of(self), &View::of(other), 0)
    }
}

fn is_null(text: &RawValue) -> bool {
    text.get() == "null"
}

/// Escapes the characters that Go escapes in JSON. They are in strings only.
fn escaped(text: String) -> String {
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
        out
    })
}

fn text_of(value: &Value) -> String {
    escaped(value.to_string())
}

/// The members or the items of a text.
enum Parts<'a> {
    Map(BTreeMap<String, &'a RawValue>),
    List(Vec<&'a RawValue>),
    None,
}

impl<'a> Parts<'a> {
    fn of(text: &'a RawValue) -> Self {
        match text.get().as_bytes().first() {
            Some(b'{') => serde_json::from_str(text.get()).map_or(Self::None, Self::Map),
            Some(b'[') => serde_json::from_str(text.get()).map_or(Self::None, Self::List),
            _ => Self::None,
        }
    }
}

/// A value that is compared.
enum View<'a> {
    Missing,
    Null,
    Stored(&'a Value),
    Given(&'a RawValue),
    Node(&'a Node),
}

/// One level of a value that is compared. A null of the patch is an empty text.
enum Level<'a> {
    Missing,
    Plain(Cow<'a, str>),
    Map(BTreeMap<Cow<'a, str>, View<'a>>),
    List(Vec<View<'a>>),
}

impl<'a> View<'a> {
    fn of(node: &'a Node) -> Self {
        match node {
            Node::Missing => Self::Missing,
            Node::Null => Self::Null,
            Node::Stored(value) => Self::Stored(value),
            Node::Given(text) => Self::Given(text),
            Node::Map(_) | Node::List(_) => Self::Node(node),
        }
    }

    fn stored(value: &'a Value) -> Self {
        if value.is_null() { Self::Missing } else { Self::Stored(value) }
    }

    fn given(text: &'a RawValue) -> Self {
        if is_null(text) { Self::Missing } else { Self::Given(text) }
    }

    fn level(&self) -> Level<'a> {
        match *self {
            Self::Null => Level::Plain("".into()),
            Self::Stored(Value::Object(members)) => Level::Map(order::map(
                members.iter().map(|(name, value)| (name.as_str().into(), Self::stored(value))),
            )),
            Self::Stored(Value::Array(items)) => Level::List(items.iter().map(Self::stored).collect()),
            Self::Stored(plain) => Level::Plain(text_of(plain).into()),
            Self::Given(text) => match Parts::of(text) {
                Parts::Map(members) => Level::Map(order::map(
                    members.into_iter().map(|(name, text)| (name.into(), Self::given(text))),
                )),
                Parts::List(items) => Level::List(items.into_iter().map(Self::given).collect()),
                Parts::None => Level::Plain(text.get().into()),
            },
            Self::Node(Node::Map(members)) => Level::Map(order::map(
                members.iter().map(|(name, node)| (name.as_str().into(), Self::of(node))),
            )),
            Self::Node(Node::List(items)) => Level::List(items.iter().map(Self::of).collect()),
            Self::Missing | Self::Node(_) => Level::Missing,
        }
    }
}

fn equal(one: &View<'_>, other: &View<'_>, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    match (one.level(), other.level()) {
        (Level::Missing, Level::Missing) => true,
        (Level::Plain(one), Level::Plain(other)) => one == other,
        (Level::Map(one), Level::Map(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| equal(one, other, depth + 1)))
        }
        (Level::List(one), Level::List(other)) => {
            one.len() == other.len()
                && one.iter().zip(&other).all(|(one, other)| equal(one, other, depth + 1))
        }
        _ => false,
    }
}
