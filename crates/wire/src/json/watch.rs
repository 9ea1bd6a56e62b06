//! Watches: a stream of JSON objects. Kubernetes API servers end each event with a newline; other servers may not, and may
//! write newlines within an event.

use std::borrow::Cow;

use memchr::{memchr, memrchr};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::object_end::ObjectEnd;
use super::scan::{Copied, ObjectCopier};
use super::types;
use crate::codec::DecodeWatch;
use crate::{Encoding, Error, ManagedFields, RawEvent, RawEventType};

const EVENT: &str = "a watch event";

/// Reads a watch in JSON in chunks and delivers each event as soon as its line is complete, or else its object.
#[derive(Debug)]
pub(crate) struct WatchDecoder {
    /// The bytes that were not delivered: the start of an event, or several events that were not searched for yet.
    pending: Vec<u8>,
    /// The search in `pending`. It has read nothing as long as the event may end with its line.
    end: ObjectEnd,
    /// Whether an event began on the line on which another one had ended. Every chunk is searched then.
    shares_lines: bool,
    /// Whether the rest of the line is dropped, after an error in it.
    drops_line: bool,
    object: ObjectCopier,
    limit: usize,
}

impl DecodeWatch for WatchDecoder {
    fn new(managed_fields: ManagedFields, limit: usize) -> Self {
        Self {
            pending: Vec::new(),
            end: ObjectEnd::default(),
            shares_lines: false,
            drops_line: false,
            object: ObjectCopier::new(managed_fields),
            limit,
        }
    }

    /// Bytes that are not an event are passed as an error. Decoding continues after the object that is not an event, at the
    /// line that cannot continue an event, or else at the next line.
    fn feed(
        &mut self,
        chunk: &[u8],
        mut on_event: impl FnMut(Result<RawEvent<'_>, Error>),
    ) -> Result<(), Error> {
        let mut rest = chunk;
        while let Some(end) = memchr(b'\n', rest) {
            let (line, tail) = rest.split_at(end + 1);
            rest = tail;
            if !std::mem::take(&mut self.drops_line) {
                self.line(line, &mut on_event);
            }
        }
        if !rest.is_empty() && !self.drops_line {
            self.pending.extend_from_slice(rest);
            // An event without a newline is usually the end of a chunk.
            if self.shares_lines || rest.trim_ascii_end().ends_with(b"}") {
                self.search(&mut on_event);
            }
        }
        if self.pending.len() > self.limit {
            return Err(Error::TooLarge { what: EVENT, limit: self.limit });
        }
        Ok(())
    }

    /// A complete last event without a newline is delivered.
    fn finish(mut self, mut on_event: impl FnMut(Result<RawEvent<'_>, Error>)) -> Result<(), Error> {
        self.search(&mut on_event);
        match self.pending.len() as u64 {
            0 => Ok(()),
            bytes => Err(Error::Truncated { bytes, place: EVENT }),
        }
    }
}

impl WatchDecoder {
    /// Reads the end of a line. Nearly always it is an event, or ends one.
    fn line(&mut self, line: &[u8], on_event: &mut impl FnMut(Result<RawEvent<'_>, Error>)) {
        if self.pending.is_empty() {
            if deliver(&mut self.object, line, on_event).is_ok() {
                return;
            }
            self.pending.extend_from_slice(line);
        } else {
            self.pending.extend_from_slice(line);
            if self.end.read() == 0 && deliver(&mut self.object, &self.pending, on_event).is_ok() {
                self.drop_pending(self.pending.len());
                return;
            }
        }
        self.search(on_event);
    }

    /// Delivers the complete events, wherever they end.
    #[cold]
    fn search(&mut self, on_event: &mut impl FnMut(Result<RawEvent<'_>, Error>)) {
        let mut from = 0;
        loop {
            let rest = self.pending.get(from..).unwrap_or_default();
            let event = rest.trim_ascii_start();
            from += rest.len() - event.len();
            if event.is_empty() {
                break;
            }
            let length = match self.end.find(event) {
                Ok(None) => break,
                Ok(Some(length)) => {
                    let (event, tail) = event.split_at_checked(length).unwrap_or((event, &[]));
                    let next = tail.iter().find(|byte| !matches!(byte, b' ' | b'\r' | b'\t'));
                    self.shares_lines |= next.is_some_and(|next| *next != b'\n');
                    if let Err(error) = deliver(&mut self.object, event, on_event) {
                        on_event(Err(error));
                    }
                    length
                }
                Err(problem) => {
                    on_event(Err(Error::malformed(EVENT, problem, event)));
                    let before = event.get(..self.end.read()).unwrap_or(event);
                    let end = memrchr(b'\n', before).or_else(|| memchr(b'\n', event));
                    self.drops_line = end.is_none();
                    end.map_or(event.len(), |end| end + 1)
                }
            };
            from += length;
            self.end = ObjectEnd::default();
        }
        self.drop_pending(from);
    }

    fn drop_pending(&mut self, bytes: usize) {
        const KEPT: usize = 256 * 1024;
        self.pending.drain(..bytes.min(self.pending.len()));
        if self.pending.is_empty() {
            self.end = ObjectEnd::default();
            self.pending.shrink_to(KEPT);
        }
    }
}

/// Delivers the event that these bytes are, if any. A `Status` in place of an event is an `ERROR` event.
fn deliver(
    copier: &mut ObjectCopier,
    bytes: &[u8],
    on_event: &mut impl FnMut(Result<RawEvent<'_>, Error>),
) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type", borrow)]
        event_type: Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let bytes = bytes.trim_ascii();
    if bytes.is_empty() {
        return Ok(());
    }
    let (event_type, object) = match serde_json::from_slice::<Event<'_>>(bytes) {
        Ok(event) => (RawEventType::from(&*event.event_type), event.object.get().as_bytes()),
        Err(_) if types::kind(bytes).as_deref() == Some("Status") => (RawEventType::Error, bytes),
        Err(error) => return Err(Error::malformed(EVENT, error, bytes)),
    };
    copier.reset();
    let is_object = object.first() == Some(&b'{');
    match is_object.then(|| copier.feed(object)) {
        Some(Copied::Done(_)) => {
            let object = copier.bytes();
            on_event(Ok(RawEvent { event_type, object, types: None, encoding: Encoding::Json }));
            Ok(())
        }
        _ => Err(Error::malformed(EVENT, "its object is not an object", bytes)),
    }
}
