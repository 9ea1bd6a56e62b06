//! Message layouts.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

/// All message layouts. Each is parsed when it is first used.
pub(crate) static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| Schema::parse(include_str!("../generated/schema.txt")));

pub(crate) struct Schema {
    messages: Vec<Line>,
    /// Message numbers by `apiVersion kind`.
    kinds: HashMap<&'static str, usize>,
}

/// The line of a message.
struct Line {
    /// The name, then the fields.
    text: &'static str,
    message: OnceLock<Box<Message>>,
}

/// The fields of a message, by number.
#[derive(Debug)]
pub(crate) struct Message {
    name: &'static str,
    fields: Vec<FieldType>,
    /// The indexes of the fields that have a member, by the length of its name and the name.
    by_member: Vec<u16>,
}

#[derive(Debug)]
pub(crate) struct FieldType {
    pub(crate) number: u32,
    /// The name in JSON; empty for an embedded struct, whose fields are those of the enclosing message.
    pub(crate) member: &'static str,
    pub(crate) card: Card,
    pub(crate) base: Base,
    pub(crate) zero: Zero,
}

/// What JSON has for a field with the zero value of its Go type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zero {
    /// The field is a pointer, a list or a map, which is omitted if there is none.
    Unset,
    Omitted,
    Written,
    Null,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Card {
    One,
    Repeated,
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Text,
    Bytes,
    Bool,
    Int,
    Double,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Json,
    TextList,
    Message(usize),
    SchemaOrArray(usize),
    SchemaOrBool(usize),
    SchemaOrStrings(usize),
}

impl Schema {
    /// Lines and fields that do not parse are skipped; tests check that there are none.
    fn parse(text: &'static str) -> Self {
        let mut schema = Self { messages: Vec::new(), kinds: HashMap::new() };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some(kind) = line.strip_prefix("kind ") else {
                schema.messages.push(Line { text: line, message: OnceLock::new() });
                continue;
            };
            if let Some((kind, Ok(message))) = kind.rsplit_once(' ').map(|(kind, text)| (kind, text.parse()))
            {
                schema.kinds.insert(kind, message);
            }
        }
        schema
    }

    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Message> {
        // Options are sent in the version of the resource that they are for.
        let version = if kind == "DeleteOptions" { "*" } else { api_version };
        self.kinds.get(format!("{version} {kind}").as_str()).and_then(|index| self.message(*index))
    }

    pub(crate) fn message(&self, index: usize) -> Option<&Message> {
        let Line { text, message } = self.messages.get(index)?;
        Some(message.get_or_init(|| Box::new(Message::parse(text))))
    }
}

impl Message {
    fn parse(line: &'static str) -> Self {
        let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
        let fields: Vec<FieldType> = fields.split(' ').filter_map(field).collect();
        let named = (0..).zip(&fields).filter(|(_, field)| !field.member.is_empty());
        let mut by_member: Vec<(&str, u16)> = named.map(|(index, field)| (field.member, index)).collect();
        by_member.sort_unstable_by_key(|(member, _)| (member.len(), *member));
        Self { name, fields, by_member: by_member.into_iter().map(|(_, index)| index).collect() }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn fields(&self) -> &[FieldType] {
        &self.fields
    }

    /// Returns the field of a member, which may be that of an embedded struct.
    pub(crate) fn find(&self, member: &str) -> Option<&FieldType> {
        let named = |index: &u16| self.fields.get(usize::from(*index));
        let place = self.by_member.binary_search_by_key(&(member.len(), member), |index| {
            named(index).map_or((0, ""), |field| (field.member.len(), field.member))
        });
        match place {
            Ok(place) => self.by_member.get(place).and_then(named),
            Err(_) if self.by_member.len() == self.fields.len() => None,
            Err(_) => self.embedded().find_map(|message| message.find(member)),
        }
    }

    fn embedded(&self) -> impl Iterator<Item = &Self> {
        self.fields.iter().filter_map(|field| match field.base {
            Base::Message(index) if field.member.is_empty() => SCHEMA.message(index),
            _ => None,
        })
    }

    pub(crate) fn field(&self, number: u32) -> Option<&FieldType> {
        let index = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(index)
    }
}

fn field(word: &'static str) -> Option<FieldType> {
    let mut parts = word.splitn(3, ':');
    let (number, member, code) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let zeros = [('?', Zero::Omitted), ('!', Zero::Written), ('~', Zero::Null)];
    let zero =
        zeros.into_iter().find(|(sign, _)| code.ends_with(*sign)).map_or(Zero::Unset, |(_, zero)| zero);
    let code = code.trim_end_matches(['?', '!', '~']);
    let (card, code) = match code.split_at_checked(1)? {
        ("r", code) => (Card::Repeated, code),
        ("m", code) => (Card::Map, code),
        _ => (Card::One, code),
    };
    let (letter, index) = code.split_at_checked(1)?;
    let message = || index.parse().ok();
    let base = match letter {
        "s" => Base::Text,
        "y" => Base::Bytes,
        "b" => Base::Bool,
        "i" => Base::Int,
        "d" => Base::Double,
        "t" => Base::Time,
        "T" => Base::MicroTime,
        "q" => Base::Quantity,
        "I" => Base::IntOrString,
        "j" => Base::Json,
        "L" => Base::TextList,
        "M" => Base::Message(message()?),
        "A" => Base::SchemaOrArray(message()?),
        "O" => Base::SchemaOrBool(message()?),
        "S" => Base::SchemaOrStrings(message()?),
        _ => return None,
    };
    Some(FieldType { number, member, card, base, zero })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_schema_parses() {
        let text = include_str!("../generated/schema.txt");
        let words = text.lines().filter(|line| !line.starts_with(['#']) && !line.starts_with("kind "));
        let fields: usize = words.map(|line| line.split(' ').count() - 1).sum();
        let messages: Vec<_> = (0..SCHEMA.messages.len()).filter_map(|index| SCHEMA.message(index)).collect();
        assert_eq!(messages.iter().map(|message| message.fields.len()).sum::<usize>(), fields);
        assert_eq!(SCHEMA.kinds.len(), text.lines().filter(|line| line.starts_with("kind ")).count());
        for message in messages {
            assert!(message.fields.is_sorted_by_key(|field| field.number));
            for field in message.fields.iter().filter(|field| !field.member.is_empty()) {
                assert_eq!(message.find(field.member).map(|found| found.number), Some(field.number));
            }
            for field in &message.fields {
                if let Base::Message(index) = field.base {
                    assert!(SCHEMA.message(index).is_some());
                }
            }
        }
        for kind in crate::registry::builtin_kinds() {
            assert!(SCHEMA.of_kind(&kind.0, &kind.1).is_some(), "{kind:?}");
        }
    }
}
