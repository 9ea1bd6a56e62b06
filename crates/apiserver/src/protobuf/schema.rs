//! Message layouts.

use std::collections::HashMap;
use std::sync::LazyLock;

/// All message layouts, parsed at the first protobuf body.
pub(super) static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| Schema::parse(include_str!("../generated/schema.txt")));

pub(super) struct Schema {
    messages: Vec<Message>,
    /// Message numbers by `apiVersion kind`.
    kinds: HashMap<String, usize>,
}

/// The fields of a message, by number.
#[derive(Debug, Default)]
pub(super) struct Message {
    name: &'static str,
    fields: Vec<FieldType>,
}

#[derive(Debug)]
pub(super) struct FieldType {
    pub(super) number: u32,
    /// The name in JSON; empty for an embedded struct, whose fields are those of the enclosing message.
    pub(super) member: &'static str,
    pub(super) card: Card,
    pub(super) base: Base,
    pub(super) omit_empty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Card {
    One,
    Repeated,
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
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
    /// Lines that do not parse are skipped; tests check that there are none.
    fn parse(text: &'static str) -> Self {
        let mut schema = Self { messages: Vec::new(), kinds: HashMap::new() };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            match words.next() {
                Some("kind") => {
                    if let (Some(version), Some(kind), Some(Ok(message))) =
                        (words.next(), words.next(), words.next().map(str::parse))
                    {
                        schema.kinds.insert(format!("{version} {kind}"), message);
                    }
                }
                Some(name) => {
                    schema.messages.push(Message { name, fields: words.filter_map(field).collect() });
                }
                None => {}
            }
        }
        schema
    }

    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Message> {
        // Options are sent in the version of the resource that they are for.
        let version = if kind == "DeleteOptions" { "*" } else { api_version };
        self.kinds.get(&format!("{version} {kind}")).and_then(|index| self.messages.get(*index))
    }

    pub(super) fn message(&self, index: usize) -> Option<&Message> {
        self.messages.get(index)
    }
}

impl Message {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn fields(&self) -> &[FieldType] {
        &self.fields
    }

    pub(super) fn field(&self, number: u32) -> Option<&FieldType> {
        let index = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(index)
    }
}

fn field(word: &'static str) -> Option<FieldType> {
    let mut parts = word.splitn(3, ':');
    let (number, member, code) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let (code, omit_empty) = code.strip_suffix('?').map_or((code, false), |code| (code, true));
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
    Some(FieldType { number, member, card, base, omit_empty })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_schema_parses() {
        let text = include_str!("../generated/schema.txt");
        let words = text.lines().filter(|line| !line.starts_with(['#']) && !line.starts_with("kind "));
        let fields: usize = words.map(|line| line.split(' ').count() - 1).sum();
        assert_eq!(SCHEMA.messages.iter().map(|message| message.fields.len()).sum::<usize>(), fields);
        assert_eq!(SCHEMA.kinds.len(), text.lines().filter(|line| line.starts_with("kind ")).count());
        for message in &SCHEMA.messages {
            assert!(message.fields.is_sorted_by_key(|field| field.number));
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
