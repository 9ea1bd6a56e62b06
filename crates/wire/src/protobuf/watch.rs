//! Watches: frames with a prefix of four bytes, the length in big endian.

use super::envelope::Envelope;
use super::gather::{Gather, Step};
use super::managed_fields::Dropper;
use super::reader::{ProtobufProblem, field, find_bytes};
use crate::codec::DecodeWatch;
use crate::{Encoding, Error, ManagedFields, RawEvent, RawEventType, TypeMeta};

const LENGTH: usize = 4;
const EVENT: &str = "a watch event";

/// Reads a watch in chunks and delivers each event as soon as its frame is complete.
#[derive(Debug)]
pub(crate) struct WatchDecoder {
    gather: Gather,
    dropper: Dropper,
}

impl DecodeWatch for WatchDecoder {
    fn new(managed_fields: ManagedFields, limit: usize) -> Self {
        Self { gather: Gather::new(limit.saturating_add(LENGTH)), dropper: Dropper::new(managed_fields) }
    }

    fn feed(
        &mut self,
        chunk: &[u8],
        mut on_event: impl FnMut(Result<RawEvent<'_>, Error>),
    ) -> Result<(), Error> {
        let dropper = &mut self.dropper;
        self.gather.feed(chunk, |bytes| {
            let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else {
                return Ok(Step::Needs(LENGTH));
            };
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            let frame_length = length.saturating_add(LENGTH);
            let Some(frame) = rest.get(..length) else { return Ok(Step::Needs(frame_length)) };
            on_event(
                event(frame, dropper).map_err(|problem| Error::protobuf(EVENT, String::new(), *problem)),
            );
            Ok(Step::Used(frame_length))
        })
    }

    fn finish(self, _: impl FnMut(Result<RawEvent<'_>, Error>)) -> Result<(), Error> {
        match self.gather.pending_len() {
            0 => Ok(()),
            pending_len => Err(Error::Truncated { bytes: pending_len as u64, place: EVENT }),
        }
    }
}

fn event<'a>(frame: &'a [u8], dropper: &'a mut Dropper) -> Result<RawEvent<'a>, &'static ProtobufProblem> {
    let (mut name, mut object): (&[u8], &[u8]) = (&[], &[]);
    let mut rest = frame;
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1, raw) => name = raw.bytes()?,
            (2, raw) => object = find_bytes(raw.bytes()?, 1)?,
            _ => {}
        }
    }
    let Envelope { api_version, kind, object } = Envelope::read(object)?;
    let event_type = RawEventType::from(&*String::from_utf8_lossy(name));
    let types = Some(TypeMeta { api_version, kind });
    Ok(RawEvent { event_type, object: dropper.apply(object), types, encoding: Encoding::Protobuf })
}
