//! The elements of field paths.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::value;

/// How a field is selected in its parent. Cloning allocates nothing. Follows structured-merge-diff 6.4 (`fieldpath.PathElement`), also in its order.
#[derive(Clone, Debug)]
pub(super) enum PathElement {
    /// A field of a map.
    Field(Arc<str>),
    /// The item of a list with these key fields, sorted by name.
    Key(Arc<[KeyField]>),
    /// The item of a set.
    Value(Arc<Value>),
    /// The item of a list at a position.
    Index(i64),
}

/// A key field of a list item, and its value.
pub(super) type KeyField = (Cow<'static, str>, Value);

/// Why a key in `fieldsV1` is no path element.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum PathError {
    /// A type of a later version; such elements are dropped.
    #[error("unknown path element type")]
    UnknownType,
    #[error("{0}")]
    Malformed(String),
}

impl PathElement {
    /// Parses an element as it is written in `fieldsV1`.
    pub(super) fn parse(text: &str) -> Result<Self, PathError> {
        let malformed = |error: String| PathError::Malformed(error);
        if text.len() < 2 {
            return Err(malformed("key must be 2 characters long:".into()));
        }
        let Some((kind, rest)) =
            text.split_at_checked(1).and_then(|(kind, rest)| Some((kind, rest.strip_prefix(':')?)))
        else {
            return Err(malformed(format!("missing colon: {text}")));
        };
        let json = || serde_json::from_str::<Value>(rest).map_err(|error| malformed(error.to_string()));
        match kind {
            "f" => Ok(Self::Field(rest.into())),
            "v" => json().map(|value| Self::Value(Arc::new(value))),
            "k" => match json()? {
                Value::Object(map) => {
                    Ok(Self::Key(map.into_iter().map(|(name, value)| (name.into(), value)).collect()))
                }
                _ => Err(malformed(format!("expected an object of key fields: {rest}"))),
            },
            "i" => rest.parse().map(Self::Index).map_err(|_| malformed(format!("no index: {rest}"))),
            _ => Err(PathError::UnknownType),
        }
    }

    /// The text in `fieldsV1`.
    pub(super) fn to_key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let mut out = "k:{".to_owned();
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    value::write_text(&mut out, name, false);
                    out.push(':');
                    value::write_json(&mut out, value);
                }
                out.push('}');
                out
            }
            Self::Value(value) => {
                let mut out = "v:".to_owned();
                value::write_json(&mut out, value);
                out
            }
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Appends the text in `fieldsV1` as a JSON string.
    pub(super) fn write_key(&self, out: &mut String) {
        let is_plain = |name: &str| name.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\'));
        match self {
            Self::Field(name) if is_plain(name) => {
                out.push_str("\"f:");
                out.push_str(name);
                out.push('"');
            }
            element => out.push_str(&Value::String(element.to_key()).to_string()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// The element in messages: `.name`, `[name="a"]`, `[="a"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{name}={}", value::text(value)));
                write!(f, "[{}]", fields.collect::<Vec<_>>().join(","))
            }
            Self::Value(value) => write!(f, "[={}]", value::text(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                let field =
                    |a: &KeyField, b: &KeyField| a.0.cmp(&b.0).then_with(|| value::compare(&a.1, &b.1));
                let differing = a.iter().zip(b.iter()).map(|(a, b)| field(a, b)).find(|order| order.is_ne());
                differing.unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => value::compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// A path as in messages.
pub(super) fn path_text(path: &[PathElement]) -> String {
    path.iter().map(PathElement::to_string).collect()
}
