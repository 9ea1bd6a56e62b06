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

/// Takes a list in chunks and gives out each item's message as soon as it is complete.
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
    had_list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Magic,
    Envelope,
    /// In the list itself, of which so many bytes are left.
    List(u64),
}

impl DecodeList for ListDecoder {
    fn new(managed_fields: ManagedFields, limit: usize) -> Self {
        let envelope = ListEnvelope::default();
        let dropper = Dropper::new(managed_fields);
        Self {
            gather: Gather::new(limit),
            state: State { place: Place::Magic, dropper, envelope, had_list: false },
        }
    }

    fn feed(&mut self, chunk: &[u8], mut on_item: impl FnMut(&[u8])) -> Result<(), Error> {
        let state = &mut self.state;
        self.gather.feed(chunk, |bytes| state.step(bytes, &mut on_item))
    }

    fn finish(self) -> Result<ListEnvelope, Error> {
        let place = match self.state.place {
            Place::List(_) if self.gather.holds_some() => "an item",
            Place::List(_) => "the items",
            _ if self.gather.holds_some() || !self.state.had_list => LIST,
            _ => return Ok(self.state.envelope),
        };
        Err(Error::Truncated { bytes: self.gather.fed(), place })
    }
}

impl State {
    /// Takes what is complete at the front.
    fn step(&mut self, bytes: &[u8], on_item: &mut impl FnMut(&[u8])) -> Result<Step, Error> {
        let broken = |problem: &ProtobufProblem| Error::protobuf(LIST, String::new(), *problem);
        match self.place {
            Place::Magic => {
                let Some(magic) = bytes.get(..MAGIC.len()) else { return Ok(Step::Needs(MAGIC.len())) };
                if magic != MAGIC {
                    return Err(broken(&ProtobufProblem::Magic));
                }
                self.place = Place::Envelope;
                Ok(Step::Used(MAGIC.len()))
            }
            Place::Envelope => {
                let head = match Head::read(bytes).map_err(broken)? {
                    Some(head) => head,
                    None => return Ok(Step::Needs(bytes.len() + 1)),
                };
                if let (fields::OBJECT, Some(length)) = (head.number, head.length) {
                    let kind = &self.envelope.kind;
                    if !kind.ends_with("List") {
                        return Err(Error::malformed(LIST, format!("its kind is {kind:?}"), bytes));
                    }
                    self.had_list = true;
                    self.place = if length == 0 { Place::Envelope } else { Place::List(length) };
                    return Ok(Step::Used(head.size));
                }
                let Some((whole, raw)) = head.whole(bytes).map_err(broken)? else {
                    return Ok(head.needs(bytes));
                };
                self.of_envelope(head.number, raw).map_err(broken)?;
                Ok(Step::Used(whole))
            }
            Place::List(left) => {
                let within = usize::try_from(left).unwrap_or(usize::MAX);
                let bytes = bytes.get(..within).unwrap_or(bytes);
                let all_there = bytes.len() == within;
                let head = match Head::read(bytes).map_err(broken)? {
                    Some(head) => head,
                    None if all_there => return Err(broken(&ProtobufProblem::Length)),
                    None => return Ok(Step::Needs(bytes.len() + 1)),
                };
                if head.total().is_some_and(|total| total > left) {
                    return Err(broken(&ProtobufProblem::Length));
                }
                let Some((whole, raw)) = head.whole(bytes).map_err(broken)? else {
                    return if all_there {
                        Err(broken(&ProtobufProblem::Length))
                    } else {
                        Ok(head.needs(bytes))
                    };
                };
                match (head.number, raw) {
                    (ITEMS, raw) => on_item(self.dropper.apply(raw.bytes().map_err(broken)?)),
                    (METADATA, raw) => self.metadata(raw).map_err(broken)?,
                    _ => {}
                }
                let left = left.saturating_sub(whole as u64);
                self.place = if left == 0 { Place::Envelope } else { Place::List(left) };
                Ok(Step::Used(whole))
            }
        }
    }

    fn of_envelope(&mut self, number: u32, raw: Raw<'_>) -> Result<(), &'static ProtobufProblem> {
        match number {
            fields::TYPES => {
                let (api_version, kind) = types(raw.bytes()?)?;
                self.envelope.api_version = api_version.to_owned();
                self.envelope.kind = kind.to_owned();
            }
            fields::CONTENT_ENCODING | fields::CONTENT_TYPE => content(number, raw.bytes()?)?,
            // Not of a length, or another would have been read.
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

/// How many bytes a number has at most.
const NUMBER: usize = 10;

/// What is known of a field before all of it is there.
struct Head {
    number: u32,
    /// How long its value is, if it says so.
    length: Option<u64>,
    /// How long the head is itself.
    size: usize,
}

impl Head {
    /// Nothing if more bytes are needed.
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

    /// How long the field is, if it says so.
    fn total(&self) -> Option<u64> {
        Some(self.length?.saturating_add(self.size as u64))
    }

    /// The whole field and its length, if it is all there.
    fn whole<'a>(&self, bytes: &'a [u8]) -> Result<Option<(usize, Raw<'a>)>, &'static ProtobufProblem> {
        let mut rest = bytes;
        match field(&mut rest) {
            Ok((_, raw)) => Ok(Some((bytes.len() - rest.len(), raw))),
            // Of a number of up to ten bytes, of which not all are there.
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
