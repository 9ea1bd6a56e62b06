//! Kubernetes' protobuf.
//!
//! An object's bytes are walked once, front to back, and look to serde as the JSON of the same object would: names
//! in the place of numbers, embedded messages flattened, zeros left out where JSON has none. What the numbers mean
//! is in tables, written from the Go types of Kubernetes.

mod access;
mod drop_fields;
mod envelope;
mod gather;
mod list;
mod lookup;
mod managed_fields;
mod path;
mod read;
mod reader;
mod schema;
mod tables;
mod time;
mod value;
mod watch;

use crate::codec::{self, AnyValue, Codec, Found};
use crate::decode::{At, Fault, Run, Why};
use crate::dropped::Dropped;
use crate::limits::Limits;
use crate::{Error, Identity, TypeMeta};
use kinformer_core::ObjectKey;

pub(crate) use access::Container;
use envelope::Envelope;
pub use reader::ProtobufProblem;
use schema::Schema;
pub(crate) use schema::{Field, Name};
pub(crate) use value::Value;

/// Protobuf, of one kind.
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

    fn of_answer(body: &[u8]) -> Result<(Self, &[u8]), Error> {
        let envelope = Envelope::read(body);
        let Envelope { api_version, kind, object } =
            envelope.map_err(|problem| Error::protobuf("the answer", String::new(), *problem))?;
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

    fn value<'a, 'de>(&'a self, at: At<'a, 'de>, message: &'de [u8]) -> AnyValue<'a, 'de> {
        AnyValue::Protobuf(Value::object(at, &self.schema, message))
    }

    /// Looks at no other field than those that lead to it.
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
    fn found<'a, 'de>(&'a self, at: At<'a, 'de>, found: &Self::Found<'de>) -> Found<'a, 'de> {
        let names = found.names;
        Found { value: AnyValue::Protobuf(found.value(at, &self.schema)), names }
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
        match fault.into_why() {
            Why::Bytes(problem) => Error::protobuf(kind, path, problem),
            Why::Type(_) => Error::Undecodable { what: kind.to_owned(), path, problem },
        }
    }

    fn drop_fields(
        &self,
        message: &[u8],
        paths: &[codec::Path<'_, Self>],
        dropped: &mut Vec<usize>,
    ) -> Result<Vec<u8>, Error> {
        let resolved = paths
            .iter()
            .enumerate()
            .filter_map(|(number, path)| Some((number, path.resolved.of(self.schema, path.names)?)));
        let resolved: Vec<_> = resolved.collect();
        let says = |path: &path::Path| path.is_to_types_of(self.schema);
        dropped.extend(resolved.iter().filter(|(_, path)| says(path)).map(|(number, _)| *number));
        let paths = resolved.iter().map(|(number, path)| (*number, &**path));
        drop_fields::drop_fields(message, paths, dropped).map_err(|fault| {
            self.failure(&Run::without_trail(&Limits::of(message.len())), fault, &[], message)
        })
    }

    fn identify(message: &[u8]) -> Identity {
        let Some(metadata) = reader::find_only(message, 1) else { return Identity::default() };
        let text = |number| reader::find_only(metadata, number).map(reader::text).unwrap_or_default();
        Identity { key: ObjectKey::new(&text(3), &text(1)).ok(), resource_version: (&*text(6)).into() }
    }

    /// Go writes equal messages alike.
    fn has_same_content(a: &[u8], b: &[u8]) -> Option<bool> {
        Some(a == b)
    }
}

/// Whether a kind is built into Kubernetes 1.37, as far as its objects can be stored or watched.
pub fn is_built_in(api_version: &str, kind: &str) -> bool {
    Schema::of(api_version, kind).is_some()
}
