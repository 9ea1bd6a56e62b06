//! Lists, item by item.

use super::envelope::{MAGIC, content, fields, types};
use super::gather::{Gather, Step};
use super::managed_fields::Dropper;
use super::reader::{LENGTH, ProtobufProblem, Raw, field, find, find_bytes, find_signed, number, tag, text};
use crate::codec::DecodeList;
use crate::{Error, ListEnvelope, ManagedFields};

const LIST: &str = "the list";

/// The fields of every list.
const METADATA: u32 = 1;
const ITEMS: u32 = 2;

/// Reads a list in chunks and delivers each item's message as soon as it is complete.
#[derive(Debug)]
pub(crate) struct ListDecoder {
    gather: Gather,
    state: State,
}

#[derive(Debug)]
struct State {
    place: Place,
    dropper: Dropper,
    envelope: ListEnvelope,
    list_seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Magic,
    Envelope,
    /// In the list message, with this number of bytes left.
    List(u64),
}

impl DecodeList for ListDecoder {
    fn new(managed_fields: ManagedFields, limit: usize) -> Self {
        let envelope = ListEnvelope::default();
        let dropper = Dropper::new(managed_fields);
        Self {
            gather: Gather::new(limit),
            state: State { place: Place::Magic, dropper, envelope, list_seen: false },
        }
    }

    fn feed(&mut self, chunk: &[u8], mut on_item: impl FnMut(&[u8])) -> Result<(), Error> {
        let state = &mut self.state;
        self.gather.feed(chunk, |bytes| state.step(bytes, &mut on_item))
    }

    fn finish(self) -> Result<ListEnvelope, Error> {
        let place = match self.state.place {
            Place::List(_) if self.gather.is_partial() => "an item",
            Place::List(_) => "the items",
            _ if self.gather.is_partial() || !self.state.list_seen => LIST,
            _ => return Ok(self.state.envelope),
        };
        Err(Error::Truncated { bytes: self.gather.fed(), place })
    }
}

fn broken(problem: &ProtobufProblem) -> Error {
    Error::protobuf(LIST, String::new(), *problem)
}

impl State {
    /// Reads one complete field at the front.
    fn step(&mut self, bytes: &[u8], on_item: &mut impl FnMut(&[u8])) -> Result<Step, Error> {
        match self.place {
            Place::Magic => {
                let Some(magic) = bytes.get(..MAGIC.len()) else { return Ok(Step::Needs(MAGIC.len())) };
                if magic != MAGIC {
                    return Err(broken(&ProtobufProblem::Magic));
                }
                self.place = Place::Envelope;
                Ok(Step::Used(MAGIC.len()))
            }
            Place::Envelope => self.step_in_envelope(bytes),
            Place::List(left) => self.step_in_list(left, bytes, on_item),
        }
    }

    fn step_in_envelope(&mut self, bytes: &[u8]) -> Result<Step, Error> {
        let head = match Head::read(bytes).map_err(broken)? {
            Some(head) => head,
            None => return Ok(Step::Needs(bytes.len() + 1)),
        };
        if let (fields::OBJECT, Some(length)) = (head.number, head.length) {
            let kind = &self.envelope.kind;
            if !kind.ends_with("List") {
                return Err(Error::malformed(LIST, format!("its kind is {kind:?}"), bytes));
            }
            self.list_seen = true;
            self.place = if length == 0 { Place::Envelope } else { Place::List(length) };
            return Ok(Step::Used(head.size));
        }
        let Some((length, raw)) = head.complete(bytes).map_err(broken)? else {
            return Ok(head.needs(bytes));
        };
        self.of_envelope(head.number, raw).map_err(broken)?;
        Ok(Step::Used(length))
    }

