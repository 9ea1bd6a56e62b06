//! The protobuf encoding of Kubernetes.
//!
//! An object's bytes are read once, from front to back, and presented to serde as the JSON of the same object: with
//! names in place of numbers, inlined messages flattened, and without the zeros that JSON omits. The field numbers
//! are in tables generated from the Go types of Kubernetes.

mod access;
mod drop_fields;
mod envelope;
mod gather;
mod list;
mod managed_fields;
mod path;
mod read;
mod reader;
mod time;
mod value;
mod watch;

use crate::codec::{self, AnyValue, Codec, Found};
use crate::decode::{Cause, Fault, Position, Run};
use crate::dropped::Dropped;
use crate::limits::Limits;
use crate::schema::Schema;
use crate::{Error, Identity, TypeMeta};
use kinformer_core::ObjectKey;

pub(crate) use access::Container;
use envelope::Envelope;
pub use reader::ProtobufProblem;
pub(crate) use value::Value;

/// The codec of protobuf for one kind.
#[derive(Clone, Debug)]
pub(crate) struct Protobuf {
    schema: Schema,
}

impl Codec for Protobuf {
    const MEDIA_TYPE: &'static str = "application/vnd.kubernetes.protobuf";

    const HAS_TRAIL: bool = true;

    type List = list::ListDecoder;
    type Watch = watch::WatchDecoder;
    type Resolved = path::Resolved;
    type Found<'de> = path::Found<'de>;

    fn of_kind(api_version: &str, kind: &str) -> Option<Self> {
        Schema::of(api_version, kind).map(|schema| Self { schema })
    }

    fn of_response(body: &[u8]) -> Result<(Self, &[u8]), Error> {
        let envelope = Envelope::read(body);
        let Envelope { api_version, kind, object } =
            envelope.map_err(|problem| Error::protobuf("the response", String::new(), *problem))?;
        let codec = Self::of_kind(api_version, kind);
        Ok((codec.ok_or_else(|| Error::unknown_kind(api_version, kind))?, object))
    }

    fn without(&self, dropped: Dropped<'_>) -> Self {
        Self { schema: self.schema.without(dropped) }
    }

    fn kind(_: &[u8]) -> Option<String> {
        None
    }

    fn with_types(_: &[u8], _: TypeMeta<'_>) -> Option<Vec<u8>> {
        None
    }

    fn value<'a, 'de>(&'a self, position: Position<'a, 'de>, message: &'de [u8]) -> AnyValue<'a, 'de> {
        AnyValue::Protobuf(Value::object(position, &self.schema, message))
    }

    /// Reads only the messages on the path.
    fn find<'de>(
        &self,
        message: &'de [u8],
        path: codec::Path<'_, Self>,
    ) -> Result<Option<Self::Found<'de>>, Fault> {
        let codec::Path { names, resolved } = path;
        match resolved.of(self.schema, names) {
            Some(path) => path::find(self.schema, &path, message),
            None => Ok(None),
        }
    }

    #[inline]
    fn found<'a, 'de>(&'a self, position: Position<'a, 'de>, found: &Self::Found<'de>) -> Found<'a, 'de> {
        let names = found.names;
        Found { value: AnyValue::Protobuf(found.value(position, &self.schema)), names }
    }

    fn is_plain(found: &Self::Found<'_>) -> bool {
        found.is_plain
    }

    #[cold]
    fn failure(&self, run: &Run<'_, '_>, fault: Fault, path: &[Box<str>], message: &[u8]) -> Error {
        let kind = self.schema.kind;
        if let Some(error) = run.limits.error(kind, || Self::identify(message).key) {
            return error;
        }
        let (mut path, within) = (path.join("."), run.path());
        if !path.is_empty() && !within.is_empty() && !within.starts_with('[') {
            path.push('.');
        }
        path.push_str(&within);
        let problem = run.with_position(&fault);
        match fault.into_cause() {
            Cause::Bytes(problem) => Error::protobuf(kind, path, problem),
            Cause::Type(_) => Error::Undecodable { what: kind.to_owned(), path, problem },
        }
    }

    fn drop_fields<'p>(
        &self,
        message: &[u8],
        paths: impl Iterator<Item = codec::Path<'p, Self>>,
        dropped: &mut Vec<usize>,
    ) -> Result<Vec<u8>, Error> {
        let resolved = paths
            .enumerate()
            .filter_map(|(number, path)| Some((number, path.resolved.of(self.schema, path.names)?)));
        let resolved: Vec<_> = resolved.collect();
        let is_to_types = |path: &path::Path| path.is_to_types_of(self.schema);
        dropped.extend(resolved.iter().filter(|(_, path)| is_to_types(path)).map(|(number, _)| *number));
        let paths = resolved.iter().map(|(number, path)| (*number, &**path));
        drop_fields::drop_fields(message, paths, dropped).map_err(|fault| {
            self.failure(&Run::without_trail(&Limits::of(message.len())), fault, &[], message)
        })
    }

    fn identify(message: &[u8]) -> Identity {
        let Some(metadata) = reader::find_only(message, 1) else { return Identity::default() };
        let text = |number| reader::find_only(metadata, number).map(reader::text).unwrap_or_default();
        Identity {
            key: ObjectKey::new(&text(3), &text(1)).ok(),
            resource_version: (&*text(6)).into(),
            uid: reader::find_only(metadata, 5).map(|uid| reader::text(uid).into_owned()),
        }
    }

    /// Go writes equal messages as equal bytes.
    fn has_same_content(a: &[u8], b: &[u8]) -> Option<bool> {
        Some(a == b)
    }
}

/// Whether a kind whose objects can be stored or watched is built into Kubernetes 1.37.
pub fn is_built_in(api_version: &str, kind: &str) -> bool {
    Schema::of(api_version, kind).is_some()
}
