//! Watches, line by line.

use memchr::memchr;
use serde::Deserialize;

use super::scan::{Copied, ObjectCopier};
use crate::codec::DecodeWatch;
use crate::{Encoding, Error, EventType, ManagedFields, RawEvent};

/// Reads a watch in JSON in chunks and delivers each event as soon as its line is complete.
#[derive(Debug)]
pub(crate) struct WatchDecoder {
    line: Vec<u8>,
    object: ObjectCopier,
    limit: usize,
}

impl DecodeWatch for WatchDecoder {
    fn new(managed_fields: ManagedFields, limit: usize) -> Self {
        Self { line: Vec::new(), object: ObjectCopier::new(managed_fields), limit }
    }

    /// A line that is not an event is passed as an error, and decoding continues with the next line.
    fn feed(
        &mut self,
        chunk: &[u8],
        mut on_event: impl FnMut(Result<RawEvent<'_>, Error>),
    ) -> Result<(), Error> {
        let mut rest = chunk;
        while let Some(end) = memchr(b'\n', rest) {
            let (head, tail) = rest.split_at(end);
            rest = tail.get(1..).unwrap_or_default();
            if self.line.is_empty() {
                Self::line(&mut self.object, head, &mut on_event);
            } else {
                self.line.extend_from_slice(head);
                Self::line(&mut self.object, &self.line, &mut on_event);
                self.line.clear();
                self.line.shrink_to(256 * 1024);
            }
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > self.limit {
            return Err(Error::TooLarge { what: "a line of the watch", limit: self.limit });
        }
        Ok(())
    }

    /// A complete last line without a line end is delivered.
    fn finish(mut self, mut on_event: impl FnMut(Result<RawEvent<'_>, Error>)) -> Result<(), Error> {
        let mut truncated = false;
        Self::line(&mut self.object, &self.line, &mut |event| match event {
            Ok(event) => on_event(Ok(event)),
            Err(_) => truncated = true,
        });
        if truncated {
            return Err(Error::Truncated { bytes: self.line.len() as u64, place: "a watch event" });
        }
        Ok(())
    }
}

impl WatchDecoder {
    fn line(object: &mut ObjectCopier, line: &[u8], on_event: &mut impl FnMut(Result<RawEvent<'_>, Error>)) {
        #[derive(Deserialize)]
        struct Event<'a> {
            #[serde(rename = "type", borrow)]
            event_type: std::borrow::Cow<'a, str>,
            #[serde(borrow)]
            object: &'a serde_json::value::RawValue,
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let event: Event<'_> = match serde_json::from_slice(line) {
            Ok(event) => event,
            Err(error) => return on_event(Err(Error::malformed("a watch event", error, line))),
        };
        object.reset();
        let raw = event.object.get().as_bytes();
        let is_object = raw.first() == Some(&b'{');
        let object = match is_object.then(|| object.feed(raw)) {
            Some(Copied::Done(_)) => object.bytes(),
            _ => {
                return on_event(Err(Error::malformed("a watch event", "its object is not an object", line)));
            }
        };
        let event_type = EventType::from(&*event.event_type);
        on_event(Ok(RawEvent { event_type, object, types: None, encoding: Encoding::Json }));
    }
}