    fn step_in_list(
        &mut self,
        left: u64,
        bytes: &[u8],
        on_item: &mut impl FnMut(&[u8]),
    ) -> Result<Step, Error> {
        let within = usize::try_from(left).unwrap_or(usize::MAX);
        let bytes = bytes.get(..within).unwrap_or(bytes);
        let is_complete = bytes.len() == within;
        let head = match Head::read(bytes).map_err(broken)? {
            Some(head) => head,
            None if is_complete => return Err(broken(&ProtobufProblem::Length)),
            None => return Ok(Step::Needs(bytes.len() + 1)),
        };
        if head.total().is_some_and(|total| total > left) {
            return Err(broken(&ProtobufProblem::Length));
        }
        let Some((length, raw)) = head.complete(bytes).map_err(broken)? else {
            return if is_complete { Err(broken(&ProtobufProblem::Length)) } else { Ok(head.needs(bytes)) };
        };
        match (head.number, raw) {
            (ITEMS, raw) => on_item(self.dropper.apply(raw.bytes().map_err(broken)?)),
            (METADATA, raw) => self.metadata(raw).map_err(broken)?,
            _ => {}
        }
        let left = left.saturating_sub(length as u64);
        self.place = if left == 0 { Place::Envelope } else { Place::List(left) };
        Ok(Step::Used(length))
    }

    fn of_envelope(&mut self, number: u32, raw: Raw<'_>) -> Result<(), &'static ProtobufProblem> {
        match number {
            fields::TYPES => {
                let (api_version, kind) = types(raw.bytes()?)?;
                self.envelope.api_version = api_version.to_owned();
                self.envelope.kind = kind.to_owned();
            }
            fields::CONTENT_ENCODING | fields::CONTENT_TYPE => content(number, raw.bytes()?)?,
            // A field with a length is handled before.
            fields::OBJECT => return Err(&ProtobufProblem::Mismatch),
            _ => {}
        }
        Ok(())
    }

    fn metadata(&mut self, raw: Raw<'_>) -> Result<(), &'static ProtobufProblem> {
        let metadata = raw.bytes()?;
        let of = |number| Ok(text(find_bytes(metadata, number)?).into_owned());
        self.envelope.resource_version = of(2)?;
        self.envelope.continue_token = of(3)?;
        let counted = find(metadata, 4)?.is_some();
        self.envelope.remaining_item_count = if counted { Some(find_signed(metadata, 4)?) } else { None };
        Ok(())
    }
}

/// The maximum length of a varint.
const NUMBER: usize = 10;

/// The beginning of a field: its number and length.
struct Head {
    number: u32,
    /// The length of the value, if the field has one.
    length: Option<u64>,
    /// The length of the head itself.
    size: usize,
}

impl Head {
    /// Reads the head of a field. Returns `None` if more bytes are needed.
    fn read(bytes: &[u8]) -> Result<Option<Self>, &'static ProtobufProblem> {
        let mut rest = bytes;
        let unfinished = |rest: &[u8]| rest.len() < NUMBER && rest.iter().all(|byte| *byte >= 128);
        if unfinished(rest) {
            return Ok(None);
        }
        let (field, wire_type) = tag(&mut rest)?;
        let mut length = None;
        if wire_type == LENGTH {
            if unfinished(rest) {
                return Ok(None);
            }
            length = Some(number(&mut rest)?);
        }
        Ok(Some(Self { number: field, length, size: bytes.len() - rest.len() }))
    }

    /// The length of the field, if it has one.
    fn total(&self) -> Option<u64> {
        Some(self.length?.saturating_add(self.size as u64))
    }

    /// Returns the length and the value of the field, if it is complete.
    fn complete<'a>(&self, bytes: &'a [u8]) -> Result<Option<(usize, Raw<'a>)>, &'static ProtobufProblem> {
        let mut rest = bytes;
        match field(&mut rest) {
            Ok((_, raw)) => Ok(Some((bytes.len() - rest.len(), raw))),
            // An incomplete varint.
            Err(&ProtobufProblem::Number) if bytes.len() < self.size + NUMBER => Ok(None),
            Err(&ProtobufProblem::Length) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    fn needs(&self, bytes: &[u8]) -> Step {
        let total =
            self.total().map_or(bytes.len() + 1, |total| usize::try_from(total).unwrap_or(usize::MAX));
        Step::Needs(total.max(bytes.len() + 1))
    }
}
